"""Even spreading of pods over the values of node labels.

The filter counts by constraint and value, in the real world first: pods that are being deleted do not count, and
nothing counts for a selector that asks for nothing. Then every pod that is imagined to come or go counts, those two
kinds included: kube-scheduler takes no notice of either when it adds or removes a pod, and here it is the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from berth.model import (
    LabelSelector,
    Node,
    Pod,
    Requirement,
    SpreadConstraint,
    build_spread_constraint,
)

from ..plugin import (
    MAX_SCORE,
    NOTHING_TO_SAY,
    PROCEED,
    Plugin,
    PreFilter,
    Refusal,
    unresolvable,
    unschedulable,
)
from ..world import World
from .nodes import tolerates_node, wants_node
from .resources import rounded

HOSTNAME = "kubernetes.io/hostname"
SYSTEM_DEFAULTS = (
    {"topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 3},
    {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 5},
)
OWNERS = {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}

UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{UNEVEN} (missing required label)"

# For each constraint, the number of pods by the value of its label.
Counts = list[dict[str, int]]


def selects(constraint: SpreadConstraint, pod: Pod) -> bool:
    return constraint.selector is not None and constraint.selector.matches(pod.labels)


def matching_pods(constraint: SpreadConstraint, pods: Iterable[Pod], namespace: str) -> int:
    if constraint.selector == LabelSelector(()):
        return 0
    return sum(selects(constraint, pod) for pod in pods if pod.namespace == namespace and not pod.deleting)


def has_labels(node: Node, constraints: Sequence[SpreadConstraint]) -> bool:
    return all(constraint.topology_key in node.labels for constraint in constraints)


def includes(constraint: SpreadConstraint, pod: Pod, node: Node) -> bool:
    """Whether pods on this node count."""
    if constraint.node_affinity_policy == "Honor" and not wants_node(pod, node):
        return False
    return constraint.node_taints_policy != "Honor" or tolerates_node(pod, node)


def default_selector(pod: Pod, world: World) -> LabelSelector:
    """What the pod's services and its owner select together."""
    labels: dict[str, str] = {}
    for service in world.all("Service"):
        wanted = service.selector
        if service.namespace == pod.namespace and all(pod.labels.get(key) == wanted[key] for key in wanted):
            labels.update(wanted)
    requirements: tuple[Requirement, ...] = ()
    reference = pod.controller
    if reference is not None and (reference.api_version, reference.kind) in OWNERS:
        owner = world.get(reference.kind, reference.name, pod.namespace)
        if owner is not None and owner.selector is not None:
            requirements = owner.selector.requirements
            if reference.kind == "ReplicationController":
                labels.update({requirement.key: requirement.values[0] for requirement in requirements})
                requirements = ()
    return LabelSelector((*(Requirement(key, "In", (value,)) for key, value in labels.items()), *requirements))


class PodTopologySpread(Plugin):
    """Arguments: defaultConstraints, defaultingType; they are for pods without constraints of their own."""

    name = "PodTopologySpread"

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.by_system = (args.get("defaultingType") or "System") == "System"
        self.defaults = SYSTEM_DEFAULTS if self.by_system else tuple(args.get("defaultConstraints") or ())

    def constraints(self, pod: Pod, world: World, action: str) -> list[SpreadConstraint]:
        if pod.spread_constraints:
            return [constraint for constraint in pod.spread_constraints if constraint.when_unsatisfiable == action]
        defaults = [build_spread_constraint(body, {}) for body in self.defaults]
        selector = default_selector(pod, world)
        if not selector.requirements:
            return []
        return [replace(default, selector=selector) for default in defaults if default.when_unsatisfiable == action]

    # --- filter

    def counts(self, pod: Pod, world: World) -> Counts:
        constraints = self.constraints(pod, world, "DoNotSchedule")

        def real() -> Counts:
            counts: Counts = [{} for _ in constraints]
            for node in world.nodes.values():
                if not has_labels(node, constraints):
                    continue
                for constraint, by_value in zip(constraints, counts, strict=True):
                    if includes(constraint, pod, node):
                        value = node.labels[constraint.topology_key]
                        matching = matching_pods(constraint, world.base.pods_on(node.name), pod.namespace)
                        by_value[value] = by_value.get(value, 0) + matching
            return counts

        def imagined() -> Counts:
            counts = [dict(by_value) for by_value in world.base.once((self, "counts", pod), real)]
            for other, node, sign in world.imagined:
                if other.namespace != pod.namespace or not has_labels(node, constraints):
                    continue
                for constraint, by_value in zip(constraints, counts, strict=True):
                    if selects(constraint, other) and includes(constraint, pod, node):
                        by_value[node.labels[constraint.topology_key]] += sign
            return counts

        return world.once((self, "counts", pod), real if world is world.base else imagined)

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        return PROCEED if self.constraints(pod, world, "DoNotSchedule") else NOTHING_TO_SAY

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        constraints = self.constraints(pod, world, "DoNotSchedule")
        for constraint, by_value in zip(constraints, self.counts(pod, world), strict=True):
            value = node.labels.get(constraint.topology_key)
            if value is None:
                return unresolvable(NO_LABEL)
            enough_domains = len(by_value) >= (constraint.min_domains or 1)
            least = min(by_value.values()) if enough_domains else 0
            if by_value.get(value, 0) + selects(constraint, pod) - least > constraint.max_skew:
                return unschedulable(UNEVEN)
        return None

    # --- score

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int] | None:
        constraints = self.constraints(pod, world, "ScheduleAnyway")
        if not constraints:
            return None
        # The system's defaults go together with nodes that have a host name but no zone.
        needs_labels = bool(pod.spread_constraints) or not self.by_system
        scored = [node for node in feasible if not needs_labels or has_labels(node, constraints)]
        totals = dict.fromkeys((node.name for node in scored), 0.0)
        for constraint in constraints:
            for name, part in self.parts(constraint, constraints, pod, scored, needs_labels, world).items():
                totals[name] += part
        raw = {name: rounded(total) for name, total in totals.items()}
        return {node.name: self.normalised(raw, node.name) for node in feasible}

    def parts(
        self,
        constraint: SpreadConstraint,
        constraints: Sequence[SpreadConstraint],
        pod: Pod,
        scored: Sequence[Node],
        needs_labels: bool,
        world: World,
    ) -> dict[str, float]:
        """What this constraint adds to the scores of nodes that have its label: more for more pods."""
        key = constraint.topology_key
        counts: dict[str, int]
        if key == HOSTNAME:
            size = len(scored)
            counts = {n.name: matching_pods(constraint, world.pods_on(n.name), pod.namespace) for n in scored}
        else:
            by_value = {node.labels.get(key, ""): 0 for node in scored}
            size = len(by_value)
            for node in world.nodes.values():
                if needs_labels and not has_labels(node, constraints):
                    continue
                value = node.labels.get(key, "")
                if value in by_value and includes(constraint, pod, node):
                    by_value[value] += matching_pods(constraint, world.pods_on(node.name), pod.namespace)
            counts = {node.name: by_value[node.labels.get(key, "")] for node in scored}
        weight = math.log(size + 2)
        return {n.name: counts[n.name] * weight + (constraint.max_skew - 1) for n in scored if key in n.labels}

    def normalised(self, raw: Mapping[str, int], name: str) -> int:
        if name not in raw:
            return 0
        highest, lowest = max(raw.values()), min(raw.values())
        if highest == 0:
            return MAX_SCORE
        return MAX_SCORE * (highest + lowest - raw[name]) // highest


PLUGINS = (PodTopologySpread,)
