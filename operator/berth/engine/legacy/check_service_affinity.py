"""CheckServiceAffinity: all pods of a service run on nodes with equal values of some labels, such as a region.

The required values come from the pod's own nodeSelector. For a label that it does not name, the value is that of a node
that already has a pod of the same namespace with all of this pod's labels; the first such node by name is taken. If no
service selects the pod, or there is no such node, or that node lacks the label, any value is accepted.

Arguments: labels (keys).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.legacy.arguments import require_labels
from berth.engine.plugin import Dependencies, FilterPlugin, Query, refuse_unknown
from berth.engine.state.node_selection import match_label
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.pod_counts import PodMatch
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Code, Int64Column, Rows, Verdicts, refuse_where
from berth.model import Node, Pod, Requirement, selector_from_labels

REASON = "node(s) didn't match service affinity"


class CheckServiceAffinity(FilterPlugin):
    name = "CheckServiceAffinity"
    retry_events = frozenset(
        {
            Event.NODE_ADDED,
            Event.NODE_REMOVED,
            Event.NODE_LABELS,
            Event.POD_ASSIGNED,
            Event.POD_REMOVED,
            Event.POD_LABELS,
            Event.SERVICE,
        }
    )

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "labels")
        self._labels = require_labels(args, "labels")
        self.dependencies = Dependencies(
            version=lambda query, state: self._required(query.pod, state),
            rows_with_pods=lambda query, state: _pods_alike(query.pod, state) > 0,
        )

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        matched = np.ones(state.table.capacity, dtype=np.bool_)
        for requirement in self._required(query.pod, state):
            matched &= match_label(state.table, requirement)
        return refuse_where(~matched[rows], Code.UNSCHEDULABLE, REASON)

    def affected_by_nominated(self, query: Query, nominated: NominatedRows) -> BoolColumn:
        return nominated.meeting((_alike(query.pod),)) > 0

    def hint(self, query: Query, state: State, change: Change) -> bool:
        """Pods and services of other namespaces do not affect the pod; nodes have no namespace and always may."""
        changed = change.new or change.old
        return getattr(changed, "namespace", query.pod.namespace) == query.pod.namespace

    def _required(self, pod: Pod, state: State) -> tuple[Requirement, ...]:
        """Returns the labels that a node must have, with their values."""
        wanted = {label: value for label, value in (pod.node_selector or {}).items() if label in self._labels}
        if len(wanted) < len(self._labels) and any(state.services_of(pod)):
            example = _node_of_its_like(pod, state)
            found = {} if example is None else example.labels
            wanted = {label: found[label] for label in self._labels if label in found} | wanted
        return tuple(Requirement(label, "In", (wanted[label],)) for label in self._labels if label in wanted)


def _node_of_its_like(pod: Pod, state: State) -> Node | None:
    table = state.table
    by_name = table.rows_by_name
    holding = np.flatnonzero(_pods_alike(pod, state)[by_name])
    return table.node(table.name(int(by_name[holding[0]]))) if len(holding) else None


def _pods_alike(pod: Pod, state: State) -> Int64Column:
    """int64[all rows]"""
    return state.table.counts.of((_alike(pod),)).column()


def _alike(pod: Pod) -> PodMatch:
    return PodMatch(selector_from_labels(pod.labels), frozenset((pod.namespace,)))
