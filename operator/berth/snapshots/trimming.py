"""What a snapshot leaves out of objects: what no decision reads, above all environments, commands and addresses.

A trimmed object parses to the same record as the original (tests/snapshots).
"""

from collections.abc import Mapping
from typing import Any, Final

from berth.model.storage import VOLUME_SOURCES
from berth.model.volumes import POD_VOLUME_SOURCES

Body = dict[str, Any]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
)
CONTAINER: Final = ("name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules")
CONTAINER_STATUS: Final = ("name", "resources", "allocatedResources")
POD_SPEC: Final = (
    "schedulerName",
    "nodeName",
    "priority",
    "priorityClassName",
    "preemptionPolicy",
    "schedulingGates",
    "containers",
    "initContainers",
    "resources",
    "overhead",
    "hostNetwork",
    "hostUsers",
    "runtimeClassName",
    "tolerations",
    "nodeSelector",
    "affinity",
    "topologySpreadConstraints",
    "volumes",
    "resourceClaims",
    "restartPolicy",
)
POD_STATUS: Final = (
    "phase",
    "nominatedNodeName",
    "startTime",
    "conditions",
    "resources",
    "allocatedResources",
    "resize",
    "containerStatuses",
    "initContainerStatuses",
)
VOLUME_SPEC: Final = (
    "accessModes",
    "capacity",
    "claimRef",
    "nodeAffinity",
    "storageClassName",
    "volumeMode",
    "volumeAttributesClassName",
    "persistentVolumeReclaimPolicy",
)
CSI_VOLUME: Final = ("driver", "volumeHandle")
STORAGE_CLASS: Final = ("apiVersion", "kind", "metadata", "provisioner", "volumeBindingMode", "allowedTopologies")
NODE_SPEC: Final = ("taints", "unschedulable")
NODE_STATUS: Final = ("allocatable", "capacity", "conditions", "images", "declaredFeatures")
CONDITION: Final = ("type", "status", "reason", "message")
_CONTAINERS: Final = ("containers", "initContainers")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses")


def trimmed(body: Mapping[str, Any]) -> Body:
    """Returns the object with nothing but what decisions read. What has an unexpected form is kept as it is."""
    kept, kind, spec = dict(body), body.get("kind"), body.get("spec")
    kept["metadata"] = _metadata(body.get("metadata"), pod=kind == "Pod")
    if kind == "Pod":
        kept |= {"spec": _pod_spec(spec), "status": _pod_status(body.get("status"))}
    elif kind == "Node":
        kept |= {"spec": _picked(spec, NODE_SPEC), "status": _node_status(body.get("status"))}
    elif kind == "Service":
        kept |= {"spec": _picked(spec, ("selector",)), "status": None}
    elif kind == "PersistentVolume":
        kept["spec"] = _volume_spec(spec)
    elif kind == "StorageClass":
        kept = _picked(kept, STORAGE_CLASS)
    elif isinstance(template := _template(body), Mapping):
        kept["spec"] = {**body["spec"], "template": {**template, "spec": _pod_spec(template.get("spec"))}}
    return {name: value for name, value in kept.items() if value is not None}


def _template(body: Mapping[str, Any]) -> object:
    spec = body.get("spec")
    return spec.get("template") if isinstance(spec, Mapping) else None


def _metadata(metadata: object, *, pod: bool) -> object:
    if not isinstance(metadata, Mapping):
        return metadata
    kept = _picked(metadata, METADATA)
    annotations = metadata.get("annotations")
    if pod or not isinstance(annotations, Mapping):
        kept.pop("annotations", None)
    else:
        kept["annotations"] = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    return kept


def _pod_spec(spec: object) -> object:
    if not isinstance(spec, Mapping):
        return spec
    kept = _picked(spec, POD_SPEC)
    for name in _CONTAINERS:
        if isinstance(kept.get(name), list):
            kept[name] = [_picked(container, CONTAINER) for container in kept[name]]
    if isinstance(kept.get("volumes"), list):
        kept["volumes"] = [volume for volume in map(_volume, kept["volumes"]) if volume]
    return kept


def _volume(volume: object) -> object:
    """Returns the volume with the sources that decisions can depend on; {} if it has none of them."""
    if not isinstance(volume, Mapping):
        return volume
    sources = {source: volume[source] for source in POD_VOLUME_SOURCES if source in volume}
    return {"name": volume.get("name"), **sources} if sources else {}


def _volume_spec(spec: object) -> object:
    """Returns the spec of a PersistentVolume with the fields of its source that identify the disk."""
    if not isinstance(spec, Mapping):
        return spec
    sources = {
        source: _picked(spec[source], (*CSI_VOLUME, *POD_VOLUME_SOURCES.get(source, ())))
        for source in VOLUME_SOURCES
        if spec.get(source) is not None
    }
    return {**_picked(spec, VOLUME_SPEC), **sources}


def _pod_status(status: object) -> object:
    if not isinstance(status, Mapping):
        return status
    kept = _picked(status, POD_STATUS)
    for name in _STATUSES:
        if isinstance(kept.get(name), list):
            kept[name] = [_picked(each, CONTAINER_STATUS) for each in kept[name]]
    return kept | _conditions(status)


def _node_status(status: object) -> object:
    return _picked(status, NODE_STATUS) | _conditions(status) if isinstance(status, Mapping) else status


def _conditions(status: Mapping[str, Any]) -> Body:
    conditions = status.get("conditions")
    return {"conditions": [_picked(each, CONDITION) for each in conditions]} if isinstance(conditions, list) else {}


def _picked(body: object, names: tuple[str, ...]) -> Any:
    if not isinstance(body, Mapping):
        return body
    return {name: body[name] for name in names if name in body}
