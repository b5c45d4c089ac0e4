"""A port and reviews without a scheduler and an API server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from berth.cluster.clock import RealClock
from berth.explain_api.collecting import Collection, Slices
from berth.explain_api.port import Body, Detail, Found, Key, Wanted
from berth.explain_api.resources import API_VERSION
from berth.scheduler.access_review import ResourceAccess, ReviewFailed, User


def explanation(name: str, namespace: str = "shop", *, labels: Mapping[str, str] | None = None, **status: Any) -> Body:
    said = {
        "state": "Unschedulable",
        "message": "no node fits: 3 nodes lack cpu",
        "schedulerName": "berth",
        "priority": 0,
        "reason": "InsufficientCPU",
        "since": "2026-01-01T00:00:00Z",
        "attempts": 4,
        "policy": {"name": "default", "generation": 2},
        **status,
    }
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": dict(labels or {})}
    return {"apiVersion": API_VERSION, "kind": "Explanation", "metadata": metadata, "status": said}


def node_view(name: str, **status: Any) -> Body:
    resources = [
        {"name": "cpu", "allocatable": "4", "requested": "1", "free": "3", "percent": 25},
        {"name": "pods", "allocatable": "110", "requested": "1", "free": "109", "percent": 0},
    ]
    said = {"zone": "a", "resources": resources, "pods": [{"policy": "default", "count": 1}], **status}
    return {"apiVersion": API_VERSION, "kind": "NodeView", "metadata": {"name": name}, "status": said}


def decision(name: str, namespace: str = "shop", **status: Any) -> Body:
    said = {"podName": name.rpartition(".")[0], "nodeName": "n1", "nodesEvaluated": 3, "nodesFeasible": 2, **status}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "Decision", "metadata": metadata, "status": said}


@dataclass
class FakeExplanations:
    """Answers from what it was given. `asked` notes every call; `gate`: answers wait for it."""

    pods: dict[Key, Body] = field(default_factory=dict)
    nodes: dict[str, Body] = field(default_factory=dict)
    decided: dict[Key, Body] = field(default_factory=dict)
    cluster: Body = field(
        default_factory=lambda: {
            "apiVersion": API_VERSION,
            "kind": "ClusterView",
            "metadata": {"name": "current"},
            "status": {"nodes": 3, "pods": 7, "pending": 1, "leads": True, "rates": {"decisionsPerSecond": 1.5}},
        }
    )
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    gate: asyncio.Event | None = None
    failing: Exception | None = None

    def put(self, *bodies: Body) -> None:
        for body in bodies:
            self.pods[body["metadata"]["namespace"], body["metadata"]["name"]] = body

    async def explanation(self, namespace: str, name: str, detail: Detail) -> Body | None:
        await self._note("explanation", namespace, name, detail)
        return self.pods.get((namespace, name))

    async def pending(self, wanted: Wanted) -> Found:
        await self._note("pending", wanted.namespace)
        return await _page([body for body in self.pods.values() if body["status"]["state"] != "Bound"], wanted)

    async def node_view(self, name: str) -> Body | None:
        await self._note("node_view", name)
        return self.nodes.get(name)

    async def node_views(self, wanted: Wanted) -> Found:
        await self._note("node_views")
        return await _page(list(self.nodes.values()), wanted)

    async def cluster_view(self) -> Body:
        await self._note("cluster_view")
        return self.cluster

    async def decisions(self, wanted: Wanted) -> Found:
        await self._note("decisions", wanted.namespace)
        return await _page(list(self.decided.values()), wanted)

    async def decision(self, namespace: str, name: str) -> Body | None:
        await self._note("decision", namespace, name)
        return self.decided.get((namespace, name))

    async def _note(self, *call: Any) -> None:
        self.asked.append(call)
        if self.gate is not None:
            await self.gate.wait()
        if self.failing is not None:
            raise self.failing


async def _page(bodies: Sequence[Body], wanted: Wanted) -> Found:
    collection = Collection(
        bodies,
        key=lambda body: (body["metadata"].get("namespace", ""), body["metadata"]["name"]),
        labels=lambda body: body["metadata"].get("labels") or {},
        body=lambda body: body,
    )
    return await collection.page(wanted, Slices(RealClock()))


@dataclass
class FakeReviews:
    """`rights`: who may do what; by default everybody may do everything."""

    rights: Callable[[User, ResourceAccess | str], bool] = lambda user, access: True
    failing: bool = False
    asked: list[tuple[User, ResourceAccess | str]] = field(default_factory=list)

    async def allows(self, user: User, verb: str, path: str) -> bool:
        return self._answer(user, f"{verb} {path}")

    async def allows_resource(self, user: User, access: ResourceAccess) -> bool:
        return self._answer(user, access)

    def _answer(self, user: User, access: ResourceAccess | str) -> bool:
        self.asked.append((user, access))
        if self.failing:
            raise ReviewFailed("the API server is away")
        return self.rights(user, access)
