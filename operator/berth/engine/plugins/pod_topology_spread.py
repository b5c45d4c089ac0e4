"""PodTopologySpread: spreads pods evenly over topology domains: the values of a node label such as zone or host.

The pod's own constraints apply or, if it has none, the policy's defaults (common/default_spreading.py). The nodes with
one value of a constraint's label are a domain. A constraint counts the pods of the pod's namespace that its selector
matches and that are not terminating, on nodes that have the labels of all constraints of the same kind and that
nodeAffinityPolicy and nodeTaintsPolicy include. A selector without requirements matches the pod itself, but no
existing pod.

filter, by DoNotSchedule: rejects a node if its domain would have more than maxSkew pods above the domain with the
fewest, which counts as empty if there are fewer domains than minDomains. A node without the label is unresolvable.
score, by ScheduleAnyway: the sum of  pods * log(domains + 2) + maxSkew - 1  over the constraints, rounded, where the
domains are those of the feasible nodes; for hostname, the pods on the node are counted. Fewer is better: the score is
100 * (highest + lowest - own) / highest. A node without one of the labels gets 0; with the System defaults, a missing
label only adds nothing.

Arguments: defaultingType (System or List), defaultConstraints (for List).
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.answer_cache.equivalence import Axis, EquivalenceGroups
from berth.engine.events import Change, Event
from berth.engine.plugin import MAX_SCORE, NOTHING_ELSE, Dependencies, FilterPlugin, Query, ScorePlugin, refuse_unknown
from berth.engine.plugins.common.default_spreading import HARD, HOSTNAME, SOFT, default_selector, read_defaults
from berth.engine.plugins.common.spreading import (
    HONOR,
    CountedConstraint,
    Nodes,
    Scope,
    count_pods,
    fewest_pods,
    fewest_pods_with,
    over_feasible,
    pods_per_domain,
    scope_of,
    with_labels,
    with_tried,
)
from berth.engine.queueing.marks import CAME, LABEL, LEFT, OWNER, Mark, Marks, of_pods, rarest
from berth.engine.state.domains import FEW_DOMAINS, Domains
from berth.engine.state.node_table import NodeTable
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.pod_counts import PodMatch, RowCounts, rows_with
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, SKIP, BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts, row_count
from berth.model import LabelSelector, Node, Pod, SpreadConstraint

REASON_SKEW = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON_SKEW} (missing required label)"
_REASONS = {int(Code.UNSCHEDULABLE): (REASON_SKEW,), int(Code.UNRESOLVABLE): (REASON_LABEL,)}
IGNORED = -1  # a score that no node gets otherwise
_ANYBODY = LabelSelector(())


class PodTopologySpread(FilterPlugin, ScorePlugin):
    name = "PodTopologySpread"
    retry_events = frozenset(
        {
            Event.NODE_ADDED,
            Event.NODE_REMOVED,
            Event.NODE_LABELS,
            Event.NODE_TAINTS,
            Event.POD_ASSIGNED,
            Event.POD_REMOVED,
            Event.POD_LABELS,
            Event.SERVICE,
            Event.OWNER,
        }
    )

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "defaultConstraints", "defaultingType")
        defaults, self._by_system = read_defaults(args)
        self._defaults = {
            action: tuple(constraint for constraint in defaults if constraint.when_unsatisfiable == action)
            for action in (HARD, SOFT)
        }
        self._plans = {action: f"PodTopologySpread {action} {self._defaults[action]}" for action in (HARD, SOFT)}
        self._layouts = {action: f"{plan} on nodes" for action, plan in self._plans.items()}
        self._verdicts = f"{self._plans[HARD]} by domain"
        self.dependencies = Dependencies(
            filter_version=self._filter_version,
            score_version=self._score_version,
            rows_with_pods=self._rows_with_pods,
            score_axes=self._axes,
        )

    def _filter_version(self, query: Query, state: State) -> Hashable:
        """Returns the verdicts by domain if there are few domains, else the versions of the counts.

        A pod that is added changes the counts every time, but the verdicts rarely.
        """
        constraints = self._constraints(query, state, HARD)
        if not constraints:
            return NOTHING_ELSE
        if self._layout(constraints, query, state, HARD).few:
            return tuple((domains.vocabulary, said.tobytes()) for domains, said in self._by_domain(query, state))
        return _versions_of(constraints)

    def _score_version(self, query: Query, state: State) -> Hashable:
        return _versions_of(self._constraints(query, state, SOFT))

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED if self._constraints(query, state, HARD) else SKIP

    def _rows_with_pods(self, query: Query, state: State) -> BoolColumn:
        """Nodes with pods that the selectors match, also pods that do not count: they matter when moved tentatively."""
        namespaces = frozenset((query.pod.namespace,))
        constraints = self._constraints(query, state, HARD)
        counters = [state.table.counts.of((PodMatch(selector, namespaces),)) for _, selector, _ in constraints]
        return rows_with(counters, state.table.capacity)

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        codes = np.zeros(row_count(rows), dtype=np.int8)
        for domains, verdicts in self._by_domain(query, state):
            np.copyto(codes, verdicts[domains.ids[rows]], where=codes == Code.FITS)
        return Verdicts(codes, lambda: codes.astype(np.int64), _REASONS.__getitem__)

    def filter_with_nominated(self, query: Query, state: State, nominated: NominatedRows) -> Verdicts:
        layout = self._layout(self._constraints(query, state, HARD), query, state, HARD)
        codes = np.zeros(len(nominated.rows), dtype=np.int8)
        for counted, scope, itself in zip(layout.constraints, layout.scopes, layout.itself, strict=True):
            said = _verdicts_with(nominated, counted, scope, itself, query.pod, state.table)
            np.copyto(codes, said, where=codes == Code.FITS)
        return Verdicts(codes, lambda: codes.astype(np.int64), _REASONS.__getitem__)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        pod, old, new = query.pod, change.old, change.new
        if isinstance(old, Pod) or isinstance(new, Pod):
            selectors = (selector for _, selector in self._asked(pod, state, HARD))
            return any(_counts_otherwise(selector, pod, old, new) for selector in selectors)
        if isinstance(old, Node) or isinstance(new, Node):
            return _lie_otherwise([constraint for constraint, _ in self._asked(pod, state, HARD)], pod, old, new)
        return not pod.spread_constraints and getattr(new or old, "namespace", "") == pod.namespace

    def hint_marks(self, query: Query, state: State) -> Marks:
        """Marks of nodes with all the labels, of pods that a constraint counts, and of owners that defaults read."""
        pod, labels = query.pod, self.node_marks(query, state)
        if labels is None:
            return Marks()
        asked, marks = self._asked(pod, state, HARD), set(labels)
        selectors = [selector for _, selector in asked] if pod.spread_constraints else [_ANYBODY]
        for kind in (CAME, LEFT):
            marks.update(mark for selector in selectors for mark in of_pods(kind, selector, (pod.namespace,)))
        if not pod.spread_constraints:
            marks.add((OWNER, pod.namespace, ""))
        return Marks(self.retry_events, frozenset(marks))

    def admits(self, query: Query, state: State, node: Node) -> bool:
        """A node without the label of a hard constraint is never feasible."""
        return all(constraint.topology_key in node.labels for constraint, _ in self._asked(query.pod, state, HARD))

    def node_marks(self, query: Query, state: State) -> frozenset[Mark] | None:
        keys = {constraint.topology_key: None for constraint, _ in self._asked(query.pod, state, HARD)}
        return rarest(state.table, ([(LABEL, key, "")] for key in keys))

    def pre_score(self, query: Query, state: State) -> bool:
        return bool(self._constraints(query, state, SOFT))

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        table, constraints = state.table, self._constraints(query, state, SOFT)
        nodes = self._layout(constraints, query, state, SOFT).nodes
        scored = nodes.base[rows]
        sums = np.zeros(len(scored), dtype=np.float64)
        for counted in constraints:
            domains = table.domains(counted.constraint.topology_key)
            ids = domains.ids[rows]
            if counted.constraint.topology_key == HOSTNAME:
                shares = _shares(counted.constraint, counted.counts.column()[rows], int(np.count_nonzero(scored)))
                if domains.nodes < len(table):
                    shares[ids < 0] = 0
                sums += shares
            else:
                shares = _shares(counted.constraint, *over_feasible(table, domains, counted, nodes, ids, scored))
                sums += np.append(shares, 0)[ids]  # the last is for nodes without the label
        sums += 0.5
        scores: Int64Column = np.floor(sums, out=sums).astype(np.int64)
        if not scored.all():
            scores[~scored] = IGNORED
        return scores

    def _axes(self, query: Query, state: State) -> Sequence[Axis] | None:
        """The domain of each label; for hostname, the count of pods on the node. None if a node lacks a label."""
        constraints = self._constraints(query, state, SOFT)
        return self._layout(constraints, query, state, SOFT).axes if constraints else None

    def normalized_groups(self, query: Query, state: State, groups: EquivalenceGroups) -> list[int]:
        shares: list[Sequence[float]] = []  # by axis and place: the share of the score
        layout: _Layout = query.plan[self._layouts[SOFT]]  # the layout that `_axes` returned
        for axis, (counts, scope, by_host, more) in enumerate(layout.asked):
            if by_host:
                shares.append(_by_host(groups.shape[axis], groups.nodes, more))
            else:
                each = log(groups.places_inhabited(axis) + 2)
                shares.append([pods * each + more for pods in pods_per_domain(counts, scope).tolist()])
        if len(shares) == 2:  # by host and by zone, the common case
            first, second = shares
            scores = [int(first[one] + second[other] + 0.5) for one, other in groups.inhabited.values()]
        else:
            scores = [int(total + 0.5) for total in groups.sums(shares)]  # never negative: cut is rounded down
        highest, lowest = max(scores), min(scores)
        if not highest:
            return [MAX_SCORE] * len(scores)
        both = highest + lowest
        return [(both - score) * MAX_SCORE // highest for score in scores]

    def normalize(self, scores: Int64Column) -> Int64Column:
        if not len(scores):
            return scores
        highest = max(scores.item(scores.argmax()), 0)
        lowest = scores.item(scores.argmin())
        ignored = scores == IGNORED if lowest == IGNORED else None
        if ignored is not None:
            lowest = int(scores[~ignored].min(initial=highest))
        if highest:
            normal = highest + lowest - scores
            normal *= MAX_SCORE
            normal //= highest
        else:
            normal = np.full_like(scores, MAX_SCORE)
        if ignored is not None:
            normal[ignored] = 0
        return normal

    def _by_domain(self, query: Query, state: State) -> list[tuple[Domains, NDArray[np.int8]]]:
        """Returns the codes of each hard constraint by domain; the last entry is for nodes without the label."""
        found: list[tuple[Domains, NDArray[np.int8]]] | None = query.memo.get(self._verdicts)
        if found is None:
            layout = self._layout(self._constraints(query, state, HARD), query, state, HARD)
            found = query.memo[self._verdicts] = [
                _verdicts(counted, scope, itself, query.pod, state.table)
                for counted, scope, itself in zip(layout.constraints, layout.scopes, layout.itself, strict=True)
            ]
        return found

    def _constraints(self, query: Query, state: State, action: str) -> tuple[CountedConstraint, ...]:
        """Cached while no service or owner changes, and no counter was dropped."""
        key = self._plans[action]
        constraints: tuple[CountedConstraint, ...] | None = query.memo.get(key)
        if constraints is None:
            cached: tuple[object, tuple[CountedConstraint, ...]] | None = query.plan.get(key)
            since = (state, 0 if query.pod.spread_constraints else state.selectors_revision)
            if cached is None or cached[0] != since or _dropped(cached[1]):
                cached = query.plan[key] = (since, tuple(self._resolve(query.pod, state, action)))
            constraints = query.memo[key] = cached[1]
        return constraints

    def _layout(self, constraints: tuple[CountedConstraint, ...], query: Query, state: State, action: str) -> "_Layout":
        """Cached while the constraints are the same, and the nodes' labels and taints are."""
        key, table = self._layouts[action], state.table
        layout: _Layout | None = query.plan.get(key)
        if (
            layout is None
            or layout.constraints is not constraints
            or layout.since != (table.static_version, table.capacity)
        ):
            by_labels = action == HARD or bool(query.pod.spread_constraints) or not self._by_system
            nodes = Nodes(table, query.pod, with_labels(table, constraints if by_labels else ()))
            layout = query.plan[key] = _Layout(constraints, nodes, query.pod, table)
        return layout

    def _resolve(self, pod: Pod, state: State, action: str) -> Iterator[CountedConstraint]:
        last: CountedConstraint | None = None
        for constraint, selector in self._asked(pod, state, action):
            counts = last.counts if last and selector == last.selector else count_pods(pod, selector, state.table)
            last = CountedConstraint(constraint, selector, counts)
            yield last

    def _asked(self, pod: Pod, state: State, action: str) -> Iterator[tuple[SpreadConstraint, LabelSelector | None]]:
        """Yields the constraints that apply to the pod, and the selector of the pods that each counts."""
        if pod.spread_constraints:
            for own in pod.spread_constraints:
                if own.when_unsatisfiable == action:
                    yield own, own.selector
        elif self._defaults[action]:
            selector = default_selector(pod, state)
            if selector.requirements:
                yield from ((default, selector) for default in self._defaults[action])


class _Layout:
    """The nodes and domains for the constraints of one kind: which nodes are included, and their domains."""

    def __init__(self, constraints: tuple[CountedConstraint, ...], nodes: Nodes, pod: Pod, table: NodeTable) -> None:
        self.constraints, self.nodes = constraints, nodes
        self.since = (table.static_version, table.capacity)
        self.itself = [
            counted.selector is not None and counted.selector.matches(pod.labels) for counted in constraints
        ]  # it counts
        self._table = table

    @cached_property
    def scopes(self) -> list[Scope]:
        return [scope_of(counted.constraint, self.nodes, self._table) for counted in self.constraints]

    @cached_property
    def asked(self) -> list[tuple[RowCounts, Scope, bool, int]]:
        """For each counted: the counts, the included nodes, whether it is by hostname, what maxSkew adds to a score."""
        return [
            (counts, scope, constraint.topology_key == HOSTNAME, constraint.max_skew - 1)
            for (constraint, _, counts), scope in zip(self.constraints, self.scopes, strict=True)
        ]

    @cached_property
    def few(self) -> bool:
        """Whether no constraint has many domains."""
        return all(scope.domains.size <= FEW_DOMAINS for scope in self.scopes)

    @cached_property
    def axes(self) -> list[Axis] | None:
        """The axes for scores by groups; None if a node lacks a label."""
        labels = [(counted, self._table.domains(counted.constraint.topology_key)) for counted in self.constraints]
        if any(domains.nodes < len(self._table) for _, domains in labels):
            return None
        by_host = [counted.constraint.topology_key == HOSTNAME for counted in self.constraints]
        return [
            Axis(counted.counts if host else domains) for host, (counted, domains) in zip(by_host, labels, strict=True)
        ]


def _counts_otherwise(selector: LabelSelector | None, pod: Pod, old: object, new: object) -> bool:
    """Whether a changed pod counts before the change and not after, or the other way round; None: it was not there.

    A terminating pod does not count on its node. But preemption moves pods tentatively, and may evict it.
    """

    def selected(other: object) -> bool:
        return (
            isinstance(other, Pod)
            and other.namespace == pod.namespace
            and selector is not None
            and selector.matches(other.labels)
        )

    def counts(other: object) -> bool:
        return isinstance(other, Pod) and (not other.deleting or not other.node_name) and selected(other)

    return counts(old) != counts(new) or (selected(new) and not selected(old))


def _lie_otherwise(constraints: Sequence[SpreadConstraint], pod: Pod, *records: object) -> bool:
    """Whether a node has the labels of all constraints, before or after, and counts differently for them now."""
    keys = {constraint.topology_key for constraint in constraints}
    nodes = [record for record in records if isinstance(record, Node)]
    if not any(keys <= node.labels.keys() for node in nodes):
        return False
    if len(nodes) == 1:
        return True
    old, new = nodes
    if any(old.labels.get(key) != new.labels.get(key) for key in keys):
        return True
    chosen = pod.node_selector is not None or pod.required_node_affinity is not None
    relabelled, repainted = chosen and old.labels != new.labels, old.taints != new.taints
    return any(
        (relabelled and constraint.node_affinity_policy == HONOR)
        or (repainted and constraint.node_taints_policy == HONOR)
        for constraint in constraints
    )


def _verdicts(
    counted: CountedConstraint, scope: Scope, itself: bool, pod: Pod, table: NodeTable
) -> tuple[Domains, NDArray[np.int8]]:
    constraint, selector, counts = counted
    domains = scope.domains
    pods = pods_per_domain(counts, scope)
    if table.tried:
        pods = with_tried(pods, scope, selector, pod, table)
    fewest = fewest_pods(pods, scope, constraint.min_domains or 1)
    verdicts = np.empty(domains.size + 1, dtype=np.int8)
    verdicts[:-1] = pods > constraint.max_skew + fewest - itself
    verdicts[-1] = Code.UNRESOLVABLE
    return domains, verdicts


def _verdicts_with(
    nominated: NominatedRows, counted: CountedConstraint, scope: Scope, itself: bool, pod: Pod, table: NodeTable
) -> NDArray[np.int8]:
    """Returns int8[nominated.rows]: the codes of a hard constraint, with each row's own nominated pods in its domain.

    All of them that the selector matches count, as in kube-scheduler when pods are moved tentatively.
    """
    constraint, selector, counts = counted
    pods = with_tried(pods_per_domain(counts, scope), scope, selector, pod, table)
    rows, ids = nominated.rows, scope.domains.ids[nominated.rows]
    more = nominated.meeting((PodMatch(selector, frozenset((pod.namespace,))),)) * scope.included[rows]
    there = np.append(pods, 0)[ids]  # the last is for nodes without the label
    fewest = fewest_pods_with(pods, scope, constraint.min_domains or 1, there, more)
    codes = (there + more > constraint.max_skew + fewest - itself).astype(np.int8)
    codes[ids < 0] = Code.UNRESOLVABLE
    return codes


def _dropped(constraints: tuple[CountedConstraint, ...]) -> bool:
    for counted in constraints:  # noqa: SIM110 - runs several times for every pod; a generator takes three times as long
        if counted.counts.dropped:
            return True
    return False


def _versions_of(constraints: tuple[CountedConstraint, ...]) -> Hashable:
    return (constraints, *[counted.counts.version for counted in constraints]) if constraints else NOTHING_ELSE


@lru_cache(maxsize=64)
def _by_host(places: int, nodes: int, more: int) -> Sequence[float]:
    """Returns what a constraint by hostname adds to the score of a node, by the number of pods on it."""
    each = log(nodes + 2)
    return tuple(pods * each + more for pods in range(places))


def _shares(constraint: SpreadConstraint, pods: Int64Column, domains: int) -> NDArray[np.floating[Any]]:
    """Returns what a constraint adds to the score, by the number of pods that count."""
    shares = pods * log(domains + 2)
    return shares + (constraint.max_skew - 1) if constraint.max_skew > 1 else shares
