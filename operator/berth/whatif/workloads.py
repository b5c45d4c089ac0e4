"""Workloads: what pods are grouped by, and which one a pod belongs to.

A pod belongs to its controller, and a ReplicaSet or Job to its own: the Deployment or CronJob. Pods without a
controller that ask for the same are one group, named after the first of them. So a report has one row for pods that
are alike, however many there are.
"""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from berth.model import Node, Pod

ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
NO_ZONE = "-"
MIRROR = "Node"  # the owner of a static pod's mirror is its node

# Kinds that have pods, by the API group that they are in.
GROUPS: Mapping[str, str] = {
    "Pod": "",
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "ReplicationController": "",
    "Job": "batch",
    "CronJob": "batch",
}


class Workload(NamedTuple):
    kind: str
    namespace: str
    name: str

    @property
    def label(self) -> str:
        """`deployment/web`"""
        return f"{self.kind.lower()}/{self.name}"

    @property
    def resource_name(self) -> str:
        """As `kubectl get -o name` has it: `deployment.apps/web`."""
        group = GROUPS.get(self.kind, "")
        return f"{self.kind.lower()}{'.' if group else ''}{group}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def controller_of(body: Mapping[str, Any]) -> Workload | None:
    """Returns the owner that manages the object."""
    metadata = body["metadata"]
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return Workload(str(owner.get("kind")), str(metadata.get("namespace")), str(owner.get("name")))
    return None


class Grouping:
    """Which workload a pod belongs to. `controllers`: of ReplicaSets and Jobs, the workload that manages them."""

    def __init__(self, controllers: Mapping[Workload, Workload]) -> None:
        self._controllers = controllers
        self._alike: dict[Hashable, Workload] = {}

    def of(self, pod: Pod) -> Workload:
        owner = pod.controller
        if owner is None:
            return self._bare(pod)
        direct = Workload(owner.kind, pod.namespace, owner.name)
        return self._controllers.get(direct, direct)

    def _bare(self, pod: Pod) -> Workload:
        """Returns the group of pods without a controller that are alike, wherever they are."""
        unbound = replace(pod, node_name="") if pod.node_name else pod
        alike = unbound.signature, pod.priority
        return self._alike.setdefault(alike, Workload("Pod", pod.namespace, pod.name))


def zone_of(node: Node) -> str:
    return next((node.labels[key] for key in ZONE_LABELS if key in node.labels), NO_ZONE)


def is_static(pod: Pod) -> bool:
    """Whether the pod is the mirror of a static pod, which only its kubelet can move."""
    return pod.controller is not None and pod.controller.kind == MIRROR


def is_bound_to_its_node(pod: Pod) -> bool:
    """Whether the pod belongs to its node: one of a DaemonSet, or a static pod. A drain leaves it where it is."""
    return pod.controller is not None and pod.controller.kind in ("DaemonSet", MIRROR)
