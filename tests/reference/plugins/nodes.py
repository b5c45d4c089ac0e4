"""What a node itself is: its name, its taints, its labels, the features that it declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from berth.model import Node, Pod, Taint, build_node_affinity

from ..plugin import (
    NOTHING_TO_SAY,
    PROCEED,
    UNRESOLVABLE,
    Plugin,
    PreFilter,
    Refusal,
    scaled_to_highest,
    unresolvable,
)
from ..world import World

KEEPS_AWAY = ("NoSchedule", "NoExecute")
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def tolerates(pod: Pod, taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in pod.tolerations)


def tolerates_node(pod: Pod, node: Node) -> bool:
    """Whether no taint of the node keeps the pod away from it."""
    return all(tolerates(pod, taint) for taint in node.taints if taint.effect in KEEPS_AWAY)


def wants_node(pod: Pod, node: Node) -> bool:
    """Whether the node is one that the pod's node selector and required node affinity ask for."""
    for key, value in (pod.node_selector or {}).items():
        if node.labels.get(key) != value:
            return False
    required = pod.required_node_affinity
    return required is None or required.matches(node.name, node.labels)


class NodeUnschedulable(Plugin):
    name = "NodeUnschedulable"

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        if node.unschedulable and not tolerates(pod, CORDONED):
            return unresolvable("node(s) were unschedulable")
        return None


class NodeName(Plugin):
    name = "NodeName"

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        if pod.node_name not in ("", node.name):
            return unresolvable("node(s) didn't match the requested node name")
        return None


class TaintToleration(Plugin):
    name = "TaintToleration"

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        return None if tolerates_node(pod, node) else unresolvable("node(s) had untolerated taint(s)")

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int]:
        disliked = {}
        for node in feasible:
            soft = [taint for taint in node.taints if taint.effect == "PreferNoSchedule"]
            disliked[node.name] = sum(not tolerates(pod, taint) for taint in soft)
        return scaled_to_highest(disliked, reverse=True)


class NodeAffinity(Plugin):
    """Arguments: addedAffinity, which every pod has to meet besides its own."""

    name = "NodeAffinity"

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.required, self.preferred = build_node_affinity(args.get("addedAffinity") or {})

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        own = pod.required_node_affinity
        if own is None and self.required is None and pod.node_selector is None:
            return NOTHING_TO_SAY
        if own is None or not own.terms:
            return PROCEED
        names: set[str] = set()
        for term in own.terms:
            wanted = [set(field.values) for field in term.fields if field.operator == "In"]
            if not wanted:
                return PROCEED
            names |= set.intersection(*wanted)
        if not names:
            return PreFilter(UNRESOLVABLE, ("pod affinity terms conflict",))
        return PreFilter(nodes=frozenset(names))

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        if self.required is not None and not self.required.matches(node.name, node.labels):
            return unresolvable("node(s) didn't match scheduler-enforced node affinity")
        if not wants_node(pod, node):
            return unresolvable("node(s) didn't match Pod's node affinity/selector")
        return None

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int] | None:
        terms = (*self.preferred, *pod.preferred_node_affinity)
        if not terms:
            return None
        return scaled_to_highest(
            {
                node.name: sum(wish.weight for wish in terms if wish.term.matches(node.name, node.labels))
                for node in feasible
            }
        )


class NodeDeclaredFeatures(Plugin):
    name = "NodeDeclaredFeatures"

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        return PROCEED if pod.required_features else NOTHING_TO_SAY

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        if not set(pod.required_features) <= set(node.declared_features):
            return unresolvable("node(s) didn't match Pod's required features")
        return None


class DynamicResources(Plugin):
    """Only what it says of pods without resource claims: nothing."""

    name = "DynamicResources"

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        if pod.resource_claims:
            raise NotImplementedError("resource claims")
        return NOTHING_TO_SAY


PLUGINS = (
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodeDeclaredFeatures,
    DynamicResources,
)
