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

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from berth.engine.allocation import require_integer
from berth.engine.counts import NamespaceLabels, PodMatch, RowCounts, rows_with
from berth.engine.domains import Domains
from berth.engine.events import Change, Event
from berth.engine.groups import Axis, Groups
from berth.engine.hints import fits_there, may_push_out
from berth.engine.nominated import Nominated
from berth.engine.plugin import MAX_SCORE, NOTHING_ELSE, BadArgument, Plugin, Query, refuse_unknown
from berth.engine.state import State
from berth.engine.table import NodeTable
from berth.engine.terms import CarriedTerm
from berth.engine.verdict import PROCEED, SKIP, BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts, row_count
from berth.model import Node, Pod, PodTerm, Role

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_FITS, _AFFINITY, _ANTI_AFFINITY, _EXISTING = range(4)
_REASONS = {_AFFINITY: REASON_AFFINITY, _ANTI_AFFINITY: REASON_ANTI_AFFINITY, _EXISTING: REASON_EXISTING}
_CODES = np.array([Code.FITS, Code.UNRESOLVABLE, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE], dtype=np.int8)

Counted = tuple[str, RowCounts]
"""Pods by row, and the topology key that says what is near them."""

Opinion = tuple[str, RowCounts, int]
"""The same, and what each of them near is worth."""


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
        self._plan = f"InterPodAffinity {self._hard_weight} {self._ignores_others}"
        self._parties_plan, self._layout_plan = f"{self._plan} parties", f"{self._plan} on nodes"

    def basis(self, query: Query, state: State) -> Hashable:
        return self.filter_basis(query, state), self.score_basis(query, state)

    def filter_basis(self, query: Query, state: State) -> Hashable:
        """The counters that the verdicts come from, as they stand; none where nobody has to do with the pod.

        Of the wanted pods it is enough in which domains they are. Whether the pod may be the first of its group hangs
        on its namespace, and what a domain's number means on the vocabulary.
        """
        parties = self._parties(query, state)
        wanted = parties.wanted
        if wanted is None:
            return _as_they_stand(parties, parties.shunned)
        places = []
        for key in parties.wanted_keys:
            domains = state.table.domains(key)
            wanted.per_domain(domains.ids, domains.size + 1)  # so that it follows them
            places.append(domains.vocabulary)
        return _as_they_stand(parties, parties.shunned), state.revision("Namespace"), wanted.settlement, *places

    def score_basis(self, query: Query, state: State) -> Hashable:
        parties = self._parties(query, state)
        return _as_they_stand(parties, [counts for _, counts, _ in parties.opinions])

    def reach(
        self, query: Query, state: State, before: Hashable, now: Hashable, rows: Sequence[int]
    ) -> Sequence[int] | None:
        """The rows themselves, where nobody means more than a node by near, and nobody is wanted near."""
        was, parties = _parties_in(before), _parties_in(now)
        if parties is None or query.pod.pod_affinity.required or not _only_came(was, parties, rows):
            return None
        for key in parties.keys:
            domains = state.table.domains(key)
            if not domains.each_alone and not all(domains.alone[domains.ids[row]] for row in rows):
                return None
        return rows

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        pod, table = query.pod, state.table
        if pod.pod_affinity.required or pod.pod_anti_affinity.required:
            return PROCEED
        forbidding = self._parties(query, state).forbidden
        return PROCEED if any(_by_domain(table, *pods)[1].any() for pods in forbidding) else SKIP

    def watched(self, query: Query, state: State) -> BoolColumn:
        parties = self._parties(query, state)
        return rows_with(parties.shunned + ([] if parties.wanted is None else [parties.wanted]), state.table.capacity)

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        table, parties = state.table, self._parties(query, state)
        marks = [(_EXISTING, pods) for pods in parties.forbidden] + [(_ANTI_AFFINITY, pods) for pods in parties.avoided]
        refused = [(cause, _near(pods, table, rows)) for cause, pods in marks]
        if parties.wanted is not None:
            refused.append((_AFFINITY, _lacking(query.pod, parties.wanted, state, rows)))
        return _verdicts(refused, row_count(rows))

    def filter_with_nominated(self, query: Query, state: State, nominated: Nominated) -> Verdicts:
        """A row's own nominated pods are near it by every label that its node has."""
        table, rows, pod, parties = state.table, nominated.rows, query.pod, self._parties(query, state)
        refused = [(_EXISTING, _near(pods, table, rows)) for pods in parties.forbidden]
        for carried, there in nominated.carrying(pod):
            if carried.role is Role.FORBIDDEN:
                refused.append((_EXISTING, there & _labelled(table, carried.term.topology_key, rows)))
        refused += [(_ANTI_AFFINITY, _near(pods, table, rows)) for pods in parties.avoided]
        for term in pod.pod_anti_affinity.required:
            near = nominated.meeting((_match(term),)) > 0
            refused.append((_ANTI_AFFINITY, near & _labelled(table, term.topology_key, rows)))
        if parties.wanted is not None:
            near = nominated.meeting(tuple(map(_match, pod.pod_affinity.required))) > 0
            refused.append((_AFFINITY, _lacking(pod, parties.wanted, state, rows, near)))
        return _verdicts(refused, len(rows))

    def fits_row(self, query: Query, state: State, row: int) -> bool:
        parties = self._parties(query, state)
        if parties.wanted is not None:
            return super().fits_row(query, state, row)
        return not any(_pods_near(pods, state.table, row) for pods in (*parties.forbidden, *parties.avoided))

    def hint(self, query: Query, state: State, change: Change) -> bool:
        pod, old, new = query.pod, change.old, change.new
        if isinstance(old, Pod) or isinstance(new, Pod):
            before, after = _relation(pod, old, state), _relation(pod, new, state)
            return before != after and (after.wanted or self._is_rid_of(before, query, state, change.node))
        if isinstance(old, Node) and isinstance(new, Node):
            moved = any(old.labels.get(key) != new.labels.get(key) for key in _keys(pod, state))
            return moved or change.node in state.nominated
        if isinstance(old, Node) or isinstance(new, Node):  # with its pods, which may have come before it
            return bool(state.table.pods_on(change.node)) or fits_there(self, query, state, change)
        return _concerned_by_namespace(pod, new or old)

    def _is_rid_of(self, relation: "_Relation", query: Query, state: State, node: str) -> bool:
        """Whether no other pod of this relation to the pod is near the node, so that one less makes a difference."""
        table, row, parties = state.table, state.table.row(node), self._parties(query, state)
        shunned = [pods for pods, met in zip(parties.avoided, relation.avoided, strict=False) if met]
        carried = (term for term in table.terms.matching(query.pod) if term.term in relation.forbids)
        shunned += [(term.term.topology_key, term.rows) for term in carried if term.role is Role.FORBIDDEN]
        ended = len(shunned) < sum(relation.avoided) + len(relation.forbids)
        if ended or any(row is None or not _pods_near(pods, table, row) for pods in shunned):
            return True
        if shunned and may_push_out(query.pod, state):  # perhaps those who are left near
            return True
        return relation.wanted and _is_first(query.pod, parties.wanted, state)

    def pre_score(self, query: Query, state: State) -> bool:
        query.memo[self._plan] = sums = self._sums(query, state)
        return bool(sums)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        sums = query.memo[self._plan] if self._plan in query.memo else self._sums(query, state)
        scores = np.zeros(row_count(rows), dtype=np.int64)
        for ids, worth in sums.values():
            scores += worth[ids[rows]]
        return scores

    def axes(self, query: Query, state: State) -> Sequence[Axis] | None:
        parties = self._parties(query, state)
        return self._layout(parties, query, state).axes if parties.opinions else None

    def normalized_groups(self, query: Query, state: State, groups: Groups) -> list[int]:
        shares: dict[int, list[int]] = {}  # by axis, in their order: what near pods are worth in each place there
        layout: _Layout = query.plan[self._layout_plan]  # whose axes these are
        for (_, counts, weight), axis in zip(layout.parties.opinions, layout.axis_of, strict=True):
            of, others = groups.axes[axis].of, shares.get(axis)
            if isinstance(of, Domains):
                worth = [weight * near for near in counts.per_domain(of.ids, of.size + 1).tolist()]
            else:  # the places are the pods themselves
                worth = [weight * near for near in range(groups.shape[axis])]
            shares[axis] = worth if others is None else [one + other for one, other in zip(worth, others, strict=True)]
        scores = groups.sums(list(shares.values()))
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
        """The domain of each row by each topology key, and what each domain is worth; a key by which nothing is near
        anything is left out.
        """
        sums: dict[str, tuple[Int64Column, Int64Column]] = {}
        for key, counts, weight in self._parties(query, state).opinions:
            if key in sums:  # by the same ids: with very many keys, the table may have numbered the domains anew
                ids, worth = sums[key]
                sums[key] = ids, worth + weight * counts.per_domain(ids, len(worth))
                continue
            ids, pods = _by_domain(state.table, key, counts)
            if pods.any():
                sums[key] = ids, weight * pods
        return sums

    def _parties(self, query: Query, state: State) -> "_Parties":
        """Kept for as long as no other term is carried, no namespace changes and the counters are moved."""
        parties: _Parties | None = query.memo.get(self._parties_plan)
        if parties is None:
            table = state.table
            since = (table, table.terms.version, state.revision("Namespace"))
            parties = query.plan.get(self._parties_plan)
            if parties is None or parties.since != since or parties.dropped:
                parties = query.plan[self._parties_plan] = self._find_parties(query.pod, table, since)
            query.memo[self._parties_plan] = parties
        return parties

    def _layout(self, parties: "_Parties", query: Query, state: State) -> "_Layout":
        """Kept for as long as the parties are, and nodes stay as they are."""
        since = state.table.static_version
        layout: _Layout | None = query.plan.get(self._layout_plan)
        if layout is None or layout.parties is not parties or layout.since != since:
            layout = query.plan[self._layout_plan] = _Layout(parties, since, state.table)
        return layout

    def _find_parties(self, pod: Pod, table: NodeTable, since: tuple[object, ...]) -> "_Parties":
        carried = table.terms.matching(pod)
        return _Parties(
            since=since,
            forbidden=[(term.term.topology_key, term.rows) for term in carried if term.role is Role.FORBIDDEN],
            avoided=[(term.topology_key, _meeting((term,), table)) for term in pod.pod_anti_affinity.required],
            wanted=_meeting(pod.pod_affinity.required, table) if pod.pod_affinity.required else None,
            wanted_keys={term.topology_key for term in pod.pod_affinity.required},
            opinions=list(self._opinions(pod, carried, table)),
        )

    def _opinions(self, pod: Pod, carried: Sequence[CarriedTerm], table: NodeTable) -> Iterator[Opinion]:
        mine = ((pod.pod_affinity.preferred, 1), (pod.pod_anti_affinity.preferred, -1))
        if self._ignores_others and not any(terms for terms, _ in mine):
            return
        for preferred, sign in mine:
            for weighted in preferred:
                yield weighted.term.topology_key, _meeting((weighted.term,), table), sign * weighted.weight
        for term in carried:
            weight = self._worth(term)
            if weight:
                yield term.term.topology_key, term.rows, weight

    def _worth(self, carried: CarriedTerm) -> int:
        """What a pod near is worth that carries the term."""
        match carried.role:
            case Role.PREFERRED:
                return carried.weight
            case Role.AVOIDED:
                return -carried.weight
            case Role.REQUIRED:
                return self._hard_weight
            case _:
                return 0


class _Parties:
    """Whom the pod has to do with, by the pods' counts: compared by identity.

    `forbidden` want to be away from it, `avoided` it must be away from, `wanted` meet all the terms of its required
    affinity (None: it has none; its topology keys are `wanted_keys`), `opinions` have a say in the score. `shunned` are
    the forbidden and the avoided, `keys` their topology keys.
    """

    __slots__ = ("avoided", "counters", "forbidden", "keys", "opinions", "shunned", "since", "wanted", "wanted_keys")

    def __init__(
        self,
        since: tuple[object, ...],
        forbidden: list[Counted],
        avoided: list[Counted],
        wanted: RowCounts | None,
        wanted_keys: set[str],
        opinions: list[Opinion],
    ) -> None:
        self.wanted_keys = wanted_keys
        self.since, self.forbidden, self.avoided = since, forbidden, avoided
        self.wanted, self.opinions = wanted, opinions
        self.keys = {key for key, _ in (*forbidden, *avoided)}
        self.shunned = [counts for _, counts in (*forbidden, *avoided)]
        self.counters = self.shunned + [counts for _, counts, _ in opinions] + ([] if wanted is None else [wanted])

    @property
    def dropped(self) -> bool:
        """Whether one of the counters is moved no more."""
        for counts in self.counters:  # noqa: SIM110 - for every repeat; a generator takes three times as long
            if counts.dropped:
                return True
        return False


class _Layout:
    """What nodes have to be alike in for all opinions; None where a node lacks a label.

    That is the domain by each label, and where every node is a domain of its own the pods on it. `axis_of` has the
    number of the axis for each opinion.
    """

    __slots__ = ("axes", "axis_of", "parties", "since")

    def __init__(self, parties: _Parties, since: int, table: NodeTable) -> None:
        self.parties, self.since = parties, since
        self.axes: list[Axis] | None = None
        self.axis_of: list[int] = []
        numbers: dict[Hashable, int] = {}
        axes: list[Axis] = []
        for key, counts, _ in parties.opinions:
            domains = table.domains(key)
            if domains.nodes < len(table):
                return
            alone = domains.each_alone
            number = numbers.setdefault(counts if alone else key, len(axes))
            if number == len(axes):
                axes.append(Axis(counts if alone else domains))
            self.axis_of.append(number)
        self.axes = axes


def _as_they_stand(parties: _Parties, counters: Sequence[RowCounts]) -> Hashable:
    return (parties, *(counts.version for counts in counters)) if counters else NOTHING_ELSE


def _parties_in(basis: Hashable) -> _Parties | None:
    return next((part for part in basis if isinstance(part, _Parties)), None) if isinstance(basis, tuple) else None


def _only_came(was: _Parties | None, parties: _Parties, rows: Sequence[int]) -> bool:
    """Whether all that were shunned before still are, and those that came have all their pods on these rows."""
    if was is parties:
        return True
    before = {id(counts) for counts in was.shunned} if was is not None else set()
    if not before <= {id(counts) for counts in parties.shunned}:
        return False
    new = [counts for counts in parties.shunned if id(counts) not in before]
    return all(set(counts.counted()[0].tolist()) <= set(rows) for counts in new)


def _lacking(
    pod: Pod, wanted: RowCounts, state: State, rows: Rows, nominated: BoolColumn | None = None
) -> BoolColumn:
    """bool[rows]: where the pods that it wants near are not; `nominated`: where one more of them comes to the row.

    That one is near its row by the labels that the node has: all that is needed is all of them then, whether or not the
    pod is the first of its group without it.
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
    """Whether the pod is the first of its group, of whom none is near anything."""
    if wanted is None:
        return False
    keys = {term.topology_key for term in pod.pod_affinity.required}
    near = any(_by_domain(state.table, key, wanted)[1].any() for key in keys)
    return not near and _meets_its_own(pod, state)


def _meets_its_own(pod: Pod, state: State) -> bool:
    return all(_meets(pod, match, state) for match in map(_match, pod.pod_affinity.required))


class _Relation(NamedTuple):
    """What a placed pod means to one that waits: which of its terms it meets, and which of its own forbid it there."""

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


def _meets(pod: Pod, match: PodMatch, state: State) -> bool:
    return (
        match.selector is not None
        and match.selector.matches(pod.labels)
        and match.covers(pod.namespace, state.namespace_labels)
    )


def _selects(pod: Pod, state: State) -> Callable[[PodTerm], bool]:
    """Whether a term that another pod carries is about the pod; a namespace that is not known has no labels."""
    labels = state.namespace_labels(pod.namespace) or {}
    return lambda term: (
        term.selector is not None
        and term.selector.matches(pod.labels)
        and (
            pod.namespace in term.namespaces
            or (term.namespace_selector is not None and term.namespace_selector.matches(labels))
        )
    )


def _keys(pod: Pod, state: State) -> set[str]:
    """The labels of nodes that the verdicts on the pod hang on."""
    own = (*pod.pod_affinity.required, *pod.pod_anti_affinity.required)
    carried = (carried.term for carried in state.table.terms.matching(pod) if carried.role is Role.FORBIDDEN)
    return {term.topology_key for term in (*own, *carried)}


def _concerned_by_namespace(pod: Pod, namespace: object) -> bool:
    """Whether the labels of a namespace may say whom the pod's terms are about, or whose terms are about the pod."""
    own = (*pod.pod_affinity.required, *pod.pod_anti_affinity.required)
    return getattr(namespace, "name", pod.namespace) == pod.namespace or any(
        term.namespace_selector is not None for term in own
    )


def _near(pods: Counted, table: NodeTable, rows: Rows) -> BoolColumn:
    """bool[rows]: where one of the pods is near."""
    ids, sums = _by_domain(table, *pods)
    return np.asarray((sums > 0)[ids[rows]])


def _labelled(table: NodeTable, key: str, rows: Rows) -> BoolColumn:
    """bool[rows]: the nodes that have the label, and so are near themselves by it."""
    return np.asarray(table.label(key)[0][rows] >= 0)


def _verdicts(refused: Sequence[tuple[int, BoolColumn]], rows: int) -> Verdicts:
    """By cause, where it refuses: of several that refuse a node, the last one counts."""
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
    """How many of the pods are near a row."""
    key, counts = pods
    domains = table.domains(key)
    domain = domains.ids.item(row)
    if domain < 0:
        return 0
    if domains.each_alone:
        return counts.at(row)
    return counts.per_domain(domains.ids, domains.size + 1).item(domain)


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
