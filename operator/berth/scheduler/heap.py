"""A heap from which anything can be taken out: entries are struck, and swept when half of the heap is struck ones.

Every operation costs O(log n) amortised; an item is in the heap at most once, by its UID.
"""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")
Order = tuple[float, ...]


class Heap(Generic[Item]):
    """Items by UID, the one with the smallest order first."""

    def __init__(self) -> None:
        self._entries: list[tuple[Order, str]] = []
        self._items: dict[str, tuple[Order, Item]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, uid: str) -> bool:
        return uid in self._items

    def __iter__(self) -> Iterator[Item]:
        """Every item, in no order."""
        return (item for _, item in self._items.values())

    def push(self, uid: str, order: Order, item: Item) -> None:
        """Add the item, or give it another order; two different items must differ in order."""
        self._items[uid] = (order, item)
        heapq.heappush(self._entries, (order, uid))
        if len(self._entries) > 2 * len(self._items) + 16:
            self._sweep()

    def discard(self, uid: str) -> bool:
        """Take the item out, wherever it stands; whether it was there."""
        return self._items.pop(uid, None) is not None

    def first(self) -> tuple[Order, Item] | None:
        """The item with the smallest order, left where it is."""
        while self._entries:
            order, uid = self._entries[0]
            found = self._items.get(uid)
            if found is not None and found[0] == order:
                return found
            heapq.heappop(self._entries)
        return None

    def pop(self) -> Item | None:
        """The item with the smallest order, taken out."""
        found = self.first()
        if found is None:
            return None
        _, uid = heapq.heappop(self._entries)
        del self._items[uid]
        return found[1]

    def _sweep(self) -> None:
        self._entries = [(order, uid) for uid, (order, _) in self._items.items()]
        heapq.heapify(self._entries)
