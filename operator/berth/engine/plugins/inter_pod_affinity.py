"""InterPodAffinity: pod affinity and anti-affinity, of the incoming pod and of existing pods.

A pod is near a node if both are in the same domain of the term's topology key. A node without that label is near
nothing.

filter, in this order:
 1. required affinity: pods that match all terms at once must be near, by the topology key of every term. If no such
    pod is near any node, a pod that matches its own terms is the first of its group, and nodes only need the keys.
 2. required anti-affinity: no pod that matches any of the terms may be near.
 3. required anti-affinity of existing pods: no pod with a term that matches the incoming pod may be near.
score: the sum of the weights of all preferred terms, the pod's own and those of existing pods, once for each pod near
that the term relates to; anti-affinity is subtracted; required affinity of existing pods counts with
`hardPodAffinityWeight`. The lowest sum becomes 0 and the highest 100.

The pods that match a term are counted by the table (state/pod_counts.py), also by domain, so a verdict is one look-up
per row. If there are many terms with one topology key, their counts are summed together (`_Bundle`).

Arguments: hardPodAffinityWeight (0..100, 1 by default), ignorePreferredTermsOfExistingPods (true: preferences of
existing pods are ignored if the incoming pod has none itself).
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from berth.engine.answer_cache.equivalence import Axis, EquivalenceGroups
from berth.engine.events import Change, Event
from berth.engine.plugin import (
    MAX_SCORE,
    NOTHING_ELSE,
    BadArgument,
    Dependencies,
    FilterPlugin,
    Query,
    ScorePlugin,
    refuse_unknown,
)
from berth.engine.plugins.common.allocation import require_integer
from berth.engine.plugins.common.hints import fits_there, may_push_out
from berth.engine.queueing.marks import CAME, LABEL, LEFT, MOVED, Mark, Marks, moved_labels, of_labels, of_term, rarest
from berth.engine.state.domains import Domains
from berth.engine.state.node_table import NodeTable
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.pod_counts import NamespaceLabels, PodMatch, RowCounts, narrowest, rows_with
from berth.engine.state.state import State
from berth.engine.state.term_sets import Matched, Speaker
from berth.engine.verdict import PROCEED, SKIP, BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts, row_count
from berth.model import Node, Pod, PodTerm, Role

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_FITS, _AFFINITY, _ANTI_AFFINITY, _EXISTING = range(4)
_REASONS = {_AFFINITY: REASON_AFFINITY, _ANTI_AFFINITY: REASON_ANTI_AFFINITY, _EXISTING: REASON_EXISTING}
_CODES = np.array([Code.FITS, Code.UNRESOLVABLE, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE], dtype=np.int8)

_MARKED = frozenset({Event.NODE_LABELS, Event.POD_ASSIGNED, Event.POD_REMOVED, Event.POD_LABELS})

_FEW = 4  # up to so many counters of one topology key, each maintains its own sums by domain
_MOST_AXES = 8

Counted = tuple[str, RowCounts]
"""Pods by row, and the topology key that says what is near them."""

Opinion = tuple[str, RowCounts, int]
"""The same, and what each of them near is worth."""


@dataclass(frozen=True, slots=True)
class _OfAnyNamespace(PodMatch):
    """Pods of every namespace, known or not.

    kube-scheduler evaluates a namespace selector of the incoming pod like this if it matches a namespace without labels
    (`NotIn`, `DoesNotExist`, or empty).
    """

    def covers(self, namespace: str, namespace_labels: NamespaceLabels) -> bool:
        return True


class InterPodAffinity(FilterPlugin, ScorePlugin):
    name = "InterPodAffinity"
    retry_events = frozenset(
        {
            Event.NODE_ADDED,
            Event.NODE_REMOVED,
            Event.NODE_LABELS,
            Event.POD_ASSIGNED,
            Event.POD_REMOVED,
            Event.POD_LABELS,
            Event.NAMESPACE,
        }
    )

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods")
        weight = args.get("hardPodAffinityWeight")
        self._hard_weight = 1 if weight is None else require_integer(weight, "hardPodAffinityWeight", 0, 100)
        self._ignores_others = _flag(args, "ignorePreferredTermsOfExistingPods")
        self._plan = f"InterPodAffinity {self._hard_weight} {self._ignores_others}"
        self._related_plan, self._layout_plan = f"{self._plan} related", f"{self._plan} on nodes"
        self.dependencies = Dependencies(
            filter_version=self._filter_version,
            score_version=self._score_version,
            affected_rows=self._affected_rows,
            rows_with_pods=self._rows_with_pods,
            score_axes=self._axes,
        )

    def _filter_version(self, query: Query, state: State) -> Hashable:
        """Returns the counters that the verdicts depend on, with their versions; nothing if no term relates to the pod.

        For required affinity it is enough to know which domains have matching pods (`settlement`), not how many.
        Whether the pod may be the first of its group depends on its namespace; the meaning of a domain id depends on
        the vocabulary.
        """
        related = self._related(query, state)
        wanted = related.wanted
        if wanted is None:
            return _versions_of(related, related.rejecting_counts)
        places = []
        for key in related.wanted_keys:
            domains = state.table.domains(key)
            wanted.per_domain(domains.ids, domains.size + 1)  # from now on `settlement` covers these domains
            places.append(domains.vocabulary)
        return (
            _versions_of(related, related.rejecting_counts),
            state.revision("Namespace"),
            wanted.settlement,
            *places,
        )

    def _score_version(self, query: Query, state: State) -> Hashable:
        related = self._related(query, state)
        return _versions_of(related, related.score_counts)

    def _affected_rows(
        self, query: Query, state: State, before: Hashable, now: Hashable, rows: Sequence[int]
    ) -> Sequence[int] | None:
        """Returns `rows` if every domain is a single node, and there is no required affinity; else None."""
        was, related = _related_in(before), _related_in(now)
        if related is None or query.pod.pod_affinity.required or not _only_came(was, related, rows):
            return None
        for key in related.keys:
            domains = state.table.domains(key)
            if not domains.each_alone and not all(domains.alone[domains.ids[row]] for row in rows):
                return None
        return rows

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        pod, table = query.pod, state.table
        if pod.pod_affinity.required or pod.pod_anti_affinity.required:
            return PROCEED
        forbidding = self._related(query, state).forbidden
        return PROCEED if any(bundle.by_domain(query, table)[1].any() for bundle in forbidding) else SKIP

    def _rows_with_pods(self, query: Query, state: State) -> BoolColumn:
        related = self._related(query, state)
        return rows_with(
            related.rejecting_counts + ([] if related.wanted is None else [related.wanted]),
            state.table.capacity,
        )

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        table, related = state.table, self._related(query, state)
        marks = [(_EXISTING, bundle) for bundle in related.forbidden]
        marks += [(_ANTI_AFFINITY, bundle) for bundle in related.avoided]
        refused = [(cause, bundle.near(query, table, rows)) for cause, bundle in marks]
        if related.wanted is not None:
            refused.append((_AFFINITY, _lacking(query.pod, related.wanted, state, rows)))
        return _verdicts(refused, row_count(rows))

    def filter_with_nominated(self, query: Query, state: State, nominated: NominatedRows) -> Verdicts:
        """A row's own nominated pods are near it by every topology key that its node has."""
        table, rows, pod, related = state.table, nominated.rows, query.pod, self._related(query, state)
        refused = [(_EXISTING, bundle.near(query, table, rows)) for bundle in related.forbidden]
        for carried, there in nominated.carrying(pod):
            if carried.role is Role.FORBIDDEN:
                refused.append((_EXISTING, there & _labelled(table, carried.term.topology_key, rows)))
        refused += [(_ANTI_AFFINITY, bundle.near(query, table, rows)) for bundle in related.avoided]
        for term in pod.pod_anti_affinity.required:
            near = nominated.meeting((_match(term),)) > 0
            refused.append((_ANTI_AFFINITY, near & _labelled(table, term.topology_key, rows)))
        if related.wanted is not None:
            near = nominated.meeting(tuple(map(_match, pod.pod_affinity.required))) > 0
            refused.append((_AFFINITY, _lacking(pod, related.wanted, state, rows, near)))
        return _verdicts(refused, len(rows))

    def fits_row(self, query: Query, state: State, row: int) -> bool:
        related = self._related(query, state)
        if related.wanted is not None:
            return super().fits_row(query, state, row)
        return not any(bundle.is_near(query, state.table, row) for bundle in (*related.forbidden, *related.avoided))

    def hint(self, query: Query, state: State, change: Change) -> bool:
        pod, old, new = query.pod, change.old, change.new
        if isinstance(old, Pod) or isinstance(new, Pod):
            before, after = _relation(pod, old, state), _relation(pod, new, state)
            if before == after:
                return False
            near = after.wanted and _is_near_anything(pod, state.table, change.node)
            return near or self._is_rid_of(before, query, state, change.node)
        if isinstance(old, Node) and isinstance(new, Node):
            moved = moved_labels(old, new)
            return change.node in state.nominated or any(key in moved for key in _keys(pod, state, change.node))
        if isinstance(old, Node) or isinstance(new, Node):  # with its pods, which may have come before it
            there = bool(state.table.pods_on(change.node)) or fits_there(self, query, state, change)
            return there or self._is_forbidden(query, state, change.node)
        return _concerned_by_namespace(pod, new or old)

    def _is_forbidden(self, query: Query, state: State, node: str) -> bool:
        """Whether the anti-affinity of placed pods forbids the pod on the node.

        The pod's marks cover such pods only if they were there when the pod was rejected. If they were added later, the
        pod must be tried and rejected again, so that its marks cover them.
        """
        row, forbidden = state.table.row(node), self._related(query, state).forbidden
        return row is not None and any(bundle.is_near(query, state.table, row) for bundle in forbidden)

    def hint_marks(self, query: Query, state: State) -> Marks:
        """Marks of pods that match its affinity or anti-affinity, or whose anti-affinity matches it; topology keys."""
        pod = query.pod
        wanted, avoided = pod.pod_affinity.required, pod.pod_anti_affinity.required
        marks = {*of_labels(pod.labels), (MOVED, "", "")}
        marks.update((MOVED, term.topology_key, "") for term in (*wanted, *avoided))
        carried = (carried for carried in state.table.terms.matching(pod).speakers if carried.role is Role.FORBIDDEN)
        marks.update((MOVED, forbidding.topology_key, "") for forbidding in carried)
        for term in wanted[:1]:  # a pod must match all terms, so the first is enough
            marks.update((*of_term(CAME, term), *of_term(LEFT, term)))
        marks.update(mark for term in avoided for mark in of_term(LEFT, term))
        return Marks(_MARKED, frozenset(marks))

    def admits(self, query: Query, state: State, node: Node) -> bool:
        """A node without the topology keys of the required affinity is near no pod."""
        return all(term.topology_key in node.labels for term in query.pod.pod_affinity.required)

    def node_marks(self, query: Query, state: State) -> frozenset[Mark] | None:
        keys = {term.topology_key: None for term in query.pod.pod_affinity.required}
        return rarest(state.table, ([(LABEL, key, "")] for key in keys))

    def _is_rid_of(self, relation: "_Relation", query: Query, state: State, node: str) -> bool:
        """Whether no other pod with this relation is near the node, so that the removal of one changed the verdict."""
        pod, table, row = query.pod, state.table, state.table.row(node)
        own = zip(pod.pod_anti_affinity.required, relation.avoided, strict=False)
        avoided = [term for term, met in own if met]
        forbids: Collection[PodTerm] = relation.forbids
        if row is not None:  # a term means nothing on a node without its topology key
            avoided = [term for term in avoided if table.has_label(row, term.topology_key)]
            forbids = [term for term in forbids if table.has_label(row, term.topology_key)]
        if avoided or forbids:
            if row is None or may_push_out(pod, state):  # perhaps it can preempt those that are still near
                return True
            keys = {term.topology_key: None for term in (*avoided, *forbids)}
            if any(_is_clear(key, avoided, forbids, state, row) for key in keys):
                return True
        return relation.wanted and self._may_be_first(query, state, node)

    def _may_be_first(self, query: Query, state: State, node: str) -> bool:
        """Whether the pod may have become the first of its group because a matching pod left the node.

        Also True if the check would cost more than a scheduling attempt.
        """
        pod, table, row = query.pod, state.table, state.table.row(node)
        terms = pod.pod_affinity.required
        if not all(table.is_label(term.topology_key) for term in terms) or not _meets_its_own(pod, state):
            return False
        if row is not None:
            matches = [_match(term) for term in terms]
            others = table.pods_on(node).values()
            if not _is_near_anything(pod, table, node) or any(_meets_all(other, matches, state) for other in others):
                return False
        return all(map(_is_about_everywhere, terms)) or _is_first(pod, self._related(query, state).wanted, state)

    def pre_score(self, query: Query, state: State) -> bool:
        query.memo[self._plan] = sums = self._sums(query, state)
        return bool(sums)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        sums = query.memo[self._plan] if self._plan in query.memo else self._sums(query, state)
        scores = np.zeros(row_count(rows), dtype=np.int64)
        for ids, worth in sums.values():
            scores += worth[ids[rows]]
        return scores

    def _axes(self, query: Query, state: State) -> Sequence[Axis] | None:
        related = self._related(query, state)
        return self._layout(related, query, state).axes if related.score_bundles else None

    def normalized_groups(self, query: Query, state: State, groups: EquivalenceGroups) -> list[int]:
        layout: _Layout = query.plan[self._layout_plan]  # the layout that `_axes` returned
        shares: list[list[int]] = []  # by axis and place: the weighted sum of the pods near
        for (bundle, counts), axis, places in zip(layout.of_axis, groups.axes, groups.shape, strict=True):
            if isinstance(axis.of, Domains):
                shares.append(bundle.worth(axis.of.ids, axis.of.size + 1).tolist())
            else:  # the place on this axis is the number of pods
                each = bundle.worth_of(counts)
                shares.append([each * near for near in range(places)])
        scores = groups.sums(shares)
        lowest, highest = min(scores), max(scores)
        if lowest == highest:
            return [0] * len(scores)
        distance = float(highest - lowest)
        return [int(MAX_SCORE * ((score - lowest) / distance)) for score in scores]

    def bounds(self, scores: Int64Column) -> tuple[int, int]:
        return (scores.item(scores.argmin()), scores.item(scores.argmax())) if len(scores) else (0, 0)

    def scale(self, scores: Int64Column, bounds: tuple[int, int]) -> Int64Column:
        lowest, highest = bounds
        if lowest == highest:
            return np.zeros(len(scores), dtype=np.int64)
        return (MAX_SCORE * ((scores - lowest) / (highest - lowest))).astype(np.int64)

    def _sums(self, query: Query, state: State) -> dict[str, tuple[Int64Column, Int64Column]]:
        """Returns, by topology key, the domain of each row and the weighted sum of each domain.

        Keys by which no pod is near any node are left out.
        """
        sums: dict[str, tuple[Int64Column, Int64Column]] = {}
        for bundle in self._related(query, state).score_bundles:
            ids, worth = bundle.by_domain(query, state.table)
            if worth.any() or bundle.cancels_out(ids):
                sums[bundle.key] = ids, worth
        return sums

    def _related(self, query: Query, state: State) -> "_Related":
        """Cached while the same terms select the pod, no namespace changes, and no counter was dropped."""
        related: _Related | None = query.memo.get(self._related_plan)
        if related is None:
            table = state.table
            carried = table.terms.matching(query.pod)
            since = (table, table.keys_version, state.revision("Namespace"))
            related = query.plan.get(self._related_plan)
            if related is None or related.carried is not carried or related.since != since or related.dropped:
                related = query.plan[self._related_plan] = self._find_related(query.pod, carried, table, since)
            query.memo[self._related_plan] = related
        return related

    def _layout(self, related: "_Related", query: Query, state: State) -> "_Layout":
        """Cached while the related are the same, and the nodes' labels are."""
        since = state.table.static_version
        layout: _Layout | None = query.plan.get(self._layout_plan)
        if layout is None or layout.related is not related or layout.since != since:
            layout = query.plan[self._layout_plan] = _Layout(related, since, state.table)
        return layout

    def _find_related(self, pod: Pod, carried: Matched, table: NodeTable, since: tuple[object, ...]) -> "_Related":
        others: _Others | None = carried.derived.get(self._plan)
        if others is None:
            others = carried.derived[self._plan] = _Others(carried, self._worth)
        wanted = _meeting(pod.pod_affinity.required, table) if pod.pod_affinity.required else None
        avoided = [(term.topology_key, _near_something(term, table)) for term in pod.pod_anti_affinity.required]
        keys = {term.topology_key for term in pod.pod_affinity.required}
        has_own = bool(pod.pod_affinity.preferred or pod.pod_anti_affinity.preferred)
        own = _preferences(pod, table) if has_own else []
        others_count = has_own or not self._ignores_others
        return _Related(since, carried, others, others_count, own, avoided, wanted, keys)

    def _worth(self, carried: Speaker) -> int:
        """Returns the score for one pod near that carries the term, or for each count of a total."""
        match carried.role:
            case Role.PREFERRED:
                return carried.weight
            case Role.AVOIDED:
                return -carried.weight
            case Role.REQUIRED:
                return self._hard_weight
            case _:
                return 0


class _Bundle:
    """Counters of pods for terms with one topology key, each with a weight per pod."""

    __slots__ = ("counters", "key", "weights")

    def __init__(self, key: str) -> None:
        self.key = key
        self.counters: list[RowCounts] = []
        self.weights: list[int] = []

    @classmethod
    def by_key(cls, score_bundles: Iterable[Opinion]) -> "list[_Bundle]":
        bundles: dict[str, _Bundle] = {}
        for key, counts, weight in score_bundles:
            bundle = bundles.get(key)
            if bundle is None:
                bundle = bundles[key] = cls(key)
            bundle.counters.append(counts)
            bundle.weights.append(weight)
        return list(bundles.values())

    def worth_of(self, counts: RowCounts) -> int:
        """Returns the weight per pod of this counter."""
        return sum(weight for other, weight in zip(self.counters, self.weights, strict=True) if other is counts)

    def by_domain(self, query: Query, table: NodeTable) -> tuple[Int64Column, Int64Column]:
        """Returns the domain of each row, and the weighted sum of each domain; the last entry (no domain) is 0."""
        if len(self.counters) <= _FEW:
            ids, vocabulary = table.label(self.key)
            return ids, self.worth(ids, len(vocabulary.ids) + 1)
        memo = f"InterPodAffinity sums {id(self)}"
        found: tuple[Int64Column, Int64Column] | None = query.memo.get(memo)
        if found is None:
            ids, vocabulary = table.label(self.key)
            found = query.memo[memo] = ids, self._summed(ids, len(vocabulary.ids) + 1)
        return found

    def worth(self, ids: Int64Column, size: int) -> Int64Column:
        """Returns int64[size]: the weighted sum of the pods in each domain."""
        if len(self.counters) == 1:
            counted = self.counters[0].per_domain(ids, size)
            return counted if self.weights[0] == 1 else self.weights[0] * counted
        if len(self.counters) <= _FEW:
            total = np.zeros(size, dtype=np.int64)
            for counts, weight in zip(self.counters, self.weights, strict=True):
                total += weight * counts.per_domain(ids, size)
            return total
        return self._summed(ids, size)

    def _summed(self, ids: Int64Column, size: int) -> Int64Column:
        """The same in one numpy call. Counters do not maintain sums by domain then: a pod may have many terms."""
        column = np.zeros(len(ids), dtype=np.int64)
        for counts, weight in zip(self.counters, self.weights, strict=True):
            counts.add_to(column, weight)
        sums = np.zeros(size + 1, dtype=np.int64)
        np.add.at(sums, ids, column)
        return sums[:size]

    def cancels_out(self, ids: Int64Column) -> bool:
        """Whether there are pods near some node although all weighted sums are 0."""
        counted = (counts.counted()[0] for counts in self.counters)
        return any((ids[rows[rows < len(ids)]] >= 0).any() for rows in counted)

    def near(self, query: Query, table: NodeTable, rows: Rows) -> BoolColumn:
        """Returns bool[rows]: where one of the pods is near; all weights must be above 0."""
        ids, sums = self.by_domain(query, table)
        return np.asarray((sums > 0)[ids[rows]])

    def is_near(self, query: Query, table: NodeTable, row: int) -> bool:
        """Whether one of the pods is near the row."""
        domains = table.domains(self.key)
        domain = domains.ids.item(row)
        if domain < 0:
            return False
        if len(self.counters) <= _FEW or domains.each_alone:
            for counts in self.counters:  # noqa: SIM110 - runs for every changed node; a generator takes twice as long
                if _pods_near((self.key, counts), table, row):
                    return True
            return False
        memo = f"InterPodAffinity near {id(self)}"  # by domain id
        sums: Int64Column | None = query.memo.get(memo)
        if sums is None:
            sums = query.memo[memo] = self._summed(domains.ids, domains.size + 1)
        return sums.item(domain) > 0


class _Others:
    """The terms of placed pods that select a pod, prepared once for all pods that the same terms select."""

    __slots__ = ("forbidden", "keys", "preferences", "rejecting_counts", "score_bundles", "score_counts")

    def __init__(self, carried: Matched, worth: Callable[[Speaker], int]) -> None:
        forbidding = [term for term in carried.speakers if term.role is Role.FORBIDDEN]
        self.forbidden = _Bundle.by_key((term.topology_key, term.rows, 1) for term in forbidding)
        self.rejecting_counts = [term.rows for term in forbidding]
        self.keys = {bundle.key for bundle in self.forbidden}
        others = ((term, worth(term)) for term in carried.speakers if term.role is not Role.FORBIDDEN)
        self.preferences = [(term.topology_key, term.rows, weight) for term, weight in others if weight]
        self.score_bundles = _Bundle.by_key(self.preferences)
        self.score_counts = [counts for _, counts, _ in self.preferences]


class _Related:
    """The counters of all placed pods that relate to the pod by an affinity term. Counters are compared by identity.

    carried       terms of placed pods that select the pod
    forbidden     pods whose required anti-affinity selects the pod
    avoided       pods that the pod's required anti-affinity selects (`each_avoided`: by term)
    wanted        pods that match all terms of its required affinity (None: it has none), with keys `wanted_keys`
    score_bundles      pods that count for the score, by the counters of `score_counts`
    rejecting_counts       `forbidden` and `avoided`, with topology keys `keys`
    """

    __slots__ = (
        "avoided",
        "carried",
        "counters",
        "each_avoided",
        "forbidden",
        "keys",
        "rejecting_counts",
        "score_bundles",
        "score_counts",
        "since",
        "wanted",
        "wanted_keys",
    )

    def __init__(
        self,
        since: tuple[object, ...],
        carried: Matched,
        others: _Others,
        others_count: bool,
        preferences: list[Opinion],
        avoided: list[Counted],
        wanted: RowCounts | None,
        wanted_keys: set[str],
    ) -> None:
        """`others_count`: terms of existing pods count for the score, besides the pod's own `preferences`."""
        self.since, self.carried = since, carried
        self.wanted, self.wanted_keys, self.each_avoided = wanted, wanted_keys, avoided
        self.forbidden = others.forbidden
        self.avoided = _Bundle.by_key((key, counts, 1) for key, counts in avoided)
        self.keys = {*others.keys, *(key for key, _ in avoided)}
        self.rejecting_counts = others.rejecting_counts + [counts for _, counts in avoided]
        said = others.preferences if others_count else []
        self.score_bundles = (
            _Bundle.by_key(preferences + said) if preferences or not others_count else others.score_bundles
        )
        self.score_counts = [counts for _, counts, _ in preferences] + (others.score_counts if others_count else [])
        self.counters = self.rejecting_counts + self.score_counts + ([] if wanted is None else [wanted])

    @property
    def dropped(self) -> bool:
        """Whether one of the counters was evicted and is no longer updated."""
        for counts in self.counters:  # noqa: SIM110 - runs for every pod; a generator takes three times as long
            if counts.dropped:
                return True
        return False


class _Layout:
    """The axes for scores by groups (answer_cache/equivalence.py); None if a node lacks a label, or for too many axes.

    An axis is the domain of a topology key; or, if every node is a domain of its own, a count of the pods on the node.
    `of_axis` has the bundle of each axis and, for an axis of counts, its counter.
    """

    __slots__ = ("axes", "of_axis", "related", "since")

    def __init__(self, related: _Related, since: int, table: NodeTable) -> None:
        self.related, self.since = related, since
        self.axes: list[Axis] | None = None
        self.of_axis: list[tuple[_Bundle, RowCounts]] = []
        axes: list[Axis] = []
        for bundle in related.score_bundles:
            domains = table.domains(bundle.key)
            if domains.nodes < len(table):
                return
            each = list(dict.fromkeys(bundle.counters)) if domains.each_alone else bundle.counters[:1]
            if len(axes) + len(each) > _MOST_AXES:
                return
            axes += [Axis(counts if domains.each_alone else domains) for counts in each]
            self.of_axis += [(bundle, counts) for counts in each]
        self.axes = axes


def _versions_of(related: _Related, counters: Sequence[RowCounts]) -> Hashable:
    return (related, *(counts.version for counts in counters)) if counters else NOTHING_ELSE


def _related_in(basis: Hashable) -> _Related | None:
    return next((part for part in basis if isinstance(part, _Related)), None) if isinstance(basis, tuple) else None


def _only_came(was: _Related | None, related: _Related, rows: Sequence[int]) -> bool:
    """Whether all counters rejecting_counts before still are, and new ones have all their pods on these rows."""
    if was is related:
        return True
    before = {id(counts) for counts in was.rejecting_counts} if was is not None else set()
    if not before <= {id(counts) for counts in related.rejecting_counts}:
        return False
    new = [counts for counts in related.rejecting_counts if id(counts) not in before]
    return all(set(counts.counted()[0].tolist()) <= set(rows) for counts in new)


def _lacking(pod: Pod, wanted: RowCounts, state: State, rows: Rows, nominated: BoolColumn | None = None) -> BoolColumn:
    """Returns bool[rows]: where required affinity is not satisfied. `nominated`: rows with a matching nominated pod.

    Such a pod is near its row by all labels of the node. So the node only needs all topology keys, whether or not the
    pod would be the first of its group otherwise.
    """
    table, terms = state.table, pod.pod_affinity.required
    domains = [_by_domain(table, key, wanted) for key in {term.topology_key for term in terms}]
    unlabelled = [ids[rows] < 0 for ids, _ in domains]
    if _is_first(pod, wanted, state):
        lacking = unlabelled
    else:
        lacking = [(sums == 0)[ids[rows]] for ids, sums in domains]
        if nominated is not None:
            lacking = [np.where(nominated, none, far) for none, far in zip(unlabelled, lacking, strict=True)]
    return lacking[0] if len(lacking) == 1 else np.any(lacking, axis=0)


def _is_first(pod: Pod, wanted: RowCounts | None, state: State) -> bool:
    """Whether the pod is the first of its group: it matches its own terms, and no matching pod is near any node."""
    if wanted is None:
        return False
    keys = {term.topology_key for term in pod.pod_affinity.required}
    near = any(_by_domain(state.table, key, wanted)[1].any() for key in keys)
    return not near and _meets_its_own(pod, state)


def _meets_its_own(pod: Pod, state: State) -> bool:
    return _meets_all(pod, [_match(term) for term in pod.pod_affinity.required], state)


class _Relation(NamedTuple):
    """How a placed pod relates to an unschedulable one: terms of the latter that it matches, and its own that forbid
    it there.
    """

    avoided: tuple[bool, ...] = ()
    wanted: bool = False
    forbids: frozenset[PodTerm] = frozenset()


def _relation(pod: Pod, other: object, state: State) -> _Relation:
    if not isinstance(other, Pod):
        return _Relation()
    wanted = pod.pod_affinity.required
    return _Relation(
        tuple(_meets(other, _match(term), state) for term in pod.pod_anti_affinity.required),
        bool(wanted) and all(_meets(other, _match(term), state) for term in wanted),
        frozenset(filter(_selects(pod, state), other.pod_anti_affinity.required)),
    )


def _is_near_anything(pod: Pod, table: NodeTable, node: str) -> bool:
    """Whether a matching pod on that node is in a domain of at least one topology key of the required affinity."""
    row = table.row(node)
    return row is not None and any(table.has_label(row, term.topology_key) for term in pod.pod_affinity.required)


def _is_far(term: PodTerm, table: NodeTable, row: int, state: State) -> bool:
    """Whether no pod that the term selects is near the row. Also True if the check would cost more than an attempt."""
    match = _match(term)
    if any(_meets(other, match, state) for other in table.pods_on(table.name(row)).values()):
        return False
    domains = table.domains(term.topology_key)
    if domains.alone[domains.ids[row]] or _is_about_everywhere(term):
        return True
    return not _pods_near((term.topology_key, _near_something(term, table)), table, row)


def _is_about_everywhere(term: PodTerm) -> bool:
    """Whether the term names neither a label value nor a namespace by which its pods can be found."""
    return term.namespace_selector is not None and term.selector is not None and narrowest((term.selector,)) is None


def _is_clear(key: str, avoided: Iterable[PodTerm], forbids: Iterable[PodTerm], state: State, row: int) -> bool:
    """Whether no pod near the row by this key matches any of the anti-affinity terms.

    If a pod matches one term, it does not help that none matches another term of the same key.
    """
    table = state.table
    if not all(_is_far(term, table, row, state) for term in avoided if term.topology_key == key):
        return False
    carried = (table.terms.find(Role.FORBIDDEN, term) for term in forbids if term.topology_key == key)
    return not any(each is not None and _pods_near((key, each.rows), table, row) for each in carried)


def _meets(pod: Pod, match: PodMatch, state: State) -> bool:
    return (
        match.selector is not None
        and match.selector.matches(pod.labels)
        and match.covers(pod.namespace, state.namespace_labels)
    )


def _meets_all(pod: Pod, matches: Sequence[PodMatch], state: State) -> bool:
    return all(_meets(pod, match, state) for match in matches)


def _selects(pod: Pod, state: State) -> Callable[[PodTerm], bool]:
    """Returns a function: whether a term of another pod selects the pod. An unknown namespace has no labels."""
    labels = state.namespace_labels(pod.namespace) or {}
    return lambda term: (
        term.selector is not None
        and term.selector.matches(pod.labels)
        and (
            pod.namespace in term.namespaces
            or (term.namespace_selector is not None and term.namespace_selector.matches(labels))
        )
    )


def _keys(pod: Pod, state: State, node: str) -> Iterator[str]:
    """Yields the topology keys that verdicts on the pod depend on, those that the node may just have lost included."""
    yield from (term.topology_key for term in (*pod.pod_affinity.required, *pod.pod_anti_affinity.required))
    for carried in state.table.terms.matching(pod).speakers:
        if carried.role is Role.FORBIDDEN:
            yield carried.topology_key
    for other in state.table.pods_on(node).values():
        yield from (term.topology_key for term in other.pod_anti_affinity.required)


def _concerned_by_namespace(pod: Pod, namespace: object) -> bool:
    """Whether the labels of a namespace may change which pods the pod's terms select, or which terms select the pod."""
    own = (*pod.pod_affinity.required, *pod.pod_anti_affinity.required)
    return getattr(namespace, "name", pod.namespace) == pod.namespace or any(
        term.namespace_selector is not None for term in own
    )


def _labelled(table: NodeTable, key: str, rows: Rows) -> BoolColumn:
    """Returns bool[rows]: the nodes that have the label."""
    return np.asarray(table.label(key)[0][rows] >= 0)


def _verdicts(refused: Sequence[tuple[int, BoolColumn]], rows: int) -> Verdicts:
    """Returns verdicts from (cause, rejected rows); if several causes reject a node, the last one counts."""
    codes = np.zeros(rows, dtype=np.int8)
    for cause, column in refused:
        codes[column] = _CODES[cause]

    def causes() -> Int64Column:
        found = np.zeros(len(codes), dtype=np.int64)
        for cause, column in refused:
            found[column] = cause
        return found

    return Verdicts(codes, causes, lambda cause: (_REASONS[cause],))


def _pods_near(pods: Counted, table: NodeTable, row: int) -> int:
    """Returns how many of the pods are near a row."""
    key, counts = pods
    domains = table.domains(key)
    domain = domains.ids.item(row)
    if domain < 0:
        return 0
    if domains.each_alone:
        return counts.at(row)
    return counts.per_domain(domains.ids, domains.size + 1).item(domain)


def _by_domain(table: NodeTable, key: str, counts: RowCounts) -> tuple[Int64Column, Int64Column]:
    """Returns the domain of each row, and the number of pods in each domain; the last entry (no domain) is 0."""
    ids, vocabulary = table.label(key)
    return ids, counts.per_domain(ids, len(vocabulary.ids) + 1)


def _meeting(terms: tuple[PodTerm, ...], table: NodeTable) -> RowCounts:
    return table.counts.of(tuple(map(_match, terms)))


def _preferences(pod: Pod, table: NodeTable) -> list[Opinion]:
    """Returns the pod's own preferred terms; without those whose topology key no node has."""
    mine = ((pod.pod_affinity.preferred, 1), (pod.pod_anti_affinity.preferred, -1))
    return [
        (weighted.term.topology_key, _meeting((weighted.term,), table), sign * weighted.weight)
        for preferred, sign in mine
        for weighted in preferred
        if table.is_label(weighted.term.topology_key)
    ]


def _near_something(term: PodTerm, table: NodeTable) -> RowCounts:
    """Returns the counts of the pods that the term selects; empty if no node has its topology key."""
    return _meeting((term,), table) if table.is_label(term.topology_key) else RowCounts(table)


def _match(term: PodTerm) -> PodMatch:
    """Returns the pods that a term of the incoming pod selects."""
    namespaces = term.namespace_selector
    if namespaces is not None and namespaces.matches({}):
        return _OfAnyNamespace(term.selector, term.namespaces, namespaces)
    return PodMatch(term.selector, term.namespaces, namespaces)


def _flag(args: Mapping[str, Any], field: str) -> bool:
    value = args.get(field)
    if value is not None and not isinstance(value, bool):
        raise BadArgument(field, "must be true or false")
    return bool(value)
