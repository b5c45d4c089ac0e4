"""Bodies of the API of explanations, as a scheduler gives them, and a server that gives them."""

import asyncio
from pathlib import Path
from typing import Any

from cluster.server import Answer, Server, write_kubeconfig
from support.commands import exit_code

Body = dict[str, Any]

ROOT = "/apis/explain.berth.dev/v1alpha1"
CLUSTER = f"{ROOT}/clusterviews/current"


def room(name: str, allocatable: str, requested: str, percent: int) -> Body:
    return {"name": name, "allocatable": allocatable, "requested": requested, "free": "0", "percent": percent}


def cluster_view(**changes: Any) -> Body:
    status = {
        "replica": "berth-0",
        "leads": True,
        "healthy": True,
        "problems": [],
        "nodes": 3,
        "unschedulableNodes": 1,
        "pods": 12,
        "pending": 5,
        "resources": [room("cpu", "12", "6", 50), room("memory", "48Gi", "12Gi", 25)],
        "zones": [{"zone": "a", "nodes": 3, "resources": [room("cpu", "12", "6", 50)]}],
        "queue": [{"state": "Gated", "pods": 1}, {"state": "Unschedulable", "pods": 4}],
        "reasons": [{"reason": "InsufficientResource", "pods": 4}],
        "rates": {"seconds": 60.0, "decisionsPerSecond": 2.5, "medianWaitSeconds": 0.012},
        "attempts": [{"result": "scheduled", "count": 12}],
        "policies": [
            policy("(built-in)", generation=0, activeGeneration=0),
            policy("pack", state="LastGoodInForce", generation=3, activeGeneration=2, problem="spec.mode: no"),
            policy("try", mode="Shadow", state="Shadow", shadow={"same": 7, "different": 2, "gained": 0}),
        ],
    }
    return {
        "apiVersion": "explain.berth.dev/v1alpha1",
        "kind": "ClusterView",
        "metadata": {"name": "current"},
        "status": {**status, **changes},
    }


def policy(name: str, **changes: Any) -> Body:
    usual = {"generation": 1, "activeGeneration": 1, "mode": "Active", "state": "InForce", "placed": 4, "pending": 0}
    return {"name": name, "schedulerName": "berth", **usual, **changes}


def decision(number: int, pod: str = "web", node: str = "n1", namespace: str = "shop") -> Body:
    return {
        "apiVersion": "explain.berth.dev/v1alpha1",
        "kind": "Decision",
        "metadata": {"name": f"{pod}.{number:x}", "namespace": namespace},
        "status": {
            "podName": pod,
            "podUID": f"{pod}-uid",
            "nodeName": node,
            "schedulerName": "berth",
            "policy": {"name": "pack", "generation": 2},
            "time": "2026-01-01T00:00:00Z",
            "nodesEvaluated": 3,
            "nodesFeasible": 2,
            "total": 423,
            "runnerUpNodeName": "n2",
            "runnerUpTotal": 420,
            "waitedSeconds": 0.25,
            "attempts": 1,
        },
    }


def page(kind: str, *items: Body, token: str = "") -> Answer:
    metadata = {"resourceVersion": "1", **({"continue": token} if token else {})}
    body = {"apiVersion": "explain.berth.dev/v1alpha1", "kind": f"{kind}List", "metadata": metadata}
    return Answer(200, {**body, "items": list(items)})


async def ask(folder: Path, server: Server, *arguments: str) -> int:
    """Runs a command against the server; returns its exit code."""
    kubeconfig = write_kubeconfig(folder, f"http://127.0.0.1:{server.port}")
    return await asyncio.to_thread(exit_code, *arguments, "--kubeconfig", str(kubeconfig))
