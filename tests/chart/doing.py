"""Everything that Berth does, had done: whatever right it has is asked for by the end of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chart.silence import UNSEEN
from control_plane.client import PODS, Client, Object
from support.builders import make_node, make_pod
from support.volumes import claim, local_volume, storage_class

VOLUMES = "/api/v1/persistentvolumes"
BOUND_SECONDS = 120.0
IN_DEFAULT = {"namespace": "default"}
TEMPLATE = {
    "metadata": {"labels": {"app": UNSEEN}},
    "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
}
LABELS = {"matchLabels": {"app": UNSEEN}}


async def have_everything_done(api: Client) -> None:
    """Reads what no watch tells of, places, preempts, binds volumes, repeats an event; Berth is ready before."""
    await api.create_many(unseen())  # first: a watch is given some time before it is not believed
    await api.create_many(priority_classes())
    await api.create(make_node("small", cpu="1", labels={"kubernetes.io/hostname": "small"}))
    await api.create(impatient())
    await have_volumes_bound(api)
    await api.create(pod("low", cpu="1", priorityClassName="low"))
    await api.wait_until(PODS, is_bound("default/low"), timeout_seconds=BOUND_SECONDS)
    await api.create(pod("huge", cpu="64"))  # is tried again and again, and says the same each time
    await api.create(pod("high", cpu="1", priorityClassName="high"))


async def have_volumes_bound(api: Client) -> None:
    """One claim gets a volume that is there, the other a node to have one made for."""
    await api.create(storage_class("local", "kubernetes.io/no-provisioner"))
    await api.create(storage_class("made", "example.com/d"))
    await api.create(local_volume("disk", "small"))
    await api.patch(f"{VOLUMES}/disk/status", {"status": {"phase": "Available"}})
    await api.create_many([claim("kept", "local"), claim("asked-for", "made")])
    await api.create_many([with_claim("kept"), with_claim("asked-for")])


def impatient() -> Object:
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "impatient"},
        "spec": {
            "schedulerName": "berth",
            "backoff": {"initialSeconds": 0.1, "maxSeconds": 0.1},
            "flushSeconds": 0.1,
        },
    }


def priority_classes() -> list[Object]:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**kind, "metadata": {"name": name}, "value": value} for name, value in (("low", 1), ("high", 2))]


def pod(name: str, **how: object) -> Object:
    body = make_pod(name, **how)  # type: ignore[arg-type]
    del body["metadata"]["uid"], body["status"]
    return body


def with_claim(name: str) -> Object:
    return pod(f"with-{name}", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])


def is_bound(key: str) -> Callable[[Mapping[str, Object]], bool]:
    return lambda pods: bool(pods[key]["spec"].get("nodeName"))


def unseen() -> list[Object]:
    """An object of every kind, of which no watch tells: Berth has to read it."""
    apps, storage = "apps/v1", "storage.k8s.io/v1"
    return [
        make_node(UNSEEN, unschedulable=True),
        pod(UNSEEN, scheduler="nobody"),
        an("v1", "Namespace"),
        claim(UNSEEN, "made"),
        local_volume(UNSEEN, "small"),
        an("v1", "Service", **IN_DEFAULT, spec={"ports": [{"port": 80}]}),
        an("v1", "ReplicationController", **IN_DEFAULT, spec={"selector": {"app": UNSEEN}, "template": TEMPLATE}),
        an(apps, "ReplicaSet", **IN_DEFAULT, spec={"selector": LABELS, "template": TEMPLATE}),
        an(apps, "StatefulSet", **IN_DEFAULT, spec={"selector": LABELS, "template": TEMPLATE, "serviceName": UNSEEN}),
        an("policy/v1", "PodDisruptionBudget", **IN_DEFAULT, spec={"selector": LABELS, "minAvailable": 1}),
        storage_class(UNSEEN, "example.com/d"),
        an(storage, "CSINode", spec={"drivers": []}),
        an(storage, "CSIDriver", spec={}),
        {**an(storage, "CSIStorageCapacity", namespace="default"), "storageClassName": "made", "capacity": "1Gi"},
        an("berth.dev/v1alpha1", "SchedulingPolicy", spec={"schedulerName": UNSEEN}),
    ]


def an(version: str, kind: str, *, namespace: str = "", spec: Object | None = None) -> Object:
    metadata = {"name": UNSEEN, **({"namespace": namespace} if namespace else {})}
    body: Object = {"apiVersion": version, "kind": kind, "metadata": metadata}
    return body if spec is None else {**body, "spec": spec}
