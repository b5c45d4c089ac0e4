"""The same objects end in the same cache, whether lists and watches are read in bulk or by kopf."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from berth.model import KINDS
from berth.scheduler.cache.cache import Cache
from berth.sim.errors import StatusError
from berth.sim.faults import Faults
from berth.sim.resources import NODES, PODS
from berth.sim.store import Object, Store
from faults.world import OBSERVED, World, operating
from mutated.samples import samples
from support.builders import make_node, make_pod

PATIENCE_SECONDS = 60.0
REPLICAS = 40


async def test_the_same_objects_end_in_the_same_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    ways = []
    for bulk in (True, False):
        folder = tmp_path / str(bulk)
        folder.mkdir()
        async with operating(folder, Faults([]), bulk=bulk) as world:
            begin(world.store)
            await world.until(lambda: knows_all(world), PATIENCE_SECONDS, lambda: "objects are missing")
            go_on(world.store)
            await world.until(lambda: knows_all(world), PATIENCE_SECONDS, lambda: "changes are missing")
            assert world.runtime.statistics()["faults"] == {}
            ways.append(dict(contents(world.cache)))
    assert ways[0] == ways[1]
    assert len(ways[0]) > REPLICAS


def begin(store: Store) -> None:
    """Objects of every kind, and replicas of one template, none of which is ours to place."""
    for body in samples(1, 1).values():
        resource = OBSERVED.get(body["kind"])
        if resource is not None and body["kind"] not in ("Pod", "Namespace"):
            metadata = {key: value for key, value in body["metadata"].items() if key not in ("uid", "resourceVersion")}
            namespace = metadata.get("namespace", "")
            with suppress(StatusError):  # some have what scheduling reads, and not all that an API server asks for
                store.create(resource, {**body, "metadata": metadata}, namespace=namespace)
    for number in range(5):
        store.create(NODES, make_node(f"n{number}"))
    for number in range(REPLICAS):
        body = make_pod(f"web-{number}", cpu="50m", labels={"app": "web"}, scheduler="other", node=f"n{number % 5}")
        store.create(PODS, body, namespace="default")


def go_on(store: Store) -> None:
    """Changes of all sorts."""
    for number in range(0, REPLICAS, 4):
        name = f"web-{number}"
        store.delete(PODS, "default", name, grace_period_seconds=0)
        store.create(PODS, make_pod(name, cpu="70m", scheduler="other"), namespace="default")
        status = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
        store.patch(PODS, "default", f"web-{number + 1}", status, "merge", subresource="status")
        store.patch(PODS, "default", f"web-{number + 2}", {"metadata": {"labels": {"app": "other"}}}, "merge")
    store.delete(NODES, "", "n4")
    store.patch(NODES, "", "n3", {"spec": {"unschedulable": True}}, "merge")


def knows_all(world: World) -> bool:
    """Every object in the version that it has."""
    for kind, resource in OBSERVED.items():
        bodies = world.store.pods() if kind == "Pod" else world.store.objects(resource)
        versions = {body["metadata"]["uid"]: int(body["metadata"]["resourceVersion"]) for body in bodies}
        if set(world.cache.known(kind)) != set(versions) or world.cache.behind(kind, versions):
            return False
    return True


def contents(cache: Cache) -> Iterator[tuple[str, Any]]:
    """What decisions read, by kind and key; without UIDs and what else differs between two stores."""
    for kind in KINDS:
        yield f"{kind.name}", sorted(cache.known(kind.name).values())
    for node in cache.state.table.nodes():
        yield f"Node {node.name}", _same(node)
        for pod in cache.state.table.pods_on(node.name).values():
            yield f"Pod {pod.key} on {node.name}", _same(pod)
    for pod in cache.pending.values():
        yield f"Pod {pod.key}", _same(pod)
    for kind_name, objects in cache.state.objects.items():
        for key, record in objects.items():
            yield f"{kind_name} {key}", _same(record)


def _same(record: Any) -> Object:
    own = ("uid", "resource_version", "created")
    fields = record.__dataclass_fields__
    return {name: getattr(record, name) for name in fields if name not in own and not name.startswith("_")}
