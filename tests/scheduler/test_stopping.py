"""A clean stop: nothing new begins, what runs ends, and what does not end is named."""

import asyncio
from typing import Any

import pytest

from scheduler.harness import Harness
from scheduler.memory_cluster import Hang
from scheduler.virtual_clock import settle
from support.builders import make_node, make_pod


async def started(**options: Any) -> tuple[Harness, "asyncio.Task[None]"]:
    harness = Harness(**options)
    harness.scheduler.open()
    run = asyncio.ensure_future(harness.scheduler.run())
    await settle()
    return harness, run


async def test_stopping_an_idle_scheduler_ends_it_at_once() -> None:
    harness, run = await started()
    await harness.scheduler.stop()
    await run


async def test_running_binds_finish_and_nothing_new_begins() -> None:
    harness, run = await started()
    hang = harness.cluster.faults["web"] = Hang()
    harness.write(make_node("a"), make_pod("web"))
    await settle()
    stop = asyncio.ensure_future(harness.scheduler.stop())
    await asyncio.sleep(0)  # asked to stop, and nothing has ended yet
    harness.write(make_pod("too-late"))
    harness.scheduler.open()
    await harness.clock.advance(10)
    assert not stop.done()
    assert not run.done()
    hang.released.set()
    await settle()
    await stop
    await run
    assert harness.cluster.node_of("web") == "a"
    assert harness.cluster.attempts == [("web", "a")]
    assert harness.notes("web") == ["Successfully assigned default/web to a"]


async def test_a_bind_that_does_not_end_is_cut_off_after_the_drain_time_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness, run = await started()
    harness.cluster.faults["web"] = Hang()
    harness.write(make_node("a"), make_pod("web"))
    await settle()
    stop = asyncio.ensure_future(harness.scheduler.stop())
    await harness.clock.advance(24)
    assert not stop.done()
    await harness.clock.advance(1)
    await stop
    await run
    assert "default/web to node a" in caplog.text
    assert len(harness.cache.assumed()) == 1  # nobody knows: the room stays taken to the end


async def test_cancelling_the_run_ends_it_without_losing_running_binds() -> None:
    harness, run = await started()
    hang = harness.cluster.faults["web"] = Hang()
    harness.write(make_node("a"), make_pod("web"))
    await settle()
    run.cancel()
    await settle()
    hang.released.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert harness.cluster.node_of("web") == "a"
