"""What kube-scheduler 1.17 had and today's has no more, scored 0 to 100, and the node conditions of 1.11.

Where the old one looked at whichever node or service came first in no particular order, the first by name is meant.
Entries of an old policy may have a name of their own; it is the argument "alias".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from berth.model import Claim, LabelSelector, Node, Pod, PodVolume, Service, Volume, WorkloadOwner

from ..plugin import MAX_SCORE, NOTHING_TO_SAY, PROCEED, Plugin, PreFilter, Refusal, unresolvable, unschedulable
from ..world import World

AVOID_ANNOTATION = "scheduler.alpha.kubernetes.io/preferAvoidPods"
ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
INSTANCE_TYPE_LABELS = ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type")


class LegacyPlugin(Plugin):
    def __init__(self, args: Mapping[str, Any]) -> None:
        super().__init__(args)
        self.name = args.get("alias", self.name)  # type: ignore[misc]


# --- predicates


class MaxVolumeCount(LegacyPlugin):
    """A node takes only so many disks of a kind; the kinds differ in what is counted and in the limit."""

    source: ClassVar[str]
    identity: ClassVar[str]
    provisioner: ClassVar[str]
    limit_resource: ClassVar[str]
    default_limit: ClassVar[int]

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        wanted = self._disks(pod, world)
        present = {disk for other in world.pods_on(node.name) for disk in self._disks(other, world)}
        limit = node.allocatable.get(self.limit_resource, self._default(node))
        if wanted and len(wanted | present) > limit:
            return unschedulable("node(s) exceed max volume count")
        return None

    def _default(self, node: Node) -> int:
        return self.default_limit

    def _disks(self, pod: Pod, world: World) -> set[object]:
        """The disks of this kind that a pod has; one that is not known yet goes by the name of its claim."""
        disks: set[object] = set()
        for volume in pod.volumes:
            if volume.source == self.source:
                disks.add(self._identity(volume))
            elif volume.source == "persistentVolumeClaim":
                claim: Claim | None = world.get("PersistentVolumeClaim", volume.claim or "", pod.namespace)
                bound = world.get("PersistentVolume", claim.volume_name) if claim and claim.volume_name else None
                if bound is not None and bound.source == self.source:
                    disks.add(self._identity(bound))
                elif claim is not None and bound is None and self._provisions(claim, world):
                    disks.add((claim.namespace, claim.name))
        return disks

    def _identity(self, volume: PodVolume | Volume) -> object:
        return volume.details[self.identity]

    def _provisions(self, claim: Claim, world: World) -> bool:
        storage_class = world.get("StorageClass", claim.storage_class) if claim.storage_class else None
        return storage_class is not None and storage_class.provisioner == self.provisioner


class MaxEBSVolumeCount(MaxVolumeCount):
    name = "MaxEBSVolumeCount"
    source = "awsElasticBlockStore"
    identity = "volumeID"
    provisioner = "kubernetes.io/aws-ebs"
    limit_resource = "attachable-volumes-aws-ebs"
    default_limit = 39

    def _default(self, node: Node) -> int:
        instance_type = next((node.labels[key] for key in INSTANCE_TYPE_LABELS if key in node.labels), "")
        return 25 if re.search("^[cmr]5.*|t3|z1d", instance_type) else self.default_limit


class MaxGCEPDVolumeCount(MaxVolumeCount):
    name = "MaxGCEPDVolumeCount"
    source = "gcePersistentDisk"
    identity = "pdName"
    provisioner = "kubernetes.io/gce-pd"
    limit_resource = "attachable-volumes-gce-pd"
    default_limit = 16


class MaxAzureDiskVolumeCount(MaxVolumeCount):
    name = "MaxAzureDiskVolumeCount"
    source = "azureDisk"
    identity = "diskName"
    provisioner = "kubernetes.io/azure-disk"
    limit_resource = "attachable-volumes-azure-disk"
    default_limit = 16


class MaxCinderVolumeCount(MaxVolumeCount):
    name = "MaxCinderVolumeCount"
    source = "cinder"
    identity = "volumeID"
    provisioner = "kubernetes.io/cinder"
    limit_resource = "attachable-volumes-cinder"
    default_limit = 256


class PodToleratesNodeNoExecuteTaints(LegacyPlugin):
    name = "PodToleratesNodeNoExecuteTaints"

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        for taint in node.taints:
            tolerated = any(toleration.tolerates(taint) for toleration in pod.tolerations)
            if taint.effect == "NoExecute" and not tolerated:
                return unschedulable("node(s) had taints that the pod didn't tolerate")
        return None


class CheckNodeLabelPresence(LegacyPlugin):
    """Nodes must have all of the labels, or none of them."""

    name = "CheckNodeLabelPresence"

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        for label in self.args["labels"]:
            if (label in node.labels) != self.args.get("presence", False):
                return unschedulable("node(s) didn't have the requested labels")
        return None


class CheckServiceAffinity(LegacyPlugin):
    """Pods of a service go where these labels have the values that they have where the service is already.

    A pod that asks for a value in its node selector gets that one. Which pods are of the service goes by the labels of
    the pod itself: those that have them all.
    """

    name = "CheckServiceAffinity"

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        example = self._node_of_its_like(pod, world)
        there = example.labels if example else {}
        for label in self.args["labels"]:
            value = (pod.node_selector or {}).get(label, there.get(label))
            if value is not None and node.labels.get(label) != value:
                return unschedulable("node(s) didn't match service affinity")
        return None

    def _node_of_its_like(self, pod: Pod, world: World) -> Node | None:
        if not services_of(pod, world):
            return None
        holding = [
            world.nodes[node_name]
            for other, node_name in world.pods
            if other.namespace == pod.namespace
            and node_name in world.nodes
            and pod.labels.items() <= other.labels.items()
        ]
        return min(holding, key=lambda node: node.name, default=None)


class CheckNodeCondition(LegacyPlugin):
    """Nodes that are ready, not cordoned, with disk and network. What a node does not report is fine."""

    name = "CheckNodeCondition"

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        conditions = node.conditions
        wrong = {
            "node(s) were not ready": conditions.get("Ready", "True") != "True",
            "node(s) were out of disk space": conditions.get("OutOfDisk", "False") != "False",
            "node(s) had unavailable network": conditions.get("NetworkUnavailable", "False") != "False",
            "node(s) were unschedulable": node.unschedulable,
        }
        reasons = [reason for reason, holds in wrong.items() if holds]
        return unresolvable(*reasons) if reasons else None


class CheckPressure(LegacyPlugin):
    condition: ClassVar[str]
    reason: ClassVar[str]

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        return unresolvable(self.reason) if node.conditions.get(self.condition) == "True" else None


class CheckNodeMemoryPressure(CheckPressure):
    """Of no concern to pods that say how much memory or cpu they need."""

    name = "CheckNodeMemoryPressure"
    condition = "MemoryPressure"
    reason = "node(s) had memory pressure"

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        return PROCEED if pod.best_effort else NOTHING_TO_SAY


class CheckNodeDiskPressure(CheckPressure):
    name = "CheckNodeDiskPressure"
    condition = "DiskPressure"
    reason = "node(s) had disk pressure"


class CheckNodePIDPressure(CheckPressure):
    name = "CheckNodePIDPressure"
    condition = "PIDPressure"
    reason = "node(s) had pid pressure"


# --- priorities


def services_of(pod: Pod, world: World) -> list[Service]:
    """The services that select the pod, by name."""
    return sorted(
        (
            service
            for service in world.all("Service")
            if service.namespace == pod.namespace
            and service.selector
            and service.selector.items() <= pod.labels.items()
        ),
        key=lambda service: service.name,
    )


def owners_of(pod: Pod, world: World) -> list[WorkloadOwner]:
    """The controllers that would take the pod for their own; what owns it does not matter."""
    return [
        owner
        for kind in ("ReplicationController", "ReplicaSet", "StatefulSet")
        for owner in world.all(kind)
        if owner.namespace == pod.namespace and selects(owner.selector, pod)
    ]


def selects(selector: LabelSelector | None, pod: Pod) -> bool:
    return selector is not None and bool(selector.requirements) and bool(pod.labels) and selector.matches(pod.labels)


class SelectorSpreadPriority(LegacyPlugin):
    """Few pods of the same services and controllers on a node, and two thirds of the score: few in its zone."""

    name = "SelectorSpreadPriority"

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int] | None:
        counts = {node.name: self._count(pod, node, world) for node in feasible}
        zone_counts: dict[tuple[str, str], int] = {}
        for node in feasible:
            if zone := zone_of(node):
                zone_counts[zone] = zone_counts.get(zone, 0) + counts[node.name]
        most, most_in_zone = max(counts.values(), default=0), max(zone_counts.values(), default=0)
        scores = {}
        for node in feasible:
            score = share_missing(counts[node.name], most)
            if zone := zone_of(node):
                zone_score = share_missing(zone_counts[zone], most_in_zone)
                score = (score * (1.0 - 2.0 / 3.0)) + (2.0 / 3.0 * zone_score)
            scores[node.name] = int(score)
        return scores

    def _count(self, pod: Pod, node: Node, world: World) -> int:
        services, owners = services_of(pod, world), owners_of(pod, world)
        if not services and not owners:
            return 0
        return sum(
            all(service.selector.items() <= other.labels.items() for service in services)
            and all(owner.selector is not None and owner.selector.matches(other.labels) for owner in owners)
            for other in world.pods_on(node.name)
            if other.namespace == pod.namespace and not other.deleting
        )


class ServiceSpreadingPriority(SelectorSpreadPriority):
    """The same by services alone, any of which may select the other pod."""

    name = "ServiceSpreadingPriority"

    def _count(self, pod: Pod, node: Node, world: World) -> int:
        return sum(
            any(service.selector.items() <= other.labels.items() for service in services_of(pod, world))
            for other in world.pods_on(node.name)
            if other.namespace == pod.namespace and not other.deleting
        )


def share_missing(count: int, most: int) -> float:
    """100 where there is none, 0 where there are most."""
    return float(MAX_SCORE) * ((most - count) / most) if most > 0 else float(MAX_SCORE)


def zone_of(node: Node) -> tuple[str, str] | None:
    region = next((node.labels[key] for key in REGION_LABELS if key in node.labels), "")
    zone = next((node.labels[key] for key in ZONE_LABELS if key in node.labels), "")
    return (region, zone) if region or zone else None


class ServiceAntiAffinity(LegacyPlugin):
    """Few pods of the service where the label has the same value; nothing for nodes without the label."""

    name = "ServiceAntiAffinity"

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int] | None:
        label = self.args["label"]
        counts = {node.name: self._count(pod, node, world) for node in feasible}
        total = sum(counts.values())
        by_value: dict[str, int] = {}
        for node in feasible:
            if label in node.labels:
                value = node.labels[label]
                by_value[value] = by_value.get(value, 0) + counts[node.name]
        return {
            node.name: int(share_missing(by_value[node.labels[label]], total)) if label in node.labels else 0
            for node in feasible
        }

    def _count(self, pod: Pod, node: Node, world: World) -> int:
        services = services_of(pod, world)
        if not services:
            return 0
        return sum(
            services[0].selector.items() <= other.labels.items()
            for other in world.pods_on(node.name)
            if other.namespace == pod.namespace and not other.deleting
        )


class NodePreferAvoidPodsPriority(LegacyPlugin):
    """Nothing for nodes whose annotation names the ReplicationController or ReplicaSet of the pod."""

    name = "NodePreferAvoidPodsPriority"

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int] | None:
        owner = pod.controller
        if owner is None or owner.kind not in ("ReplicationController", "ReplicaSet"):
            return {node.name: MAX_SCORE for node in feasible}
        unwanted = (owner.kind, owner.uid)
        return {node.name: 0 if unwanted in self._avoided(node) else MAX_SCORE for node in feasible}

    def _avoided(self, node: Node) -> list[tuple[str, str]]:
        """Kind and UID of the controllers that are named; none if the annotation makes no sense."""
        try:
            entries = json.loads(node.annotations.get(AVOID_ANNOTATION) or "{}").get("preferAvoidPods") or []
            controllers = [entry["podSignature"]["podController"] for entry in entries]
            return [(controller.get("kind", ""), controller.get("uid", "")) for controller in controllers]
        except (ValueError, TypeError, KeyError, AttributeError):
            return []


class ResourceLimitsPriority(LegacyPlugin):
    """1 where the node could hold the pod's cpu or memory limit if it were empty, to break ties; else 0."""

    name = "ResourceLimitsPriority"

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int] | None:
        return {node.name: int(any(self._holds(node, pod, name) for name in ("cpu", "memory"))) for node in feasible}

    def _holds(self, node: Node, pod: Pod, resource: str) -> bool:
        return 0 < pod.limits.get(resource, 0) <= node.allocatable.get(resource, 0)


class EqualPriority(LegacyPlugin):
    name = "EqualPriority"

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int] | None:
        return {node.name: 1 for node in feasible}


class LabelPreference(LegacyPlugin):
    """100 where the label is there, or where it is not."""

    name = "LabelPreference"

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int] | None:
        label, presence = self.args["label"], self.args.get("presence", False)
        return {node.name: MAX_SCORE if (label in node.labels) == presence else 0 for node in feasible}


PLUGINS = (
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
    MaxAzureDiskVolumeCount,
    MaxCinderVolumeCount,
    PodToleratesNodeNoExecuteTaints,
    CheckNodeLabelPresence,
    CheckServiceAffinity,
    CheckNodeCondition,
    CheckNodeMemoryPressure,
    CheckNodeDiskPressure,
    CheckNodePIDPressure,
    SelectorSpreadPriority,
    ServiceSpreadingPriority,
    ServiceAntiAffinity,
    NodePreferAvoidPodsPriority,
    ResourceLimitsPriority,
    EqualPriority,
    LabelPreference,
)
