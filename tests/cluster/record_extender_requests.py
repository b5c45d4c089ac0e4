"""Records what the real kube-scheduler sends to extenders, as the data that tests hold Berth's requests against.

    cd tests && ../.venv/bin/python -m edge.record_extender_requests

A real API server, two nodes and two extenders, of which one keeps nodes itself and binds. A pod is placed; then pods
of low priority fill the nodes, and one of high priority has to push some out. Of each kind of request to each extender
the first one is kept, without what changes from one run to the next.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from control_plane.client import NAMESPACES, PODS, Client
from control_plane.launcher import ControlPlane

FILE = Path(__file__).with_name("extender_requests.json")
LIMIT_SECONDS = 60.0
CHANGING = {"uid", "UID", "PodUID", "resourceVersion"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
Body = dict[str, Any]


class Recorder:
    """Two extenders that agree to everything, by the first part of the path."""

    def __init__(self, api: Client) -> None:
        self._api = api
        self.requests: dict[str, Body] = {}

    async def handle(self, request: web.Request) -> web.Response:
        extender, verb = request.path.strip("/").split("/")
        body = await request.json()
        self.requests.setdefault(f"{extender}/{verb}", {"content_type": request.headers["Content-Type"], "body": body})
        return web.json_response(await getattr(self, f"_{verb}")(body))

    async def _filter(self, body: Body) -> Body:
        return {"Nodes": body["Nodes"], "NodeNames": body["NodeNames"]}

    async def _prioritize(self, body: Body) -> list[Body]:
        names = body["NodeNames"] or [node["metadata"]["name"] for node in body["Nodes"]["items"]]
        return [{"Host": name, "Score": 1} for name in names]

    async def _preempt(self, body: Body) -> Body:
        given = body["NodeNameToMetaVictims"] or body["NodeNameToVictims"]
        return {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": pod.get("UID") or pod["metadata"]["uid"]} for pod in victims["Pods"]]}
                for node, victims in given.items()
            }
        }

    async def _bind(self, body: Body) -> Body:
        metadata = {"name": body["PodName"], "namespace": body["PodNamespace"], "uid": body["PodUID"]}
        target = {"apiVersion": "v1", "kind": "Node", "name": body["Node"]}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = f"{NAMESPACES}/{body['PodNamespace']}/pods/{body['PodName']}/binding"
        await self._api.request("POST", path, binding)
        return {"Error": ""}


def a_node(name: str) -> Body:
    status = {
        "allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"},
        "capacity": {"cpu": "1", "memory": "1Gi", "pods": "10"},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"zone": "a"}}, "status": status}


def a_pod(name: str, cpu: str, priority_class: str = "") -> Body:
    containers = [{"name": "main", "image": "example.com/main", "resources": {"requests": {"cpu": cpu}}}]
    spec: Body = {"containers": containers, "terminationGracePeriodSeconds": 0}
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def extenders(url: str) -> list[Body]:
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "weight": 2}
    return [
        {"urlPrefix": f"{url}/names", "nodeCacheCapable": True, "bindVerb": "bind", **verbs},
        {"urlPrefix": f"{url}/objects", **verbs},
    ]


@asynccontextmanager
async def recording(api: Client, kind: type[Recorder] = Recorder) -> AsyncIterator[tuple[Recorder, str]]:
    """The two extenders on a socket, and the address that their paths begin with."""
    recorder = kind(api)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/{path:.*}", recorder.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield recorder, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def record() -> dict[str, Body]:
    with ControlPlane() as control_plane:
        async with Client(control_plane.url, control_plane.token) as api, recording(api) as (recorder, url):
            control_plane.kubectl("create", "priorityclass", "high", "--value=1000")
            await api.create_many([a_node("n1"), a_node("n2")])
            await asyncio.to_thread(control_plane.start_scheduler, {"extenders": extenders(url)})
            for name in ("low-1", "low-2"):
                await api.create(a_pod(name, "800m"))
                await api.wait_until(PODS, lambda pods: len(bound(pods)) == len(pods), timeout_seconds=LIMIT_SECONDS)
            await api.create(a_pod("high", "500m", "high"))
            await api.wait_until(PODS, lambda pods: "high" in bound(pods), timeout_seconds=LIMIT_SECONDS)
            return recorder.requests


def bound(pods: Mapping[str, Body]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods.values() if pod["spec"].get("nodeName")}


def steady(value: Any, key: str = "") -> Any:
    """The same, without what differs from one run to the next; nodes are in no order."""
    if isinstance(value, dict):
        return {name: steady(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [steady(item, key) for item in value]
        return sorted(items, key=json.dumps) if key in ("NodeNames", "items") else items
    if isinstance(value, str) and (key in CHANGING or TIME.fullmatch(value)):
        return f"<{key}>"
    return value


def main() -> None:
    recorded = steady(asyncio.run(record()))
    FILE.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
