"""InterPodAffinity: pods that want to be near other pods, or away from them, and pods that others want near or away.

Near is where a node label, the term's topology key, has the same value. A node without that label is near nothing.

filter, in this order:
 1. required affinity: near pods that meet all the terms at once, by the key of every term. Where no such pod is near
    anything, a pod that meets its own terms is the first of its group, and needs only the labels.
 2. required anti-affinity: not near a pod that meets any of the terms.
 3. required anti-affinity of the pods in place: not near one that has a term which this pod meets.
score: the weights of all preferred terms met, the pod's own and those of the pods in place, once for each pod near;
anti-affinity counts against; required affinity of pods in place counts with `hardPodAffinityWeight`. The lowest
becomes 0 and the highest 100.

Pods that meet a term are counters of the table, and summed by domain there: a verdict is one look-up a row.

Arguments: hardPodAffinityWeight (0..100, 1 by default), ignorePreferredTermsOfExistingPods (true: pods in place have no
say in the score of a pod that prefers nothing itself).
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from berth.engine.allocation import require_integer
from berth.engine.counts import NamespaceLabels, PodMatch, RowCounts, rows_with
from berth.engine.events import Event
from berth.engine.plugin import MAX_SCORE, BadArgument, Plugin, Query, refuse_unknown
from berth.engine.state import State
from berth.engine.table import NodeTable
from berth.engine.terms import Role
from berth.engine.verdict import PROCEED, SKIP, BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts, row_count
from berth.model import Pod, PodAffinity, PodTerm

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_FITS, _AFFINITY, _ANTI_AFFINITY, _EXISTING = range(4)
_REASONS = {_AFFINITY: REASON_AFFINITY, _ANTI_AFFINITY: REASON_ANTI_AFFINITY, _EXISTING: REASON_EXISTING}
_CODES = np.array([Code.FITS, Code.UNRESOLVABLE, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE], dtype=np.int8)
_NO_TERMS = PodAffinity()

Counted = tuple[str, RowCounts]
"""Pods by row, and the topology key that says what is near them."""


@dataclass(frozen=True, slots=True)
class _OfAnyNamespace(PodMatch):
    """Pods of every namespace, known or not.

    So kube-scheduler takes a namespace selector that a namespace without labels would match (`NotIn`, `DoesNotExist`,
    or empty), where it is the pod to place that has it.
    """

    def covers(self, namespace: str, namespace_labels: NamespaceLabels) -> bool:
        return True


class InterPodAffinity(Plugin):
    name = "InterPodAffinity"
    filters = True
    scores = True
    node_local = False
    reads_pods = True
    wakes_on = frozenset(
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

    def basis(self, query: Query, state: State) -> Hashable:
        """The counters that the answers come from, as they stand; none where nobody has anything to do with the pod."""
        pod, table = query.pod, state.table
        if not table.terms and pod.pod_affinity == pod.pod_anti_affinity == _NO_TERMS:
            return ()
        counters = [counts for _, counts in (*_forbidden(pod, table), *_avoided(pod, table))]
        counters += [counts for _, counts, _ in self._opinions(pod, table)]
        if pod.pod_affinity.required:
            counters.append(_wanted(pod, table))
        return tuple((counts, counts.version) for counts in counters)

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        pod, table = query.pod, state.table
        if pod.pod_affinity.required or pod.pod_anti_affinity.required:
            return PROCEED
        forbidding = any(_by_domain(table, *counted)[1].any() for counted in _forbidden(pod, table))
        return PROCEED if forbidding else SKIP

    def watched(self, query: Query, state: State) -> BoolColumn:
        pod, table = query.pod, state.table
        counters = [counts for _, counts in (*_forbidden(pod, table), *_avoided(pod, table))]
        if pod.pod_affinity.required:
            counters.append(_wanted(pod, table))
        return rows_with(counters, table.capacity)

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        pod, table = query.pod, state.table
        causes = np.zeros(row_count(rows), dtype=np.int64)
        _mark_near(causes, _EXISTING, _forbidden(pod, table), table, rows)
        _mark_near(causes, _ANTI_AFFINITY, _avoided(pod, table), table, rows)
        if pod.pod_affinity.required:
            causes[_lacking(pod, state, rows)] = _AFFINITY
        return Verdicts(_CODES[causes], causes, lambda cause: (_REASONS[cause],))

    def pre_score(self, query: Query, state: State) -> bool:
        query.memo[self.name] = sums = self._sums(query.pod, state.table)
        return bool(sums)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        table = state.table
        sums = query.memo[self.name] if self.name in query.memo else self._sums(query.pod, table)
        scores = np.zeros(row_count(rows), dtype=np.int64)
        for key, by_domain in sums.items():
            scores += by_domain[table.label(key)[0][rows]]
        return scores

    def normalize(self, scores: Int64Column) -> Int64Column:
        if not len(scores):
            return scores
        lowest, highest = int(scores.min()), int(scores.max())
        if lowest == highest:
            return np.zeros_like(scores)
        return (MAX_SCORE * ((scores - lowest) / (highest - lowest))).astype(np.int64)

    def _sums(self, pod: Pod, table: NodeTable) -> dict[str, Int64Column]:
        """What each domain of each topology key is worth; a key by which nothing is near anything is left out."""
        sums: dict[str, Int64Column] = {}
        for key, counts, weight in self._opinions(pod, table):
            _, pods = _by_domain(table, key, counts)
            if pods.any():
                sums[key] = sums[key] + weight * pods if key in sums else weight * pods
        return sums

    def _opinions(self, pod: Pod, table: NodeTable) -> Iterator[tuple[str, RowCounts, int]]:
        """Topology key, pods and weight of everything that has a say in the score."""
        mine = ((pod.pod_affinity.preferred, 1), (pod.pod_anti_affinity.preferred, -1))
        if self._ignores_others and not any(terms for terms, _ in mine):
            return
        for preferred, sign in mine:
            for weighted in preferred:
                yield weighted.term.topology_key, _meeting((weighted.term,), table), sign * weighted.weight
        for role, sign in ((Role.PREFERRED, 1), (Role.AVOIDED, -1)):
            for carried in table.terms.matching(role, pod):
                yield carried.term.topology_key, carried.rows, sign * carried.weight
        if self._hard_weight:
            for carried in table.terms.matching(Role.REQUIRED, pod):
                yield carried.term.topology_key, carried.rows, self._hard_weight


def _forbidden(pod: Pod, table: NodeTable) -> list[Counted]:
    """The pods in place that want to be away from this one."""
    return [(carried.term.topology_key, carried.rows) for carried in table.terms.matching(Role.FORBIDDEN, pod)]


def _avoided(pod: Pod, table: NodeTable) -> list[Counted]:
    """The pods in place that this one must be away from."""
    return [(term.topology_key, _meeting((term,), table)) for term in pod.pod_anti_affinity.required]


def _wanted(pod: Pod, table: NodeTable) -> RowCounts:
    """The pods in place that meet all the terms of the required affinity."""
    return _meeting(pod.pod_affinity.required, table)


def _lacking(pod: Pod, state: State, rows: Rows) -> BoolColumn:
    """bool[rows]: where the pods that it wants near are not."""
    table, terms = state.table, pod.pod_affinity.required
    wanted = _wanted(pod, table)
    domains = [_by_domain(table, key, wanted) for key in {term.topology_key for term in terms}]
    if not any(sums.any() for _, sums in domains) and _meets_its_own(pod, state):
        lacking = [ids[rows] < 0 for ids, _ in domains]
    else:
        lacking = [sums[ids[rows]] == 0 for ids, sums in domains]
    return lacking[0] if len(lacking) == 1 else np.any(lacking, axis=0)


def _meets_its_own(pod: Pod, state: State) -> bool:
    return all(
        match.selector is not None
        and match.selector.matches(pod.labels)
        and match.covers(pod.namespace, state.namespace_labels)
        for match in map(_match, pod.pod_affinity.required)
    )


def _mark_near(causes: Int64Column, cause: int, pods: Iterable[Counted], table: NodeTable, rows: Rows) -> None:
    for key, counts in pods:
        ids, sums = _by_domain(table, key, counts)
        causes[sums[ids[rows]] > 0] = cause


def _by_domain(table: NodeTable, key: str, counts: RowCounts) -> tuple[Int64Column, Int64Column]:
    """The domain of each row, and how many of the pods are in each domain; the last is that of no domain, and 0."""
    ids, vocabulary = table.label(key)
    return ids, counts.per_domain(ids, len(vocabulary.ids) + 1)


def _meeting(terms: tuple[PodTerm, ...], table: NodeTable) -> RowCounts:
    return table.counts.of(tuple(map(_match, terms)))


def _match(term: PodTerm) -> PodMatch:
    """The pods that a pod to place means by the term."""
    namespaces = term.namespace_selector
    if namespaces is not None and namespaces.matches({}):
        return _OfAnyNamespace(term.selector, term.namespaces, namespaces)
    return PodMatch(term.selector, term.namespaces, namespaces)


def _flag(args: Mapping[str, Any], field: str) -> bool:
    value = args.get(field)
    if value is not None and not isinstance(value, bool):
        raise BadArgument(field, "must be true or false")
    return bool(value)
