"""The number of pods per topology domain, for the constraints of PodTopologySpread.

A constraint counts the pods of the incoming pod's namespace that its selector matches and that are not terminating, on
the nodes that it includes. Domains are those of `table.domains`.
"""

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from berth.engine.plugins.taint_toleration import refused_sets
from berth.engine.state.domains import Domains
from berth.engine.state.node_selection import match_pod
from berth.engine.state.node_table import NodeTable
from berth.engine.state.pod_counts import PodMatch, RowCounts
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import LabelSelector, Pod, SpreadConstraint

HONOR: Final = "Honor"


class CountedConstraint(NamedTuple):
    """A constraint that applies to the pod, and the pods that it counts."""

    constraint: SpreadConstraint
    selector: LabelSelector | None
    counts: RowCounts


class Nodes:
    """The nodes whose pods count: those of `base`, bool[all rows], that a constraint's nodeAffinityPolicy and
    nodeTaintsPolicy include.
    """

    def __init__(self, table: NodeTable, pod: Pod, base: BoolColumn) -> None:
        self.base = base
        self._table = table
        self._pod = pod

    def included(self, constraint: SpreadConstraint) -> BoolColumn:
        included = self.base
        if constraint.node_affinity_policy == HONOR and self._affine is not None:
            included = included & self._affine
        if constraint.node_taints_policy == HONOR:
            included = included & self._tolerated
        return included

    @cached_property
    def _affine(self) -> BoolColumn | None:
        if self._pod.node_selector is None and self._pod.required_node_affinity is None:
            return None
        return match_pod(self._table, self._pod)

    @cached_property
    def _tolerated(self) -> BoolColumn:
        return ~refused_sets(self._table, self._pod)[self._table.taint_sets]


class Scope(NamedTuple):
    """The nodes that a constraint includes, all of which have the label.

    `whole`: every node with the label is included. `present` bool[domains]: those with an included node; None: all.
    """

    domains: Domains
    included: BoolColumn
    whole: bool
    present: BoolColumn | None


def scope_of(constraint: SpreadConstraint, nodes: Nodes, table: NodeTable) -> Scope:
    domains, included = table.domains(constraint.topology_key), nodes.included(constraint)
    whole = bool(np.count_nonzero(included) == domains.nodes)
    present = domains.present if whole else domains.present_in(domains.ids[included])
    return Scope(domains, included, whole, None if present.all() else present)


def with_labels(table: NodeTable, constraints: tuple[CountedConstraint, ...]) -> BoolColumn:
    """bool[all rows]: the nodes that have the labels of all these constraints."""
    known = np.zeros(table.capacity, dtype=np.bool_)
    known[table.rows] = True
    for constraint, _, _ in constraints:
        domains = table.domains(constraint.topology_key)
        if domains.nodes < len(table):
            known &= domains.labelled
    return known


def count_pods(pod: Pod, selector: LabelSelector | None, table: NodeTable) -> RowCounts:
    counted = selector if selector is not None and selector.requirements else None
    return table.counts.of((PodMatch(counted, frozenset((pod.namespace,))),), terminating=False)


def pods_per_domain(counts: RowCounts, scope: Scope) -> Int64Column:
    """Returns int64[domains]: the number of pods on the included nodes."""
    domains = scope.domains
    if scope.whole:
        return counts.per_domain(domains.ids, domains.size)
    return _sums(counts, domains.ids, domains.size, scope.included)


def _sums(counts: RowCounts, ids: Int64Column, size: int, included: BoolColumn) -> Int64Column:
    rows, pods = counts.counted()
    counted = included[rows]
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, ids[rows[counted]], pods[counted])
    return sums


def with_tried(
    pods: Int64Column,
    scope: Scope,
    selector: LabelSelector | None,
    pod: Pod,
    table: NodeTable,
) -> Int64Column:
    """Returns the number of pods per domain as kube-scheduler updates it when pods are moved tentatively.

    It then adds and subtracts every pod that the selector matches, also pods that it did not count in the first place:
    terminating pods, and all pods if the selector has no requirements.
    """
    if selector is None:
        return pods
    for other, row, sign in table.tried:
        uncounted = other.deleting or not selector.requirements
        if uncounted and scope.included[row] and other.namespace == pod.namespace and selector.matches(other.labels):
            pods = pods.copy()
            pods[scope.domains.ids[row]] += sign
    return pods


def fewest_pods(pods: Int64Column, scope: Scope, min_domains: int) -> int:
    """Returns the lowest number of pods in a domain with an included node; 0 if there are fewer than `min_domains`."""
    found = pods if scope.present is None else pods[scope.present]
    return found.item(found.argmin()) if len(found) >= min_domains else 0


def fewest_pods_with(
    pods: Int64Column, scope: Scope, min_domains: int, there: Int64Column, more: Int64Column
) -> Int64Column:
    """Returns int64[k]: the same for k cases, in each of which one included domain, with `there` pods, gets `more`.

    The lowest number is then that of this domain, or the lowest of the others: that is the lowest of all or, if this
    domain has it, the second lowest.
    """
    fewest = np.full(len(there), fewest_pods(pods, scope, min_domains), dtype=np.int64)
    found = pods if scope.present is None else pods[scope.present]
    if len(found) < min_domains or not more.any():
        return fewest
    second = np.partition(found, 1)[1] if len(found) > 1 else np.iinfo(np.int64).max
    others = np.where(there == fewest, second, fewest)
    return np.where(more > 0, np.minimum(others, there + more), fewest)


def over_feasible(
    table: NodeTable, domains: Domains, counted: CountedConstraint, nodes: Nodes, ids: Int64Column, feasible: BoolColumn
) -> tuple[Int64Column, int]:
    """Returns the number of pods per domain, and the number of domains of the feasible rows (domain ids `ids`).

    If nodes without the label count, they are one domain, the same as that of an empty value.
    """
    included = nodes.included(counted.constraint)
    unlabelled = nodes.base & ~domains.labelled if domains.nodes < len(table) else None
    if unlabelled is not None and unlabelled.any():
        nameless = domains.vocabulary.ids.get("", domains.size)
        sums = _sums(counted.counts, np.where(unlabelled, nameless, domains.ids), domains.size + 1, included)
        return sums, len(np.unique(np.where(ids < 0, nameless, ids)[feasible]))
    pods = pods_per_domain(counted.counts, scope_of(counted.constraint, nodes, table))
    if len(ids) == len(table) and feasible.all():
        return pods, domains.count
    return pods, int(np.count_nonzero(domains.present_in(ids[feasible])))
