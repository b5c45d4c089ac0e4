"""A heap from which anything can be taken out: entries are struck, and left out when the heap is written anew.

Once more than half of the entries are struck ones, each operation moves a few entries from the old heap to a new one,
so that none of them takes long: every operation costs O(log n), however many items there are. An item is in the heap at
most once, by its UID.
"""

import heapq
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
Order = tuple[float, ...]

FEW: Final = 16
MOVED_AT_ONCE: Final = 4


class Heap(Generic[Item]):
    """Items by UID, the one with the smallest order first."""

    def __init__(self) -> None:
        self._entries: list[tuple[Order, str]] = []
        self._old: list[tuple[Order, str]] = []  # entries that are still to be moved
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
        self._sweep()

    def discard(self, uid: str) -> bool:
        """Take the item out, wherever it stands; whether it was there."""
        there = self._items.pop(uid, None) is not None
        if there:
            self._sweep()
        return there

    def order_of(self, uid: str) -> Order:
        """The order of an item that is there."""
        return self._items[uid][0]

    def first(self) -> tuple[Order, Item] | None:
        """The item with the smallest order, left where it is."""
        heap = self._first_heap()
        return self._items[heap[0][1]] if heap else None

    def pop(self) -> Item | None:
        """The item with the smallest order, taken out."""
        heap = self._first_heap()
        if not heap:
            return None
        _, uid = heapq.heappop(heap)
        return self._items.pop(uid)[1]

    def _first_heap(self) -> list[tuple[Order, str]]:
        """The one of the two with the smallest entry, which is not a struck one; an empty one if there is none."""
        for heap in (self._entries, self._old):
            while heap and self._is_struck(heap[0]):
                heapq.heappop(heap)
        if not self._old:
            return self._entries
        return self._old if not self._entries or self._old[0] < self._entries[0] else self._entries

    def _is_struck(self, entry: tuple[Order, str]) -> bool:
        found = self._items.get(entry[1])
        return found is None or found[0] != entry[0]

    def _sweep(self) -> None:
        if not self._old and len(self._entries) > 2 * len(self._items) + FEW:
            self._old, self._entries = self._entries, []
        for _ in range(min(MOVED_AT_ONCE, len(self._old))):
            entry = self._old.pop()  # the last of a heap's list: what is left is a heap
            if not self._is_struck(entry):
                heapq.heappush(self._entries, entry)
