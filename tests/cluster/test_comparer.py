"""What the cache has otherwise than the API server is found, repaired and counted; what is on its way is left alone."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from berth.cluster.conditions import Conditions
from berth.runtime import Options, make_runtime
from berth.sim.resources import NODES, PODS
from cluster.harness import GRACE, REGULAR, Harness
from cluster.server import until
from policy.builders import make_policy
from support.builders import make_node, make_pod


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(tmp_path)
    harness.make(make_node("a"))
    harness.make(make_node("b"))
    await harness.start()
    yield harness
    await harness.stop()


async def test_an_object_that_is_known_in_an_older_version_is_read(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.change(NODES, "a", {"spec": {"unschedulable": True}})
    await harness.pass_time(REGULAR + GRACE + 2)
    known = harness.cache.state.table.node("a")
    assert known is not None
    assert known.unschedulable
    assert harness.drift() == {"Node": {"stale": 1}}
    assert "Node that the watch has shown in older versions only, read: a" in caplog.messages


async def test_what_the_watch_tells_late_is_no_drift(harness: Harness) -> None:
    pod = harness.make(make_pod("old", scheduler="other"))
    harness.tell(pod, "ADDED")
    node = harness.change(NODES, "a", {"spec": {"unschedulable": True}})
    late = harness.make(make_pod("new", scheduler="other"))
    harness.store.delete(PODS, "default", "old", grace_period_seconds=0)
    await harness.pass_time(REGULAR + 5)
    for body, type_ in ((node, "MODIFIED"), (late, "ADDED"), (pod, "DELETED")):
        harness.tell(body, type_)
    await harness.pass_time(2 * GRACE)
    assert harness.drift() == {}


async def test_a_pod_bound_elsewhere_than_assumed_is_moved_there(harness: Harness) -> None:
    harness.change(NODES, "b", {"spec": {"unschedulable": True}})
    harness.tell(harness.store.get(NODES, "", "b"))
    pod = harness.make(make_pod("web", gates=["wait"]))
    harness.tell(pod, "ADDED")
    record = harness.cache.pending[pod["metadata"]["uid"]]
    harness.change(PODS, "web", {"spec": {"schedulingGates": None}})
    harness.cache.assume(record, "a")
    harness.bind("web", "b")
    assert (harness.on("a"), harness.on("b")) == (["web"], [])
    await harness.pass_time(REGULAR + GRACE + 2)
    assert (harness.on("a"), harness.on("b")) == ([], ["web"])
    assert not harness.cache.assumed()
    assert harness.drift() == {"Pod": {"stale": 1}}


async def test_a_pod_that_another_scheduler_bound_in_silence_takes_its_room(harness: Harness) -> None:
    harness.tell(harness.make(make_pod("web", scheduler="other")), "ADDED")
    harness.bind("web", "a")
    await harness.pass_time(REGULAR + GRACE + 2)
    assert harness.on("a") == ["web"]
    assert not harness.cache.pending


async def test_of_a_pod_that_was_bound_in_silence_no_failure_is_written_any_more(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[str] = []
    forget = Conditions.forget

    def recording(self: Conditions, uid: str) -> None:
        settled.append(uid)
        forget(self, uid)

    monkeypatch.setattr(Conditions, "forget", recording)
    pod = harness.make(make_pod("web", scheduler="other"))
    harness.tell(pod, "ADDED")
    harness.bind("web", "a")
    await harness.pass_time(REGULAR + GRACE + 2)
    assert settled == [pod["metadata"]["uid"]]


async def test_a_pod_that_was_resized_in_silence_is_accounted_anew(harness: Harness) -> None:
    harness.make(make_pod("web", scheduler="other", cpu="1"))
    harness.tell(harness.bind("web", "a"), "ADDED")
    allocated = {"name": "main", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}}
    harness.change(PODS, "web", {"status": {"containerStatuses": [allocated]}}, subresource="status")
    await harness.pass_time(REGULAR + GRACE + 2)
    table = harness.cache.state.table
    assert table.used[0, table.row("a")] == 2000


async def test_a_pod_that_finished_in_silence_frees_its_room(harness: Harness) -> None:
    harness.make(make_pod("job", scheduler="other"))
    harness.tell(harness.bind("job", "a"), "ADDED")
    harness.change(PODS, "job", {"status": {"phase": "Succeeded"}}, subresource="status")
    await harness.pass_time(REGULAR + 2)
    assert harness.on("a") == []
    await harness.pass_time(GRACE)
    assert harness.drift() == {"Pod": {"ghost": 1}}


async def test_an_object_deleted_in_silence_is_removed_at_once_and_drift_if_it_stays_silent(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.store.delete(NODES, "", "b")
    await harness.pass_time(REGULAR + 2)
    assert harness.cache.state.table.node("b") is None
    assert harness.drift() == {}
    await harness.pass_time(GRACE)
    assert harness.drift() == {"Node": {"ghost": 1}}
    assert "Node deleted without a word from the watch, removed: b" in caplog.messages


async def test_a_policy_that_was_edited_in_silence_decides_as_it_is_now(harness: Harness) -> None:
    harness.tell(harness.make(make_policy("batch", schedulerName="batch")), "ADDED")
    policies = harness.resource_of(make_policy())
    harness.change(policies, "batch", {"spec": {"mode": "Disabled"}})
    await harness.pass_time(REGULAR + GRACE + 2)
    assert [active.policy.name for active in harness.runtime.components.policies.in_force()] == ["(built-in)"]
    assert harness.drift() == {"SchedulingPolicy": {"stale": 1}}


async def test_an_older_version_of_a_policy_that_comes_after_a_newer_one_changes_nothing(harness: Harness) -> None:
    before = harness.make(make_policy("batch", schedulerName="batch"))
    after = harness.change(harness.resource_of(make_policy()), "batch", {"spec": {"schedulerName": "other"}})
    harness.tell(after)
    harness.tell(before)
    assert harness.runtime.components.policies.serves("other")
    assert not harness.runtime.components.policies.serves("batch")


async def test_an_object_that_cannot_be_read_is_read_by_the_next_comparison(harness: Harness) -> None:
    harness.change(NODES, "a", {"spec": {"unschedulable": True}})
    await harness.pass_time(REGULAR + 2)
    await harness.server.stop()
    await harness.pass_time(GRACE + 1)
    assert harness.drift() == {}
    await harness.server.start()
    await harness.pass_time(GRACE + 60)
    assert harness.drift()["Node"] == {"stale": 1}


async def test_a_signal_writes_what_is_known_and_what_differs_to_the_log(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    harness.make(make_pod("web", scheduler="other", cpu="1"))
    harness.tell(harness.bind("web", "a"), "ADDED")
    harness.tell(harness.make(make_pod("gated", gates=["wait"])), "ADDED")
    harness.store.delete(NODES, "", "b")
    await harness.pass_time(1)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, harness.runtime.dump)
    try:
        os.kill(os.getpid(), signal.SIGUSR2)
        await until(lambda: harness.runtime.components.dump.is_running)
        await harness.pass_time(GRACE + 5)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR2)
    assert "Node a: cpu 1000m of 4000m, memory 0 of 16Gi, pods 1 of 110" in caplog.messages
    assert any(message.startswith("Node a runs: default/web [") for message in caplog.messages)
    assert any(message.startswith("Gated: default/gated [") for message in caplog.messages)
    assert "Node deleted without a word from the watch, removed: b" in caplog.messages
    assert "Node: compared with the API server: 1 there, 1 known, drift since the start: 1 ghost" in caplog.messages
    assert "Pod: compared with the API server: 2 there, 2 known, drift since the start: none" in caplog.messages


async def test_a_signal_before_the_cache_is_synced_says_what_it_waits_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    harness = Harness(tmp_path)
    await harness.server.start()
    harness.server.write_kubeconfig(harness._kubeconfig)
    runtime = make_runtime(
        Options(kubeconfig=str(harness._kubeconfig), https_address="", standalone=True), clock=harness.clock
    )
    runtime.dump()
    await runtime.components.dump.wait()
    await harness.server.stop()
    assert "Node: cannot be compared yet: not listed yet" in caplog.messages
    assert any("closed, nothing is decided" in message for message in caplog.messages)
