"""Storage objects: claims, volumes, classes, and CSI drivers with their nodes and capacities.

A missing class differs from an empty one: a claim with class None has none yet, one with "" requests a volume without a
class. The annotation that preceded the field still takes precedence over it, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .fields import (
    MAX_INT32,
    Body,
    FieldError,
    read,
    read_choice,
    read_flag,
    read_list,
    read_object,
    read_optional,
    read_optional_integer,
    read_quantities,
    read_quantity,
    read_required_text,
    read_text,
    read_texts,
)
from .metadata import Metadata, read_metadata
from .quantity import to_value
from .selectors import (
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    build_node_selector,
    build_topology_term,
    read_label_selector,
)
from .volumes import Detail, read_source_details

CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
MIGRATED_ANNOTATION: Final = "storage.alpha.kubernetes.io/migrated-plugins"
VOLUME_SOURCES: Final = (
    "csi", "local", "hostPath", "nfs", "iscsi", "fc", "rbd", "cephfs", "awsElasticBlockStore", "gcePersistentDisk",
    "azureDisk", "azureFile", "cinder", "vsphereVolume", "portworxVolume", "flexVolume", "glusterfs", "quobyte",
    "scaleIO", "storageos", "photonPersistentDisk", "flocker",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim; `controller_uid` is the UID of the owner that manages it, "" without one.

    The claim of an ephemeral volume is managed by its pod: another pod of the same name must not use it.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    deleting: bool
    phase: str
    volume_name: str
    storage_class: str | None
    access_modes: tuple[str, ...]
    requested_bytes: int
    selector: LabelSelector | None
    volume_mode: str
    attributes_class: str
    controller_uid: str

    def __hash__(self) -> int:
        return hash(self.uid)


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """The claim that a volume is bound to or reserved for; uid is "" while it is only reserved."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume; `source` and the keys of `details` are the API's own names."""

    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    deleting: bool
    phase: str
    claim_ref: ClaimReference | None
    capacity_bytes: int
    access_modes: tuple[str, ...]
    storage_class: str
    volume_mode: str
    attributes_class: str
    node_affinity: NodeSelector | None
    source: str
    details: Mapping[str, Detail]
    csi_driver: str
    csi_handle: str

    def __hash__(self) -> int:
        return hash(self.uid)


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A StorageClass; one of `allowed_topologies` must match a node, unless there are none."""

    name: str
    uid: str
    resource_version: str
    provisioner: str
    binding_mode: str
    allowed_topologies: tuple[NodeSelectorTerm, ...]


@dataclass(frozen=True, slots=True)
class CSINodeDriver:
    """A CSI driver on a node; `count` is how many volumes it can attach there, None without a limit."""

    name: str
    node_id: str
    topology_keys: tuple[str, ...]
    count: int | None


@dataclass(frozen=True, slots=True)
class CSINode:
    """The CSI drivers of the node of the same name, and the in-tree plugins that are migrated to them."""

    name: str
    uid: str
    resource_version: str
    drivers: tuple[CSINodeDriver, ...]
    migrated_plugins: frozenset[str]


@dataclass(frozen=True, slots=True)
class CSIDriver:
    """A CSI driver; `storage_capacity` says that it publishes CSIStorageCapacity objects."""

    name: str
    uid: str
    resource_version: str
    storage_capacity: bool


@dataclass(frozen=True, slots=True)
class CSIStorageCapacity:
    """The free capacity of a class on the nodes that `node_topology` matches (None: no node)."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    storage_class: str
    node_topology: LabelSelector | None
    capacity_bytes: int | None
    maximum_volume_bytes: int | None


def parse_claim(body: object) -> Claim:
    """Parse the API body of a PersistentVolumeClaim; raises InvalidObject."""
    return read("PersistentVolumeClaim", body, _claim)


def parse_volume(body: object) -> Volume:
    """Parse the API body of a PersistentVolume; raises InvalidObject."""
    return read("PersistentVolume", body, _volume)


def parse_storage_class(body: object) -> StorageClass:
    """Parse the API body of a StorageClass; raises InvalidObject."""
    return read("StorageClass", body, _storage_class)


def parse_csi_node(body: object) -> CSINode:
    """Parse the API body of a CSINode; raises InvalidObject."""
    return read("CSINode", body, _csi_node)


def parse_csi_driver(body: object) -> CSIDriver:
    """Parse the API body of a CSIDriver; raises InvalidObject."""
    return read("CSIDriver", body, _csi_driver)


def parse_csi_storage_capacity(body: object) -> CSIStorageCapacity:
    """Parse the API body of a CSIStorageCapacity; raises InvalidObject."""
    return read("CSIStorageCapacity", body, _csi_storage_capacity)


def _claim(body: Body) -> Claim:
    metadata = read_metadata(body, namespaced=True)
    phase = _phase(body)
    owners = read_optional(body, "metadata", lambda m: read_list(m, "ownerReferences", _owner)) or ()
    spec = read_object(body, "spec")
    try:
        return Claim(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            labels=metadata.labels,
            annotations=metadata.annotations,
            deleting=metadata.deleting,
            phase=phase,
            volume_name=read_text(spec, "volumeName"),
            storage_class=_class_of(spec, metadata),
            access_modes=read_texts(spec, "accessModes"),
            requested_bytes=read_optional(spec, "resources", _requested_bytes) or 0,
            selector=read_label_selector(spec, "selector"),
            volume_mode=read_text(spec, "volumeMode") or "Filesystem",
            attributes_class=read_text(spec, "volumeAttributesClassName"),
            controller_uid=next((uid for uid, manages in owners if manages), ""),
        )
    except FieldError as error:
        raise error.within("spec") from None


def _volume(body: Body) -> Volume:
    metadata = read_metadata(body, namespaced=False)
    phase = _phase(body)
    spec = read_object(body, "spec")
    try:
        source = next((name for name in VOLUME_SOURCES if spec.get(name) is not None), "")
        csi = read_object(spec, "csi")
        return Volume(
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            labels=metadata.labels,
            annotations=metadata.annotations,
            deleting=metadata.deleting,
            phase=phase,
            claim_ref=read_optional(spec, "claimRef", _claim_reference),
            capacity_bytes=_storage_bytes(spec, "capacity"),
            access_modes=read_texts(spec, "accessModes"),
            storage_class=_class_of(spec, metadata) or "",
            volume_mode=read_text(spec, "volumeMode") or "Filesystem",
            attributes_class=read_text(spec, "volumeAttributesClassName"),
            node_affinity=read_optional(spec, "nodeAffinity", _required_selector),
            source=source,
            details=read_source_details(spec, source),
            csi_driver=_csi_text(csi, "driver"),
            csi_handle=_csi_text(csi, "volumeHandle"),
        )
    except FieldError as error:
        raise error.within("spec") from None


def _storage_class(body: Body) -> StorageClass:
    metadata = read_metadata(body, namespaced=False)
    return StorageClass(
        metadata.name,
        metadata.uid,
        metadata.resource_version,
        read_required_text(body, "provisioner"),
        read_choice(body, "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"), "Immediate"),
        read_list(body, "allowedTopologies", build_topology_term),
    )


def _csi_node(body: Body) -> CSINode:
    metadata = read_metadata(body, namespaced=False)
    drivers = read_optional(body, "spec", lambda spec: read_list(spec, "drivers", _csi_node_driver)) or ()
    migrated = metadata.annotations.get(MIGRATED_ANNOTATION, "")
    names = frozenset(name for name in migrated.split(",") if name)
    return CSINode(metadata.name, metadata.uid, metadata.resource_version, drivers, names)


def _csi_node_driver(body: Body) -> CSINodeDriver:
    return CSINodeDriver(
        read_required_text(body, "name"),
        read_text(body, "nodeID"),
        read_texts(body, "topologyKeys"),
        read_optional(body, "allocatable", lambda limits: read_optional_integer(limits, "count", 0, MAX_INT32)),
    )


def _csi_driver(body: Body) -> CSIDriver:
    metadata = read_metadata(body, namespaced=False)
    publishes = read_optional(body, "spec", lambda spec: read_flag(spec, "storageCapacity")) or False
    return CSIDriver(metadata.name, metadata.uid, metadata.resource_version, publishes)


def _csi_storage_capacity(body: Body) -> CSIStorageCapacity:
    metadata = read_metadata(body, namespaced=True)
    return CSIStorageCapacity(
        metadata.namespace,
        metadata.name,
        metadata.uid,
        metadata.resource_version,
        read_required_text(body, "storageClassName"),
        read_label_selector(body, "nodeTopology"),
        _bytes(read_quantity(body, "capacity")),
        # The API server does not validate this one; a negative size is too small for every volume.
        _bytes(read_quantity(body, "maximumVolumeSize", signed=True)),
    )


def _phase(body: Body) -> str:
    return read_optional(body, "status", lambda status: read_text(status, "phase")) or ""


def _class_of(spec: Body, metadata: Metadata) -> str | None:
    named = read_text(spec, "storageClassName") if spec.get("storageClassName") is not None else None
    return metadata.annotations.get(CLASS_ANNOTATION, named)


def _storage_bytes(owner: Body, name: str) -> int:
    return to_value(read_quantities(owner, name).get("storage", 0))


def _requested_bytes(resources: Body) -> int:
    return _storage_bytes(resources, "requests")


def _bytes(nanos: int | None) -> int | None:
    return None if nanos is None else to_value(nanos)


def _claim_reference(body: Body) -> ClaimReference:
    """The API server accepts a reference without a namespace or name: no claim can use the volume then."""
    return ClaimReference(read_text(body, "namespace"), read_text(body, "name"), read_text(body, "uid"))


def _required_selector(body: Body) -> NodeSelector | None:
    return read_optional(body, "required", build_node_selector)


def _csi_text(csi: Body, name: str) -> str:
    try:
        return read_text(csi, name)
    except FieldError as error:
        raise error.within("csi") from None


def _owner(body: Body) -> tuple[str, bool]:
    return read_text(body, "uid"), read_flag(body, "controller")
