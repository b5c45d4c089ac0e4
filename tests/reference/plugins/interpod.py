"""Affinity and anti-affinity between pods, in both directions.

Pods are counted by place: (topology key, its value on the pod's node). Pods that are imagined to come or go change the
counts of the real world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from berth.model import Node, Pod, PodTerm, WeightedPodTerm

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

Place = tuple[str, str]


def place(term: PodTerm, node: Node) -> Place | None:
    value = node.labels.get(term.topology_key)
    return None if value is None else (term.topology_key, value)


def means(term: PodTerm, other: Pod, world: World) -> bool:
    """Whether a term of the pod that is to be placed means this other pod.

    Its namespace selector chooses among the known namespaces; one that an empty set of labels meets chooses every
    namespace, known or not.
    """
    selector = term.namespace_selector
    chosen = other.namespace in term.namespaces
    if not chosen and selector is not None:
        known = world.get("Namespace", other.namespace)
        chosen = selector.matches({}) or (known is not None and selector.matches(known.labels))
    return chosen and term.selector is not None and term.selector.matches(other.labels)


def is_meant(term: PodTerm, pod: Pod, world: World) -> bool:
    """Whether a term of a pod that is there means the one to be placed; an unknown namespace has no labels."""
    chosen = pod.namespace in term.namespaces
    if not chosen and term.namespace_selector is not None:
        known = world.get("Namespace", pod.namespace)
        chosen = term.namespace_selector.matches(known.labels if known else {})
    return chosen and term.selector is not None and term.selector.matches(pod.labels)


def means_all(terms: Sequence[PodTerm], other: Pod, world: World) -> bool:
    return bool(terms) and all(means(term, other, world) for term in terms)


@dataclass
class Counts:
    """By place: pods there that all affinity terms mean, that an anti-affinity term means, and that forbid the pod."""

    wanted: Counter[Place] = field(default_factory=Counter)
    unwanted: Counter[Place] = field(default_factory=Counter)
    forbidding: Counter[Place] = field(default_factory=Counter)

    def add(self, pod: Pod, other: Pod, node: Node, world: World, sign: int = 1) -> None:
        if means_all(pod.pod_affinity.required, other, world):
            count(self.wanted, pod.pod_affinity.required, node, sign)
        unwanted = [term for term in pod.pod_anti_affinity.required if means(term, other, world)]
        count(self.unwanted, unwanted, node, sign)
        forbidding = [term for term in other.pod_anti_affinity.required if is_meant(term, pod, world)]
        count(self.forbidding, forbidding, node, sign)


def count(counter: Counter[Place], terms: Sequence[PodTerm], node: Node, sign: int) -> None:
    for term in terms:
        where = place(term, node)
        if where is not None:
            counter[where] += sign


class InterPodAffinity(Plugin):
    """Arguments: hardPodAffinityWeight, ignorePreferredTermsOfExistingPods."""

    name = "InterPodAffinity"

    def __init__(self, args: Mapping[str, Any]) -> None:
        weight = args.get("hardPodAffinityWeight")
        self.hard_weight = 1 if weight is None else weight
        self.ignores_wishes_of_others = args.get("ignorePreferredTermsOfExistingPods") or False

    def counts(self, pod: Pod, world: World) -> Counts:
        def real() -> Counts:
            counts = Counts()
            for other, node in world.base.placements():
                counts.add(pod, other, node, world)
            return counts

        def imagined() -> Counts:
            counts = deepcopy(world.base.once((self, "counts", pod), real))
            for other, node, sign in world.imagined:
                counts.add(pod, other, node, world, sign)
            return counts

        return world.once((self, "counts", pod), real if world is world.base else imagined)

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        if pod.pod_affinity.required or pod.pod_anti_affinity.required:
            return PROCEED
        return PROCEED if +self.counts(pod, world).forbidding else NOTHING_TO_SAY

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        counts = self.counts(pod, world)
        if not self.is_wanted(pod, node, counts, world):
            return unresolvable("node(s) didn't match pod affinity rules")
        for term in pod.pod_anti_affinity.required:
            where = place(term, node)
            if where is not None and counts.unwanted[where] > 0:
                return unschedulable("node(s) didn't match pod anti-affinity rules")
        if any(counts.forbidding[where] > 0 for where in node.labels.items()):
            return unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
        return None

    def is_wanted(self, pod: Pod, node: Node, counts: Counts, world: World) -> bool:
        """The first of a group of pods that want each other may go wherever the labels are."""
        places = [place(term, node) for term in pod.pod_affinity.required]
        if None in places:
            return False
        if all(counts.wanted[where] > 0 for where in places if where is not None):
            return True
        nobody = not any(counts.wanted.values())
        return nobody and means_all(pod.pod_affinity.required, pod, world)

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int] | None:
        has_wishes = bool(pod.pod_affinity.preferred or pod.pod_anti_affinity.preferred)
        if self.ignores_wishes_of_others and not has_wishes:
            return None
        liking: Counter[Place] = Counter()
        for other, node in world.placements():
            self.weigh(liking, pod, other, node, world)
        if not liking:
            return None
        scores = {node.name: sum(liking[where] for where in node.labels.items()) for node in feasible}
        least, most = min(scores.values()), max(scores.values())
        if most == least:
            return dict.fromkeys(scores, 0)
        return {name: int(float(MAX_SCORE) * ((score - least) / (most - least))) for name, score in scores.items()}

    def weigh(self, liking: Counter[Place], pod: Pod, other: Pod, node: Node, world: World) -> None:
        """What this other pod makes its place worth to the pod."""

        def weigh_all(wishes: Sequence[WeightedPodTerm], holds: Callable[[PodTerm], bool], sign: int) -> None:
            for wish in wishes:
                where = place(wish.term, node)
                if where is not None and holds(wish.term):
                    liking[where] += sign * wish.weight

        def own(term: PodTerm) -> bool:
            return means(term, other, world)

        def theirs(term: PodTerm) -> bool:
            return is_meant(term, pod, world)

        weigh_all(pod.pod_affinity.preferred, own, 1)
        weigh_all(pod.pod_anti_affinity.preferred, own, -1)
        weigh_all(other.pod_affinity.preferred, theirs, 1)
        weigh_all(other.pod_anti_affinity.preferred, theirs, -1)
        if self.hard_weight > 0:
            hard = [WeightedPodTerm(self.hard_weight, term) for term in other.pod_affinity.required]
            weigh_all(hard, theirs, 1)


PLUGINS = (InterPodAffinity,)
