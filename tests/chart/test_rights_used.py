"""Every right that the chart grants is used, and nothing else is asked for.

Berth runs as the chart's service account, on a real API server, through everything that it does; the API server's audit
log says what it asked for. Granted and used have to be the same set: a rule that is taken out of the chart makes a test
fail here, and so does one that nobody needs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from chart.applying import USER, AuditedPlane, Request, account_token, berth_as_account, requests_of
from chart.conftest import Install
from chart.rendering import rights
from chart.silence import UNSEEN, Silence
from chart.value_sets import WITHOUT_RIGHTS
from control_plane.client import PODS, Client, Object
from control_plane.process import free_port, http_get
from end_to_end.watching import refusal
from support.builders import make_node, make_pod

pytestmark = pytest.mark.cluster

VOLUMES = "/api/v1/persistentvolumes"
CENSUS_SECONDS = 2
USED_SECONDS = 120.0
LOOK_SECONDS = 0.2
SIZE = {"storage": "1Gi"}
IN_DEFAULT = {"namespace": "default"}
TEMPLATE = {
    "metadata": {"labels": {"app": UNSEEN}},
    "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
}
LABELS = {"matchLabels": {"app": UNSEEN}}


async def test_berth_asks_for_everything_that_it_is_granted_and_for_nothing_else(
    audited: AuditedPlane, api: Client, installed: Install, tmp_path: Path
) -> None:
    chart = installed({})
    start = audited.audit_log.stat().st_size
    async with Silence(audited.url) as proxy:
        port = free_port()
        options = [f"--census-seconds={CENSUS_SECONDS}", f"--https-address=127.0.0.1:{port}"]
        berth = berth_as_account(audited, chart, tmp_path, *options, url=proxy.url)
        await asyncio.to_thread(berth.start)
        try:
            await have_everything_done(api)
            await have_tokens_reviewed(audited, port)
            used = await wait_for_rights(audited, start, rights(chart.rules))
        finally:
            await asyncio.to_thread(berth.stop)

    forbidden = [request for request in asked(audited, start) if request.status == 403]
    assert forbidden == []
    assert used == rights(chart.rules)


async def wait_for_rights(plane: AuditedPlane, offset: int, wanted: set[tuple[str, str, str]]) -> set[object]:
    """What was used when all that is wanted had been, or the time was up."""
    used: set[object] = set()
    try:
        async with asyncio.timeout(USED_SECONDS):
            while not wanted <= used:
                await asyncio.sleep(LOOK_SECONDS)
                used = {
                    (request.verb, request.group, request.resource)
                    for request in asked(plane, offset)
                    if request.resource and request.status < 400
                }
    except TimeoutError:
        pass  # the comparison says what is missing
    return used


def asked(plane: AuditedPlane, offset: int) -> list[Request]:
    return requests_of(plane.audit_log, USER, offset=offset)


async def have_tokens_reviewed(plane: AuditedPlane, port: int) -> None:
    """Somebody shows a token that is known, and has no right to what he asks for."""
    status, _ = await asyncio.to_thread(http_get, f"https://127.0.0.1:{port}/metrics", account_token(plane))
    assert status == 403


# --- a scenario in which everything is done --------------------------------------------------------------------------


async def have_everything_done(api: Client) -> None:
    """Places, preempts, binds volumes, repeats an event, reads what no watch tells of."""
    await api.create_many(priority_classes())
    await api.create(make_node("small", cpu="1", labels={"kubernetes.io/hostname": "small"}))
    await api.create(impatient())
    await have_volumes_bound(api)
    await api.create(pod("low", cpu="1", priorityClassName="low"))
    await api.wait_until(PODS, is_bound("default/low"), timeout_seconds=30)
    await api.create(pod("huge", cpu="64"))  # is tried again and again, and says the same each time
    await api.create(pod("high", cpu="1", priorityClassName="high"))
    await api.create_many(unseen())


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


def storage_class(name: str, provisioner: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str, class_name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, **IN_DEFAULT},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": SIZE},
        },
    }


def local_volume(name: str, node: str) -> Object:
    where = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": SIZE,
            "storageClassName": "local",
            "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [where]}},
        },
    }


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


# --- what is switched off --------------------------------------------------------------------------------------------


async def test_a_right_that_is_switched_off_is_named_where_it_is_missed(
    audited: AuditedPlane, api: Client, installed: Install, tmp_path: Path
) -> None:
    """The chart's own policies do not preempt then; one that is applied instead of them does."""
    chart = installed(WITHOUT_RIGHTS)
    await api.delete("/apis/berth.dev/v1alpha1/schedulingpolicies/default")
    await api.create(impatient())
    await api.create_many(priority_classes())
    await api.create(make_node("small", cpu="1", labels={"kubernetes.io/hostname": "small"}))
    with berth_as_account(audited, chart, tmp_path) as berth:
        await have_volumes_bound(api)
        await api.create(pod("low", cpu="1", priorityClassName="low"))
        await api.wait_until(PODS, is_bound("default/low"), timeout_seconds=30)
        await api.create(pod("high", cpu="1", priorityClassName="high"))

        wanted = {
            "default/with-kept": f'User "{USER}" cannot patch resource "persistentvolumes"',
            "default/with-asked-for": f'User "{USER}" cannot patch resource "persistentvolumeclaims"',
        }
        await api.wait_until(PODS, lambda pods: all_say(pods, wanted), timeout_seconds=60)
        forbidden = "cannot be pushed out for Pod default/high: 403 Forbidden"
        await asyncio.to_thread(berth.process.wait_ready, lambda: forbidden in berth.process.log_text(), USED_SECONDS)


def all_say(pods: Mapping[str, Object], wanted: Mapping[str, str]) -> bool:
    return all(words in (refusal(pods[key]) or ("", ""))[1] for key, words in wanted.items())


async def test_an_account_without_a_right_to_list_a_kind_is_told_apart_from_one_that_is_ready(
    audited: AuditedPlane, api: Client, installed: Install, tmp_path: Path
) -> None:
    chart = installed({})
    fewer = [rule for rule in chart.rules if rule["apiGroups"] != ["policy"]]
    audited.kubectl("patch", "clusterrole", "berth", "--type=merge", "-p", json.dumps({"rules": fewer}))
    berth = berth_as_account(audited, chart, tmp_path)
    berth.process.start()
    try:
        forbidden = f'User "{USER}" cannot list resource "poddisruptionbudgets"'
        await asyncio.to_thread(
            berth.process.wait_ready, lambda: forbidden in berth.get("/readyz?verbose")[1], USED_SECONDS
        )
        assert not berth.ready
    finally:
        await asyncio.to_thread(berth.stop)


