"""Reasons why a pod enters a part of the queue, named as in kube-scheduler's `scheduler_queue_incoming_pods_total`.

A change of an object is named by its kind and by what happened to it; what happens inside the queue has a name of its
own. There are about forty.
"""

from collections.abc import Mapping
from typing import Final

from berth.engine.events import Change, Event

POD_ADD: Final = "UnschedulablePodAdd"
POD_UPDATE: Final = "UnschedulablePodUpdate"
POD_LABELS: Final = "UnschedulablePodUpdatePodLabel"
GATES_GONE: Final = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"
BACKOFF_OVER: Final = "BackoffComplete"
BACKOFF_CUT: Final = "PopFromBackoffQ"
FORCED: Final = "ForceActivate"
TIMEOUT: Final = "UnschedulableTimeout"
NAMESPACE: Final = "NamespaceUpdate"
POLICY: Final = "SchedulingPolicyUpdate"

_NAMES: Mapping[Event, str] = {
    Event.NODE_ADDED: "NodeAdd",
    Event.NODE_REMOVED: "NodeDelete",
    Event.NODE_ALLOCATABLE: "NodeUpdateNodeAllocatable",
    Event.NODE_LABELS: "NodeUpdateNodeLabel",
    Event.NODE_TAINTS: "NodeUpdateNodeTaint",
    Event.NODE_OTHER: "NodeUpdateNodeCondition",
    Event.POD_ASSIGNED: "AssignedPodAdd",
    Event.POD_REMOVED: "AssignedPodDelete",
    Event.POD_SHRUNK: "AssignedPodUpdatePodScaleDown",
    Event.POD_LABELS: "AssignedPodUpdatePodLabel",
    Event.POLICY: POLICY,
}
_KINDS: Mapping[Event, str] = {
    Event.NAMESPACE: "Namespace",
    Event.CLAIM: "PersistentVolumeClaim",
    Event.VOLUME: "PersistentVolume",
    Event.STORAGE_CLASS: "storage.k8s.io/StorageClass",
    Event.CSI_NODE: "storage.k8s.io/CSINode",
    Event.CSI_DRIVER: "storage.k8s.io/CSIDriver",
    Event.CSI_CAPACITY: "storage.k8s.io/CSIStorageCapacity",
    Event.SERVICE: "Service",
    Event.OWNER: "WorkloadOwner",
    Event.BUDGET: "PodDisruptionBudget",
}
_ORDER: Mapping[Event, int] = {event: number for number, event in enumerate(Event)}


def cause_of(change: Change) -> str:
    """The name of the change; if it has several events, of the first one in the order of their definition."""
    event = min(change.events, key=_ORDER.__getitem__)
    name = _NAMES.get(event)
    if name is not None:
        return name
    if not change.known:
        return f"{_KINDS[event]}Update"
    return f"{_KINDS[event]}{'Add' if change.old is None else 'Delete' if change.new is None else 'Update'}"
