"""What happens in a cluster, at the grain at which it can change a plugin's mind.

The cache turns object changes into these events; each plugin says which of them may help a pod it turned away
(`Plugin.wakes_on`); the queue brings back the pods that an event may help, and no others.
"""

from enum import StrEnum


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
