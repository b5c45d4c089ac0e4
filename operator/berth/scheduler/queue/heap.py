"""A heap with removal of any item: removed entries stay in the list as dead entries until it is rebuilt.

Once more than half of the entries are dead, each operation moves a few entries from the old heap to a new one. So every
operation costs O(log n), however many items there are. An item is in the heap at most once, by its UID.
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
        self._old: list[tuple[Order, str]] = []  # entries that have yet to be moved
        self._items: dict[str, tuple[Order, Item]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, uid: object) -> bool:
        return uid in self._items

    def __iter__(self) -> Iterator[Item]:
        """Every item, in no particular order."""
        return (item for _, item in self._items.values())

    @property
    def entries(self) -> int:
        """The number of entries, dead ones included."""
        return len(self._entries) + len(self._old)

    def push(self, uid: str, order: Order, item: Item) -> None:
        """Add the item, or change its order; two different items must differ in order."""
        self._items[uid] = (order, item)
        heapq.heappush(self._entries, (order, uid))
        self._rebuild_step()

    def discard(self, uid: str) -> bool:
        """Remove the item; returns whether it was there."""
        there = self._items.pop(uid, None) is not None
        if there:
            self._rebuild_step()
        return there

    def order_of(self, uid: str) -> Order:
        """The order of an item of the heap."""
        return self._items[uid][0]

    def count_before(self, order: Order) -> int:
        """How many items have a smaller order. Looks at every item."""
        return sum(other < order for other, _ in self._items.values())

    def first(self) -> tuple[Order, Item] | None:
        """The item with the smallest order; it stays in the heap."""
        heap = self._first_heap()
        return self._items[heap[0][1]] if heap else None

    def pop(self) -> Item | None:
        """Remove and return the item with the smallest order."""
        heap = self._first_heap()
        if not heap:
            return None
        _, uid = heapq.heappop(heap)
        return self._items.pop(uid)[1]

    def _first_heap(self) -> list[tuple[Order, str]]:
        """The one of the two heaps with the smallest live entry; an empty one if there is none."""
        for heap in (self._entries, self._old):
            while heap and self._is_dead(heap[0]):
                heapq.heappop(heap)
        if not self._old:
            return self._entries
        return self._old if not self._entries or self._old[0] < self._entries[0] else self._entries

    def _is_dead(self, entry: tuple[Order, str]) -> bool:
        found = self._items.get(entry[1])
        return found is None or found[0] != entry[0]

    def _rebuild_step(self) -> None:
        if not self._old and len(self._entries) > 2 * len(self._items) + FEW:
            self._old, self._entries = self._entries, []
        for _ in range(min(MOVED_AT_ONCE, len(self._old))):
            entry = self._old.pop()  # without its last entry the list is still a heap
            if not self._is_dead(entry):
                heapq.heappush(self._entries, entry)
