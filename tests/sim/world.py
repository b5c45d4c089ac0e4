"""A store with a clock that stands still, and the bodies that its tests send to it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from berth.sim.resources import CRDS, NODES, PODS, Resource
from berth.sim.store import Object, Store
from berth.sim.store.history import Watch
from support.crds import POLICIES, crd

START = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """A store and its time."""

    def __init__(self, *, seed: int = 0, history: int = 10_000) -> None:
        self.now = START
        self.store = Store(lambda: self.now, seed, history)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def add_pod(self, name: str, **fields: Any) -> Object:
        namespace = fields.pop("namespace", "default")
        return self.store.create(PODS, pod(name, **fields), namespace=namespace)

    def add_node(self, name: str, **labels: str) -> Object:
        return self.store.create(NODES, {"metadata": {"name": name, "labels": labels}})

    def add_bound_pod(self, name: str, **fields: Any) -> Object:
        self.add_pod(name, **fields)
        self.store.bind("default", name, binding(name, "node-1"))
        return self.pod(name)

    def pod(self, name: str, namespace: str = "default") -> Object:
        return self.store.get(PODS, namespace, name)

    def exists(self, resource: Resource, namespace: str, name: str) -> bool:
        return any(body["metadata"]["name"] == name for body in self.store.list(resource, namespace).items)

    def add_policy_crd(self) -> Resource:
        return self.add_crd(crd(POLICIES))

    def add_crd(self, definition: Object) -> Resource:
        self.store.create(CRDS, definition)
        spec = definition["spec"]
        resource = self.store.find(spec["group"], spec["versions"][0]["name"], spec["names"]["plural"])
        assert resource is not None
        return resource


def pod(name: str, *, labels: dict[str, str] | None = None, metadata: Object | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **({"labels": labels} if labels else {}), **(metadata or {})},
        "spec": {"containers": [container], **spec},
    }


def binding(name: str, node: str, **metadata: str) -> Object:
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


def definition(properties: Object, *, required: Iterable[str] = (), namespaced: bool = False, **version: Any) -> Object:
    """A CustomResourceDefinition for kind Thing whose spec has these properties."""
    spec = {"type": "object", "required": list(required), "properties": properties}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema, **version}],
        },
    }


def names(bodies: Iterable[Object]) -> list[str]:
    return [body["metadata"]["name"] for body in bodies]


def told(watch: Watch) -> list[tuple[str, str]]:
    """What a watch has to say right now: types and names."""
    return [(kind, body["metadata"].get("name", "")) for kind, body in watch.take_ready()]
