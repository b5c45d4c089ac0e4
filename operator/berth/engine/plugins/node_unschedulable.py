"""NodeUnschedulable: a cordoned node accepts only pods that tolerate the taint node.kubernetes.io/unschedulable."""

from berth.engine.events import Change, Event
from berth.engine.plugin import Dependencies, FilterPlugin, Query
from berth.engine.plugins.common.hints import lets_now
from berth.engine.state.state import State
from berth.engine.verdict import Code, Rows, Verdicts, refuse_where
from berth.model import Node, Pod, Taint

REASON = "node(s) were unschedulable"
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class NodeUnschedulable(FilterPlugin):
    name = "NodeUnschedulable"
    dependencies = Dependencies(static_key=lambda pod: pod.tolerations)
    retry_events = frozenset({Event.NODE_ADDED, Event.NODE_TAINTS})
    local_events = retry_events

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        refused = state.table.unschedulable[rows]
        if _tolerates(query.pod):
            refused = refused & False
        return refuse_where(refused, Code.UNRESOLVABLE, REASON)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        return lets_now(change, lambda node: self.admits(query, state, node))

    def admits(self, query: Query, state: State, node: Node) -> bool:
        return not node.unschedulable or _tolerates(query.pod)


def _tolerates(pod: Pod) -> bool:
    return any(toleration.tolerates(CORDONED) for toleration in pod.tolerations)
