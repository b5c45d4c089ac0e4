"""The store is restored from a backup while pods are placed: kopf watches anew, and nothing is lost or booked twice."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from berth.sim.faults import Faults
from berth.sim.resources import NODES, PODS
from faults.world import RecordingStore, operating
from support.builders import make_node, make_pod

ROOM = 40
PATIENCE_SECONDS = 60.0


async def test_after_a_restore_every_pod_is_bound_within_capacity_and_the_cache_equals_the_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    async with operating(tmp_path, Faults([])) as world:
        store = world.store
        for number in range(4):
            store.create(NODES, make_node(f"node-{number}", cpu="1"))
        create(store, "early", ROOM // 2)
        await world.until(lambda: not store.pending(), PATIENCE_SECONDS, lambda: "the first pods are pending")
        create(store, "later", ROOM // 4)
        backup = store.back_up()  # some of these are bound, others are not
        await world.until(lambda: not store.pending(), PATIENCE_SECONDS, lambda: "later pods are pending")
        for number in range(0, ROOM // 2, 2):
            store.delete(PODS, "default", f"early-{number}", grace_period_seconds=0)
        create(store, "undone", ROOM // 2)
        await world.until(lambda: not store.pending(), PATIENCE_SECONDS, lambda: "the last pods are pending")
        binds = len(store.binds)

        await world.server.restore(backup)
        create(store, "new", ROOM // 4)

        await world.until(lambda: not store.pending(), PATIENCE_SECONDS, lambda: f"{store.pending()} are pending")
        await world.until(lambda: not world.differences(), PATIENCE_SECONDS, lambda: "; ".join(world.differences()))
        await asyncio.sleep(0)
        assert len(store.pods()) == ROOM
        assert store.overfull_nodes() == []
        after = [uid for uid, _ in store.binds[binds:]]
        assert len(after) == len(set(after))
        drift = world.runtime.statistics()["census"]["drift"]
        assert any("rewound" in counts for counts in drift.values())
        assert world.runtime.readiness().is_ready


def create(store: RecordingStore, name: str, count: int) -> None:
    for number in range(count):
        store.create(PODS, make_pod(f"{name}-{number}", cpu="100m"), namespace="default")
