"""Room on nodes: whether a pod fits, and how full or how evenly filled a node would be with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from berth.model import Node, Pod, is_counted_resource, is_extended_resource

from ..plugin import MAX_SCORE, UNRESOLVABLE, UNSCHEDULABLE, Plugin, Refusal
from ..world import World

CPU_AND_MEMORY = ("cpu", "memory")
PLAIN = (*CPU_AND_MEMORY, "ephemeral-storage")
DEFAULT_RESOURCES: Sequence[Mapping[str, Any]] = ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1})

# (amount with or without the pod, amount that the node has, weight)
Share = tuple[int, int, int]


def used(node: Node, resource: str, world: World) -> int:
    return sum(pod.usage.get(resource, 0) for pod in world.pods_on(node.name))


def used_with_defaults(node: Node, resource: str, world: World) -> int:
    """The same with 100m and 200Mi for containers that ask for no cpu or memory."""
    if resource not in CPU_AND_MEMORY:
        return used(node, resource, world)
    return sum(pod.usage_nonzero[CPU_AND_MEMORY.index(resource)] for pod in world.pods_on(node.name))


def cut(numerator: int, denominator: int) -> int:
    """Division of whole numbers towards zero."""
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


def rounded(number: float) -> int:
    """The nearest whole number, halves up, for what is not negative."""
    whole = int(number)
    return whole + 1 if number - whole >= 0.5 else whole


def resource_weights(entries: Sequence[Mapping[str, Any]] | None) -> list[tuple[str, int]]:
    return [(entry["name"], entry.get("weight") or 1) for entry in entries or DEFAULT_RESOURCES]


def shares(
    resources: Sequence[tuple[str, int]],
    asked: Mapping[str, int],
    node: Node,
    taken: Callable[[str], int],
) -> tuple[list[Share], list[Share]]:
    """What would be and what is taken of each resource; those that the node or, beyond the plain ones, the pod does
    not name are left out.
    """
    after, before = [], []
    for name, weight in resources:
        amount, have = asked.get(name, 0), node.allocatable.get(name, 0)
        if name not in PLAIN and (amount == 0 or not is_counted_resource(name)):
            continue
        if have:
            after.append((taken(name) + amount, have, weight))
            before.append((taken(name), have, weight))
    return after, before


class NodeResourcesFit(Plugin):
    """Arguments: ignoredResources, ignoredResourceGroups, scoringStrategy."""

    name = "NodeResourcesFit"

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.ignored = args.get("ignoredResources") or ()
        self.ignored_groups = args.get("ignoredResourceGroups") or ()
        strategy = args.get("scoringStrategy") or {}
        self.resources = resource_weights(strategy.get("resources"))
        self.strategy = strategy.get("type") or "LeastAllocated"
        points = (strategy.get("requestedToCapacityRatio") or {}).get("shape") or ()
        self.shape = [(point.get("utilization", 0), point.get("score", 0) * 10) for point in points]

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        reasons = []
        code = UNSCHEDULABLE
        if len(world.pods_on(node.name)) + 1 > node.allocatable.get("pods", 0):
            reasons.append("Too many pods")
        for resource, amount in pod.requests.items():
            have = node.allocatable.get(resource, 0)
            if not self.ignores(resource) and amount > have - used(node, resource, world):
                reasons.append(f"Insufficient {resource}")
                if amount > have:
                    code = UNRESOLVABLE
        return Refusal(code, tuple(reasons)) if reasons else None

    def ignores(self, resource: str) -> bool:
        if not is_extended_resource(resource):
            return False
        return resource in self.ignored or resource.split("/")[0] in self.ignored_groups

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int]:
        scores = {}
        for node in feasible:

            def taken(resource: str, node: Node = node) -> int:
                return used_with_defaults(node, resource, world)

            after, _ = shares(self.resources, pod.scored, node, taken)
            scores[node.name] = self.along_shape(after) if self.shape else self.mean(after)
        return scores

    def mean(self, parts: list[Share]) -> int:
        total = weights = 0
        for requested, have, weight in parts:
            if self.strategy == "LeastAllocated":
                liking = (have - requested) * MAX_SCORE // have if requested <= have else 0
            else:
                liking = min(requested, have) * MAX_SCORE // have
            total += liking * weight
            weights += weight
        return total // weights if weights else 0

    def along_shape(self, parts: list[Share]) -> int:
        """Resources that score nothing are left out of the mean."""
        total = weights = 0
        for requested, have, weight in parts:
            liking = self.broken_line(100 if requested > have else requested * 100 // have)
            if liking > 0:
                total += liking * weight
                weights += weight
        return rounded(total / weights) if weights else 0

    def broken_line(self, utilization: int) -> int:
        if utilization <= self.shape[0][0]:
            return int(self.shape[0][1])
        for (x, y), (next_x, next_y) in pairwise(self.shape):
            if utilization <= next_x:
                return int(y + cut((next_y - y) * (utilization - x), next_x - x))
        return int(self.shape[-1][1])


class NodeResourcesBalancedAllocation(Plugin):
    """Arguments: resources. A node scores 75, more where the pod evens out what is taken of it, less otherwise."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.resources = resource_weights(args.get("resources"))

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int] | None:
        if not any(pod.requests.get(resource) for resource, _ in self.resources):
            return None
        scores = {}
        for node in feasible:

            def taken(resource: str, node: Node = node) -> int:
                return used(node, resource, world)

            after, before = shares(self.resources, pod.requests, node, taken)
            scores[node.name] = 50 + (50 + evenness(after) - evenness(before)) // 2
        return scores


def evenness(parts: list[Share]) -> int:
    """100 less the standard deviation of the fractions taken, in percent."""
    fractions = [min(requested / have, 1.0) for requested, have, _ in parts]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = squares = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * MAX_SCORE)


PLUGINS = (NodeResourcesFit, NodeResourcesBalancedAllocation)
