"""A store that writes down what is done to it, and keeps count of what was bound where."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from berth.model import object_key, parse_node, parse_pod
from berth.sim.resources import CLAIMS, CRDS, NODES, PODS, VOLUMES, Resource
from berth.sim.store import Object, Store
from simulation.trace import Trace

CRD_FOLDER = Path(__file__).parents[2] / "crds"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
QUIET = frozenset({"events", "customresourcedefinitions.apiextensions.k8s.io", "clusterkopfpeerings.kopf.dev"})


class RecordingStore(Store):
    """`largest` is the most that a node of each name ever had of each resource, `least` the least that a pod which is
    resized has taken, by UID: that much is known to everybody who knows of the pod.
    """

    def __init__(self, clock: Callable[[], datetime], seed: int, trace: Trace) -> None:
        self._trace = trace
        self.largest: dict[str, dict[str, int]] = {}
        self.least: dict[str, dict[str, int]] = {}
        super().__init__(clock, seed)
        for path in sorted(CRD_FOLDER.glob("*.yaml")):
            for body in _documents(path):
                self.create(CRDS, body)

    def _put(self, resource: Resource, key: str, body: Object) -> Object:
        if resource in (VOLUMES, CLAIMS):
            self._check_promised(resource, body)
        after = super()._put(resource, key, body)
        if resource is NODES:
            self._note_largest(after)
        elif resource is PODS and after["status"].get("containerStatuses"):
            self._note_least(after)
        if resource.storage not in QUIET:
            self._trace.note(f"store: {resource.kind} {key} is {describe(resource, after)}", *subjects(resource, after))
        return after

    def _drop(self, resource: Resource, key: str) -> Object:
        last = super()._drop(resource, key)
        if resource.storage not in QUIET:
            self._trace.note(f"store: {resource.kind} {key} is gone", *subjects(resource, last))
        return last

    def _check_promised(self, resource: Resource, body: Object) -> None:
        """Invariant 21: a volume that is kept for a claim, or a claim for a node, is not given to another."""
        key = object_key(body)
        before = next((one for one in self.list(resource).items if object_key(one) == key), None)
        if before is None or before["metadata"]["uid"] != body["metadata"].get("uid"):
            return
        old, new = (reserved_for(resource, one) for one in (before, body))
        if old and new and old != new:
            said = f"{resource.kind} {key} is reserved for {old}, and is given to {new}"
            self._trace.violate("21 volumes", said, key)

    def _note_largest(self, node: Object) -> None:
        known = self.largest.setdefault(node["metadata"]["name"], {})
        for name, amount in parse_node(node).allocatable.items():
            known[name] = max(known.get(name, 0), amount)

    def _note_least(self, pod: Object) -> None:
        usage = parse_pod(pod).usage
        known = self.least.setdefault(pod["metadata"]["uid"], dict(usage))
        for name in known:
            known[name] = min(known[name], usage.get(name, 0))


def reserved_for(resource: Resource, body: Object) -> str:
    """The claim that a volume is kept for, the node that a claim's volume is to be made for; "" for none."""
    if resource is CLAIMS:
        return str((body["metadata"].get("annotations") or {}).get(SELECTED_NODE, ""))
    return str((body["spec"].get("claimRef") or {}).get("uid") or "")


_parsed: dict[Path, list[dict[str, Any]]] = {}


def _documents(path: Path) -> list[dict[str, Any]]:
    """Reading YAML takes longer than a whole run."""
    if path not in _parsed:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _parsed[path] = [body for body in yaml.load_all(path.read_text(), loader) if body]
    return _parsed[path]


def subjects(resource: Resource, body: Object) -> tuple[str, ...]:
    if resource is PODS:
        node = body["spec"].get("nodeName")
        return (object_key(body), body["metadata"]["uid"], *([node] if node else []))
    return (object_key(body),)


def describe(resource: Resource, body: Object) -> str:
    """The few things that matter of an object."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    version = f"v{metadata['resourceVersion']}"
    if resource is PODS:
        condition: Object = next((one for one in status.get("conditions") or () if one["type"] == "PodScheduled"), {})
        said = f"{condition.get('status', '-')} {condition.get('reason', '')} {condition.get('message', '')}".strip()
        parts = [
            version,
            metadata["uid"][:8],
            f"on {spec['nodeName']}" if spec.get("nodeName") else "unbound",
            status.get("phase", "?"),
            *(["gated"] if spec.get("schedulingGates") else []),
            *(["deleting"] if metadata.get("deletionTimestamp") else []),
            *([f"resized {parse_pod(body).usage.get('cpu')}m"] if status.get("containerStatuses") else []),
            *([f"nominated {status['nominatedNodeName']}"] if status.get("nominatedNodeName") else []),
            f"PodScheduled={said}" if condition else "",
        ]
        return " ".join(filter(None, parts))
    if resource is NODES:
        taints = ",".join(f"{taint['key']}:{taint['effect']}" for taint in spec.get("taints") or ())
        room = status.get("allocatable") or {}
        return f"{version} cpu {room.get('cpu')} pods {room.get('pods')} {metadata.get('labels')} {taints}".strip()
    if resource in (VOLUMES, CLAIMS):
        parts = [status.get("phase"), spec.get("volumeName"), f"for {reserved_for(resource, body) or 'nobody'}"]
        return " ".join(filter(None, [version, *parts, "deleting" if metadata.get("deletionTimestamp") else ""]))
    return f"{version} generation {metadata.get('generation', '-')}"
