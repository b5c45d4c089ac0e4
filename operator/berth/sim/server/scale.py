"""The scale subresource of workloads: spec.replicas under a name that `kubectl scale` knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.sim.errors import bad_request
from berth.sim.resources import Resource

SCALE_GROUP: Final = "autoscaling"
SCALE_VERSION: Final = "v1"
SCALE_KIND: Final = "Scale"
SCALABLE: Final = frozenset({"deployments", "replicasets", "statefulsets", "replicationcontrollers"})
COPIED: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def is_scalable(resource: Resource) -> bool:
    return not resource.custom and resource.group in ("apps", "") and resource.plural in SCALABLE


def scale_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The Scale object of a workload."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    return {
        "kind": SCALE_KIND,
        "apiVersion": f"{SCALE_GROUP}/{SCALE_VERSION}",
        "metadata": {key: metadata[key] for key in COPIED if key in metadata},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {"replicas": status.get("replicas", 0), "selector": _selector(spec)},
    }


def wanted_replicas(scale: object) -> int:
    """What a Scale, or a merge patch of one, asks for."""
    spec = scale.get("spec") if isinstance(scale, dict) else None
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise bad_request("spec.replicas: a whole number from 0 up is needed")
    return replicas


def _selector(spec: Mapping[str, Any]) -> str:
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
