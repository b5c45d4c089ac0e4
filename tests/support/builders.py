"""API bodies for tests: as small as a test wants them, and valid as they come.

    make_node("n1", cpu="2", taints=[("dedicated", "gpu", "NoSchedule")])
    make_pod("web", cpu="500m", labels={"app": "web"}, node="n1")

Keyword arguments beyond those named go into the spec as they are, under the API's own names (`overhead={"cpu":
"50m"}`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Body = dict[str, Any]

REVISION = "pod-template-hash"


def make_node(
    name: str,
    *,
    cpu: str | int = "4",
    memory: str | int = "16Gi",
    pods: str | int = 110,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str] | tuple[str, str, str]] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    extended: Mapping[str, str | int] | None = None,
    declared_features: Sequence[str] = (),
    uid: str | None = None,
    ready: bool = True,
    **spec: Any,
) -> Body:
    """A node; taints as API objects or (key, value, effect), images as name to size in bytes."""
    allocatable = {"cpu": str(cpu), "memory": str(memory), "pods": str(pods)}
    allocatable |= {resource: str(amount) for resource, amount in (extended or {}).items()}
    if taints:
        spec["taints"] = [_taint(taint) for taint in taints]
    if unschedulable:
        spec["unschedulable"] = True
    status: Body = {
        "allocatable": allocatable,
        "capacity": dict(allocatable),
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    if images:
        status["images"] = [{"names": [image], "sizeBytes": size} for image, size in images.items()]
    if declared_features:
        status["declaredFeatures"] = list(declared_features)
    metadata: Body = {"name": name, "uid": uid or f"node-{name}"}
    metadata |= _some(labels=labels and dict(labels), annotations=annotations and dict(annotations))
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    node: str = "",
    cpu: str | int | None = None,
    memory: str | int | None = None,
    requests: Mapping[str, str | int] | None = None,
    labels: Mapping[str, str] | None = None,
    priority: int | None = None,
    scheduler: str = "berth",
    uid: str | None = None,
    gates: Sequence[str] = (),
    tolerations: Sequence[Mapping[str, Any]] = (),
    node_selector: Mapping[str, str] | None = None,
    affinity: Mapping[str, Any] | None = None,
    ports: Sequence[int | Mapping[str, Any]] = (),
    image: str | None = None,
    phase: str | None = None,
    deleting: bool = False,
    owner: Mapping[str, Any] | None = None,
    nominated: str = "",
    created: str | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Body:
    """A pod with one container; ports as host ports or API objects; Running where it has a node, else Pending."""
    amounts = {**_some(cpu=cpu, memory=memory), **(requests or {})}
    container: Body = {"name": "main", "image": image or "registry.example/app:v1"}
    if amounts:
        container["resources"] = {"requests": amounts}
    if ports:
        container["ports"] = [_port(port) for port in ports]
    metadata: Body = {"name": name, "namespace": namespace, "uid": uid or f"pod-{namespace}-{name}"}
    metadata |= _some(
        labels=labels and dict(labels),
        creationTimestamp=created,
        deletionTimestamp="2026-01-01T00:00:00Z" if deleting else None,
        ownerReferences=owner and [dict(owner)],
    )
    pod_spec: Body = {"containers": [container], "schedulerName": scheduler}
    pod_spec |= _some(
        nodeName=node or None,
        priority=priority,
        schedulingGates=[{"name": gate} for gate in gates] or None,
        tolerations=list(tolerations) or None,
        nodeSelector=node_selector and dict(node_selector),
        affinity=affinity,
    )
    pod_status: Body = {"phase": phase or ("Running" if node else "Pending"), **(status or {})}
    pod_status |= _some(nominatedNodeName=nominated or None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec | spec, "status": pod_status}


def revision_rules(app: str, template: str) -> Body:
    """What the pods of one revision of a Deployment ask for: none beside another, and evenly over zones."""
    own = {"app": app}
    this_revision = {"key": REVISION, "operator": "In", "values": [template]}
    term = {
        "labelSelector": {"matchLabels": own, "matchExpressions": [this_revision]},
        "matchLabelKeys": [REVISION],
        "topologyKey": "kubernetes.io/hostname",
    }
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": own},
        "matchLabelKeys": [REVISION],
    }
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [constraint],
    }


def make_object(kind: str, name: str, *, namespace: str = "", uid: str | None = None, **body: Any) -> Body:
    """An object of any other kind, with whatever else it has beside its metadata."""
    metadata = {"name": name, "uid": uid or f"{kind.lower()}-{name}", **_some(namespace=namespace or None)}
    return {"kind": kind, "metadata": metadata | body.pop("metadata", {}), **body}


def _some(**fields: Any) -> Body:
    return {name: value for name, value in fields.items() if value is not None}


def _taint(taint: Mapping[str, str] | tuple[str, str, str]) -> Body:
    if isinstance(taint, tuple):
        key, value, effect = taint
        return {"key": key, "value": value, "effect": effect}
    return dict(taint)


def _port(port: int | Mapping[str, Any]) -> Body:
    return {"containerPort": port, "hostPort": port} if isinstance(port, int) else dict(port)
