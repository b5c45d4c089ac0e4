"""What comes in, and what an update makes of what is there: each way of writing changes its own part only.

    plain update     everything but the status, and what only the server writes
    status           the status; of built-in kinds also labels and the like
    finalize         the finalizers in a namespace's spec

Pure functions. A body that comes in is copied once, here, and belongs to the store from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.sim.builtin_kinds.pods import storage_conflict
from berth.sim.builtin_kinds.type_checks import check_types
from berth.sim.errors import Cause, bad_request, conflict, invalid, not_implemented
from berth.sim.objects import Object, copied, items, mapping, read
from berth.sim.resources import NAMESPACES, PODS, Resource
from berth.sim.store import event_versions

MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"
# Kinds whose objects count the changes of what is asked for, besides custom resources.
COUNTED: Final = frozenset(
    {
        "pods",
        "replicationcontrollers",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "cronjobs.batch",
        "ingresses.networking.k8s.io",
        "networkpolicies.networking.k8s.io",
        "jobs.batch",
        "poddisruptionbudgets.policy",
        "priorityclasses.scheduling.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
    }
)
# Kinds that may not be replaced without naming the version that is replaced, besides custom resources.
CONDITIONAL: Final = frozenset(
    {
        "leases.coordination.k8s.io",
        "poddisruptionbudgets.policy",
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
    }
)
# Metadata that only the server writes.
SERVERS_OWN: Final = (
    "name",
    "namespace",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "generateName",
)
LEFT_OUT: Final = ("managedFields", "selfLink")
EMPTY_MEANS_ABSENT: Final = ("labels", "annotations", "finalizers", "ownerReferences")
# What the server filled in at creation, and an update without it does not take away.
KEPT_IN_SPEC: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": ("priority", "preemptionPolicy", "nodeName"),
    "services": ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"),
    "persistentvolumeclaims": ("storageClassName", "volumeName"),
    "namespaces": ("finalizers",),
}


# -- what comes in -----------------------------------------------------------------------------------------------------


def incoming(resource: Resource, body: Mapping[str, Any], namespace: str) -> Object:
    """Returns a copy of a body that was sent, after a check of its kind and version."""
    if not isinstance(body.get("metadata") or {}, Mapping):
        raise bad_request(f"the body is not a {resource.kind}: its metadata is not an object")
    _check_type(resource, body)
    rest = {key: copied(value) for key, value in body.items() if key not in ("apiVersion", "kind", "metadata")}
    metadata: Object = copied(dict(body.get("metadata") or {}))
    fresh = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata, **rest}
    if resource.storage == "events":
        fresh = event_versions.to_stored(fresh)
    check_types(resource, fresh)
    _settle(resource, metadata, namespace)
    return fresh


def _settle(resource: Resource, metadata: Object, namespace: str) -> None:
    """Drops the fields that are not stored, and sets the namespace."""
    for name in LEFT_OUT:
        metadata.pop(name, None)
    if not resource.namespaced:
        metadata.pop("namespace", None)
    elif metadata.get("namespace") not in (None, "", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    else:
        metadata["namespace"] = namespace


def _check_type(resource: Resource, body: Mapping[str, Any]) -> None:
    kind, version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version
    if kind != resource.kind:
        shown = str(version).rpartition("/")[2]
        raise bad_request(
            f'{kind} in version "{shown}" cannot be handled as a {resource.kind}: '
            f"converting ({shown}.{kind}) to ({resource.group or 'core'}.{resource.kind}): unknown conversion"
        )
    if version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )


def check_name(metadata: Object, name: str) -> None:
    if not metadata.get("name"):
        metadata["name"] = name
    if metadata["name"] != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")


def check_replaced(resource: Resource, given: Object, record: Object) -> None:
    """Refuse to replace another object of that name, or another version of it than the sender has seen."""
    name, version, uid = record["name"], str(given.get("resourceVersion") or ""), given.get("uid")
    if uid and uid != record["uid"]:
        why = f"UID in precondition: {uid}, UID in object meta: {record['uid']}"
        raise storage_conflict(resource.group_resource, record, why)
    if version in ("", "0"):
        if resource.custom or resource.storage in CONDITIONAL:
            words = "Invalid value: 0: must be specified for an update"
            cause = Cause("metadata.resourceVersion", "FieldValueInvalid", words)
            raise invalid(resource.group, resource.plural, name, [cause])
    elif version != record["resourceVersion"]:
        raise conflict(resource.group_resource, name, MODIFIED)


def check_apply(patch: object, field_manager: str) -> None:
    if not field_manager:
        cause = Cause("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
    if not isinstance(patch, Mapping):
        raise bad_request("error decoding patch: an apply patch is an object")


# -- what becomes of what is there -------------------------------------------------------------------------------------


def merged(resource: Resource, before: Object, fresh: Object, subresource: str) -> Object:
    metadata = _updated_metadata(before["metadata"], fresh["metadata"])
    after = {**fresh, "apiVersion": before["apiVersion"], "kind": before["kind"], "metadata": metadata}
    if subresource == "status" and resource.has_status:
        return _with_status(resource, before, after)
    if subresource == "finalize" and resource is NAMESPACES:
        return _finalized(before, mapping(fresh.get("spec")).get("finalizers") or [])
    if subresource == "resize" and resource is PODS:
        return _resized(before, mapping(fresh.get("spec")))
    if subresource:
        raise not_implemented(f"{resource.plural}/{subresource} is not served by the embedded cluster")
    if resource.storage in KEPT_IN_SPEC:
        after["spec"] = _kept(resource, mapping(after.get("spec")), before["spec"])
    return _keeping(before, after, "status") if resource.has_status else after


def recounted(resource: Resource, before: Object, after: Object) -> Object:
    """With the next generation if what is asked for has changed, or if the end has begun."""
    if not is_counted(resource):
        return after
    begins_to_end = after["metadata"].get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp")
    if not begins_to_end and _asked(resource, before) == _asked(resource, after):
        return after
    generation = int(before["metadata"].get("generation", 0)) + 1
    return {**after, "metadata": {**after["metadata"], "generation": generation}}


def is_counted(resource: Resource) -> bool:
    """Whether objects of the kind have a generation."""
    return resource.custom or resource.storage in COUNTED


def drop_empty(metadata: Object) -> None:
    for name in EMPTY_MEANS_ABSENT:
        if name in metadata and not metadata[name]:
            del metadata[name]


def _updated_metadata(old: Object, given: Object) -> Object:
    metadata = {name: value for name, value in given.items() if name not in SERVERS_OWN}
    metadata |= {name: old[name] for name in SERVERS_OWN if name in old}
    metadata["uid"] = given.get("uid") or old["uid"]
    drop_empty(metadata)
    return metadata


def _with_status(resource: Resource, before: Object, after: Object) -> Object:
    metadata = before["metadata"]
    if not resource.custom:
        metadata = _keeping(before["metadata"], after["metadata"], "ownerReferences")
    result = _keeping(after, {**before, "metadata": metadata}, "status")
    quality = read(before, "status.qosClass")
    if resource is PODS and quality:
        result["status"] = {**mapping(result.get("status")), "qosClass": quality}
    return result


def _finalized(before: Object, finalizers: object) -> Object:
    spec = {key: value for key, value in before["spec"].items() if key != "finalizers"}
    return {**before, "spec": {**spec, "finalizers": finalizers} if finalizers else spec}


def _resized(before: Object, spec: Object) -> Object:
    """The pod with what its containers ask for, and nothing else, as it is given."""
    asked = {one.get("name"): one.get("resources") for one in items(spec.get("containers"))}
    containers = [
        {**one, "resources": copied(asked[one["name"]])} if asked.get(one["name"]) else one
        for one in before["spec"]["containers"]
    ]
    return {**before, "spec": {**before["spec"], "containers": containers}}


def _kept(resource: Resource, spec: Object, before: Object) -> Object:
    names = KEPT_IN_SPEC[resource.storage]
    if resource is NAMESPACES:
        spec = {key: value for key, value in spec.items() if key not in names}
    return {**{name: before[name] for name in names if name in before}, **spec}


def _keeping(before: Object, after: Object, field: str) -> Object:
    """`after` with one field as it was in `before`."""
    rest = {key: value for key, value in after.items() if key != field}
    return {**rest, field: before[field]} if field in before else rest


def _asked(resource: Resource, body: Object) -> Object:
    """What a generation counts the changes of."""
    ignored = ("metadata", "apiVersion", "status") if resource.has_status else ("metadata", "apiVersion")
    return {key: value for key, value in body.items() if key not in ignored}
