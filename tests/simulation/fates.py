"""A course of events in which it does not matter who comes first.

Each node has pods of its own, room for all of them once what is in their way has gone, and they can go nowhere else.
What is in the way goes, in one of many ways, or stays: then all of them are bound in the end, or none, whoever was
tried when. There are faults as in any storm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from berth.model import object_key
from berth.sim.resources import NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from simulation.actors import HOST, PRIORITIES
from simulation.scenario import Scenario

CELL = "cell"
SECONDS = 60.0  # in which everything happens
MOST_PODS = 3
ROOM = {"cpu": "8", "memory": "8Gi", "pods": "20"}
BOUND, WAITS = "bound", "waits"

Act = Callable[[], object]


class Course(Scenario):
    """`fates` is what became of each pod, `meant` what had to."""

    def __init__(self, seed: int, *, hints: bool) -> None:
        super().__init__(seed, hints=hints, replicas=1)
        self.fates: dict[str, str] = {}
        self.meant: dict[str, str] = {}
        self._plan: list[tuple[float, int, Act]] = []

    async def _play(self) -> None:
        self._furnish()
        self._start_berth()
        keeping = asyncio.ensure_future(self._keep_nodes())
        for moment, _, act in sorted(self._plan, key=lambda entry: entry[:2]):
            await asyncio.sleep(max(0.0, moment - self.loop.time()))
            act()
        keeping.cancel()
        await self._calm()
        for body in self.store.list(PODS).items:
            if object_key(body) in self.meant:
                self.fates[object_key(body)] = BOUND if body["spec"].get("nodeName") else WAITS
        await self._end()

    async def _keep_nodes(self) -> None:
        """Kubelets start what is bound; nothing ends by itself."""
        while True:
            await asyncio.sleep(1.0)
            self.actors.keep_nodes(finishing=False)

    # --- the plan ----------------------------------------------------------------------------------------------------

    def _furnish(self) -> None:
        for name in ("red", "blue"):
            self.store.create(NAMESPACES, {"metadata": {"name": name, "labels": {"team": "x"}}})
        for name, value in PRIORITIES.items():
            self.store.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        for number in range(self.random.randint(4, 8)):
            self._plan_cell(f"cell-{number}")
        self._plan_noise()

    def _plan_cell(self, name: str) -> None:
        chosen = self.random.sample(list(self._obstacles()), self.random.choice((1, 1, 2)))
        if "no node" in chosen:
            chosen = ["no node"]  # pods of a node that is not there are cleared away
        stays = self.random.random() < 0.25
        node = {"metadata": {"name": name, "labels": {HOST: name, CELL: name}}, "status": _status(ROOM)}
        pod: dict[str, Any] = {"labels": {"app": name}, "spec": {"nodeSelector": {CELL: name}}}
        ways = [self._obstacles()[obstacle](name, node, pod) for obstacle in chosen]
        if "no node" not in chosen:
            self.store.create(NODES, node)
        for before, _ in ways:
            before()
        several = self.random.randint(1, MOST_PODS)
        for number in range(1 if "ports" in pod else several):  # two with a port would be in each other's way
            key = f"red/{name}-{number}"
            self.meant[key] = WAITS if stays else BOUND
            self._at((0.0, 20.0), partial(self._make_pod, key, **pod))
        for _, relief in ways[:-1] if stays else ways:
            self._at((25.0, SECONDS), relief)

    def _plan_noise(self) -> None:
        """On a node of nobody's, where nothing helps anybody."""
        self.store.create(NODES, {"metadata": {"name": "noise", "labels": {HOST: "noise"}}, "status": _status(ROOM)})
        for number in range(30):
            key = f"blue/noise-{number}"
            self._at((0.0, 20.0), partial(self._make_pod, key, node="noise", labels={"app": "noise"}))
            self._at((20.0, SECONDS), partial(self._drop, key))
        for number in range(30):
            labels, room = {"noise": str(number)}, {**ROOM, "cpu": str(1 + number % 8)}
            change, subresource = {"metadata": {"labels": labels}}, ""
            if number % 3 == 0:
                change, subresource = {"status": {"allocatable": room}}, "status"
            self._at((0.0, SECONDS), partial(self._patch, NODES, "noise", change, subresource))

    def _at(self, between: tuple[float, float], act: Act) -> None:
        self._plan.append((self.random.uniform(*between), len(self._plan), act))

    # --- what is in the way, and how it goes -------------------------------------------------------------------------

    def _obstacles(self) -> dict[str, Callable[[str, Any, Any], tuple[Act, Act]]]:
        return {
            "no node": self._no_node,
            "taint": self._taint,
            "cordon": self._cordon,
            "too small": self._too_small,
            "full": self._full,
            "port": self._port,
            "repelled": self._repelled,
            "repels": self._repels,
            "lonely": self._lonely,
            "gated": self._gated,
            "labels": self._labels,
        }

    def _no_node(self, name: str, node: Any, pod: Any) -> tuple[Act, Act]:
        return _nothing, lambda: self.store.create(NODES, node)

    def _taint(self, name: str, node: Any, pod: Any) -> tuple[Act, Act]:
        node["spec"] = {**node.get("spec", {}), "taints": [{"key": "sick", "value": "yes", "effect": "NoSchedule"}]}
        return _nothing, self._later(lambda: self._patch(NODES, name, {"spec": {"taints": None}}), node, "taints")

    def _cordon(self, name: str, node: Any, pod: Any) -> tuple[Act, Act]:
        node["spec"] = {**node.get("spec", {}), "unschedulable": True}
        change = {"spec": {"unschedulable": None}}
        return _nothing, self._later(lambda: self._patch(NODES, name, change), node, "unschedulable")

    def _too_small(self, name: str, node: Any, pod: Any) -> tuple[Act, Act]:
        node["status"] = _status({**ROOM, "cpu": "100m"})

        def grow() -> None:
            node["status"] = _status(ROOM)
            if self._is_there(NODES, "", name):
                self._patch(NODES, name, {"status": {"allocatable": ROOM, "capacity": ROOM}}, "status")

        return _nothing, grow

    def _full(self, name: str, node: Any, pod: Any) -> tuple[Act, Act]:
        key = f"blue/{name}-full"
        return lambda: self._make_pod(key, node=name, cpu="7900m", labels={"app": "full"}), lambda: self._empty(key)

    def _port(self, name: str, node: Any, pod: Any) -> tuple[Act, Act]:
        key, ports = f"blue/{name}-port", [{"containerPort": 80, "hostPort": 8080}]
        pod["ports"] = ports
        return lambda: self._make_pod(key, node=name, ports=ports), lambda: self._empty(key)

    def _repelled(self, name: str, node: Any, pod: Any) -> tuple[Act, Act]:
        key, spec = f"red/{name}-repels", {"affinity": _affinity("podAntiAffinity", name)}
        return lambda: self._make_pod(key, node=name, spec=spec), lambda: self._empty(key)

    def _repels(self, name: str, node: Any, pod: Any) -> tuple[Act, Act]:
        key, app = f"red/{name}-repelled", f"{name}-foe"
        pod["spec"] = {**pod["spec"], **_merged(pod["spec"], "podAntiAffinity", app)}
        calm = {"metadata": {"labels": {"app": "friend"}}}
        return lambda: self._make_pod(key, node=name, labels={"app": app}), lambda: self._patch_pod(key, calm)

    def _lonely(self, name: str, node: Any, pod: Any) -> tuple[Act, Act]:
        key, app = f"red/{name}-company", f"{name}-friend"
        pod["spec"] = {**pod["spec"], **_merged(pod["spec"], "podAffinity", app)}
        return _nothing, lambda: self._make_pod(key, node=name, labels={"app": app})

    def _gated(self, name: str, node: Any, pod: Any) -> tuple[Act, Act]:
        pod["spec"] = {**pod["spec"], "schedulingGates": [{"name": "simulation.berth.dev/wait"}]}
        return _nothing, lambda: self._for_each(name, {"spec": {"schedulingGates": None}})

    def _labels(self, name: str, node: Any, pod: Any) -> tuple[Act, Act]:
        node["metadata"]["labels"][CELL] = "none"

        def name_it() -> None:
            node["metadata"]["labels"][CELL] = name
            if self._is_there(NODES, "", name):
                self._patch(NODES, name, {"metadata": {"labels": {CELL: name}}})

        return _nothing, name_it

    def _later(self, act: Act, node: Any, field_name: str) -> Act:
        """On the node, or on what is to be the node."""

        def change() -> None:
            node["spec"].pop(field_name, None)
            if self._is_there(NODES, "", node["metadata"]["name"]):
                act()

        return change

    def _empty(self, key: str) -> None:
        """A pod ends, in one way or another."""
        if self.random.random() < 0.5:
            self._drop(key)
        else:
            self._patch_pod(key, {"status": {"phase": "Succeeded"}}, "status")

    # --- small things ------------------------------------------------------------------------------------------------

    def _make_pod(
        self,
        key: str,
        node: str = "",
        cpu: str = "200m",
        labels: dict[str, str] | None = None,
        spec: dict[str, Any] | None = None,
        ports: Sequence[dict[str, Any]] = (),
    ) -> None:
        namespace, name = key.split("/")
        container: dict[str, Any] = {"name": "main", "image": "registry.example/app:v1", "ports": list(ports)}
        container["resources"] = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        body = {
            "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
            "spec": {
                "schedulerName": "foreign" if node else "berth",
                "priorityClassName": "high" if node else "low",
                "containers": [container],
                **({"nodeName": node} if node else {}),
                **(spec or {}),
            },
        }
        self.store.create(PODS, body, namespace=namespace)

    def _drop(self, key: str) -> None:
        namespace, name = key.split("/")
        if self._is_there(PODS, namespace, name):
            self.store.delete(PODS, namespace, name, grace_period_seconds=0)

    def _is_there(self, resource: Any, namespace: str, name: str) -> bool:
        return any(body["metadata"]["name"] == name for body in self.store.list(resource, namespace).items)

    def _for_each(self, cell: str, change: dict[str, Any]) -> None:
        for key in self.meant:
            if key.startswith(f"red/{cell}-"):
                self._patch_pod(key, change)

    def _patch_pod(self, key: str, change: dict[str, Any], subresource: str = "") -> None:
        namespace, name = key.split("/")
        self.store.patch(PODS, namespace, name, change, "merge", subresource=subresource)

    def _patch(self, resource: Any, name: str, change: dict[str, Any], subresource: str = "") -> None:
        self.store.patch(resource, "", name, change, "merge", subresource=subresource)


def _status(room: dict[str, str]) -> dict[str, Any]:
    return {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}


def _affinity(kind: str, app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _merged(spec: dict[str, Any], kind: str, app: str) -> dict[str, Any]:
    return {"affinity": {**spec.get("affinity", {}), **_affinity(kind, app)}}


def _nothing() -> None:
    """It is as it is."""
