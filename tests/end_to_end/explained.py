"""A cluster whose Berth explains: what the tests of `kubectl get why` and of the commands stand on.

The Service is of type ExternalName: on the machine of the tests nobody routes addresses of a cluster.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

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


@asynccontextmanager
async def explained_world(control_plane: Plane, api: Client, berth_process: StartBerth) -> AsyncIterator[World]:
    """A World in which the pod `big` of namespace `shop` has been tried."""
    port = free_port()
    for namespace in (SHOP, OTHER):
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    try:
        for body in registration(port):
            await api.create(body)
        arguments = (f"--explain-address=127.0.0.1:{port}", f"--explain-service=default/{SERVICE}")
        await asyncio.to_thread(berth_process, *arguments)
        await api.create(make_node("small", cpu="1"))
        await api.create(pod("big", SHOP, cpu="8", labels={"app": "big"}))
        await api.create(pod("huge", OTHER, cpu="64"))
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
