"""The placed pods as columns, one slot a pod, for what looks at many of them at once (preemption).

row        int64[slots]              the row of the table that the pod lies on, -1 for a free slot
priority   int64[slots]
started    int64[slots]              seconds, of status.startTime; the latest there is for a pod that has not begun
usage      int64[resources, slots]   as in the table's `used`, so the sum over a row's pods is its column there
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from berth.engine.columns import grown
from berth.engine.verdict import Int64Column
from berth.model import Pod

NOT_STARTED = np.iinfo(np.int64).max
_FIRST_SLOTS = 256


class PodColumns:
    def __init__(self, resources: int) -> None:
        self.row: Int64Column = np.full(_FIRST_SLOTS, -1, dtype=np.int64)
        self.priority: Int64Column = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self.started: Int64Column = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self.usage: NDArray[np.int64] = np.zeros((resources, _FIRST_SLOTS), dtype=np.int64)
        self.priorities: Counter[int] = Counter()  # how many pods have each
        self._records: list[Pod | None] = []
        self._slot_of: dict[str, int] = {}
        self._free: list[int] = []

    def add(self, pod: Pod, row: int, usage: Mapping[int, int]) -> None:
        """`usage` is by the number of the resource."""
        slot = self._free.pop() if self._free else self._new_slot()
        self._records[slot] = pod
        self._slot_of[pod.uid] = slot
        self.row[slot] = row
        self.priority[slot] = pod.priority
        self.priorities[pod.priority] += 1
        self.started[slot] = started(pod.start_time)
        for resource, amount in usage.items():
            self.usage[resource, slot] = amount

    def remove(self, uid: str) -> None:
        slot = self._slot_of.pop(uid)
        priority = self.record(slot).priority
        self.priorities[priority] -= 1
        if not self.priorities[priority]:
            del self.priorities[priority]
        self._records[slot] = None
        self.row[slot] = -1
        self.usage[:, slot] = 0
        self._free.append(slot)

    def record(self, slot: int) -> Pod:
        pod = self._records[slot]
        assert pod is not None, f"slot {slot} is free"
        return pod

    def slots_on(self, rows: NDArray[np.intp], capacity: int) -> NDArray[np.intp]:
        """The slots of the pods on these rows of a table of that capacity."""
        wanted = np.zeros(capacity + 1, dtype=np.bool_)  # the last one is asked about for free slots
        wanted[rows] = True
        return np.flatnonzero(wanted[self.row])

    def add_resource(self) -> None:
        self.usage = np.concatenate([self.usage, np.zeros((1, self.usage.shape[1]), dtype=np.int64)])

    def __len__(self) -> int:
        return len(self._slot_of)

    def _new_slot(self) -> int:
        slot = len(self._records)
        self._records.append(None)
        if slot >= len(self.row):
            self.row = grown(self.row, 2 * slot, -1)
            self.priority, self.started = grown(self.priority, 2 * slot), grown(self.started, 2 * slot)
            self.usage = grown(self.usage, 2 * slot)
        return slot


@lru_cache(maxsize=4096)
def started(start_time: str) -> int:
    """The time as a number that orders as times do; what cannot be read has not started."""
    try:
        return int(datetime.fromisoformat(start_time).timestamp())
    except ValueError:
        return NOT_STARTED
