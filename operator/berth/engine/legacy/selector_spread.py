"""SelectorSpreadPriority and ServiceSpreadingPriority: spread related pods over nodes and zones.

SelectorSpreadPriority     related pods match the selectors of all services, ReplicationControllers, ReplicaSets and
                           StatefulSets that select this pod
ServiceSpreadingPriority   related pods match the selector of any service that selects this pod

Over the feasible nodes, with c the number of related pods on a node and z the number in its zone:

    by node = 100 * (max c - c) / max c        100 if no node has any
    by zone = 100 * (max z - z) / max z
    score   = by node / 3 + by zone * 2 / 3    truncated to a whole number; by node alone for a node without a zone

A zone is a node's region and zone together, by the labels failure-domain.beta.kubernetes.io/* or else
topology.kubernetes.io/*. Terminating pods do not count.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.legacy.belonging import count_pods, owner_matches, service_matches
from berth.engine.plugin import MAX_SCORE, Dependencies, Query, ScorePlugin
from berth.engine.state.node_table import NodeTable
from berth.engine.state.pod_counts import RowCounts
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, Rows
from berth.model import Pod

ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
ZONE_WEIGHT = 2.0 / 3.0
_FEW = 16


class SelectorSpreadPriority(ScorePlugin):
    name = "SelectorSpreadPriority"

    def __init__(self, args: Mapping[str, Any]) -> None:
        super().__init__(args)
        self.dependencies = Dependencies(version=self._version)

    def _version(self, query: Query, state: State) -> Hashable:
        alike = self._alike(query.pod, state)
        return () if alike is None else (alike, alike.version)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        zones = zone_ids(state.table, rows)
        alike = self._alike(query.pod, state)
        counts = np.zeros(len(zones)) if alike is None else alike.column()[rows].astype(np.float64)
        scores = _few_is_good(counts, float(counts.max(initial=0)))
        in_zone = zones >= 0
        if in_zone.any():
            sums = np.bincount(zones[in_zone], weights=counts[in_zone]).astype(np.float64)
            by_zone = _few_is_good(sums[zones], float(sums.max()))
            scores = np.where(in_zone, scores * (1.0 - ZONE_WEIGHT) + ZONE_WEIGHT * by_zone, scores)
        return scores.astype(np.int64)

    def _alike(self, pod: Pod, state: State) -> RowCounts | None:
        """Returns the counts of related pods; None if nothing selects this pod."""
        matches = service_matches(pod, state) + owner_matches(pod, state)
        return count_pods(matches, state) if matches else None


class ServiceSpreadingPriority(SelectorSpreadPriority):
    name = "ServiceSpreadingPriority"

    def _alike(self, pod: Pod, state: State) -> RowCounts | None:
        matches = service_matches(pod, state)
        return count_pods(matches, state, any_of=True) if matches else None


def _few_is_good(counts: NDArray[np.float64], highest: float) -> NDArray[np.float64]:
    """Returns 100 for none, 0 for the highest. Floats in kube-scheduler's order, so that truncation is the same."""
    if not highest:
        return np.full(len(counts), float(MAX_SCORE))
    return float(MAX_SCORE) * ((highest - counts) / highest)


def zone_ids(table: NodeTable, rows: Rows) -> Int64Column:
    """Returns int64[rows]: the id of each node's zone, -1 without one. Ids are small, so that they can be counted."""
    zones, regions = _values(table, ZONE_LABELS, rows), _values(table, REGION_LABELS, rows)
    ids: Int64Column = (regions + 1) * (zones.max(initial=-1) + 2) + zones
    if ids.max(initial=-1) <= _FEW * (len(ids) + 1):
        return ids
    known, dense = np.unique(ids, return_inverse=True)
    return np.asarray(dense - (known[0] == -1), dtype=np.int64)


def _values(table: NodeTable, labels: tuple[str, str], rows: Rows) -> Int64Column:
    """Returns int64[rows]: an id for the value of the first of two labels that a node has; -1 if none, or if empty."""
    (old, old_values), (new, new_values) = table.label(labels[0]), table.label(labels[1])
    numbers: dict[str, int] = {"": -1}
    for value in (*old_values.ids, *new_values.ids):
        numbers.setdefault(value, len(numbers) - 1)
    old_numbers, new_numbers = (
        np.array([*(numbers[value] for value in values.ids), -1], dtype=np.int64) for values in (old_values, new_values)
    )
    return np.where(old[rows] >= 0, old_numbers[old[rows]], new_numbers[new[rows]])
