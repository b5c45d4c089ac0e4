"""Table of the kinds of objects that decisions read: API group, version, plural, scope and parse function.

SchedulingPolicy is not in it: it belongs to the policy package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from .node import Node, parse_node
from .pod import Pod, parse_pod
from .storage import (
    Claim,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
    Volume,
    parse_claim,
    parse_csi_driver,
    parse_csi_node,
    parse_csi_storage_capacity,
    parse_storage_class,
    parse_volume,
)
from .workloads import (
    DisruptionBudget,
    Namespace,
    Service,
    WorkloadOwner,
    parse_disruption_budget,
    parse_namespace,
    parse_replica_set,
    parse_replication_controller,
    parse_service,
    parse_stateful_set,
)

Record: TypeAlias = (
    Pod
    | Node
    | Namespace
    | Claim
    | Volume
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | DisruptionBudget
    | Service
    | WorkloadOwner
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object: `group` is "" for the core group."""

    name: str
    group: str
    version: str
    plural: str
    namespaced: bool
    parse: Callable[[object], Record]


KINDS: Final = (
    Kind("Pod", "", "v1", "pods", True, parse_pod),
    Kind("Node", "", "v1", "nodes", False, parse_node),
    Kind("Namespace", "", "v1", "namespaces", False, parse_namespace),
    Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", True, parse_claim),
    Kind("PersistentVolume", "", "v1", "persistentvolumes", False, parse_volume),
    Kind("StorageClass", "storage.k8s.io", "v1", "storageclasses", False, parse_storage_class),
    Kind("CSINode", "storage.k8s.io", "v1", "csinodes", False, parse_csi_node),
    Kind("CSIDriver", "storage.k8s.io", "v1", "csidrivers", False, parse_csi_driver),
    Kind("CSIStorageCapacity", "storage.k8s.io", "v1", "csistoragecapacities", True, parse_csi_storage_capacity),
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", True, parse_disruption_budget),
    Kind("Service", "", "v1", "services", True, parse_service),
    Kind("ReplicationController", "", "v1", "replicationcontrollers", True, parse_replication_controller),
    Kind("ReplicaSet", "apps", "v1", "replicasets", True, parse_replica_set),
    Kind("StatefulSet", "apps", "v1", "statefulsets", True, parse_stateful_set),
)

KIND: Final[Mapping[str, Kind]] = {kind.name: kind for kind in KINDS}


def parse(kind_name: str, body: object) -> Record:
    """Parse an API body of this kind; raises InvalidObject."""
    return KIND[kind_name].parse(body)
