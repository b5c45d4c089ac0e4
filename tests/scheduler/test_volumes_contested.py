"""Volumes, claims and pods that others take or take away while a pod's volumes are being bound."""

import asyncio
from typing import Any

import pytest

from berth.model import Claim, Volume
from berth.scheduler import NotWritten
from berth.scheduler.binding import volumes
from berth.scheduler.binding.volumes import VolumeBinder
from berth.scheduler.waiting import wait_for_signal
from engine.storage import make_claim, make_class, make_volume, pod_with
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Body, Refusal
from support.builders import make_node

LOCAL = make_class(provisioner="kubernetes.io/no-provisioner")
MADE = make_class()
SELECTED = "volume.kubernetes.io/selected-node"
HERE = make_node("here", labels={"zone": "z1"})
THERE = make_node("there", labels={"zone": "z2"})
THEIRS = {"namespace": "x", "name": "theirs", "uid": "theirs"}
PAIR = (LOCAL, make_claim("one"), make_claim("two", size="2Gi"), make_volume("disk1"), make_volume("disk2", size="2Gi"))


def hold_writes(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Writes on volumes wait for this before they are carried out."""
    released, keep = asyncio.Event(), harness.cluster.keep_volume

    async def slowly(volume: Volume, claim: Claim) -> None:
        await released.wait()
        await keep(volume, claim)

    monkeypatch.setattr(harness.cluster, "keep_volume", slowly)
    return released


def is_clean(harness: Harness) -> bool:
    return (
        not harness.cache.state.volumes.reservations.plans and harness.scheduler.statistics()["volumes"]["waiting"] == 0
    )


def bind_claim(harness: Harness, claim: str, volume: str) -> None:
    def bind(body: Body) -> None:
        body["spec"]["volumeName"] = volume
        body["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"

    harness.cluster.change("PersistentVolumeClaim", f"default/{claim}", bind)
    harness.tell()


async def test_a_volume_that_the_watch_shows_as_taken_before_it_is_written_is_left_to_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as harness:
        released = hold_writes(harness, monkeypatch)
        harness.write(HERE, *PAIR, pod_with("one", "two", name="db"))
        await harness.go()
        harness.cluster.change("PersistentVolume", "disk2", lambda body: body["spec"].update(claimRef=THEIRS))
        await harness.go()
        released.set()
        await harness.go()
        assert harness.cluster.objects["PersistentVolume"]["disk2"]["spec"]["claimRef"] == THEIRS
        assert any('"disk2" is kept for another claim' in note for note in harness.notes("db"))
        assert is_clean(harness)


async def test_no_volume_is_kept_for_a_claim_that_has_been_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as harness:
        released = hold_writes(harness, monkeypatch)
        harness.write(HERE, *PAIR, pod_with("one", "two", name="db"))
        await harness.go()
        harness.cluster.delete("PersistentVolumeClaim", "default/two")
        again = make_claim("two", size="2Gi")
        again["metadata"]["uid"] = "again"
        harness.write(again)
        released.set()
        await harness.go()
        assert harness.cluster.volume_writes == [("disk1", "one")]
        assert is_clean(harness)


async def test_a_volume_that_is_taken_while_a_pod_waits_for_it_is_not_waited_for() -> None:
    async with running() as harness:
        harness.write(HERE, LOCAL, make_claim("data"), make_volume("disk"), pod_with("data", name="db"))
        await harness.go()
        harness.cluster.change("PersistentVolume", "disk", lambda body: body["spec"].update(claimRef=THEIRS))
        await harness.go()
        assert any('"disk" is kept for another claim' in note for note in harness.notes("db"))
        assert is_clean(harness)


async def test_a_claim_that_gets_another_volume_takes_its_pod_to_that_one() -> None:
    async with running() as harness:
        harness.write(HERE, THERE, LOCAL, make_claim("data"), make_volume("disk", "z2"), pod_with("data", name="db"))
        await harness.go()
        assert harness.cluster.volume_writes == [("disk", "data")]
        harness.write(make_volume("other", "z1", claim="data", phase="Bound"))
        bind_claim(harness, "data", "other")
        await harness.pass_time(5)
        assert harness.cluster.node_of("db") == "here"


async def test_a_claim_that_somebody_else_has_given_a_node_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as harness:
        released = hold_writes(harness, monkeypatch)
        harness.write(HERE, LOCAL, make_class("made"), make_claim("one"), make_claim("two", storage_class="made"))
        harness.write(make_volume("disk1"), pod_with("one", "two", name="db"))
        await harness.go()
        harness.cluster.change(
            "PersistentVolumeClaim", "default/two", lambda body: body["metadata"]["annotations"].update({SELECTED: "x"})
        )
        await harness.go()
        released.set()
        await harness.go()
        assert (
            harness.cluster.objects["PersistentVolumeClaim"]["default/two"]["metadata"]["annotations"][SELECTED] == "x"
        )
        assert any('"two" has been given node "x"' in note for note in harness.notes("db"))


async def test_a_pod_that_somebody_else_binds_during_a_write_hears_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as harness:
        released = hold_writes(harness, monkeypatch)
        harness.write(HERE, THERE, LOCAL, make_claim("data"), make_volume("disk"), pod_with("data", name="db"))
        await harness.go()
        harness.cluster.volume_writes_fail = True
        harness.cluster.change("Pod", "default/db", lambda body: body["spec"].update(nodeName="there"))
        await harness.go()
        released.set()
        await harness.go()
        assert harness.cluster.conditions == {}
        assert harness.notes("db") == ["Node there is chosen; waiting for volumes of data"]  # and of no failure
        assert is_clean(harness)


async def test_a_successor_of_the_same_name_ends_the_wait_of_a_pod() -> None:
    async with running() as harness:
        harness.write(HERE, MADE, make_claim("data"), pod_with("data", name="db"))
        await harness.go()
        harness.write(pod_with("data", name="db", uid="successor"))
        assert list(harness.cache.state.volumes.reservations.plans) in ([], ["successor"])
        await harness.go()
        assert list(harness.cache.state.volumes.reservations.plans) == ["successor"]
        assert harness.scheduler.statistics()["volumes"] == {"waiting": 1, "gone": 1}


async def test_a_pod_that_was_thought_gone_and_comes_back_during_a_write_is_bound_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as harness:
        released = hold_writes(harness, monkeypatch)
        harness.write(HERE, LOCAL, make_claim("data"), make_volume("disk"), pod_with("data", name="db"))
        await harness.go()
        harness.remove("Pod", harness.cluster.objects["Pod"]["default/db"])
        harness.cluster.change("Pod", "default/db", lambda body: body["metadata"].update(labels={"touched": "yes"}))
        await harness.go()
        released.set()
        await harness.pass_time(15)
        bind_claim(harness, "data", "disk")
        await harness.pass_time(15)
        assert harness.cluster.attempts == [("db", "here")]
        assert is_clean(harness)
        assert harness.errors.counts == {}


async def test_an_attempt_that_breaks_after_room_was_taken_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as harness:
        with monkeypatch.context() as broken:
            broken.setattr(VolumeBinder, "reserve", _break)
            harness.write(HERE, MADE, make_claim("data"), pod_with("data", name="db"))
            await harness.go()
        assert harness.cache.assumed() == {}
        assert harness.scheduler.statistics()["queue"]["backoff"] == 1
        await harness.pass_time(2)
        assert harness.scheduler.statistics()["volumes"]["waiting"] == 1


async def test_a_report_has_only_those_look_again_who_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    wakeups: list[asyncio.Event] = []

    async def wait_and_note(signal: asyncio.Event, *limits: Any) -> None:
        await wait_for_signal(signal, *limits)
        wakeups.append(signal)

    monkeypatch.setattr(volumes, "wait_for_signal", wait_and_note)
    async with running() as harness:
        harness.write(HERE, MADE, *(make_claim(f"c{i}") for i in range(20)))
        harness.write(*(pod_with(f"c{i}", name=f"p{i}") for i in range(20)))
        await harness.go()
        wakeups.clear()
        harness.write(make_volume("made", "z1", claim="c3", phase="Bound"))
        await harness.go()
        bind_claim(harness, "c3", "made")
        await harness.go()
        assert len(set(map(id, wakeups))) == 1
        assert harness.cluster.node_of("p3") == "here"


async def test_stopping_in_the_moment_of_a_decision_leaves_no_reservation() -> None:
    harness = Harness()
    harness.scheduler.open()
    harness.write(HERE, MADE, make_claim("data"), pod_with("data", name="db"))
    harness.components.cycle.attempt(await harness.queue.pop())
    assert harness.scheduler.statistics()["volumes"] == {"waiting": 1}
    await harness.scheduler.stop()
    assert is_clean(harness)
    assert harness.scheduler.statistics()["volumes"] == {"waiting": 0, "cut_off": 1}


@pytest.mark.parametrize("volumes", [(LOCAL, make_volume("disk")), (MADE,)])
async def test_a_write_whose_answer_is_lost_is_found_by_the_next_attempt(
    volumes: tuple[Body, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running() as harness:
        carry_out = harness.cluster.write_volume

        async def lose_the_answer(*write: Any) -> None:
            await carry_out(*write)
            raise NotWritten("timed out")

        with monkeypatch.context() as cut:
            cut.setattr(harness.cluster, "write_volume", lose_the_answer)
            harness.write(HERE, *volumes, make_claim("data"), pod_with("data", name="db"))
            await harness.go()
        assert any("timed out" in note for note in harness.notes("db"))
        await harness.pass_time(5)
        assert harness.cluster.volume_writes == []  # the second attempt had nothing left to write
        assert harness.scheduler.statistics()["volumes"]["waiting"] == 1
        if "disk" not in harness.cluster.objects["PersistentVolume"]:
            harness.write(make_volume("disk", claim="data", phase="Bound"))
        bind_claim(harness, "data", "disk")
        await harness.go()
        assert harness.cluster.attempts == [("db", "here")]
        assert is_clean(harness)


async def test_a_pod_whose_bind_is_refused_after_its_volumes_were_bound_is_bound_without_another_write() -> None:
    async with running() as harness:
        harness.cluster.faults["db"] = Refusal(403, "not today")
        harness.write(HERE, LOCAL, make_claim("data"), make_volume("disk"), pod_with("data", name="db"))
        await harness.go()
        bind_claim(harness, "data", "disk")
        await harness.go()
        assert any("not today" in note for note in harness.notes("db"))
        del harness.cluster.faults["db"]
        await harness.pass_time(5)
        assert harness.cluster.node_of("db") == "here"
        assert harness.cluster.volume_writes == [("disk", "data")]
        assert is_clean(harness)


async def test_a_volume_that_was_kept_before_a_restart_is_waited_for_again() -> None:
    async with running() as harness:
        kept = make_volume("disk", "z2", claim="data")
        kept["spec"]["claimRef"]["uid"] = "claim-data"
        harness.write(HERE, THERE, LOCAL, make_claim("data"), make_volume("nearer", "z1"), kept)
        harness.write(pod_with("data", name="db"))
        await harness.go()
        assert harness.scheduler.statistics()["volumes"] == {"waiting": 1}
        bind_claim(harness, "data", "disk")
        await harness.go()
        assert harness.cluster.node_of("db") == "there"
        assert harness.cluster.volume_writes == []


async def test_a_pod_that_nobody_serves_any_more_when_its_volumes_fail_is_left_alone() -> None:
    policy = {
        "kind": "SchedulingPolicy",
        "metadata": {"name": "ours", "uid": "ours"},
        "spec": {"schedulerName": "ours", "predicates": [{"name": "VolumeBinding"}]},
    }
    async with running() as harness:
        harness.write(policy, HERE, MADE, make_claim("data"), pod_with("data", name="db", scheduler="ours"))
        await harness.go()
        assert harness.scheduler.statistics()["volumes"] == {"waiting": 1}
        harness.cluster.delete("SchedulingPolicy", "ours")
        await harness.go()
        harness.cluster.delete("PersistentVolumeClaim", "default/data")
        await harness.pass_time(20)
        assert is_clean(harness)
        assert harness.cache.assumed() == {}
        assert not any(harness.scheduler.statistics()["queue"].values())


def _break(*_: object) -> None:
    raise RuntimeError("broken")
