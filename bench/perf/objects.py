"""Nodes, pods and volumes of a workload, as the requests that make them.

The names are numbered instead of random, so that two runs have the same. What the prepare strategies of scheduler_perf
patch into nodes afterwards is in them from the start: one request instead of two, and the same in the end.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
import yaml

from bench.lean import MERGE_PATCH, Object, Request
from bench.perf.operations import CreateNodes, CreatePods
from bench.perf.templating import has_actions, render
from control_plane.client import collection_of

BASE_ROOM = {"pods": "110", "cpu": "4", "memory": "32Gi"}
BASE_SHARE = {"cpu": "100m", "memory": "500Mi"}
HOSTNAME = "kubernetes.io/hostname"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
BOUND = orjson.dumps({"status": {"phase": "Bound"}})
NAME = "name-to-be"
# Maps whose keys are the user's, not the schema's.
FREE_KEYS = frozenset({"labels", "annotations", "matchLabels", "nodeSelector", "requests", "limits", "selector"})


@lru_cache(maxsize=256)
def read_text(path: Path) -> str:
    return path.read_text()


def load(path: Path, index: int, count: int) -> Object:
    """The object of a template file."""
    text = read_text(path)
    if has_actions(text):
        text = render(text, {"Index": index, "Count": count})
    body: Object = yaml.load(text, Loader=yaml.CSafeLoader)
    if "spec" in body:
        body["spec"] = _canonical(body["spec"] or {})
    return body


def _canonical(value: Any) -> Any:
    """Fields begin with a small letter. Go's decoder does not mind the case, the API server does."""
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key[:1].lower() + key[1:]: inner if key in FREE_KEYS else _canonical(inner) for key, inner in value.items()}


def name_object(body: Object, suffix: str) -> str:
    """Gives it a name, if it has none; returns the name."""
    metadata = body.setdefault("metadata", {})
    if not metadata.get("name"):
        metadata["name"] = f"{metadata.get('generateName', '')}{suffix}"
    return str(metadata["name"])


def create(body: Object) -> Request:
    return Request("POST", collection_of(body), orjson.dumps(body))


def namespace_object(name: str, template: Path | None = None) -> Object:
    body = load(template, 0, 1) if template else {}
    body = {"apiVersion": "v1", "kind": "Namespace", **body}
    body["metadata"] = {**body.get("metadata", {}), "name": name}
    return body


# -- nodes -----------------------------------------------------------------------------------------------------------


def node_objects(operation: CreateNodes) -> Iterator[Object]:
    for number in range(operation.count):
        if operation.template:
            body = load(operation.template, number, operation.count)
        else:
            body = base_node(f"node-{operation.index}-")
        name = name_object(body, f"{operation.index}-{number:05d}")
        labels = body["metadata"].setdefault("labels", {})
        labels[HOSTNAME] = name
        if operation.label:
            labels[operation.label] = _label_value(operation, number)
        if operation.allocatable:  # the API server copies the capacity only where nothing is said
            status = body["status"]
            status["allocatable"] = {**status["capacity"], **status.get("allocatable", {}), **operation.allocatable}
        yield body


def _label_value(operation: CreateNodes, number: int) -> str:
    if operation.values:
        return operation.values[number % len(operation.values)]
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{operation.index}-{number}"))


def base_node(prefix: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"generateName": prefix},
        "status": {
            "capacity": BASE_ROOM,
            "allocatable": BASE_ROOM,
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def csi_node(operation: CreateNodes, node: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node, "annotations": {MIGRATED: ",".join(operation.migrated_plugins)}},
        "spec": {
            "drivers": [
                {"name": driver, "nodeID": node, "allocatable": room} for driver, room in operation.csi_drivers.items()
            ]
        },
    }


def node_requests(operation: CreateNodes) -> Iterator[list[Request]]:
    for body in node_objects(operation):
        requests = [create(body)]
        if operation.csi_drivers:
            requests.append(create(csi_node(operation, body["metadata"]["name"])))
        yield requests


def takes_any_pod(node: Object) -> bool:
    """Whether a pod without tolerations may be there."""
    spec = node.get("spec") or {}
    return not spec.get("taints") and not spec.get("unschedulable")


# -- pods ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodRequests:
    """The pods of one operation: their names, and for each the requests that make it."""

    names: Sequence[str]
    sequences: Sequence[Sequence[Request]]


def pod_requests(operation: CreatePods, scheduler_name: str, nodes: Iterator[str] | None = None) -> PodRequests:
    """`nodes`: where the pods are, if nobody is to schedule them."""
    names, sequences = [], []
    pods = _pod_bodies(operation, scheduler_name)
    path = f"/api/v1/namespaces/{operation.namespace}/pods"
    for number, (name, raw) in enumerate(pods):
        if nodes is not None:
            raw = _placed(raw, next(nodes))
        names.append(name)
        volumes = volume_requests(operation, number) if operation.claim_template else []
        sequences.append([*volumes, Request("POST", path, raw)])
    return PodRequests(names, sequences)


def _placed(raw: bytes, node: str) -> bytes:
    """With the node's name in its spec, which comes first there."""
    return raw.replace(b'"spec":{', b'"spec":{"nodeName":"%b",' % node.encode(), 1)


def _pod_bodies(operation: CreatePods, scheduler_name: str) -> Iterator[tuple[str, bytes]]:
    if operation.template and has_actions(read_text(operation.template)):
        for number in range(operation.count):
            body = _pod(operation, scheduler_name, number)
            yield name_object(body, f"{operation.index}-{number}"), _pod_json(operation, body, number)
        return
    body = _pod(operation, scheduler_name, 0)
    prefix = body["metadata"].get("generateName", "")
    body["metadata"]["name"] = NAME
    raw = orjson.dumps(body)
    for number in range(operation.count):
        name = f"{prefix}{operation.index}-{number}"
        named = raw.replace(NAME.encode(), name.encode(), 1)
        yield name, _with_claim(named, number) if operation.claim_template else named


def _pod_json(operation: CreatePods, body: Object, number: int) -> bytes:
    raw = orjson.dumps(body)
    return _with_claim(raw, number) if operation.claim_template else raw


CLAIM = "claim-to-be"


def _with_claim(raw: bytes, number: int) -> bytes:
    return raw.replace(CLAIM.encode(), claim_name(number).encode(), 1)


def _pod(operation: CreatePods, scheduler_name: str, number: int) -> Object:
    body = load(operation.template, number, operation.count) if operation.template else base_pod()
    body["metadata"]["namespace"] = operation.namespace
    body["spec"]["schedulerName"] = scheduler_name
    if operation.claim_template:
        body["spec"]["volumes"] = [{"name": "vol", "persistentVolumeClaim": {"claimName": CLAIM}}]
    return body


def base_pod() -> Object:
    container = {
        "name": "pause",
        "image": "registry.k8s.io/pause:3.10",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": BASE_SHARE, "requests": BASE_SHARE},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "pod-"},
        "spec": {"containers": [container]},
    }


def can_be_placed(operation: CreatePods) -> bool:
    """Whether the pods may be put on the nodes in turn: they wait for nothing, and nothing in their spec counts what
    else is on a node but its room and pods like them, one on each.
    """
    if not operation.waits or operation.measured:
        return False
    spec = load(operation.template, 0, max(1, operation.count))["spec"] if operation.template else base_pod()["spec"]
    ports = [port for container in spec["containers"] for port in container.get("ports", ())]
    affinity = spec.get("affinity", {})
    return not (
        spec.get("schedulingGates")
        or any("hostPort" in port for port in ports)
        or any(one["whenUnsatisfiable"] == "DoNotSchedule" for one in spec.get("topologySpreadConstraints", ()))
        or _names_nodes(affinity.get("nodeAffinity", {}))
    )


def _names_nodes(affinity: Object) -> bool:
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ())
    return any("matchFields" in term for term in terms)


# -- volumes ---------------------------------------------------------------------------------------------------------


def claim_name(number: int) -> str:
    return f"pvc-{number}"


def volume_requests(operation: CreatePods, number: int) -> list[Request]:
    """A claim and a volume that belong together, as a controller would leave them."""
    assert operation.claim_template is not None
    assert operation.volume_template is not None
    name, volume = claim_name(number), f"{operation.namespace}-vol-{number}"
    claim = copy.deepcopy(_static(operation.claim_template))
    claim["metadata"] = {**claim.get("metadata", {}), "name": name, "namespace": operation.namespace}
    claim["spec"]["volumeName"] = volume
    body = copy.deepcopy(_static(operation.volume_template))
    body["metadata"] = {**body.get("metadata", {}), "name": volume}
    body["spec"]["claimRef"] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": operation.namespace,
        "name": name,
    }
    if "csi" in body["spec"]:
        body["spec"]["csi"]["volumeHandle"] = volume
    if "awsElasticBlockStore" in body["spec"]:
        body["spec"]["awsElasticBlockStore"]["volumeID"] = f"vol-{number}"
    return [create(claim), bind(claim), create(body), bind(body)]


def bind(body: Object) -> Request:
    return Request("PATCH", f"{collection_of(body)}/{body['metadata']['name']}/status", BOUND, MERGE_PATCH)


@lru_cache(maxsize=64)
def _static(path: Path) -> Object:
    return load(path, 0, 1)
