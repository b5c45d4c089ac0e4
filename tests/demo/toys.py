"""A environment without a cluster, a clock that obeys, and bodies for pictures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from berth.demo.closing import ClosingText
from berth.demo.drawing import Scene
from berth.demo.picture import Picture
from berth.demo.play import WatchEvent
from berth.demo.scenario import Plan, Wave, Workload, pod_spec

Body = dict[str, Any]
REFUSAL = "0/6 nodes are available: 2 Insufficient cpu, 4 node(s) didn't match Pod's node affinity/selector."


class ToyClock:
    """Whoever sleeps is woken at once, and that much time has passed."""

    def __init__(self) -> None:
        self._now = 100.0

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._now)

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        await asyncio.sleep(0)


class ToyEnvironment:
    """Nodes are found at once: the emptiest while spreading, the first with room while packing."""

    def __init__(self, *, places: bool = True, obeys: bool = True) -> None:
        self.places = places
        self.obeys = obeys
        self.broken: str | None = None
        self.patches: list[Mapping[str, Any]] = []
        self._events: list[WatchEvent] = []
        self._whole: dict[str, int] = {}
        self._room: dict[str, int] = {}
        self._pods: dict[str, list[Body]] = {}
        self._policy: Body = make_policy(1)

    async def make_cluster(self, plan: Plan) -> None:
        for machine in plan.machines:
            self._whole[machine.name] = self._room[machine.name] = 1000 * machine.cores
            self._events.append(("Node", "ADDED", with_uid(machine.body())))
        self._events.append(("SchedulingPolicy", "ADDED", self._policy))

    async def play(self, wave: Wave) -> None:
        for name in wave.leave:
            self._leave(name)
        for workload in wave.arrive:
            self._arrive(workload)
            if workload.is_job:
                self._finish(workload.name)
        if wave.giant is not None:
            self._events.append(("Pod", "ADDED", with_uid(refused(wave.giant))))

    def _arrive(self, workload: Workload) -> None:
        cpu = workload.cpu_millicores
        pods = []
        for number in range(workload.replicas):
            node = self._choose(cpu) if self.places else ""
            pods.append(make_pod(f"{workload.name}-{number}", node=node, cpu_millicores=cpu))
        self._pods[workload.name] = pods
        self._events += [("Pod", "ADDED", body) for body in pods]

    def _choose(self, cpu_millicores: int) -> str:
        fitting = [name for name in self._whole if self._room[name] >= cpu_millicores]
        name = fitting[0] if self.patches else max(fitting, key=lambda name: self._room[name] / self._whole[name])
        self._room[name] -= cpu_millicores
        return name

    def _leave(self, name: str) -> None:
        self._events += [("Pod", "DELETED", body) for body in self._release(name)]

    def _finish(self, name: str) -> None:
        pods = self._release(name)
        self._events += [("Pod", "MODIFIED", body | {"status": {"phase": "Succeeded"}}) for body in pods]

    def _release(self, name: str) -> list[Body]:
        pods = self._pods.pop(name)
        for body in pods:
            if node := body["spec"].get("nodeName"):
                requests = body["spec"]["containers"][0]["resources"]["requests"]
                self._room[node] += int(requests["cpu"].removesuffix("m"))
        return pods

    async def change_policy(self, patch: Mapping[str, Any]) -> None:
        self.patches.append(patch)
        self._policy = make_policy(2, active=2 if self.obeys else 1, packing=True)
        self._events.append(("SchedulingPolicy", "MODIFIED", self._policy))

    def events(self) -> Iterable[WatchEvent]:
        events, self._events = self._events, []
        return events

    def problem(self) -> str | None:
        return self.broken


class ToyView:
    """Remembers what it was told and shown."""

    def __init__(self) -> None:
        self.headline: list[str] = []
        self.scenes = 0

    def tell(self, now_seconds: float, headline: str) -> None:
        self.headline.append(headline)

    def show(self, scene: Scene) -> None:
        self.scenes += 1

    def end(self, text: ClosingText) -> None:
        """Nobody reads it."""

    def close(self) -> None:
        """Nothing to close."""


def with_uid(body: Mapping[str, Any]) -> Body:
    metadata = body["metadata"]
    return {**body, "metadata": {**metadata, "uid": f"{body['kind']}-{metadata['name']}"}}


def refused(body: Mapping[str, Any], message: str = REFUSAL) -> Body:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {**body, "status": {"phase": "Pending", "conditions": [condition]}}


def make_node(name: str, zone: str, cores: int = 10) -> Body:
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": f"Node-{name}", "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {},
        "status": {"allocatable": {"cpu": str(cores), "memory": "64Gi", "pods": "110"}},
    }


def make_pod(name: str, *, node: str = "", cpu_millicores: int = 1000, phase: str = "") -> Body:
    spec = pod_spec(cpu_millicores, 64) | ({"nodeName": node} if node else {})
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "demo", "uid": f"Pod-{name}"},
        "spec": spec,
        "status": {"phase": phase or ("Running" if node else "Pending")},
    }


def make_policy(generation: int, *, active: int | None = None, packing: bool = False) -> Body:
    strategy = {"scoringStrategy": {"type": "MostAllocated"}}
    return {
        "kind": "SchedulingPolicy",
        "metadata": {"name": "default", "uid": "policy", "generation": generation},
        "spec": {"priorities": [{"name": "NodeResourcesFit", "args": strategy}] if packing else []},
        "status": {"activeGeneration": generation if active is None else active},
    }


def make_picture(*bodies: Body, now_seconds: float = 1.0) -> Picture:
    picture = Picture()
    for body in bodies:
        picture.observe(body["kind"], "ADDED", body, now_seconds)
    return picture
