"""The nominated pods as columns: how much room is promised to them, and where.

One slot a pod. Which row a node has is looked up again when nodes come and go; a pod that waits for a node which is not
known has none (-1).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berth.engine.amounts import sums
from berth.engine.columns import grown
from berth.engine.table import PODS, NodeTable
from berth.engine.verdict import Int64Column
from berth.model import Pod

_FIRST_SLOTS = 64


@dataclass(frozen=True, slots=True)
class Promised:
    """`amounts` (int64[resources, rows]) are what is promised on `rows`, which ascend."""

    rows: NDArray[np.intp]
    amounts: NDArray[np.int64]


class Guests:
    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._row: Int64Column = np.full(_FIRST_SLOTS, -1, dtype=np.int64)
        self._priority: Int64Column = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._usage: NDArray[np.int64] = np.zeros((0, _FIRST_SLOTS), dtype=np.int64)
        self._slot_of: dict[str, int] = {}
        self._node_of: dict[str, str] = {}
        self._free = list(range(_FIRST_SLOTS))
        self._placed_by: NDArray[np.intp] | None = None

    def add(self, pod: Pod, node_name: str) -> None:
        """The pod waits for the node."""
        usage = {self._table.resource(name): amount for name, amount in pod.usage.items()} | {PODS: 1}
        self._grow(max(usage) + 1)
        slot = self._free.pop()
        self._slot_of[pod.uid], self._node_of[pod.uid] = slot, node_name
        self._row[slot] = self._row_number(node_name)
        self._priority[slot] = pod.priority
        for resource, amount in usage.items():
            self._usage[resource, slot] = amount

    def remove(self, uid: str) -> None:
        """It waits no more; one that did not is no error."""
        slot = self._slot_of.pop(uid, None)
        if slot is not None:
            del self._node_of[uid]
            self._row[slot] = -1
            self._usage[:, slot] = 0
            self._free.append(slot)

    def promised(self, pod: Pod) -> Promised | None:
        """What is promised to pods that this one has to yield to: others of equal or higher priority."""
        self._place()
        wanted = (self._row >= 0) & (self._priority >= pod.priority)
        if pod.uid in self._slot_of:
            wanted[self._slot_of[pod.uid]] = False
        slots = np.flatnonzero(wanted)
        if not len(slots):
            return None
        slots = slots[np.argsort(self._row[slots], kind="stable")]
        rows, begins = np.unique(self._row[slots], return_index=True)
        amounts = np.zeros((self._table.used.shape[0], len(rows)), dtype=np.int64)
        amounts[: len(self._usage)] = sums(self._usage.take(slots, axis=1), begins)
        return Promised(rows.astype(np.intp), amounts)

    def _place(self) -> None:
        """On the rows that the nodes have now."""
        order = self._table.rows_by_name
        if order is not self._placed_by:
            self._placed_by = order
            for uid, slot in self._slot_of.items():
                self._row[slot] = self._row_number(self._node_of[uid])

    def _row_number(self, node_name: str) -> int:
        row = self._table.row(node_name)
        return -1 if row is None else row

    def _grow(self, resources: int) -> None:
        """So that there is a slot, and a column for each of the resources."""
        known, slots = self._usage.shape
        if resources > known:
            self._usage = np.concatenate([self._usage, np.zeros((resources - known, slots), dtype=np.int64)])
        if not self._free:
            self._row, self._priority = grown(self._row, 2 * slots, -1), grown(self._priority, 2 * slots)
            self._usage = grown(self._usage, 2 * slots)
            self._free = list(range(slots, 2 * slots))
