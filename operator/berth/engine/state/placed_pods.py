"""PlacedPods: the placed pods as columns, one slot per pod, for preemption, which reads many of them at once.

row        int64[slots]              the pod's row in the node table, -1 for a free slot
priority   int64[slots]
started    int64[slots]              status.startTime in seconds; NOT_STARTED for a pod that has not started
usage      int64[resources, slots]   as in the table's `used`: the sum over a row's pods is its column there. Resources
                                     without a column there are left out

Preemption is rare, but pods are added all the time, one by one. So new pods are buffered (`_waiting`) and written in
batches, or when a column is read.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.columns import Stacked, grown
from berth.engine.state.resources import Renumbering
from berth.engine.verdict import Int64Column
from berth.model import Pod

NOT_STARTED = np.iinfo(np.int64).max
_FIRST_SLOTS = 256
_AT_ONCE = 64
_FEW_SLOTS, _MOSTLY = 1024, 4


class PlacedPods:
    def __init__(self, resources: int) -> None:
        self._row: Int64Column = np.full(_FIRST_SLOTS, -1, dtype=np.int64)
        self._priority: Int64Column = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._started: Int64Column = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._usage = Stacked(resources, _FIRST_SLOTS)
        self.priorities: Counter[int] = Counter()  # how many pods have each
        self._records: list[Pod | None] = []
        self._slot_of: dict[str, int] = {}
        self._free: list[int] = []
        self._waiting: dict[str, tuple[Pod, int, Mapping[int, int]]] = {}  # without a slot yet, by UID

    def add(self, pod: Pod, row: int, usage: Mapping[int, int]) -> None:
        """Adds a pod; `usage` is by the index of the resource."""
        self._waiting[pod.uid] = (pod, row, usage)
        self.priorities[pod.priority] += 1
        if len(self._waiting) >= _AT_ONCE:
            self._write()

    def remove(self, uid: str) -> None:
        waiting = self._waiting.pop(uid, None)
        priority = self._clear(self._slot_of.pop(uid)).priority if waiting is None else waiting[0].priority
        self.priorities[priority] -= 1
        if not self.priorities[priority]:
            del self.priorities[priority]

    @property
    def row(self) -> Int64Column:
        self._write()
        return self._row

    @property
    def priority(self) -> Int64Column:
        self._write()
        return self._priority

    @property
    def started(self) -> Int64Column:
        self._write()
        return self._started

    @property
    def usage(self) -> NDArray[np.int64]:
        self._write()
        return self._usage.shown

    def record(self, slot: int) -> Pod:
        pod = self._records[slot]
        assert pod is not None, f"slot {slot} is free"
        return pod

    def slots_on(self, rows: NDArray[np.intp], capacity: int) -> NDArray[np.intp]:
        """Returns the slots of the pods on these rows of a table with that capacity."""
        wanted = np.zeros(capacity + 1, dtype=np.bool_)  # the last entry is for free slots, whose row is -1
        wanted[rows] = True
        return np.flatnonzero(wanted[self.row])

    @property
    def are_mostly_gone(self) -> bool:
        """Whether so many slots are free that `compact` is worth its time."""
        slots = len(self._records)
        return slots > _FEW_SLOTS and len(self._slot_of) + len(self._waiting) < slots // _MOSTLY

    def compact(self) -> None:
        """Moves the pods to the first slots, and frees the memory of the others."""
        self._write()
        kept = np.flatnonzero(self._row >= 0)
        room = max(_FIRST_SLOTS, len(kept))
        self._records = [self._records[slot] for slot in kept.tolist()]
        self._slot_of = {pod.uid: slot for slot, pod in enumerate(self._records) if pod is not None}
        self._free = []
        self._row = grown(self._row[kept], room, -1)
        self._priority, self._started = grown(self._priority[kept], room), grown(self._started[kept], room)
        self._usage.take(kept, room)

    def renumber(self, numbering: Renumbering, holders: Iterable[Pod]) -> None:
        """Applies new indexes of resources; `holders` are the pods that use any of the added ones."""
        self._write()
        self._usage.drop(numbering.holes, numbering.movers, numbering.left)
        self._usage.add(len(numbering.added))
        numbers = {name: number for number, name in enumerate(numbering.added, numbering.left)}
        for pod in holders:
            slot = self._slot_of[pod.uid]
            for name in pod.usage.keys() & numbers.keys():
                self._usage.shown[numbers[name], slot] = pod.usage[name]

    def __len__(self) -> int:
        return len(self._slot_of) + len(self._waiting)

    def _write(self) -> None:
        """Writes the buffered pods into slots."""
        if not self._waiting:
            return
        arrived, self._waiting = list(self._waiting.values()), {}
        slots = [self._free.pop() if self._free else self._new_slot() for _ in arrived]
        taken = self._usage.shown
        for slot, (pod, _, usage) in zip(slots, arrived, strict=True):
            self._records[slot] = pod
            self._slot_of[pod.uid] = slot
            for resource, amount in usage.items():
                taken[resource, slot] = amount
        self._row[slots] = [row for _, row, _ in arrived]
        self._priority[slots] = [pod.priority for pod, _, _ in arrived]
        self._started[slots] = [started(pod.start_time) for pod, _, _ in arrived]

    def _clear(self, slot: int) -> Pod:
        """Frees a slot, and returns the pod that had it."""
        pod = self.record(slot)
        self._records[slot] = None
        self._row[slot] = -1
        self._usage.shown[:, slot] = 0
        self._free.append(slot)
        return pod

    def _new_slot(self) -> int:
        slot = len(self._records)
        self._records.append(None)
        if slot >= len(self._row):
            self._row = grown(self._row, 2 * slot, -1)
            self._priority, self._started = grown(self._priority, 2 * slot), grown(self._started, 2 * slot)
            self._usage.widen(2 * slot)
        return slot


@lru_cache(maxsize=4096)
def started(start_time: str) -> int:
    """Returns the time in seconds; NOT_STARTED if it is missing or invalid."""
    try:
        return int(datetime.fromisoformat(start_time).timestamp())
    except ValueError:
        return NOT_STARTED
