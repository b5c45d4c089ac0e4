"""Claims that wait for their first consumer: Berth has their volumes kept or made, and binds the pod when they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from berth.cluster.clock import RealClock
from berth.sim.actors import HttpApi, Provisioner
from control_plane.client import NAMESPACES, PODS, Client, Object
from control_plane.process import unverified_tls
from end_to_end.policing import wait_in_force
from end_to_end.watching import Plane, StartBerth, are_bound, bound, names, refusal
from support.builders import make_node, make_pod
from support.volumes import claim, local_volume, storage_class

CLAIMS = f"{NAMESPACES}/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
ZONE = "topology.kubernetes.io/zone"


LOCAL = storage_class("local", "kubernetes.io/no-provisioner")
MADE = storage_class("made", "example.com/disks")


def pod(name: str, claim_name: str) -> Object:
    return make_pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}])


def hasty(seconds: int) -> Object:
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "hasty"},
        "spec": {
            "schedulerName": "berth",
            "predicates": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": seconds}}],
        },
    }


def says(words: str) -> Callable[[Mapping[str, Object]], bool]:
    return lambda pods: any(words in (refusal(pod) or ("", ""))[1] for pod in pods.values())


def is_selected(claims: Mapping[str, Object]) -> bool:
    return any(SELECTED_NODE in found["metadata"].get("annotations", {}) for found in claims.values())


@pytest.fixture
async def provisioner(control_plane: Plane, api: Client) -> AsyncIterator[Callable[[], None]]:
    """Call it to have a provisioner, and of the volume controller what claims need, at work until the test ends."""
    tls = unverified_tls() if control_plane.url.startswith("https") else None
    async with HttpApi(control_plane.url, token=control_plane.token, tls=tls) as actors_api:
        actor = Provisioner(actors_api, RealClock())
        tasks: list[asyncio.Task[None]] = []
        yield lambda: tasks.append(asyncio.create_task(actor.run()))
        await actor.stop()
        await asyncio.gather(*tasks)


async def test_two_pods_that_race_for_one_local_volume_get_one_each_as_they_come(
    api: Client, berth_process: StartBerth, provisioner: Callable[[], None]
) -> None:
    await api.create_many([make_node("a", labels={"kubernetes.io/hostname": "a"}), LOCAL, local_volume("disk", "a")])
    provisioner()
    await api.wait_until(VOLUMES, lambda found: found["disk"]["status"]["phase"] == "Available", timeout_seconds=30)
    await api.create_many([claim("one", "local"), claim("two", "local"), pod("first", "one"), pod("second", "two")])
    berth_process()

    words = "didn't find available persistent volumes to bind"
    pods = await api.wait_until(PODS, lambda p: are_bound(1)(p) and says(words)(p), timeout_seconds=30)
    [winner] = names(bound(pods))
    kept = (await api.get(f"{VOLUMES}/disk"))["spec"]["claimRef"]["name"]
    assert kept == {"first": "one", "second": "two"}[winner]

    await api.create(local_volume("another", "a"))
    await api.wait_until(PODS, are_bound(2), timeout_seconds=30)
    claims = await api.list(CLAIMS)
    assert sorted(found["spec"]["volumeName"] for found in claims) == ["another", "disk"]


async def test_a_pod_waits_until_the_provisioner_has_made_its_volume(
    api: Client, berth_process: StartBerth, provisioner: Callable[[], None]
) -> None:
    await api.create_many([make_node("a", labels={ZONE: "z1"}), MADE, claim("data", "made"), pod("db", "data")])
    berth_process()
    claims = await api.wait_until(CLAIMS, is_selected, timeout_seconds=30)
    assert claims["default/data"]["metadata"]["annotations"][SELECTED_NODE] == "a"
    assert bound({"db": await api.get(f"{NAMESPACES}/default/pods/db")}) == []

    provisioner()
    pods = await api.wait_until(PODS, are_bound(1), timeout_seconds=30)
    assert pods["default/db"]["spec"]["nodeName"] == "a"
    volumes = {volume["metadata"]["name"] for volume in await api.list(VOLUMES)}
    assert volumes == {(await api.get(f"{CLAIMS}/data"))["spec"]["volumeName"]}


async def test_a_claim_that_is_deleted_while_its_pod_waits_is_told_in_the_pod_s_condition(
    api: Client, berth_process: StartBerth
) -> None:
    await api.create_many([make_node("a"), MADE, claim("data", "made"), pod("db", "data")])
    berth_process()
    await api.wait_until(CLAIMS, is_selected, timeout_seconds=30)
    await api.patch(f"{CLAIMS}/data", {"metadata": {"finalizers": None}})
    await api.delete(f"{CLAIMS}/data")
    await api.wait_until(PODS, says('persistentvolumeclaim "data" not found'), timeout_seconds=30)


async def test_a_volume_that_nobody_makes_in_time_is_told_in_the_pod_s_condition(
    api: Client, berth_process: StartBerth, provisioner: Callable[[], None]
) -> None:
    berth_process()
    await api.create_many([hasty(1), make_node("a", labels={ZONE: "z1"}), MADE, claim("data", "made")])
    await wait_in_force(api, "hasty")  # Berth watches pods apart: one that comes first would wait for ten minutes
    await api.create(pod("db", "data"))
    words = 'binding volumes: timed out after 1 s: persistentvolumeclaim "data" has no volume yet'
    await api.wait_until(PODS, says(words), timeout_seconds=30)

    provisioner()
    await api.wait_until(PODS, are_bound(1), timeout_seconds=60)
