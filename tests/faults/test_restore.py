"""The store is restored from a backup while pods are placed: kopf watches anew, and nothing is lost or booked twice."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from berth.sim.faults import Faults
from berth.sim.resources import CRDS, NODES, PODS
from berth.sim.server import SimServer
from berth.sim.store import Store
from control_plane.berth_process import SOURCE_ROOT, berth_environment
from control_plane.process import Process
from faults.world import RecordingStore, operating
from support.builders import make_node, make_pod
from support.crds import POLICIES, crd
from support.patience import LIMIT_SECONDS

ROOM = 40
MAIN = SOURCE_ROOT / "main.py"


async def test_after_a_restore_every_pod_is_bound_within_capacity_and_the_cache_equals_the_store(
    bulk: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    async with operating(tmp_path, Faults([]), bulk=bulk) as world:
        store = world.store
        for number in range(4):
            store.create(NODES, make_node(f"node-{number}", cpu="1"))
        create(store, "early", ROOM // 2)
        await world.until(lambda: not store.pending(), LIMIT_SECONDS, lambda: "the first pods are pending")
        create(store, "later", ROOM // 4)
        backup = store.back_up()  # some of these are bound, others are not
        await world.until(lambda: not store.pending(), LIMIT_SECONDS, lambda: "later pods are pending")
        for number in range(0, ROOM // 2, 2):
            store.delete(PODS, "default", f"early-{number}", grace_period_seconds=0)
        create(store, "undone", ROOM // 2)
        await world.until(lambda: not store.pending(), LIMIT_SECONDS, lambda: "the last pods are pending")
        binds = len(store.binds)

        await world.server.restore(backup)
        create(store, "new", ROOM // 4)

        await world.until(lambda: not store.pending(), LIMIT_SECONDS, lambda: f"{store.pending()} are pending")
        await world.until(lambda: not world.differences(), LIMIT_SECONDS, lambda: "; ".join(world.differences()))
        await asyncio.sleep(0)
        assert len(store.pods()) == ROOM
        assert store.overfull_nodes() == []
        after = [uid for uid, _ in store.binds[binds:]]
        assert len(after) == len(set(after))
        drift = world.runtime.statistics()["cache_sync"]["drift"]
        assert any("rewound" in counts for counts in drift.values())
        assert world.runtime.readiness().is_ready


async def test_kopf_run_ends_with_a_reason_and_is_to_be_started_again(tmp_path: Path) -> None:
    async with serving(tmp_path / "kubeconfig") as server:
        kopf = kopf_run(tmp_path)
        kopf.start()
        try:
            server.store.create(NODES, make_node("node", cpu="1"))
            backup = server.store.back_up()
            create(server.store, "pod", 5)
            await until(lambda: all(pod["spec"].get("nodeName") for pod in server.store.list(PODS).items))
            await server.restore(backup)
            await until(lambda: not kopf.running)
        finally:
            kopf.kill()
    assert kopf.exit_code == 1, kopf.tail()
    assert "store has gone back in time" in kopf.log_text()
    assert "ends with exit code 1, to be started again" in kopf.log_text()


@asynccontextmanager
async def serving(kubeconfig: Path) -> AsyncIterator[SimServer]:
    server = SimServer(RecordingStore())
    server.store.create(CRDS, crd(POLICIES))
    await server.start()
    server.write_kubeconfig(kubeconfig)
    yield server
    await server.stop()


def kopf_run(folder: Path) -> Process:
    command = [sys.executable, "-m", "kopf", "run", str(MAIN), "--standalone", "--all-namespaces"]
    settings = {"BERTH_KUBECONFIG": str(folder / "kubeconfig"), "BERTH_HTTPS_ADDRESS": ""}
    return Process("kopf", command, folder / "kopf.log", environment={**berth_environment(), **settings})


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        while not condition():  # noqa: ASYNC110, another process does it
            await asyncio.sleep(0.05)


def create(store: Store, name: str, count: int) -> None:
    for number in range(count):
        store.create(PODS, make_pod(f"{name}-{number}", cpu="100m"), namespace="default")
