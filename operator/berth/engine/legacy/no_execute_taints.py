"""PodToleratesNodeNoExecuteTaints: the pod must tolerate all NoExecute taints of a node; other taints do not matter.

Each distinct set of taints is evaluated once; the verdict is then looked up by row.
"""

from berth.engine.events import Change, Event
from berth.engine.plugin import Dependencies, FilterPlugin, Query
from berth.engine.plugins.common.hints import lets_now
from berth.engine.state.state import State
from berth.engine.verdict import Code, Rows, Verdicts, refuse_where
from berth.model import Node

REASON = "node(s) had taints that the pod didn't tolerate"
EFFECT = "NoExecute"


class PodToleratesNodeNoExecuteTaints(FilterPlugin):
    name = "PodToleratesNodeNoExecuteTaints"
    dependencies = Dependencies(static_key=lambda pod: pod.tolerations)
    retry_events = frozenset({Event.NODE_ADDED, Event.NODE_TAINTS})
    local_events = retry_events

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        table = state.table
        refused = table.untolerated(query.pod.tolerations, (EFFECT,)) > 0
        return refuse_where(refused[table.taint_sets[rows]], Code.UNSCHEDULABLE, REASON)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        return lets_now(change, lambda node: self.admits(query, state, node))

    def admits(self, query: Query, state: State, node: Node) -> bool:
        tolerations = query.pod.tolerations
        return all(taint.effect != EFFECT or any(t.tolerates(taint) for t in tolerations) for taint in node.taints)
