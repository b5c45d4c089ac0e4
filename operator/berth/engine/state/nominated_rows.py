"""NominatedRows: the nominated pods that count for one pod, as columns by row.

A node is filtered as if the pods that are nominated to it, and none that are nominated to other nodes, were on it. So a
filter only needs to know the nominated pods of the row itself. Counts, terms and ports are maintained as for placed
pods (pod_counts.py, affinity_terms.py, host_ports.py), but by the slot of each nominated pod instead of its row:
which of them count depends on the priority of the pod to place.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.affinity_terms import CarriedTerms
from berth.engine.state.amounts import Amounts, sums
from berth.engine.state.host_ports import PortIndex
from berth.engine.state.pod_counts import Extent, NamespaceLabels, PodCounts, PodMatch, RowCounts
from berth.engine.state.term_sets import CarriedTerm
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import HostPort, Pod


class SlotIndex:
    """Counts, affinity terms and host ports of nominated pods, by slot."""

    def __init__(self, slots: Extent, namespace_labels: NamespaceLabels) -> None:
        self.counts = PodCounts(slots, namespace_labels)
        self.terms = CarriedTerms(slots, namespace_labels)
        self.ports = PortIndex()

    def add(self, pod: Pod, slot: int) -> None:
        self.counts.add(pod, slot)
        self.terms.move(pod, slot, 1)
        for port in pod.host_ports:
            self.ports.add(port, slot)

    def discard(self, pod: Pod, slot: int) -> None:
        self.counts.discard(pod, slot)
        self.terms.move(pod, slot, -1)
        for port in pod.host_ports:
            self.ports.discard(port, slot)


class NominatedRows:
    """The nominated pods that count for one pod, on `rows` (intp[k], ascending), each of which has at least one.

    It is valid for one decision. `place` is int64[slots]: the index of the pod's row in `rows`, -1 for pods that do
    not count.
    """

    def __init__(
        self,
        rows: NDArray[np.intp],
        place: Int64Column,
        index: SlotIndex,
        usage: Amounts,
        has_volumes: BoolColumn,
    ) -> None:
        self.rows = rows
        self._place, self._index, self._usage, self._has_volumes = place, index, usage, has_volumes

    def meeting(self, matches: tuple[PodMatch, ...]) -> Int64Column:
        """Returns int64[k]: the number of pods that meet all of these, terminating ones included."""
        return self._on_rows(self._index.counts.of(matches))

    def carrying(self, pod: Pod) -> Iterator[tuple[CarriedTerm, BoolColumn]]:
        """Yields the distinct terms of these pods that select the pod, and bool[k]: the rows that carry it."""
        for carried in self._index.terms.matching(pod):
            yield carried, self._on_rows(carried.rows) > 0

    def holding(self, wanted: HostPort) -> BoolColumn:
        """Returns bool[k]: where one of the pods uses a host port that conflicts with this one."""
        held = np.zeros(len(self.rows) + 1, dtype=np.bool_)  # the last is for pods that do not count
        for slots in self._index.ports.clashing(wanted):
            held[self._place[np.fromiter(slots, np.intp, len(slots))]] = True
        return held[:-1]

    def taking(self, resource: int) -> Amounts:
        """Returns int64[k]: what the pods use of a resource, by its index in the table."""
        if resource >= len(self._usage):
            return np.zeros(len(self.rows), dtype=np.int64)
        slots, begins = self._by_row
        return sums(self._usage[resource, slots], begins)

    @cached_property
    def with_volumes(self) -> BoolColumn:
        """bool[k]: where one of the pods has volumes."""
        slots, begins = self._by_row
        return np.asarray(np.logical_or.reduceat(self._has_volumes[slots], begins))

    @cached_property
    def _by_row(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The slots sorted by row, and the index at which each row begins."""
        slots = np.flatnonzero(self._place >= 0)
        slots = slots[np.argsort(self._place[slots], kind="stable")]
        return slots, np.searchsorted(self._place[slots], np.arange(len(self.rows)))

    def _on_rows(self, counts: RowCounts) -> Int64Column:
        places = self._place[counts.counted()[0]]
        return np.bincount(places[places >= 0], minlength=len(self.rows))
