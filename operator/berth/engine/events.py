"""What happens in a cluster, at the grain at which it can change a plugin's mind.

The cache turns what happens to objects into changes; each plugin says which events may help a pod that it turned away
(`Plugin.wakes_on`), and, with the change before it, whether this one may (`Plugin.hint`); the queue brings back the
pods that a change may help, and no others.
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
    POD_REMOVED = "AssignedPodDelete"  # a placed pod is gone or forgotten, or a nominated one gave its node up
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
    """What happened to one object: the events that it means, and the object before and after.

    `old` is None where it was not there before, `new` where it is gone; where both are, nothing more is known than the
    events. `node` is the name of the only node that the object has to do with: of a node its own, of a pod the one that
    it came to, is on, left or gave up, of a CSINode its node's; "" for other objects.
    """

    events: frozenset[Event]
    old: Record | None = None
    new: Record | None = None
    node: str = ""

    @property
    def known(self) -> bool:
        """Whether more is known than the events."""
        return self.old is not None or self.new is not None
