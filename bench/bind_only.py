"""A scheduler that decides nothing: the upper limit that an API server sets on this machine.

It takes pods with schedulerName `bind-only` as they come, gives them to the nodes in turn, and for each sends what a
scheduler must send: the binding and the event. It runs as a process of its own, like the schedulers that it is
compared with, and writes the line `ready` when it sees pods. What the API server does not let it bind is left alone.

    python -m bench.bind_only KUBECONFIG
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import orjson
import yaml

from bench.lean import LeanClient, Object, Refused, Request
from control_plane.client import NODES, PODS

NAME = "bind-only"
BINDS_AT_ONCE = 64
PENDING = f"spec.schedulerName={NAME},spec.nodeName="


async def run(kubeconfig: Path) -> None:
    url, token = _credentials(kubeconfig)
    pods: asyncio.Queue[Object] = asyncio.Queue()

    def see(kind: str, pod: Object) -> None:
        if kind == "ADDED":
            pods.put_nowait(pod)

    async with LeanClient(url, token, connections=BINDS_AT_ONCE) as api, asyncio.TaskGroup() as tasks:
        nodes = itertools.cycle([str(node["metadata"]["name"]) for node in (await api.get(NODES))["items"]])
        for _ in range(BINDS_AT_ONCE):
            tasks.create_task(_bind_all(api, pods, nodes))
        pending = await api.get(PODS, fieldSelector=PENDING)
        for pod in pending["items"]:
            pods.put_nowait(pod)
        print("ready", flush=True)
        await api.follow(PODS, pending["metadata"]["resourceVersion"], see, fieldSelector=PENDING)


async def _bind_all(api: LeanClient, pods: asyncio.Queue[Object], nodes: Iterator[str]) -> None:
    while True:
        pod = await pods.get()
        node, namespace, name = next(nodes), pod["metadata"]["namespace"], pod["metadata"]["name"]
        try:
            path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
            await api.send(Request("POST", path, orjson.dumps(_binding(pod, node))))
            path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
            await api.send(Request("POST", path, orjson.dumps(_event(pod, node))))
        except Refused as error:
            print(f"not bound: {error}", flush=True)


def _binding(pod: Object, node: str) -> Object:
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}


def _event(pod: Object, node: str) -> Object:
    namespace, name, uid = (pod["metadata"][key] for key in ("namespace", "name", "uid"))
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{uid}", "namespace": namespace},
        "eventTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": f"Successfully assigned {namespace}/{name} to {node}",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid},
        "reportingController": NAME,
        "reportingInstance": NAME,
    }


def _credentials(kubeconfig: Path) -> tuple[str, str]:
    configuration = yaml.safe_load(kubeconfig.read_text())
    return configuration["clusters"][0]["cluster"]["server"], configuration["users"][0]["user"]["token"]


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
