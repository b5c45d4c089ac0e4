"""Volumes, claims and pods that others take or take away while a pod's volumes are being bound."""

import asyncio
from typing import Any

import pytest

from berth.model import Claim, Volume
from berth.scheduler import NotWritten
from berth.scheduler.binding.volumes import VolumeBinder
from engine.storage import make_claim, make_class, make_volume, pod_with
from scheduler.house import House, running
from scheduler.memory_cluster import Body, Refusal
from support.builders import make_node

LOCAL = make_class(provisioner="kubernetes.io/no-provisioner")
MADE = make_class()
SELECTED = "volume.kubernetes.io/selected-node"
HERE = make_node("here", labels={"zone": "z1"})
THERE = make_node("there", labels={"zone": "z2"})
THEIRS = {"namespace": "x", "name": "theirs", "uid": "theirs"}
PAIR = (LOCAL, make_claim("one"), make_claim("two", size="2Gi"), make_volume("disk1"), make_volume("disk2", size="2Gi"))


def hold_writes(house: House, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Writes on volumes wait for this before they are carried out."""
    released, keep = asyncio.Event(), house.cluster.keep_volume

    async def slowly(volume: Volume, claim: Claim) -> None:
        await released.wait()
        await keep(volume, claim)

    monkeypatch.setattr(house.cluster, "keep_volume", slowly)
    return released


def is_clean(house: House) -> bool:
    return not house.cache.state.volumes.shelf.plans and house.scheduler.statistics()["volumes"]["waiting"] == 0


def bind_claim(house: House, claim: str, volume: str) -> None:
    def bind(body: Body) -> None:
        body["spec"]["volumeName"] = volume
        body["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"

    house.cluster.change("PersistentVolumeClaim", f"default/{claim}", bind)
    house.tell()


async def test_a_volume_that_the_watch_shows_as_taken_before_it_is_written_is_left_to_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as house:
        released = hold_writes(house, monkeypatch)
        house.write(HERE, *PAIR, pod_with("one", "two", name="db"))
        await house.go()
        house.cluster.change("PersistentVolume", "disk2", lambda body: body["spec"].update(claimRef=THEIRS))
        await house.go()
        released.set()
        await house.go()
        assert house.cluster.objects["PersistentVolume"]["disk2"]["spec"]["claimRef"] == THEIRS
        assert any('"disk2" is kept for another claim' in note for note in house.notes("db"))
        assert is_clean(house)


async def test_no_volume_is_kept_for_a_claim_that_has_been_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as house:
        released = hold_writes(house, monkeypatch)
        house.write(HERE, *PAIR, pod_with("one", "two", name="db"))
        await house.go()
        house.cluster.delete("PersistentVolumeClaim", "default/two")
        again = make_claim("two", size="2Gi")
        again["metadata"]["uid"] = "again"
        house.write(again)
        released.set()
        await house.go()
        assert house.cluster.volume_writes == [("disk1", "one")]
        assert is_clean(house)


async def test_a_volume_that_is_taken_while_a_pod_waits_for_it_is_not_waited_for() -> None:
    async with running() as house:
        house.write(HERE, LOCAL, make_claim("data"), make_volume("disk"), pod_with("data", name="db"))
        await house.go()
        house.cluster.change("PersistentVolume", "disk", lambda body: body["spec"].update(claimRef=THEIRS))
        await house.go()
        assert any('"disk" is kept for another claim' in note for note in house.notes("db"))
        assert is_clean(house)


async def test_a_claim_that_gets_another_volume_takes_its_pod_to_that_one() -> None:
    async with running() as house:
        house.write(HERE, THERE, LOCAL, make_claim("data"), make_volume("disk", "z2"), pod_with("data", name="db"))
        await house.go()
        assert house.cluster.volume_writes == [("disk", "data")]
        house.write(make_volume("other", "z1", claim="data", phase="Bound"))
        bind_claim(house, "data", "other")
        await house.pass_time(5)
        assert house.cluster.node_of("db") == "here"


async def test_a_claim_that_somebody_else_has_given_a_node_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as house:
        released = hold_writes(house, monkeypatch)
        house.write(HERE, LOCAL, make_class("made"), make_claim("one"), make_claim("two", storage_class="made"))
        house.write(make_volume("disk1"), pod_with("one", "two", name="db"))
        await house.go()
        house.cluster.change(
            "PersistentVolumeClaim", "default/two", lambda body: body["metadata"]["annotations"].update({SELECTED: "x"})
        )
        await house.go()
        released.set()
        await house.go()
        assert house.cluster.objects["PersistentVolumeClaim"]["default/two"]["metadata"]["annotations"][SELECTED] == "x"
        assert any('"two" has been given node "x"' in note for note in house.notes("db"))


async def test_a_pod_that_somebody_else_binds_during_a_write_hears_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as house:
        released = hold_writes(house, monkeypatch)
        house.write(HERE, THERE, LOCAL, make_claim("data"), make_volume("disk"), pod_with("data", name="db"))
        await house.go()
        house.cluster.volume_writes_fail = True
        house.cluster.change("Pod", "default/db", lambda body: body["spec"].update(nodeName="there"))
        await house.go()
        released.set()
        await house.go()
        assert house.cluster.conditions == {}
        assert house.notes("db") == []
        assert is_clean(house)


async def test_a_successor_of_the_same_name_ends_the_wait_of_a_pod() -> None:
    async with running() as house:
        house.write(HERE, MADE, make_claim("data"), pod_with("data", name="db"))
        await house.go()
        house.write(pod_with("data", name="db", uid="successor"))
        assert list(house.cache.state.volumes.shelf.plans) in ([], ["successor"])
        await house.go()
        assert list(house.cache.state.volumes.shelf.plans) == ["successor"]
        assert house.scheduler.statistics()["volumes"] == {"waiting": 1, "gone": 1}


async def test_a_pod_that_was_thought_gone_and_comes_back_during_a_write_is_bound_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as house:
        released = hold_writes(house, monkeypatch)
        house.write(HERE, LOCAL, make_claim("data"), make_volume("disk"), pod_with("data", name="db"))
        await house.go()
        house.scheduler.remove("Pod", house.cluster.objects["Pod"]["default/db"])
        house.cluster.change("Pod", "default/db", lambda body: body["metadata"].update(labels={"touched": "yes"}))
        await house.go()
        released.set()
        await house.pass_time(15)
        bind_claim(house, "data", "disk")
        await house.pass_time(15)
        assert house.cluster.attempts == [("db", "here")]
        assert is_clean(house)
        assert house.scheduler.statistics()["faults"] == {}


async def test_an_attempt_that_breaks_after_room_was_taken_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as house:
        with monkeypatch.context() as broken:
            broken.setattr(VolumeBinder, "reserve", _break)
            house.write(HERE, MADE, make_claim("data"), pod_with("data", name="db"))
            await house.go()
        assert house.cache.assumed() == {}
        assert house.scheduler.statistics()["queue"]["backoff"] == 1
        await house.pass_time(2)
        assert house.scheduler.statistics()["volumes"]["waiting"] == 1


async def test_a_report_has_only_those_look_again_who_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, missing = [], VolumeBinder._missing

    def look(binder: VolumeBinder, wait: Any) -> str | None:
        looks.append(wait.uid)
        return missing(binder, wait)

    async with running() as house:
        house.write(HERE, MADE, *(make_claim(f"c{i}") for i in range(20)))
        house.write(*(pod_with(f"c{i}", name=f"p{i}") for i in range(20)))
        await house.go()
        monkeypatch.setattr(VolumeBinder, "_missing", look)
        house.write(make_volume("made", "z1", claim="c3", phase="Bound"))
        await house.go()
        bind_claim(house, "c3", "made")
        await house.go()
        assert set(looks) == {"pod-default-p3"}
        assert house.cluster.node_of("p3") == "here"


async def test_stopping_in_the_moment_of_a_decision_leaves_no_reservation() -> None:
    house = House()
    house.scheduler.open()
    house.write(HERE, MADE, make_claim("data"), pod_with("data", name="db"))
    house.scheduler._cycle.attempt(await house.queue.pop())
    assert house.scheduler.statistics()["volumes"] == {"waiting": 1}
    await house.scheduler.stop()
    assert is_clean(house)
    assert house.scheduler.statistics()["volumes"] == {"waiting": 0, "cut_off": 1}


@pytest.mark.parametrize("volumes", [(LOCAL, make_volume("disk")), (MADE,)])
async def test_a_write_whose_answer_is_lost_is_found_by_the_next_attempt(
    volumes: tuple[Body, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running() as house:
        carry_out = house.cluster._write_volume

        async def lose_the_answer(*write: Any) -> None:
            await carry_out(*write)
            raise NotWritten("timed out")

        with monkeypatch.context() as cut:
            cut.setattr(house.cluster, "_write_volume", lose_the_answer)
            house.write(HERE, *volumes, make_claim("data"), pod_with("data", name="db"))
            await house.go()
        assert any("timed out" in note for note in house.notes("db"))
        await house.pass_time(5)
        assert house.cluster.volume_writes == []  # the second attempt had nothing left to write
        assert house.scheduler.statistics()["volumes"]["waiting"] == 1
        if "disk" not in house.cluster.objects["PersistentVolume"]:
            house.write(make_volume("disk", claim="data", phase="Bound"))
        bind_claim(house, "data", "disk")
        await house.go()
        assert house.cluster.attempts == [("db", "here")]
        assert is_clean(house)


async def test_a_pod_whose_bind_is_refused_after_its_volumes_were_bound_is_bound_without_another_write() -> None:
    async with running() as house:
        house.cluster.faults["db"] = Refusal(403, "not today")
        house.write(HERE, LOCAL, make_claim("data"), make_volume("disk"), pod_with("data", name="db"))
        await house.go()
        bind_claim(house, "data", "disk")
        await house.go()
        assert any("not today" in note for note in house.notes("db"))
        del house.cluster.faults["db"]
        await house.pass_time(5)
        assert house.cluster.node_of("db") == "here"
        assert house.cluster.volume_writes == [("disk", "data")]
        assert is_clean(house)


async def test_a_volume_that_was_kept_before_a_restart_is_waited_for_again() -> None:
    async with running() as house:
        kept = make_volume("disk", "z2", claim="data")
        kept["spec"]["claimRef"]["uid"] = "claim-data"
        house.write(HERE, THERE, LOCAL, make_claim("data"), make_volume("nearer", "z1"), kept)
        house.write(pod_with("data", name="db"))
        await house.go()
        assert house.scheduler.statistics()["volumes"] == {"waiting": 1}
        bind_claim(house, "data", "disk")
        await house.go()
        assert house.cluster.node_of("db") == "there"
        assert house.cluster.volume_writes == []


async def test_a_pod_that_nobody_serves_any_more_when_its_volumes_fail_is_left_alone() -> None:
    policy = {
        "kind": "SchedulingPolicy",
        "metadata": {"name": "ours", "uid": "ours"},
        "spec": {"schedulerName": "ours", "predicates": [{"name": "VolumeBinding"}]},
    }
    async with running() as house:
        house.write(policy, HERE, MADE, make_claim("data"), pod_with("data", name="db", scheduler="ours"))
        await house.go()
        assert house.scheduler.statistics()["volumes"] == {"waiting": 1}
        house.cluster.delete("SchedulingPolicy", "ours")
        await house.go()
        house.cluster.delete("PersistentVolumeClaim", "default/data")
        await house.pass_time(20)
        assert is_clean(house)
        assert house.cache.assumed() == {}
        assert not any(house.scheduler.statistics()["queue"].values())


def _break(*_: object) -> None:
    raise RuntimeError("broken")
