"""Preemption: whom a pod that fits nowhere may push out, and on which node.

On every node that removing pods may help: all pods of lower priority are imagined gone; where the pod then fits, they
are let back one after the other as long as it still does, those whose disruption budget would suffer first, the more
important before the less. Who cannot come back is a victim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth.model import DisruptionBudget, Node, Pod

from .plugin import UNRESOLVABLE, UNSCHEDULABLE
from .world import World

Fits = Callable[[World, Node], bool]

NOT_STARTED = "~"  # after every time that a pod can have started at


@dataclass(frozen=True)
class Candidate:
    """A node, its victims by falling importance, and how many of them a disruption budget protects."""

    node: str
    victims: tuple[Pod, ...]
    violations: int


def preemption(world: World, pod: Pod, codes: Mapping[str, str], fits: Fits) -> dict[str, Any]:
    """`codes` are what the filters said of each node; `fits` says whether the pod fits a node of an imagined world."""
    candidates = []
    if may_preempt(world, pod, codes):
        for name, code in codes.items():
            if code == UNSCHEDULABLE:
                candidate = candidate_on(world, pod, world.nodes[name], fits)
                if candidate is not None:
                    candidates.append(candidate)
    return {
        "candidates": {
            candidate.node: {
                "victims": [victim.key for victim in candidate.victims],
                "pdbViolations": candidate.violations,
            }
            for candidate in candidates
        },
        "selected": sorted(candidate.node for candidate in choose(candidates)),
    }


def may_preempt(world: World, pod: Pod, codes: Mapping[str, str]) -> bool:
    """Not while those that it preempted already are still leaving the node that it is nominated to."""
    if pod.preemption_policy == "Never":
        return False
    nominated = pod.nominated_node_name
    if not nominated or codes.get(nominated, UNRESOLVABLE) == UNRESOLVABLE:
        return True
    return not any(other.priority < pod.priority and is_leaving(other) for other in world.pods_on(nominated))


def is_leaving(pod: Pod) -> bool:
    """Whether the pod was preempted and is not gone yet."""
    return pod.deleting and pod.preempted


def candidate_on(world: World, pod: Pod, node: Node, fits: Fits) -> Candidate | None:
    lower = sorted((other for other in world.pods_on(node.name) if other.priority < pod.priority), key=importance)
    emptied = world.without_pods(lower)
    if not lower or not fits(emptied, node):
        return None
    victims = []
    violations = 0
    protected = protected_pods(lower, world.all("PodDisruptionBudget"))
    for other in [*protected, *(other for other in lower if other not in protected)]:
        restored = emptied.with_pods([other], node.name)
        if fits(restored, node):
            emptied = restored
        else:
            victims.append(other)
            violations += other in protected
    return Candidate(node.name, tuple(sorted(victims, key=importance)), violations) if victims else None


def importance(pod: Pod) -> tuple[int, str]:
    """Sorts the important first: a higher priority, then an earlier start."""
    return -pod.priority, pod.start_time or NOT_STARTED


def protected_pods(pods: Sequence[Pod], budgets: Collection[DisruptionBudget]) -> list[Pod]:
    """Pods that a disruption budget does not let go, once those before them are gone."""
    allowed = [budget.disruptions_allowed for budget in budgets]
    found = []
    for pod in pods:
        protected = False
        for index, budget in enumerate(budgets):
            if guards(budget, pod):
                allowed[index] -= 1
                protected |= allowed[index] < 0
        if protected:
            found.append(pod)
    return found


def guards(budget: DisruptionBudget, pod: Pod) -> bool:
    """A selector that asks for nothing guards nobody; nor does a pod without labels have a guard."""
    if budget.namespace != pod.namespace or budget.selector is None or not budget.selector.requirements:
        return False
    return bool(pod.labels) and budget.selector.matches(pod.labels) and pod.name not in budget.disrupted_pods


def choose(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that are as good as any: each step keeps the best by one measure and leaves ties to the next."""
    steps: Sequence[Callable[[Candidate], Any]] = (
        lambda candidate: candidate.violations,
        lambda candidate: candidate.victims[0].priority,
        # As if the lowest priority were 0: fewer victims of a negative priority are better than more.
        lambda candidate: sum(victim.priority + 2**31 for victim in candidate.victims),
        lambda candidate: len(candidate.victims),
    )
    left = list(candidates)
    for measure in steps:
        least = min(map(measure, left), default=None)
        left = [candidate for candidate in left if measure(candidate) == least]
    latest = max(map(first_start, left), default=None)
    return [candidate for candidate in left if first_start(candidate) == latest]


def first_start(candidate: Candidate) -> str:
    """When the first of the most important victims started."""
    highest = candidate.victims[0].priority
    return min(victim.start_time or NOT_STARTED for victim in candidate.victims if victim.priority == highest)
