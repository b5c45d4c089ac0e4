"""NominatedPods: all nominated pods as columns: the row of the nominated node, priority and resource usage.

There is one slot per pod. Rows are looked up again when nodes are added or removed; a pod whose nominated node is not
known has row -1. Other properties that filters read are indexed by slot (nominated_rows.py).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.amounts import Amounts, sums
from berth.engine.state.columns import grown
from berth.engine.state.node_table import PODS, NodeTable
from berth.engine.state.nominated_rows import NominatedRows, SlotIndex
from berth.engine.state.pod_counts import NamespaceLabels
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import Pod

_FIRST_SLOTS = 64


@dataclass(frozen=True, slots=True)
class NominatedUsage:
    """What nominated pods will use: `amounts` (int64[resources, rows]) on `rows`, which ascend."""

    rows: NDArray[np.intp]
    amounts: Amounts


class NominatedPods:
    static_version = 0  # required by Extent; never moves, as slots have no labels

    def __init__(self, table: NodeTable, namespace_labels: NamespaceLabels = lambda name: None) -> None:
        self._table = table
        self._row: Int64Column = np.full(_FIRST_SLOTS, -1, dtype=np.int64)
        self._priority: Int64Column = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._has_volumes: BoolColumn = np.zeros(_FIRST_SLOTS, dtype=np.bool_)
        self._usage: Amounts = np.zeros((len(table.used), _FIRST_SLOTS), dtype=np.int64)
        self._numbered_by = table.numbering
        self._index = SlotIndex(self, namespace_labels)
        self._slot_of: dict[str, int] = {}
        self._nominated: dict[str, tuple[Pod, str]] = {}  # by UID: the pod, and the name of its node
        self._free = list(range(_FIRST_SLOTS))
        self._placed_by: NDArray[np.intp] | None = None

    @property
    def capacity(self) -> int:
        """The number of slots in the columns."""
        return len(self._row)

    def add(self, pod: Pod, node_name: str) -> None:
        """Adds a pod that is nominated to the node."""
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._slot_of[pod.uid], self._nominated[pod.uid] = slot, (pod, node_name)
        self._row[slot] = self._row_number(node_name)
        self._priority[slot] = pod.priority
        self._has_volumes[slot] = bool(pod.volumes)
        if self._numbered_by == self._table.numbering:
            self._use(pod, slot)
        self._index.add(pod, slot)

    def remove(self, uid: str) -> None:
        """Removes a pod; no error if it is not nominated."""
        slot = self._slot_of.pop(uid, None)
        if slot is not None:
            self._index.discard(self._nominated.pop(uid)[0], slot)
            self._row[slot] = -1
            self._usage[:, slot] = 0
            self._free.append(slot)

    def namespace_changed(self) -> None:
        """Namespaces were added or removed, or their labels changed."""
        self._index.counts.namespace_changed()
        self._index.terms.namespace_changed()

    def matter_to(self, pod: Pod) -> bool:
        """Whether other pods of equal or higher priority are nominated to known nodes."""
        return bool(self._wanted(pod).any())

    def usage_beside(self, pod: Pod) -> NominatedUsage | None:
        """Returns what other nominated pods of equal or higher priority will use; None if there are none."""
        slots = np.flatnonzero(self._wanted(pod))
        if not len(slots):
            return None
        slots = slots[np.argsort(self._row[slots], kind="stable")]
        rows, begins = np.unique(self._row[slots], return_index=True)
        return NominatedUsage(rows.astype(np.intp), sums(self._usage.take(slots, axis=1), begins))

    def beside(self, pod: Pod, rows: NDArray[np.intp]) -> NominatedRows | None:
        """Returns the other nominated pods of equal or higher priority on these rows; None if there are none.

        The rows ascend.
        """
        wanted = self._wanted(pod)
        if not wanted.any():
            return None
        of_row = np.full(self._table.capacity, -1, dtype=np.int64)
        of_row[self._row[wanted]] = 0
        found = rows[of_row[rows] == 0]
        if not len(found):
            return None
        of_row[:] = -1
        of_row[found] = np.arange(len(found))
        place = np.where(wanted, of_row[self._row], -1)
        return NominatedRows(found, place, self._index, self._usage, self._has_volumes)

    def statistics(self) -> dict[str, int]:
        return {
            "nominated": len(self._nominated),
            "ports": len(self._index.ports),
            **self._index.counts.statistics(),
            **self._index.terms.statistics(),
        }

    def _wanted(self, pod: Pod) -> BoolColumn:
        """Returns bool[slots]: other pods of equal or higher priority, nominated to known nodes."""
        self._place()
        self._number()
        wanted = (self._row >= 0) & (self._priority >= pod.priority)
        if pod.uid in self._slot_of:
            wanted[self._slot_of[pod.uid]] = False
        return wanted

    def _place(self) -> None:
        """Looks up the rows of the nominated nodes again, if nodes were added or removed."""
        order = self._table.rows_by_name
        if order is not self._placed_by:
            self._placed_by = order
            for uid, slot in self._slot_of.items():
                self._row[slot] = self._row_number(self._nominated[uid][1])

    def _row_number(self, node_name: str) -> int:
        row = self._table.row(node_name)
        return -1 if row is None else row

    def _number(self) -> None:
        """Rebuilds the usage if resources have other indexes now; a resource that no node has is left out."""
        if self._numbered_by != self._table.numbering:
            self._numbered_by = self._table.numbering
            self._usage = np.zeros((len(self._table.used), len(self._row)), dtype=np.int64)
            for uid, slot in self._slot_of.items():
                self._use(self._nominated[uid][0], slot)

    def _use(self, pod: Pod, slot: int) -> None:
        numbers = self._table.resource_index
        for name, amount in pod.usage.items():
            number = numbers.get(name)
            if number is not None:
                self._usage[number, slot] = amount
        self._usage[PODS, slot] = 1

    def _grow(self) -> None:
        """Doubles the number of slots."""
        slots = len(self._row)
        self._row, self._priority = grown(self._row, 2 * slots, -1), grown(self._priority, 2 * slots)
        self._has_volumes = np.concatenate([self._has_volumes, np.zeros(slots, dtype=np.bool_)])
        self._usage = grown(self._usage, 2 * slots)
        self._free = list(range(slots, 2 * slots))
