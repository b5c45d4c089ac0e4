"""API objects as frozen records, parsed once from plain dicts.

One rule for every kind: an unknown field is ignored; a known field with an invalid value makes the whole object
InvalidObject, with the object and the field in the message. A parse function raises no other exception, whatever it is
given.
"""

from .affinity import (
    PodAffinity,
    PodTerm,
    Role,
    SpreadConstraint,
    WeightedPodTerm,
    build_node_affinity,
    build_spread_constraint,
)
from .containers import HostPort, normalised_image
from .errors import InvalidObject
from .fields import FieldError, object_key
from .kinds import KIND, KINDS, Kind, Record, parse
from .node import Node, parse_node
from .pod import OwnerReference, Pod, parse_pod, replica_of
from .quantity import parse_quantity, to_milli, to_value
from .resources import is_counted_resource, is_extended_resource
from .salvage import salvage_pod
from .selectors import (
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    PreferredTerm,
    Requirement,
    build_label_selector,
    build_node_selector,
    make_label_selector,
    parse_int64,
    selector_from_labels,
)
from .storage import (
    Claim,
    ClaimReference,
    CSIDriver,
    CSINode,
    CSINodeDriver,
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
from .taints import Taint, Toleration
from .volumes import PodVolume
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

__all__ = [
    "KIND",
    "KINDS",
    "CSIDriver",
    "CSINode",
    "CSINodeDriver",
    "CSIStorageCapacity",
    "Claim",
    "ClaimReference",
    "DisruptionBudget",
    "FieldError",
    "HostPort",
    "InvalidObject",
    "Kind",
    "LabelSelector",
    "Namespace",
    "Node",
    "NodeSelector",
    "NodeSelectorTerm",
    "OwnerReference",
    "Pod",
    "PodAffinity",
    "PodTerm",
    "PodVolume",
    "PreferredTerm",
    "Record",
    "Requirement",
    "Role",
    "Service",
    "SpreadConstraint",
    "StorageClass",
    "Taint",
    "Toleration",
    "Volume",
    "WeightedPodTerm",
    "WorkloadOwner",
    "build_label_selector",
    "build_node_affinity",
    "build_node_selector",
    "build_spread_constraint",
    "is_counted_resource",
    "is_extended_resource",
    "make_label_selector",
    "normalised_image",
    "object_key",
    "parse",
    "parse_claim",
    "parse_csi_driver",
    "parse_csi_node",
    "parse_csi_storage_capacity",
    "parse_disruption_budget",
    "parse_int64",
    "parse_namespace",
    "parse_node",
    "parse_pod",
    "parse_quantity",
    "parse_replica_set",
    "parse_replication_controller",
    "parse_service",
    "parse_stateful_set",
    "parse_storage_class",
    "parse_volume",
    "replica_of",
    "salvage_pod",
    "selector_from_labels",
    "to_milli",
    "to_value",
]
