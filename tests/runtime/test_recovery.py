"""What follows an incident: decisions stop at once, and everything starts over, or falls silent."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from berth.cluster.errors import Unreachable
from berth.cluster.fence import OpenFence
from berth.runtime import Options, Runtime, make_runtime
from berth.scheduler.ports import NotLeading
from cluster.manual_clock import ManualClock
from cluster.server import until, write_kubeconfig


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    """Recovers, and does nothing else."""
    kubeconfig = write_kubeconfig(tmp_path, "http://127.0.0.1:1")
    made = make_runtime(Options(kubeconfig=str(kubeconfig), https_address="", standalone=True), clock=ManualClock())
    recovering = asyncio.create_task(made.components.recovery.run())
    yield made
    recovering.cancel()
    await asyncio.gather(recovering, return_exceptions=True)
    await made.components.cache_sync.stop()
    await made.components.api.close()


def decides(runtime: Runtime) -> bool:
    return runtime.components.queue.is_open


async def test_a_store_that_went_back_in_time_closes_decisions_and_is_read_anew(runtime: Runtime) -> None:
    parts = runtime.components
    parts.decisions.on_synced()
    assert decides(runtime)
    parts.incidents.on_rewound("in a test")
    assert not parts.decisions.is_open
    await until(lambda: not parts.incidents.rewound.is_set())
    assert not decides(runtime)
    assert parts.cache_sync.is_running
    assert parts.watch_control.takes_events
    parts.decisions.on_synced()
    assert decides(runtime)


async def test_a_store_goes_back_in_time_once_for_all_who_notice(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        runtime.components.incidents.on_rewound("in a test")
    await until(lambda: not runtime.components.incidents.rewound.is_set())
    assert sum("gone back in time" in message for message in caplog.messages) == 1


async def test_an_error_while_starting_over_is_noted_and_the_next_time_is_not_the_last(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise KeyError("surprise")

    parts = runtime.components
    with monkeypatch.context() as patch:
        patch.setattr(parts.fanout, "start_over", fail)
        parts.incidents.on_rewound("in a test")
        await until(lambda: not parts.incidents.rewound.is_set())
    assert parts.errors.counts == {"starting over": 1}
    parts.incidents.on_rewound("in a test")
    await until(lambda: parts.cache_sync.is_running)


async def test_another_cluster_ends_a_new_beginning_that_is_under_way(runtime: Runtime) -> None:
    parts = runtime.components
    with parts.watch_control.watched():  # and never says that its watches have ended
        parts.incidents.on_rewound("in a test")
        await until(parts.watch_control.restart_wanted.is_set)
        parts.incidents.on_other_cluster("another cluster answers")
        await until(lambda: len(asyncio.all_tasks()) == 1)
    assert not parts.watch_control.takes_events
    assert not parts.cache_sync.is_running
    parts.incidents.on_rewound("in a test")
    assert not parts.decisions.is_open


async def test_where_another_cluster_answers_a_write_fails_as_one_that_was_not_sent(runtime: Runtime) -> None:
    parts = runtime.components
    parts.incidents.on_other_cluster("another cluster answers")
    with pytest.raises(NotLeading, match="another cluster answers: nothing was sent"):
        await parts.api.request("POST", "/x", body={}, fence=OpenFence())
    with pytest.raises(Unreachable, match="another cluster answers: nothing was sent"):
        await parts.api.request("POST", "/x", body={})
