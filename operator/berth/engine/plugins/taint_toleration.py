"""TaintToleration: the pod must tolerate a node's taints; PreferNoSchedule taints lower its score.

filter: rejects a node for its first NoSchedule or NoExecute taint that no toleration matches.
score: the number of PreferNoSchedule taints that are not tolerated; fewer is better (highest count 0, none 100).
Only tolerations of effect PreferNoSchedule, or of every effect, count there.

Each distinct set of taints (state/taints.py) is evaluated once; the result is then looked up by row.
"""

from berth.engine.events import Change, Event
from berth.engine.plugin import Dependencies, FilterPlugin, Query, ScorePlugin, scale_to_highest
from berth.engine.plugins.common.hints import lets_now
from berth.engine.state.node_table import NodeTable
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Code, Int64Column, Rows, Verdicts, refuse_where
from berth.model import Node, Pod

REASON = "node(s) had untolerated taint(s)"
REFUSING = ("NoSchedule", "NoExecute")
DISCOURAGING = "PreferNoSchedule"


class TaintToleration(FilterPlugin, ScorePlugin):
    name = "TaintToleration"
    dependencies = Dependencies(static_key=lambda pod: pod.tolerations)
    retry_events = frozenset({Event.NODE_ADDED, Event.NODE_TAINTS})
    local_events = retry_events

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        refused = refused_sets(state.table, query.pod)[state.table.taint_sets[rows]]
        return refuse_where(refused, Code.UNRESOLVABLE, REASON)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        return lets_now(change, lambda node: self.admits(query, state, node))

    def admits(self, query: Query, state: State, node: Node) -> bool:
        tolerations = query.pod.tolerations
        return all(
            taint.effect not in REFUSING or any(toleration.tolerates(taint) for toleration in tolerations)
            for taint in node.taints
        )

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        table = state.table
        tolerations = tuple(t for t in query.pod.tolerations if t.effect in ("", DISCOURAGING))
        return table.untolerated(tolerations, (DISCOURAGING,))[table.taint_sets[rows]]

    def bounds(self, scores: Int64Column) -> int:
        return int(scores.max(initial=0))

    def scale(self, scores: Int64Column, bounds: int) -> Int64Column:
        return scale_to_highest(scores, bounds, reverse=True)


def refused_sets(table: NodeTable, pod: Pod) -> BoolColumn:
    """Returns bool[taint sets]: those with a NoSchedule or NoExecute taint that the pod does not tolerate."""
    return table.untolerated(pod.tolerations, REFUSING) > 0
