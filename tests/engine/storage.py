"""Storage objects for the engine's tests, and a way to ask one filter about a pod."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Pipeline, Placement
from berth.model import parse_pod
from engine.expecting import make_filter
from engine.worlds import state_of
from support.builders import Body, make_node, make_object, make_pod

NODES = [make_node("a", labels={"zone": "z1"}), make_node("b", labels={"zone": "z2"})]


def decide(name: str, objects: Iterable[Body], pod: Body, args: Body | None = None) -> Placement | Diagnosis:
    return Pipeline([make_filter(name, args or {})], []).decide(parse_pod(pod), state_of(objects), Random(0))


def fits(name: str, objects: Iterable[Body], pod: Body) -> set[str]:
    """The nodes that the filter leaves to the pod."""
    objects = list(objects)
    left = set()
    for node in (body["metadata"]["name"] for body in objects if body["kind"] == "Node"):
        pinned = [b for b in objects if b["kind"] != "Node" or b["metadata"]["name"] == node]
        if isinstance(decide(name, pinned, pod), Placement):
            left.add(node)
    return left


def make_claim(
    name: str,
    volume: str = "",
    *,
    storage_class: str | None = "slow",
    bound: bool | None = None,
    phase: str | None = None,
    size: str = "1Gi",
    modes: Iterable[str] = ("ReadWriteOnce",),
    annotations: Body | None = None,
    owner: str | None = None,
    deleting: bool = False,
    **spec: Any,
) -> dict[str, Any]:
    """Bound where it names a volume, unless `bound` says otherwise."""
    is_bound = bool(volume) if bound is None else bound
    notes = {**({"pv.kubernetes.io/bind-completed": "yes"} if is_bound else {}), **(annotations or {})}
    body = make_object(
        "PersistentVolumeClaim",
        name,
        namespace="default",
        uid=f"claim-{name}",
        spec={
            "accessModes": list(modes),
            "resources": {"requests": {"storage": size}},
            **({"storageClassName": storage_class} if storage_class is not None else {}),
            **({"volumeName": volume} if volume else {}),
            **spec,
        },
        status={"phase": phase or ("Bound" if is_bound else "Pending")},
    )
    metadata = body["metadata"]
    metadata["annotations"] = notes
    if owner is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
        ]
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return body


def make_volume(
    name: str,
    zone: str | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    storage_class: str = "slow",
    size: str = "1Gi",
    source: Body | None = None,
    claim: str | None = None,
    phase: str = "Available",
    terms: Sequence[Body] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Reached from nodes of the zone, or as `terms` say; kept for a claim of the namespace default."""
    if zone is not None:
        terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]
    body = make_object(
        "PersistentVolume",
        name,
        uid=f"volume-{name}",
        spec={
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            **(source or {"csi": {"driver": "d", "volumeHandle": name}}),
            **({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms is not None else {}),
            **({"claimRef": {"namespace": "default", "name": claim}} if claim is not None else {}),
            **spec,
        },
        status={"phase": phase},
    )
    body["metadata"]["labels"] = dict(labels or {})
    return body


def make_class(name: str = "slow", *, provisioner: str = "d", immediate: bool = False, **body: Any) -> dict[str, Any]:
    mode = "Immediate" if immediate else "WaitForFirstConsumer"
    return make_object("StorageClass", name, uid=name, provisioner=provisioner, volumeBindingMode=mode, **body)


def make_csi_node(name: str, migrated: str = "", **limits: int | None) -> dict[str, Any]:
    """The driver's limits by its name, None without one."""
    drivers = [
        {"name": driver, "nodeID": name, **({"allocatable": {"count": count}} if count is not None else {})}
        for driver, count in limits.items()
    ]
    body = make_object("CSINode", name, uid=f"csi-{name}", spec={"drivers": drivers})
    body["metadata"]["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return body


def make_driver(name: str = "d", *, capacity: bool = True) -> dict[str, Any]:
    return make_object("CSIDriver", name, uid=name, spec={"storageCapacity": capacity})


def make_capacity(name: str, size: str, topology: Body | None, storage_class: str = "slow", **body: Any) -> Body:
    where = {"nodeTopology": topology} if topology is not None else {}
    return make_object(
        "CSIStorageCapacity",
        name,
        namespace="default",
        uid=name,
        storageClassName=storage_class,
        capacity=size,
        **where,
        **body,
    )


def pod_with(*sources: str | Body, name: str = "p", **pod: Any) -> dict[str, Any]:
    """A pod with volumes: claims by their names, or volume sources as they are."""
    volumes = [
        {"name": f"v{i}", **({"persistentVolumeClaim": {"claimName": s}} if isinstance(s, str) else s)}
        for i, s in enumerate(sources)
    ]
    return make_pod(name, volumes=volumes, **pod)
