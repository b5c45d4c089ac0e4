"""NodeAffinity: a node must match the pod's nodeSelector and required node affinity; preferred terms give scores.

filter: spec.nodeSelector and the required terms; before them the policy's own `addedAffinity`.
score: the sum of the weights of the preferred terms that match, the pod's and the policy's; the highest becomes 100.
If all required terms name nodes (matchFields metadata.name), PreFilter restricts the search to those nodes.

Arguments: addedAffinity (a nodeAffinity that applies to every pod, in addition to its own).
"""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.plugin import (
    BadArgument,
    Dependencies,
    FilterPlugin,
    Query,
    ScorePlugin,
    refuse_unknown,
    scale_to_highest,
)
from berth.engine.plugins.common.hints import lets_now
from berth.engine.queueing.marks import LABEL, MOST_MARKS, Mark, Marks, rarest
from berth.engine.state.node_selection import match_pod, match_selector, match_term
from berth.engine.state.node_table import NodeTable
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, SKIP, Code, Int64Column, PreFilter, Rows, Verdicts
from berth.model import (
    FieldError,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PreferredTerm,
    Requirement,
    build_node_affinity,
)

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ADDED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"
_REASONS = {1: REASON_ADDED, 2: REASON_POD}


def _terms(pod: Pod) -> Hashable:
    """Returns everything of a pod that says which nodes it may be on, or prefers."""
    selector = tuple(sorted(pod.node_selector.items())) if pod.node_selector else ()
    return selector, pod.required_node_affinity, pod.preferred_node_affinity


class NodeAffinity(FilterPlugin, ScorePlugin):
    name = "NodeAffinity"
    dependencies = Dependencies(static_key=_terms)
    retry_events = frozenset({Event.NODE_ADDED, Event.NODE_LABELS})
    local_events = retry_events

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "addedAffinity")
        self._added: NodeSelector | None = None
        self._added_preferred: tuple[PreferredTerm, ...] = ()
        added = args.get("addedAffinity")
        if added is not None:
            if not isinstance(added, Mapping):
                raise BadArgument("addedAffinity", "must be a node affinity")
            try:
                self._added, self._added_preferred = build_node_affinity(added)
            except FieldError as error:
                raise BadArgument(f"addedAffinity.{error.path}", error.problem) from error

    @property
    def added(self) -> NodeSelector | None:
        """The required node affinity that the policy adds to every pod."""
        return self._added

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        pod = query.pod
        if pod.required_node_affinity is None and self._added is None and pod.node_selector is None:
            return SKIP
        nodes = _named_nodes(pod)
        if nodes is None:
            return PROCEED
        if not nodes:
            return PreFilter(code=Code.UNRESOLVABLE, reasons=(REASON_CONFLICT,))
        return PreFilter(nodes=nodes)

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        everywhere = np.ones(state.table.capacity, dtype=np.bool_)
        added = match_selector(state.table, self._added) if self._added else everywhere
        mine = match_pod(state.table, query.pod)
        causes = np.where(~added, 1, np.where(~mine, 2, 0))[rows]
        codes = np.where(causes > 0, np.int8(Code.UNRESOLVABLE), np.int8(0))
        return Verdicts(codes, causes, lambda cause: (_REASONS[cause],))

    def hint(self, query: Query, state: State, change: Change) -> bool:
        return lets_now(change, lambda node: self.admits(query, state, node))

    def named_nodes(self, pod: Pod) -> frozenset[str] | None:
        return _named_nodes(pod)

    def node_marks(self, query: Query, state: State) -> frozenset[Mark] | None:
        return super().node_marks(query, state) or _needed_labels(query.pod, state.table)

    def hint_marks(self, query: Query, state: State) -> Marks:
        """Marks of a node that matches now."""
        marks = self.node_marks(query, state)
        return Marks() if marks is None else Marks(self.retry_events, marks)

    def admits(self, query: Query, state: State, node: Node) -> bool:
        pod = query.pod
        selectors = (self._added, pod.required_node_affinity)
        return all(node.labels.get(key) == value for key, value in (pod.node_selector or {}).items()) and all(
            selector is None or selector.matches(node.name, node.labels) for selector in selectors
        )

    def pre_score(self, query: Query, state: State) -> bool:
        return bool(query.pod.preferred_node_affinity or self._added_preferred)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        sums = np.zeros(state.table.capacity, dtype=np.int64)
        for preferred in (*self._added_preferred, *query.pod.preferred_node_affinity):
            sums += preferred.weight * match_term(state.table, preferred.term)
        return sums[rows]

    def bounds(self, scores: Int64Column) -> int:
        return int(scores.max(initial=0))

    def scale(self, scores: Int64Column, bounds: int) -> Int64Column:
        return scale_to_highest(scores, bounds)


def _named_nodes(pod: Pod) -> frozenset[str] | None:
    """Returns the nodes that the required terms name; None if some term names none."""
    if pod.required_node_affinity is None or not pod.required_node_affinity.terms:
        return None
    named = [_names_in(term) for term in pod.required_node_affinity.terms]
    if any(names is None for names in named):
        return None
    return frozenset[str]().union(*(names for names in named if names is not None))


def _needed_labels(pod: Pod, table: NodeTable) -> frozenset[Mark] | None:
    """Returns label marks: a node that matches has one of them. None if it may have none of them."""
    choices: list[list[Mark]] = [[(LABEL, key, value)] for key, value in (pod.node_selector or {}).items()]
    terms = pod.required_node_affinity.terms if pod.required_node_affinity is not None else ()
    each = [rarest(table, filter(None, map(_marks_of, term.expressions))) for term in terms[:MOST_MARKS]]
    if each and len(each) == len(terms) and None not in each:
        choices.append([mark for marks in each if marks is not None for mark in marks])
    return rarest(table, choices)


def _marks_of(requirement: Requirement) -> list[Mark]:
    """Returns marks of a node that meets the requirement; none for negative operators."""
    match requirement.operator:
        case "In":
            return [(LABEL, requirement.key, value) for value in requirement.values]
        case "NotIn" | "DoesNotExist":
            return []
        case _:
            return [(LABEL, requirement.key, "")]


def _names_in(term: NodeSelectorTerm) -> frozenset[str] | None:
    names: frozenset[str] | None = None
    for field in term.fields:
        if field.operator == "In":
            names = frozenset(field.values) if names is None else names & frozenset(field.values)
    return names
