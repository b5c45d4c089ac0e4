"""Templates: pods that differ in their own fields only are parsed once; a replica costs its metadata, node and status.

Replicas are recognised by content, not by owner: owners change their templates, and webhooks change pods. Everything
that the record of a pod is parsed from, except the fields that differ between replicas, is serialised into one text. A
pod with a known text gets a copy of the record that was parsed first, with its own fields (`replica_of`):

    in the text     namespace, labels, owners; the spec, and whether it names a node; resources in the status
    its own         name, UID, version, generation, times; the node; phase, nomination, conditions

Equal texts give equal records, because nothing else is parsed. Texts with the same content in another order cost one
more record. The volume of the service account token has another name in each pod. No record contains that name, nor
where a volume is mounted, so both are left out.

An unusual pod is parsed in full, so that errors are reported as always; so is a pod with an ephemeral volume, whose
claim is named after the pod. Texts that are not used for a while are dropped: there are two generations, and when the
young one is full, the old one is dropped.

Nodes are few and differ. For each node a digest of what it was last parsed from is kept, without the times of its
heartbeats: an event with the same digest has the same record.
"""

import marshal
from hashlib import blake2b
from typing import Any, Final

import orjson

from berth.model import Node, Pod, parse_node, parse_pod, replica_of

MOST_TEXTS: Final = 1024  # in a generation
MOST_BYTES: Final = 4 * 1024 * 1024  # of texts in a generation
LONGEST: Final = 64 * 1024  # bytes; a longer text is not cached
MOST_CONDITIONS: Final = 100  # a pod with more is unusual

TOKEN_VOLUME: Final = "kube-api-access-"
_TOKEN_FIELDS: Final = {"name", "projected"}


class _Unusual(Exception):
    """The object has to be parsed in full."""


class PodReader:
    """Parses pods, and caches records by template text."""

    def __init__(self) -> None:
        self._young: dict[bytes, Pod] = {}
        self._old: dict[bytes, Pod] = {}
        self._bytes = 0
        self.shared = 0
        """How many pods were not parsed in full."""

    def read(self, body: object) -> Pod:
        """The result of `parse_pod`: a record, or InvalidObject."""
        try:
            text = _template_text(body)
        except (_Unusual, TypeError, ValueError):  # what cannot be serialised, such as numbers of more than 64 bits
            return parse_pod(body)
        pod = self._replica(text, body)
        if pod is not None:
            self.shared += 1
            return pod
        pod = parse_pod(body)
        self._keep(text, pod)
        return pod

    def _replica(self, text: bytes, body: Any) -> Pod | None:
        found = self._young.get(text)
        if found is None:
            found = self._old.get(text)
            if found is None:
                return None
            self._keep(text, found)
        return replica_of(found, body)

    def _keep(self, text: bytes, pod: Pod) -> None:
        if len(text) > LONGEST:
            return
        if len(self._young) >= MOST_TEXTS or self._bytes + len(text) > MOST_BYTES:
            self._old, self._young, self._bytes = self._young, {}, 0
        self._young[text] = pod
        self._bytes += len(text)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)


class NodeReader:
    """Parses nodes, and recognises heartbeats."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[bytes, Node]] = {}  # by UID

    def read(self, body: object) -> Node:
        """The result of `parse_node`: a record, or InvalidObject. After a heartbeat it is the same record as before,
        with its old resourceVersion.
        """
        try:
            digest = blake2b(_node_text(body), digest_size=16).digest()
        except (_Unusual, TypeError, ValueError):
            return parse_node(body)
        uid = str(body["metadata"].get("uid"))  # type: ignore[index]
        last = self._read.get(uid)
        if last is not None and last[0] == digest:
            return last[1]
        node = parse_node(body)
        self._read[uid] = digest, node
        return node

    def forget(self, uid: str) -> None:
        """The node is gone."""
        self._read.pop(uid, None)

    def __len__(self) -> int:
        return len(self._read)


def _node_text(body: Any) -> bytes:
    """Everything that is parsed of a node except its version."""
    metadata, spec, status = _object(body, "metadata"), _object(body, "spec"), _object(body, "status")
    conditions = [(each.get("type"), each.get("status")) for each in _objects(status.get("conditions"))]
    if type(metadata.get("resourceVersion", "")) is not str:
        raise _Unusual
    identity = _some_of(metadata, ("name", "uid", "labels", "annotations", "deletionTimestamp"))
    return _text((identity, spec, {**status, "conditions": conditions}))


def _template_text(body: Any) -> bytes:
    """Everything that two pods must have in common to get equal records."""
    metadata, spec, status = _object(body, "metadata"), _object(body, "spec"), _object(body, "status")
    node_name, volumes = spec.get("nodeName"), spec.get("volumes")
    if node_name is not None:
        spec = {**spec, "nodeName": bool(node_name)}
    if volumes is not None:
        spec = _without_token(spec, _objects(volumes))
    identity = _some_of(metadata, ("namespace", "labels", "ownerReferences"))
    return _text((identity, spec, _reported_resources(status) if status else ()))


def _text(parts: tuple[Any, ...]) -> bytes:
    """Different for different content. orjson writes NaN as null, so a text with null is written by marshal instead."""
    text = orjson.dumps(parts)
    return text if b"null" not in text else marshal.dumps(parts, 2)


def _some_of(owner: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The fields that are present; null is the same as absent, as in every parse function."""
    return {name: value for name in names if (value := owner.get(name)) is not None}


def _object(body: Any, name: str) -> dict[str, Any]:
    value = body.get(name) if type(body) is dict else None
    if value is None and name == "status":
        return {}
    if type(value) is not dict:
        raise _Unusual
    return value


def _without_token(spec: dict[str, Any], volumes: list[dict[str, Any]]) -> dict[str, Any]:
    """The spec without the volume of the service account token and without volumeMounts."""
    if any(volume.get("ephemeral") is not None for volume in volumes):
        raise _Unusual
    named = [0 if _is_token(volume) else volume for volume in volumes]
    lists = {name: _unmounted(spec[name]) for name in ("containers", "initContainers") if spec.get(name)}
    return {**spec, **lists, "volumes": named}


def _is_token(volume: dict[str, Any]) -> bool:
    return str(volume.get("name")).startswith(TOKEN_VOLUME) and volume.keys() == _TOKEN_FIELDS


def _unmounted(containers: Any) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in container.items() if name != "volumeMounts"}
        for container in _objects(containers)
    ]


def _reported_resources(status: dict[str, Any]) -> tuple[Any, ...]:
    """What the status says about resources and resizes."""
    conditions = _objects(status.get("conditions"))
    if len(conditions) > MOST_CONDITIONS:
        raise _Unusual
    reports = [_reports(status, "containerStatuses"), _reports(status, "initContainerStatuses")]
    if status.get("resources") is None and not any("resources" in report for found in reports for report in found):
        return ()
    pending = (each.get("reason") for each in conditions if each.get("type") == "PodResizePending")
    pod_level = _some_of(status, ("resources", "allocatedResources"))
    return *reports, pod_level, next(pending, None) == "Infeasible"


def _reports(status: dict[str, Any], field: str) -> list[dict[str, Any]]:
    found = []
    for each in _objects(status.get(field)):
        if type(each.get("name")) is not str:
            raise _Unusual
        found.append(_some_of(each, ("name", "resources", "allocatedResources")))
    return found


def _objects(items: Any) -> list[dict[str, Any]]:
    if items is None:
        return []
    if type(items) is not list:
        raise _Unusual
    for item in items:
        if type(item) is not dict:
            raise _Unusual
    return items
