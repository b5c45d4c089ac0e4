"""PodTopologySpread: pods that belong together lie evenly over the values of a node label: zones, racks, hosts.

The pod's own constraints hold or, where it has none, the policy's defaults (engine/default_spreading.py). The nodes of
one value of a constraint's label are a domain. Its pods are those of the pod's namespace that the selector matches and
that are not being deleted, on nodes that have the labels of all constraints at hand and that the constraint's policies
on node affinity and taints let in. A selector without requirements matches the pod itself, but none that is there.

filter, by DoNotSchedule: refused where the node's domain would have more than maxSkew pods above the domain with the
fewest; that one counts as empty where there are fewer domains than minDomains. A node without the label is beyond help.
score, by ScheduleAnyway: the sum of  pods * log(domains + 2) + maxSkew - 1  over the constraints, rounded, where the
feasible nodes make the domains; by hostname, what counts is the pods on the node. Fewer is better: the node becomes
100 * (highest + lowest - own) / highest. A node without one of the labels gets 0; by the System defaults, it only
adds nothing for that label.

Arguments: defaultingType (System or List), defaultConstraints (for List).
"""

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.counts import PodMatch, rows_with
from berth.engine.default_spreading import HARD, HOSTNAME, SELECTING_KINDS, SOFT, default_selector, read_defaults
from berth.engine.domains import FEW_DOMAINS, Domains
from berth.engine.events import Event
from berth.engine.plugin import MAX_SCORE, Plugin, Query, refuse_unknown
from berth.engine.spreading import (
    Nodes,
    Wish,
    count_pods,
    fewest_pods,
    over_feasible,
    pods_per_domain,
    with_labels,
    with_tried,
)
from berth.engine.state import State
from berth.engine.table import NodeTable
from berth.engine.verdict import PROCEED, SKIP, BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts, row_count
from berth.model import Pod, SpreadConstraint

REASON_SKEW = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON_SKEW} (missing required label)"
_REASONS = {int(Code.UNSCHEDULABLE): (REASON_SKEW,), int(Code.UNRESOLVABLE): (REASON_LABEL,)}
IGNORED = -1  # a score that no node gets otherwise


class PodTopologySpread(Plugin):
    name = "PodTopologySpread"
    filters = True
    scores = True
    node_local = False
    reads_pods = True
    wakes_on = frozenset(
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

    def basis(self, query: Query, state: State) -> Hashable:
        return self.filter_basis(query, state), self.score_basis(query, state)

    def filter_basis(self, query: Query, state: State) -> Hashable:
        """The verdicts themselves, where the domains are few; else the counts as they stand."""
        wishes = self._wishes(query, state, HARD)
        if not wishes:
            return ()
        if all(state.table.domains(wish.constraint.topology_key).size <= FEW_DOMAINS for wish in wishes):
            return tuple((domains.vocabulary, said.tobytes()) for domains, said in self._by_domain(query, state))
        return _as_they_stand(wishes)

    def score_basis(self, query: Query, state: State) -> Hashable:
        return _as_they_stand(self._wishes(query, state, SOFT))

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED if self._wishes(query, state, HARD) else SKIP

    def watched(self, query: Query, state: State) -> BoolColumn:
        """All pods that the selectors match: tentatively, those too are moved that do not count."""
        namespaces = frozenset((query.pod.namespace,))
        wishes = self._wishes(query, state, HARD)
        counters = [state.table.counts.of((PodMatch(selector, namespaces),)) for _, selector, _ in wishes]
        return rows_with(counters, state.table.capacity)

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        codes = np.zeros(row_count(rows), dtype=np.int8)
        for domains, verdicts in self._by_domain(query, state):
            np.copyto(codes, verdicts[domains.ids[rows]], where=codes == Code.FITS)
        return Verdicts(codes, lambda: codes.astype(np.int64), _REASONS.__getitem__)

    def pre_score(self, query: Query, state: State) -> bool:
        return bool(self._wishes(query, state, SOFT))

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        table, pod = state.table, query.pod
        wishes = self._wishes(query, state, SOFT)
        by_labels = bool(pod.spread_constraints) or not self._by_system
        nodes = Nodes(table, pod, with_labels(table, wishes if by_labels else ()))
        scored = nodes.base[rows]
        sums = np.zeros(len(scored), dtype=np.float64)
        for wish in wishes:
            domains = table.domains(wish.constraint.topology_key)
            ids = domains.ids[rows]
            if wish.constraint.topology_key == HOSTNAME:
                shares = _shares(wish.constraint, wish.counts.column()[rows], int(np.count_nonzero(scored)))
                if domains.nodes < len(table):
                    shares[ids < 0] = 0
                sums += shares
            else:
                shares = _shares(wish.constraint, *over_feasible(table, domains, wish, nodes, ids, scored))
                sums += np.append(shares, 0)[ids]  # the last is for nodes without the label
        sums += 0.5
        scores: Int64Column = np.floor(sums, out=sums).astype(np.int64)
        if not scored.all():
            scores[~scored] = IGNORED
        return scores

    def normalize(self, scores: Int64Column) -> Int64Column:
        ignored = scores == IGNORED if scores.min(initial=0) == IGNORED else None
        scored = scores if ignored is None else scores[~ignored]
        highest = int(scored.max(initial=0))
        lowest = int(scored.min(initial=highest))
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
        """What each hard constraint says of each domain; the last is for nodes without the label."""
        key = self._plans[HARD]
        if key not in query.memo:
            wishes = self._wishes(query, state, HARD)
            nodes = Nodes(state.table, query.pod, with_labels(state.table, wishes))
            query.memo[key] = [_verdicts(wish, nodes, query.pod, state.table) for wish in wishes]
        found: list[tuple[Domains, NDArray[np.int8]]] = query.memo[key]
        return found

    def _wishes(self, query: Query, state: State, action: str) -> tuple[Wish, ...]:
        """Kept for as long as no service or owner changes and the counters are moved."""
        kept: tuple[object, tuple[Wish, ...]] | None = query.plan.get(self._plans[action])
        since = (state,) if query.pod.spread_constraints else (state, *map(state.revision, SELECTING_KINDS))
        if kept is None or kept[0] != since or any(wish.counts.dropped for wish in kept[1]):
            kept = query.plan[self._plans[action]] = (since, tuple(self._resolve(query.pod, state, action)))
        return kept[1]

    def _resolve(self, pod: Pod, state: State, action: str) -> Iterator[Wish]:
        if pod.spread_constraints:
            for own in pod.spread_constraints:
                if own.when_unsatisfiable == action:
                    yield Wish(own, own.selector, count_pods(pod, own.selector, state.table))
        elif self._defaults[action]:
            selector = default_selector(pod, state)
            if selector.requirements:
                counts = count_pods(pod, selector, state.table)
                yield from (Wish(default, selector, counts) for default in self._defaults[action])


def _verdicts(wish: Wish, nodes: Nodes, pod: Pod, table: NodeTable) -> tuple[Domains, NDArray[np.int8]]:
    constraint, selector, counts = wish
    domains, included = table.domains(constraint.topology_key), nodes.included(constraint)
    pods = pods_per_domain(counts, domains, included)
    pods = with_tried(pods, domains, included, selector, pod, table)
    fewest = fewest_pods(pods, domains, included, constraint.min_domains or 1)
    itself = selector is not None and selector.matches(pod.labels)
    verdicts = np.empty(domains.size + 1, dtype=np.int8)
    verdicts[:-1] = pods > constraint.max_skew + fewest - itself
    verdicts[-1] = Code.UNRESOLVABLE
    return domains, verdicts


def _as_they_stand(wishes: tuple[Wish, ...]) -> Hashable:
    return tuple((counts, counts.version) for _, selector, counts in wishes if selector and selector.requirements)


def _shares(constraint: SpreadConstraint, pods: Int64Column, domains: int) -> NDArray[np.floating[Any]]:
    """What a constraint adds to the score, by the pods that count."""
    return pods * math.log(domains + 2) + (constraint.max_skew - 1)
