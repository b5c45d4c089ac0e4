"""An extender that takes its time, fails now and then, and refuses the nodes that carry a label."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from berth.cluster.extenders import HttpExtenders
from berth.policy.records import Extender
from berth.scheduler.extenders.extender_protocol import ExtenderFailed
from berth.sim.errors import StatusError
from berth.sim.resources import NODES
from berth.sim.store import Store
from simulation.policies import REFUSING_LABEL
from simulation.weather import Weather


class SimExtender(HttpExtenders):
    """`allowed` is what it said last, by the pod's UID. `on_bound(namespace, name, node)`: it has bound a pod."""

    def __init__(self, store: Store, weather: Weather, on_bound: Callable[[str, str, str], None]) -> None:
        super().__init__()
        self._store = store
        self._weather = weather
        self._on_bound = on_bound
        self.allowed: dict[str, frozenset[str]] = {}

    async def ask(self, extender: Extender, verb: str, body: Mapping[str, object]) -> object:
        question = orjson.loads(orjson.dumps(body))
        slow = self._weather.happens("extender slow")
        seconds = self._weather.between(0.5, 8.0) if slow else self._weather.latency_seconds()
        fails = self._weather.happens("extender fails")
        await asyncio.sleep(min(seconds, extender.timeout_seconds))
        if fails or seconds > extender.timeout_seconds:
            raise ExtenderFailed(f"{extender.url_prefix}/{verb}: no answer")
        if verb == "bind":
            return self._bind(question)
        if verb == "preempt":
            return self._spare(question)
        names = question["NodeNames"]
        if names is None:
            names = [node["metadata"]["name"] for node in question["Nodes"]["items"]]
        if verb == "prioritize":
            return [{"Host": name, "Score": len(name) % 10} for name in names]
        return self._filter(question, names)

    def _filter(self, question: Any, names: list[str]) -> object:
        left = [name for name in names if not self._is_refused(name)]
        self.allowed[question["Pod"]["metadata"]["uid"]] = frozenset(left)
        refused = {name: "the extender says no" for name in names if name not in left}
        if question["NodeNames"] is not None:
            return {"NodeNames": left, "FailedNodes": refused}
        items = [node for node in question["Nodes"]["items"] if node["metadata"]["name"] in left]
        return {"Nodes": {"items": items}, "FailedNodes": refused}

    def _spare(self, question: Any) -> object:
        """Nobody is to be preempted on a node that it would refuse afterwards."""
        victims = question["NodeNameToMetaVictims"]
        if victims is None:
            victims = {
                name: {**said, "Pods": [{"UID": pod["metadata"]["uid"]} for pod in said["Pods"]]}
                for name, said in question["NodeNameToVictims"].items()
            }
        left = {name: said for name, said in victims.items() if not self._is_refused(name)}
        return {"NodeNameToMetaVictims": left}

    def _is_refused(self, name: str) -> bool:
        try:
            node = self._store.get(NODES, "", name)
        except StatusError:
            return False
        return refuses(node)

    def _bind(self, question: Any) -> object:
        namespace, name, node = question["PodNamespace"], question["PodName"], question["Node"]
        metadata = {"name": name, "namespace": namespace, "uid": question["PodUID"]}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        try:
            self._store.bind(namespace, name, binding)
        except StatusError as error:
            return {"Error": error.message}
        self._on_bound(namespace, name, node)
        return {}


def refuses(node: Mapping[str, Any]) -> bool:
    return (node["metadata"].get("labels") or {}).get(REFUSING_LABEL) == "no"
