"""What the cache has otherwise than the API server is found, mended and counted; what is on its way is left alone."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from berth.runtime import Options, Runtime
from berth.sim.resources import NODES, PODS
from edge.house import GRACE, REGULAR, House
from edge.server import until
from policy.builders import make_policy
from support.builders import make_node, make_pod


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    house.make(make_node("a"))
    house.make(make_node("b"))
    await house.start()
    yield house
    await house.stop()


async def test_an_object_that_is_known_in_an_older_version_is_read(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.change(NODES, "a", {"spec": {"unschedulable": True}})
    await house.pass_time(REGULAR + GRACE + 2)
    known = house.cache.state.table.node("a")
    assert known is not None
    assert known.unschedulable
    assert house.drift() == {"Node": {"stale": 1}}
    assert "Node that the watch has shown in older versions only, read: a" in caplog.messages


async def test_what_the_watch_tells_late_is_no_drift(house: House) -> None:
    pod = house.make(make_pod("old", scheduler="other"))
    house.tell(pod, "ADDED")
    node = house.change(NODES, "a", {"spec": {"unschedulable": True}})
    late = house.make(make_pod("new", scheduler="other"))
    house.store.delete(PODS, "default", "old", grace_period_seconds=0)
    await house.pass_time(REGULAR + 5)
    for body, type_ in ((node, "MODIFIED"), (late, "ADDED"), (pod, "DELETED")):
        house.tell(body, type_)
    await house.pass_time(2 * GRACE)
    assert house.drift() == {}


async def test_a_pod_bound_elsewhere_than_assumed_is_moved_there(house: House) -> None:
    house.change(NODES, "b", {"spec": {"unschedulable": True}})
    house.tell(house.store.get(NODES, "", "b"))
    pod = house.make(make_pod("web", gates=["wait"]))
    house.tell(pod, "ADDED")
    record = house.cache.pending[pod["metadata"]["uid"]]
    house.change(PODS, "web", {"spec": {"schedulingGates": None}})
    house.cache.assume(record, "a")
    house.bind("web", "b")
    assert (house.on("a"), house.on("b")) == (["web"], [])
    await house.pass_time(REGULAR + GRACE + 2)
    assert (house.on("a"), house.on("b")) == ([], ["web"])
    assert not house.cache.assumed()
    assert house.drift() == {"Pod": {"stale": 1}}


async def test_a_pod_that_another_scheduler_bound_in_silence_takes_its_room(house: House) -> None:
    house.tell(house.make(make_pod("web", scheduler="other")), "ADDED")
    house.bind("web", "a")
    await house.pass_time(REGULAR + GRACE + 2)
    assert house.on("a") == ["web"]
    assert not house.cache.pending


async def test_of_a_pod_that_was_bound_in_silence_no_failure_is_written_any_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[str] = []
    settle = house.runtime._cluster.pod_settled
    monkeypatch.setattr(house.runtime._cluster, "pod_settled", lambda uid: (settled.append(uid), settle(uid)))
    pod = house.make(make_pod("web", scheduler="other"))
    house.tell(pod, "ADDED")
    house.bind("web", "a")
    await house.pass_time(REGULAR + GRACE + 2)
    assert settled == [pod["metadata"]["uid"]]


async def test_a_pod_that_was_resized_in_silence_is_accounted_anew(house: House) -> None:
    house.make(make_pod("web", scheduler="other", cpu="1"))
    house.tell(house.bind("web", "a"), "ADDED")
    allocated = {"name": "main", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}}
    house.change(PODS, "web", {"status": {"containerStatuses": [allocated]}}, subresource="status")
    await house.pass_time(REGULAR + GRACE + 2)
    table = house.cache.state.table
    assert table.used[0, table.row("a")] == 2000


async def test_a_pod_that_finished_in_silence_frees_its_room(house: House) -> None:
    house.make(make_pod("job", scheduler="other"))
    house.tell(house.bind("job", "a"), "ADDED")
    house.change(PODS, "job", {"status": {"phase": "Succeeded"}}, subresource="status")
    await house.pass_time(REGULAR + 2)
    assert house.on("a") == []
    await house.pass_time(GRACE)
    assert house.drift() == {"Pod": {"ghost": 1}}


async def test_an_object_deleted_in_silence_is_removed_at_once_and_drift_if_it_stays_silent(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.store.delete(NODES, "", "b")
    await house.pass_time(REGULAR + 2)
    assert house.cache.state.table.node("b") is None
    assert house.drift() == {}
    await house.pass_time(GRACE)
    assert house.drift() == {"Node": {"ghost": 1}}
    assert "Node deleted without a word from the watch, removed: b" in caplog.messages


async def test_a_policy_that_was_edited_in_silence_decides_as_it_is_now(house: House) -> None:
    house.tell(house.make(make_policy("batch", schedulerName="batch")), "ADDED")
    policies = house._resource(make_policy())
    house.change(policies, "batch", {"spec": {"mode": "Disabled"}})
    await house.pass_time(REGULAR + GRACE + 2)
    assert [active.policy.name for active in house.runtime._book.in_force()] == ["(built-in)"]
    assert house.drift() == {"SchedulingPolicy": {"stale": 1}}


async def test_an_older_version_of_a_policy_that_comes_after_a_newer_one_changes_nothing(house: House) -> None:
    before = house.make(make_policy("batch", schedulerName="batch"))
    after = house.change(house._resource(make_policy()), "batch", {"spec": {"schedulerName": "other"}})
    house.tell(after)
    house.tell(before)
    assert house.runtime._book.serves("other")
    assert not house.runtime._book.serves("batch")


async def test_an_object_that_cannot_be_read_is_read_by_the_next_comparison(house: House) -> None:
    house.change(NODES, "a", {"spec": {"unschedulable": True}})
    await house.pass_time(REGULAR + 2)
    await house.server.stop()
    await house.pass_time(GRACE + 1)
    assert house.drift() == {}
    await house.server.start()
    await house.pass_time(GRACE + 60)
    assert house.drift()["Node"] == {"stale": 1}


async def test_a_signal_writes_what_is_known_and_what_differs_to_the_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    house.make(make_pod("web", scheduler="other", cpu="1"))
    house.tell(house.bind("web", "a"), "ADDED")
    house.tell(house.make(make_pod("gated", gates=["wait"])), "ADDED")
    house.store.delete(NODES, "", "b")
    await house.pass_time(1)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, house.runtime.dump)
    try:
        os.kill(os.getpid(), signal.SIGUSR2)
        await until(lambda: house.runtime._dumping is not None)
        await house.pass_time(GRACE + 5)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR2)
    assert "Node a: cpu 1000m of 4000m, memory 0 of 16Gi, pods 1 of 110" in caplog.messages
    assert any(message.startswith("Node a runs: default/web [") for message in caplog.messages)
    assert any(message.startswith("Gated: default/gated [") for message in caplog.messages)
    assert "Node deleted without a word from the watch, removed: b" in caplog.messages
    assert "Node: compared with the API server: 1 there, 1 known, drift since the start: 1 ghost" in caplog.messages
    assert "Pod: compared with the API server: 2 there, 2 known, drift since the start: none" in caplog.messages


async def test_a_signal_before_the_cache_is_whole_says_what_it_waits_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    house = House(tmp_path)
    await house.server.start()
    house.server.write_kubeconfig(house._kubeconfig)
    runtime = Runtime(Options(kubeconfig=str(house._kubeconfig), https_address="", standalone=True), clock=house.clock)
    runtime.dump()
    await until(lambda: runtime._dumping is not None and runtime._dumping.done())
    await house.server.stop()
    assert "Node: cannot be compared yet: not counted yet" in caplog.messages
    assert any("closed, nothing is decided" in message for message in caplog.messages)
