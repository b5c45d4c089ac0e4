"""Thousands of objects that make no sense, told by kopf's handlers: nothing raises, nobody waits, all is counted."""

import asyncio
import dataclasses
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kopf
import pytest

from berth.handlers import register
from berth.runtime import Options, Runtime, make_runtime
from berth.sim.resources import NODES, PODS
from berth.sim.server import SimServer
from berth.sim.store import Store
from mutated.mutating import mutate
from mutated.samples import kind_of, samples
from support.builders import make_node, make_pod
from support.examples import examples

OBJECTS = examples(10_000)
ROUNDS = examples(20)
GOOD_NODES = 5
GOOD_PODS = 10  # after each round
LIMIT_SECONDS = 300
TYPES = ("ADDED", "ADDED", "MODIFIED", "MODIFIED", "DELETED", None)
SEED = 20261117


class Cluster:
    """An embedded API server with a runtime on it, told of what happens as kopf would tell it."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        registry = kopf.OperatorRegistry()
        register(registry, runtime, owns_runtime=False)
        self._handlers: dict[str, Any] = {
            str(handler.id): handler.fn for handler in registry._watching.get_all_handlers()
        }
        self.store = store
        self.runtime = runtime

    async def tell(self, kind: str, type_: str | None, body: Any) -> None:
        await self._handlers[kind](event={"type": type_, "object": body}, body=body, memo=None)

    async def add(self, body: dict[str, Any]) -> None:
        resource = {"Node": NODES, "Pod": PODS}[body["kind"]]
        made = self.store.create(resource, body, namespace=body["metadata"].get("namespace", ""))
        await self.tell(body["kind"], "ADDED", made)

    async def wait_bound(self, name: str) -> str:
        """The node that a pod has been given; the watch says so then."""
        while True:
            pod = self.store.get(PODS, "default", name)
            if node := pod["spec"].get("nodeName"):
                await self.tell("Pod", "MODIFIED", pod)
                return str(node)
            await asyncio.sleep(0.001)


@asynccontextmanager
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    store = Store(lambda: datetime.now(UTC))
    server = SimServer(store)
    await server.start()
    kubeconfig = tmp_path / "kubeconfig"
    server.write_kubeconfig(kubeconfig)
    options = Options(https_address="", seed=1, standalone=True, extender_networks=("127.0.0.0/8",))
    runtime = make_runtime(dataclasses.replace(options, kubeconfig=str(kubeconfig)))
    told = Cluster(store, runtime)
    for number in range(GOOD_NODES):
        store.create(NODES, good_node(number))
    await runtime.start()
    for node in store.list(NODES, "").items:
        await told.tell("Node", None, node)
    for namespace in ("default",):
        await told.tell("Namespace", None, {"metadata": {"name": namespace, "uid": namespace}})
    while not runtime.readiness().is_ready:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    try:
        yield told
    finally:
        await runtime.stop()
        await server.stop()


def good_node(number: int) -> dict[str, Any]:
    return make_node(f"good-{number}", cpu=1000, pods=10_000, labels={"good": "yes"})


def good_pod(name: str) -> dict[str, Any]:
    return make_pod(name, cpu="1m", node_selector={"good": "yes"})


async def test_thousands_of_mutated_objects_raise_nothing_and_hold_up_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.ERROR)
    fate = random.Random(SEED)
    placed, sent = 0, 0
    left_out: set[tuple[str, str]] = set()  # looked at right after each object: what no server has is soon forgotten
    async with asyncio.timeout(LIMIT_SECONDS), cluster(tmp_path) as told:
        for round_ in range(ROUNDS):
            while sent < (round_ + 1) * OBJECTS // ROUNDS:
                # No store shows an object in a version that it has not come to.
                label, body = fate.choice(list(samples(sent % 3000, told.store.revision).items()))
                await told.tell(kind_of(label), fate.choice(TYPES), mutate(body, fate))
                left_out |= told.runtime.components.cache.invalid.keys()
                sent += 1
                if sent % 20 == 0:
                    await asyncio.sleep(0)
            for number in range(GOOD_PODS):
                await told.add(good_pod(f"good-{round_}-{number}"))
            for number in range(GOOD_PODS):
                placed += (await told.wait_bound(f"good-{round_}-{number}")).startswith("good-")
        statistics = told.runtime.statistics()
        failed = told.runtime.components.decisions.failed.is_set()
    with capsys.disabled():
        print(f"\n{sent} mutated objects: left out {dict(Counter(kind for kind, _ in left_out))}")
        print(f"faults {statistics['faults']}")
    assert not failed
    assert placed == ROUNDS * GOOD_PODS
    assert statistics["faults"] == {}
    assert set(statistics["nameless"]) == {label.partition(" ")[0] for label in samples(0, 0)}
    assert {kind for kind, _ in left_out} >= {"Pod", "Node", "PersistentVolume", "ReplicaSet"}
    # What was refused because it cannot be sent is said; nothing of ours has a traceback.
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors if record.exc_info or "is given up: 4" not in record.message] == []
