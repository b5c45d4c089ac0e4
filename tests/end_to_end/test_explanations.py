"""kubectl get why: explanations through the API server, with the rights of whoever asks.

The Service is of type ExternalName: on the machine of the tests nobody routes addresses of a cluster.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from berth.sim.server.reviews import Account, ResourceRule
from control_plane.client import ApiError, Client, Object
from control_plane.embedded import EmbeddedPlane
from control_plane.process import free_port
from end_to_end.watching import Plane, StartBerth
from support.builders import make_node, make_pod

SHOP, OTHER = "shop", "other"
SERVICE = "berth-explain"
GROUP = "/apis/explain.berth.dev/v1alpha1"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME = "v1alpha1.explain.berth.dev"
WAIT_SECONDS = 90.0
EXPLAINED = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "explain-view"},
    "rules": [
        {
            "apiGroups": ["explain.berth.dev"],
            "resources": ["explanations", "decisions"],
            "verbs": ["get", "list", "watch"],
        }
    ],
}


class World:
    """A cluster with a Berth in it that explains, and two namespaces with a pod each that fits nowhere."""

    def __init__(self, plane: Plane, api: Client, port: int) -> None:
        self.plane = plane
        self.api = api
        self.port = port

    def kubectl(self, *arguments: str, user: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        as_user = [f"--as={user}"] if user else []
        return self.plane.kubectl(*arguments, *as_user, check=check)


def pod(name: str, namespace: str, **how: Any) -> Object:
    body = make_pod(name, namespace=namespace, **how)
    del body["metadata"]["uid"], body["status"]
    return body


def registration(port: int) -> list[Object]:
    service = {"namespace": "default", "name": SERVICE, "port": port}
    spec = {"group": "explain.berth.dev", "version": "v1alpha1", "groupPriorityMinimum": 100, "versionPriority": 10}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE, "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": NAME},
            "spec": {**spec, "service": service},
        },
    ]


@pytest.fixture
async def world(control_plane: Plane, api: Client, berth_process: StartBerth) -> AsyncIterator[World]:
    port = free_port()
    for namespace in (SHOP, OTHER):
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for body in registration(port):
        await api.create(body)
    await asyncio.to_thread(
        berth_process, f"--explain-address=127.0.0.1:{port}", f"--explain-service=default/{SERVICE}"
    )
    await api.create(make_node("small", cpu="1"))
    await api.create(pod("big", SHOP, cpu="8", labels={"app": "big"}))
    await api.create(pod("huge", OTHER, cpu="64"))
    try:
        await wait_available(api)
        await wait_explained(api, SHOP, "big")
        yield World(control_plane, api, port)
    finally:
        await api.delete(f"{API_SERVICES}/{NAME}")


async def wait_available(api: Client) -> None:
    def is_available(found: Any) -> bool:
        conditions = found[NAME].get("status", {}).get("conditions", [])
        return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)

    await api.wait_until(API_SERVICES, is_available, timeout_seconds=WAIT_SECONDS)


async def wait_explained(api: Client, namespace: str, name: str, state: str = "Unschedulable") -> Object:
    """Until the pod is explained as being in this state."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                found = await api.get(f"{GROUP}/namespaces/{namespace}/explanations/{name}")
                if found["status"]["state"] == state:
                    return found
            except ApiError as error:
                if error.status not in (404, 503):
                    raise
            await asyncio.sleep(0.1)


async def make_viewer(world: World, name: str, namespace: str) -> str:
    """Somebody who has in one namespace what role view is made of: no controller aggregates roles here."""
    if isinstance(world.plane, EmbeddedPlane):
        rule = ResourceRule("*", "explain.berth.dev", "*", namespace)
        world.plane.add_account(name, Account(name, resource_rules=(rule,)))
        return name
    for body in (EXPLAINED, binding(name, namespace)):
        await world.api.apply(body)
    async with asyncio.timeout(WAIT_SECONDS):
        while (await asyncio.to_thread(can_i, world, name, namespace)) != 0:  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.2)
    return name


def can_i(world: World, name: str, namespace: str) -> int:
    asked = ("auth", "can-i", "list", "explanations.explain.berth.dev", "-n", namespace, "--quiet")
    return world.kubectl(*asked, user=name, check=False).returncode


def binding(name: str, namespace: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "explain-view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    }


# --- kubectl ---------------------------------------------------------------------------------------------------------


async def test_kubectl_lists_describes_and_shows_explanations(world: World) -> None:
    table = await asyncio.to_thread(world.kubectl, "get", "why", "-n", SHOP)
    heading, row = table.stdout.splitlines()
    assert heading.split() == ["NAME", "STATE", "REASON", "SINCE", "ATTEMPTS", "NEXT"]
    assert row.split()[:3] == ["big", "Unschedulable", "InsufficientResource"]
    assert "tried when the cluster changes" in row

    wide = await asyncio.to_thread(world.kubectl, "get", "why", "big", "-n", SHOP, "-o", "wide")
    assert "0/1 nodes are available: 1 Insufficient cpu." in wide.stdout
    everywhere = await asyncio.to_thread(world.kubectl, "get", "explanations", "-A")
    assert [line.split()[:2] for line in everywhere.stdout.splitlines()[1:]] == [[OTHER, "huge"], [SHOP, "big"]]
    chosen = await asyncio.to_thread(world.kubectl, "get", "why", "-A", "-l", "app=big", "-o", "name")
    assert chosen.stdout.split() == ["explanation.explain.berth.dev/big"]

    described = (await asyncio.to_thread(world.kubectl, "describe", "why", "big", "-n", SHOP)).stdout
    assert "Outlook:" in described
    assert "InsufficientResource" in described
    yaml = (await asyncio.to_thread(world.kubectl, "get", "why", "big", "-n", SHOP, "-o", "yaml")).stdout
    assert "kind: Explanation" in yaml
    assert "outlook: Never" in yaml


async def test_kubectl_explains_the_fields(world: World) -> None:
    async def explain() -> str:
        said = await asyncio.to_thread(world.kubectl, "explain", "why.status.prospect", check=False)
        return said.stdout

    async with asyncio.timeout(WAIT_SECONDS):
        while "outlook" not in await explain():  # noqa: ASYNC110 - the API server reads it a moment later
            await asyncio.sleep(1)


async def test_kubectl_shows_nodes_the_cluster_and_decisions(world: World) -> None:
    await world.api.create(pod("web", SHOP, cpu="500m"))
    await wait_explained(world.api, SHOP, "web", "Bound")
    nodes = (await asyncio.to_thread(world.kubectl, "get", "nodeviews")).stdout
    assert nodes.splitlines()[1].split()[0] == "small"
    assert "(50%)" in nodes
    cluster = (await asyncio.to_thread(world.kubectl, "get", "clusterview", "current", "-o", "wide")).stdout
    assert "Unschedulable: 2" in cluster
    decisions = (await asyncio.to_thread(world.kubectl, "get", "decisions", "-n", SHOP)).stdout
    assert decisions.splitlines()[1].split()[1:3] == ["web", "small"]


async def test_kubectl_waits_for_a_pod_to_be_placed(world: World) -> None:
    waiting = asyncio.create_task(
        asyncio.to_thread(
            world.kubectl,
            *("wait", "why/big", "-n", SHOP, "--for=jsonpath={.status.state}=Bound", f"--timeout={WAIT_SECONDS:.0f}s"),
        )
    )
    await asyncio.sleep(0.5)  # it may begin before or after: both have to do
    await world.api.create(make_node("large", cpu="16"))
    assert "condition met" in (await waiting).stdout


async def test_kubectl_waits_for_a_pod_that_is_placed_already(world: World) -> None:
    await world.api.create(make_node("large", cpu="16"))
    await wait_explained(world.api, SHOP, "big", "Bound")
    arguments = ("wait", "why/big", "-n", SHOP, "--for=jsonpath={.status.state}=Bound", "--timeout=30s")
    assert "condition met" in (await asyncio.to_thread(world.kubectl, *arguments)).stdout


# --- who may see it --------------------------------------------------------------------------------------------------


async def test_who_may_view_a_namespace_sees_its_explanations_and_no_others(world: World) -> None:
    user = await make_viewer(world, "viewer", SHOP)
    own = await asyncio.to_thread(world.kubectl, "get", "why", "-n", SHOP, user=user)
    assert "big" in own.stdout
    described = await asyncio.to_thread(world.kubectl, "describe", "why", "big", "-n", SHOP, user=user)
    assert "InsufficientResource" in described.stdout
    for arguments in (
        ("get", "why", "-n", OTHER),
        ("get", "why", "huge", "-n", OTHER),
        ("get", "why", "-A"),
        ("get", "nodeviews"),
        ("get", "clusterview", "current"),
    ):
        refused = await asyncio.to_thread(world.kubectl, *arguments, user=user, check=False)
        assert refused.returncode != 0
        assert "Forbidden" in refused.stderr
        assert "huge" not in refused.stdout


async def test_without_rights_nothing_is_seen(world: World) -> None:
    for arguments in (("get", "why", "-n", SHOP), ("describe", "why", "big", "-n", SHOP), ("get", "decisions", "-A")):
        refused = await asyncio.to_thread(world.kubectl, *arguments, user="nobody", check=False)
        assert refused.returncode != 0
        assert "Forbidden" in refused.stderr


async def test_forged_headers_without_the_front_proxys_certificate_are_refused(world: World) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    forged = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        for path in (f"{GROUP}/explanations", "/apis", f"{GROUP}/nodeviews/small"):
            async with session.get(f"https://127.0.0.1:{world.port}{path}", headers=forged) as answer:
                assert answer.status == 401
                assert json.loads(await answer.text())["reason"] == "Unauthorized"
    # Nor does the API server pass such headers on from its own clients.
    headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters", "Impersonate-User": "nobody"}
    async with world.api.session.get(f"{GROUP}/namespaces/{SHOP}/explanations", headers=headers) as answer:
        assert answer.status == 403
