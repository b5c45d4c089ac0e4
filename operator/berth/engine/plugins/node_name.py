"""NodeName: a pod with spec.nodeName fits on that node only."""

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.plugin import Dependencies, FilterPlugin, Query
from berth.engine.plugins.common.hints import lets_now
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, SKIP, Code, PreFilter, Rows, Verdicts, refuse_where
from berth.model import Node, Pod

REASON = "node(s) didn't match the requested node name"


class NodeName(FilterPlugin):
    name = "NodeName"
    dependencies = Dependencies(static_key=lambda pod: pod.node_name)
    retry_events = frozenset({Event.NODE_ADDED})
    local_events = retry_events

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED if query.pod.node_name else SKIP

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        elsewhere = np.ones(state.table.capacity, dtype=np.bool_)
        row = state.table.row(query.pod.node_name)
        if row is not None:
            elsewhere[row] = False
        return refuse_where(elsewhere[rows], Code.UNRESOLVABLE, REASON)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        return lets_now(change, lambda node: self.admits(query, state, node))

    def named_nodes(self, pod: Pod) -> frozenset[str]:
        return frozenset({pod.node_name})

    def admits(self, query: Query, state: State, node: Node) -> bool:
        return node.name == query.pod.node_name
