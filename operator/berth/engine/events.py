"""Cluster events that can make an unschedulable pod schedulable (kube-scheduler's ClusterEvent).

The scheduler's cache turns every change of an object into a Change with its events. Each plugin registers the events
that may help a pod that it rejected (`Plugin.retry_events`), and decides for a single change whether it may help (the
queueing hint, `Plugin.hint`). The queue retries the pods that a change may help, and no others.
"""

from dataclasses import dataclass
from enum import StrEnum

from berth.model import Record


class Event(StrEnum):
    NODE_ADDED = "NodeAdd"
    NODE_REMOVED = "NodeDelete"
    NODE_ALLOCATABLE = "NodeAllocatable"  # more of some resource, or a limit less
    NODE_LABELS = "NodeLabels"
    NODE_TAINTS = "NodeTaints"  # taints, or spec.unschedulable
    NODE_OTHER = "NodeOther"  # conditions, annotations, images, declared features
    POD_ASSIGNED = "AssignedPodAdd"
    POD_REMOVED = "AssignedPodDelete"  # a placed pod was removed or forgotten, or a nomination was cleared
    POD_SHRUNK = "AssignedPodShrunk"
    POD_LABELS = "AssignedPodLabels"
    NAMESPACE = "Namespace"
    CLAIM = "PersistentVolumeClaim"
    VOLUME = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_CAPACITY = "CSIStorageCapacity"
    SERVICE = "Service"
    OWNER = "WorkloadOwner"  # a ReplicationController, ReplicaSet or StatefulSet
    BUDGET = "PodDisruptionBudget"
    POLICY = "SchedulingPolicy"


ANY = frozenset(Event)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one object: its events, and the object before and after.

    `old` is None if the object is new, `new` if it was removed; if both are None, only the events are known. `node` is
    the name of the only node that the object relates to: for a node its own name, for a pod the node that it is on, was
    on, or was nominated to, for a CSINode its node; "" for other objects.
    """

    events: frozenset[Event]
    old: Record | None = None
    new: Record | None = None
    node: str = ""

    @property
    def known(self) -> bool:
        """Whether the object is known, and not only the events."""
        return self.old is not None or self.new is not None
