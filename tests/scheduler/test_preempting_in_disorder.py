"""Preemption when something else happens at the same time, or goes wrong."""

import asyncio
from typing import Any

import pytest

from berth.scheduler.preemption.evicting import SHOWN_SECONDS
from berth.scheduler.queue.queue import Part
from scheduler.house import House, running
from scheduler.memory_cluster import Body, Hang
from scheduler.test_preempting import high, low, nominated, policy, uid
from scheduler.virtual_clock import settle
from support.builders import make_node, make_pod


def budget(name: str, allowed: int, **labels: str) -> Body:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "uid": f"budget-{name}"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


def hang(house: House, name: str) -> Hang:
    """The eviction of this pod takes until it is released."""
    slow = house.cluster.eviction_faults[name] = Hang()
    assert isinstance(slow, Hang)
    return slow


async def test_the_preemptor_is_not_tried_while_its_evictions_run() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), low())
        slow = hang(house, "low")
        house.write(high())
        await house.go()
        house.write(make_node("free", cpu="4"))
        await house.pass_time(5)
        assert house.queue.part_of(uid("high")) is Part.IN_FLIGHT
        assert house.cluster.node_of("high") == ""
        slow.released.set()
        await house.pass_time(3)
        assert house.cluster.node_of("high") == "free"  # what happened meanwhile is not lost


async def test_a_victim_that_somebody_else_deletes_meanwhile_is_as_good_as_pushed_out() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), low())
        slow = hang(house, "low")
        house.write(high())
        await house.go()
        house.cluster.finish("low")
        await house.go()
        slow.released.set()
        await house.pass_time(3)
        assert house.cluster.node_of("high") == "n"
        assert house.scheduler.statistics()["preemption"]["outcomes"] == {"gone": 1}
        assert house.notes("low") == []


async def test_a_victim_that_is_gone_and_of_which_the_watch_says_nothing_holds_nobody_up() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), low(), make_node("m", cpu="1"))
        house.cluster.finish("low")
        house.cluster.feed.clear()  # the watch has missed it
        house.write(high())
        await house.go()
        await house.pass_time(SHOWN_SECONDS + 2)
        assert house.scheduler.statistics()["preemption"]["attempts"] > 1  # it is tried again and again
        house.scheduler.remove("Pod", low())
        await house.pass_time(SHOWN_SECONDS + 12)
        assert house.cluster.node_of("high") == "n"


async def test_a_watch_that_is_late_is_not_waited_for_longer_than_it_takes_to_look() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), low(), high())
        await settle()
        late, house.cluster.feed = house.cluster.feed, []
        await house.clock.advance(SHOWN_SECONDS)
        assert house.cluster.reads == ["low"]
        assert house.cluster.evictions == ["low"]
        assert house.queue.part_of(uid("high")) is Part.UNSCHEDULABLE  # the victim leaves, as the API server says
        house.cluster.feed = late + house.cluster.feed
        house.cluster.finish("low")
        await house.pass_time(3)
        assert house.cluster.node_of("high") == "n"


async def test_nobody_goes_for_a_preemptor_that_is_gone() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), *(low(f"low-{i}", cpu="1") for i in range(4)))
        slow = [hang(house, f"low-{i}") for i in range(4)]
        house.write(high())
        await house.go()
        house.cluster.delete("Pod", "default/high")
        await house.go()
        for one in slow:
            one.released.set()
        await house.go()
        assert all(not pod["metadata"].get("deletionTimestamp") for pod in house.cluster.objects["Pod"].values())
        assert nominated(house) == {}
        assert house.scheduler.statistics()["preemption"]["running"] == 0


async def test_nobody_goes_for_a_preemptor_that_has_lost_its_nomination() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), low("a", cpu="3"), low("b", cpu="1"))
        slow = hang(house, "a")
        house.write(high("mid", priority=5, cpu="3"))
        await house.go()
        house.write(high("top", priority=9, cpu="4"))
        await house.go()
        assert nominated(house) == {"n": {"top"}}
        slow.released.set()
        await house.go()
        assert house.notes("a") == [f"Preempted by pod {uid('top')} on node n"]
        assert house.notes("b") == [f"Preempted by pod {uid('top')} on node n"]


@pytest.mark.parametrize("change", [{"mode": "Disabled"}, {"preemption": {"enabled": False}}])
async def test_nobody_goes_for_a_preemptor_whose_policy_does_not_let_it_any_more(change: dict[str, Any]) -> None:
    async with running(built_in=False) as house:
        house.write(policy(), make_node("n", cpu="4"), low())
        slow = hang(house, "low")
        house.write(high())
        await house.go()
        assert nominated(house) == {"n": {"high"}}
        changed = policy(**change)
        changed["metadata"]["generation"] = 2
        house.write(changed)
        slow.released.set()
        await house.pass_time(3)
        assert not house.cluster.objects["Pod"]["default/low"]["metadata"].get("deletionTimestamp")
        assert nominated(house) == {}
        assert house.cluster.nominated("high") == ""
        assert house.queue.part_of(uid("high")) is Part.UNSCHEDULABLE


async def test_a_pod_that_no_policy_decides_for_any_more_holds_no_room() -> None:
    async with running(built_in=False) as house:
        house.write(policy(), make_node("n", cpu="4"), low(), high())
        await house.go()
        assert nominated(house) == {"n": {"high"}}
        changed = policy(mode="Disabled")
        changed["metadata"]["generation"] = 2
        house.write(changed)
        await house.go()
        assert nominated(house) == {}
        assert house.cluster.nominated("high") == ""


async def test_a_victim_that_ends_before_its_turn_comes_is_not_deleted() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), low("a", cpu="2"), low("b", cpu="2"))
        house.cluster.change("Pod", "default/b", lambda body: body.setdefault("status", {}).update(phase="Succeeded"))
        ended, house.cluster.feed = house.cluster.feed[-1:], house.cluster.feed[:-1]
        house.write(high())
        for _ in range(100):
            if house.scheduler.statistics()["preemption"]["running"]:
                break
            await asyncio.sleep(0)
        house.cluster.hand_over(house.scheduler, ended[0])
        await house.go()
        assert house.cluster.evictions == ["a"]
        assert house.scheduler.statistics()["preemption"]["outcomes"] == {"gone": 1, "evicted": 1}


async def test_what_cannot_be_done_is_given_up_and_tried_again_after_the_backoff() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), low())
        house.cluster.eviction_faults["low"] = "403 Forbidden: no"
        house.write(high())
        await house.go()
        assert nominated(house) == {}
        assert house.cluster.nominated("high") == ""
        assert house.queue.part_of(uid("high")) is Part.BACKOFF
        del house.cluster.eviction_faults["low"]
        await house.pass_time(2)
        assert house.cluster.evictions == ["low", "low"]
        assert nominated(house) == {"n": {"high"}}


async def test_a_victim_that_does_not_go_spares_those_that_have_not_been_asked() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), low("a", cpu="2"), low("b", cpu="2"))
        house.cluster.eviction_faults["a"] = "500 InternalError: x"
        slow = hang(house, "b")
        house.write(high())
        await house.go()
        slow.released.set()
        await house.go()
        assert not house.cluster.objects["Pod"]["default/b"]["metadata"].get("deletionTimestamp")


async def test_an_exception_of_the_port_is_a_failure_like_any_other() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), low())

        async def broken(*_: Any) -> bool:
            raise RuntimeError("no contract speaks of this")

        house.cluster.evict = broken  # type: ignore[method-assign]
        house.write(high())
        await house.go()
        assert house.queue.part_of(uid("high")) is Part.BACKOFF
        assert house.scheduler.statistics()["faults"] == {"evicting": 1}


async def test_a_pod_that_loses_its_policy_meanwhile_and_finds_another_begins_anew() -> None:
    async with running() as house:
        house.write(policy(schedulerName="ours"), make_node("n", cpu="4"), low())
        slow = hang(house, "low")
        house.write(high(scheduler="ours"))
        await house.go()
        house.cluster.delete("SchedulingPolicy", "p")
        await house.go()
        assert house.queue.part_of(uid("high")) is None
        house.write(policy(schedulerName="ours"))
        await house.go()
        assert house.queue.part_of(uid("high")) is Part.IN_FLIGHT
        slow.released.set()
        await house.go()
        assert house.cluster.objects["Pod"]["default/low"]["metadata"]["deletionTimestamp"]
        house.cluster.finish("low")
        await house.pass_time(3)
        assert house.cluster.node_of("high") == "n"
        assert house.scheduler.statistics()["faults"] == {}
        assert house.scheduler.statistics()["preemption"]["running"] == 0


async def test_a_victim_whose_bind_is_on_its_way_is_deleted_all_the_same() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"))
        bind = house.cluster.faults["low"] = Hang()
        house.write(make_pod("low", cpu="4", priority=1))
        await house.go()
        house.write(high())
        await house.go()
        assert "default/low" not in house.cluster.objects["Pod"]
        assert isinstance(bind, Hang)
        bind.released.set()
        await house.pass_time(3)
        assert house.cluster.node_of("high") == "n"
        assert house.cache.statistics()["pods"]["binding"] == 0


async def test_a_victim_that_waits_for_its_volumes_only_loses_its_room() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), *claims())
        house.write(make_pod("low", cpu="4", priority=1, volumes=[volume("data")]))
        await house.go()
        assert house.scheduler.statistics()["volumes"]["waiting"] == 1
        house.write(high())
        await house.pass_time(2)
        assert house.cluster.evictions == []
        assert house.cluster.node_of("high") == "n"
        assert house.notes("low")[0] == 'running PreBind plugin "VolumeBinding": preempted'
        assert house.notes("low")[1] == f"Preempted by pod {uid('high')} on node n (in scheduler memory)."
        assert house.cluster.node_of("low") == ""


def claims() -> list[Body]:
    wait = {"provisioner": "x/y", "volumeBindingMode": "WaitForFirstConsumer"}
    spec = {"storageClassName": "slow", "resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    return [
        {"kind": "StorageClass", "metadata": {"name": "slow", "uid": "slow"}, **wait},
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default", "uid": "data"},
            "spec": spec,
            "status": {"phase": "Pending"},
        },
    ]


def volume(claim: str) -> Body:
    return {"name": "v", "persistentVolumeClaim": {"claimName": claim}}


# --- budgets ----------------------------------------------------------------------------------------------------------


def guarded(house: House, allowed: int) -> None:
    """Three nodes, each with a pod under one budget, and a dearer one without."""
    house.write(budget("b", allowed, app="x"))
    for i in range(3):
        house.write(make_node(f"n{i}", cpu="4"), low(f"low-{i}", node=f"n{i}", labels={"app": "x"}))
    for i in range(3):
        house.write(make_node(f"m{i}", cpu="4"), low(f"dear-{i}", node=f"m{i}", priority=5))


async def test_own_evictions_count_against_a_budget_before_its_status_does() -> None:
    async with running() as house:
        guarded(house, allowed=1)
        house.write(high("one"), high("two"))
        await house.go()
        assert sorted(name.split("-")[0] for name in house.cluster.evictions) == ["dear", "low"]


async def test_they_count_once_when_the_status_shows_them() -> None:
    async with running() as house:
        guarded(house, allowed=2)
        house.write(high("one"))
        await house.go()
        house.cluster.change(
            "PodDisruptionBudget", "default/b", lambda body: body["status"].update(disruptionsAllowed=1)
        )
        await house.pass_time(2)
        house.write(high("two"))
        await house.go()
        assert sorted(name.split("-")[0] for name in house.cluster.evictions) == ["low", "low"]
        house.write(high("three"))
        await house.go()
        assert house.cluster.evictions[2].startswith("dear")


async def test_they_count_on_while_the_status_does_not_show_them() -> None:
    async with running() as house:
        guarded(house, allowed=1)
        house.write(high("one"))
        await house.pass_time(5)
        house.write(high("two"))
        await house.go()
        assert sorted(name.split("-")[0] for name in house.cluster.evictions) == ["dear", "low"]


async def test_a_pod_that_could_not_be_pushed_out_does_not_count() -> None:
    async with running() as house:
        guarded(house, allowed=1)
        for i in range(3):
            house.cluster.eviction_faults[f"low-{i}"] = "500"
        house.write(high("one"))
        await house.go()
        house.cluster.eviction_faults.clear()
        await house.pass_time(2)
        assert len(house.cluster.evictions) == 2
        assert all(name.startswith("low") for name in house.cluster.evictions)


async def test_a_pod_of_which_only_the_successor_is_heard_does_not_count_for_ever() -> None:
    async with running() as house:
        guarded(house, allowed=1)
        house.write(high("one"))
        await settle()
        (victim,) = house.cluster.evictions
        house.cluster.finish(victim)
        house.cluster.feed.clear()  # the watch has missed that it began to leave, and that it has left
        house.write(low(victim, node="m0", cpu="0", labels={"app": "x"}, uid="successor"))
        await house.pass_time(SHOWN_SECONDS + 1)
        house.write(high("two"))  # looks, and finds that the pod is gone
        await house.pass_time(12)
        house.write(high("three"))
        await house.go()
        assert sorted(name.split("-")[0] for name in house.cluster.evictions) == ["dear", "low", "low"]


async def test_a_pod_that_only_lost_its_room_does_not_count() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), *claims(), budget("b", 1, app="x"))
        house.write(make_pod("low", cpu="4", priority=1, volumes=[volume("data")], labels={"app": "x"}))
        await house.go()
        house.write(high())
        await house.pass_time(2)
        assert house.cluster.node_of("high") == "n"
        assert house.cache.state.disrupting == {}


async def test_a_budget_is_violated_where_there_is_no_other_way() -> None:
    async with running() as house:
        house.write(budget("b", 0, app="x"), make_node("n", cpu="4"), low(labels={"app": "x"}), high())
        await house.go()
        assert house.cluster.evictions == ["low"]


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_no_eviction_begins_once_the_scheduler_is_closed() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), low("a", cpu="2"), low("b", cpu="2"))
        slow = [hang(house, "a"), hang(house, "b")]
        house.write(high())
        await house.go()
        house.scheduler.close()
        for one in slow:
            one.released.set()
        await house.go()
        assert all(not pod["metadata"].get("deletionTimestamp") for pod in house.cluster.objects["Pod"].values())
        assert house.queue.part_of(uid("high")) is Part.ACTIVE
        house.cluster.eviction_faults.clear()
        house.scheduler.open()
        await house.go()
        assert house.cluster.objects["Pod"]["default/a"]["metadata"]["deletionTimestamp"]


async def test_stopping_waits_for_the_evictions_that_run() -> None:
    async with running() as house:
        house.write(make_node("n", cpu="4"), low())
        slow = hang(house, "low")
        house.write(high())
        await house.go()
        stop = asyncio.ensure_future(house.scheduler.stop())
        await house.clock.advance(1)
        assert not stop.done()
        slow.released.set()
        await house.go()
        assert stop.done()
        assert house.scheduler.statistics()["preemption"]["running"] == 0
