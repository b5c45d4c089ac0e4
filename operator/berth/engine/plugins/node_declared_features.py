"""NodeDeclaredFeatures: a node must declare all kubelet features that the pod requires.

The model infers the required features (`Pod.required_features`) by the rules of Kubernetes 1.36. Each distinct set of
declared features is evaluated once; the verdict is then looked up by row.
"""

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.plugin import Dependencies, FilterPlugin, Query
from berth.engine.plugins.common.hints import lets_now
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, SKIP, Code, PreFilter, Rows, Verdicts, refuse_where
from berth.model import Node, Pod

REASON = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures(FilterPlugin):
    name = "NodeDeclaredFeatures"
    dependencies = Dependencies(static_key=lambda pod: pod.required_features)
    retry_events = frozenset({Event.NODE_ADDED, Event.NODE_OTHER})
    local_events = retry_events

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.required_features)

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED if query.pod.required_features else SKIP

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        declared = state.table.fact("declared features", _declared)
        required = frozenset(query.pod.required_features)
        missing = [not (isinstance(known, frozenset) and required <= known) for known in declared.values]
        return refuse_where(np.array(missing, dtype=np.bool_)[declared.ids[rows]], Code.UNRESOLVABLE, REASON)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        return lets_now(change, lambda node: self.admits(query, state, node))

    def admits(self, query: Query, state: State, node: Node) -> bool:
        return frozenset(query.pod.required_features) <= frozenset(node.declared_features)


def _declared(node: Node) -> frozenset[str] | None:
    return frozenset(node.declared_features) or None
