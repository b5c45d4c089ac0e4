"""Preemption when something else happens at the same time, or goes wrong."""

import asyncio
from typing import Any

import pytest

from berth.scheduler.preemption.disruptions import MOST_SECONDS
from berth.scheduler.preemption.evicting import SHOWN_SECONDS
from berth.scheduler.queue.queue import Part
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Body, Hang
from scheduler.test_preempting import high, low, nominated, policy, uid
from scheduler.virtual_clock import settle
from support.builders import make_node, make_pod


def budget(name: str, allowed: int, **labels: str) -> Body:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "uid": f"budget-{name}"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 3},
    }


def hang(harness: Harness, name: str) -> Hang:
    """The eviction of this pod takes until it is released."""
    slow = harness.cluster.eviction_faults[name] = Hang()
    assert isinstance(slow, Hang)
    return slow


async def test_the_preemptor_is_not_tried_while_its_evictions_run() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low())
        slow = hang(harness, "low")
        harness.write(high())
        await harness.go()
        harness.write(make_node("free", cpu="4"))
        await harness.pass_time(5)
        assert harness.queue.part_of(uid("high")) is Part.IN_FLIGHT
        assert harness.cluster.node_of("high") == ""
        slow.released.set()
        await harness.pass_time(3)
        assert harness.cluster.node_of("high") == "free"  # what happened meanwhile is not lost


async def test_a_victim_that_somebody_else_deletes_meanwhile_is_as_good_as_pushed_out() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low())
        slow = hang(harness, "low")
        harness.write(high())
        await harness.go()
        harness.cluster.finish("low")
        await harness.go()
        slow.released.set()
        await harness.pass_time(3)
        assert harness.cluster.node_of("high") == "n"
        assert harness.scheduler.statistics()["preemption"]["outcomes"] == {"gone": 1}
        assert harness.notes("low") == []


async def test_a_victim_that_is_gone_and_of_which_the_watch_says_nothing_holds_nobody_up() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), make_node("m", cpu="1"))
        harness.cluster.finish("low")
        harness.cluster.feed.clear()  # the watch has missed it
        harness.write(high())
        await harness.go()
        await harness.pass_time(SHOWN_SECONDS + 2)
        assert harness.scheduler.statistics()["preemption"]["attempts"] > 1  # it is tried again and again
        harness.remove("Pod", low())
        await harness.pass_time(SHOWN_SECONDS + 12)
        assert harness.cluster.node_of("high") == "n"


async def test_a_watch_that_is_late_is_not_waited_for_longer_than_it_takes_to_look() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high())
        await settle()
        late, harness.cluster.feed = harness.cluster.feed, []
        await harness.clock.advance(SHOWN_SECONDS)
        assert harness.cluster.reads == ["low"]
        assert harness.cluster.evictions == ["low"]
        assert harness.queue.part_of(uid("high")) is Part.UNSCHEDULABLE  # the victim leaves, as the API server says
        harness.cluster.feed = late + harness.cluster.feed
        harness.cluster.finish("low")
        await harness.pass_time(3)
        assert harness.cluster.node_of("high") == "n"


async def test_nobody_goes_for_a_preemptor_that_is_gone() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), *(low(f"low-{i}", cpu="1") for i in range(4)))
        slow = [hang(harness, f"low-{i}") for i in range(4)]
        harness.write(high())
        await harness.go()
        harness.cluster.delete("Pod", "default/high")
        await harness.go()
        for one in slow:
            one.released.set()
        await harness.go()
        assert all(not pod["metadata"].get("deletionTimestamp") for pod in harness.cluster.objects["Pod"].values())
        assert nominated(harness) == {}
        assert harness.scheduler.statistics()["preemption"]["running"] == 0


async def test_nobody_goes_for_a_preemptor_that_has_lost_its_nomination() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low("a", cpu="3"), low("b", cpu="1"))
        slow = hang(harness, "a")
        harness.write(high("mid", priority=5, cpu="3"))
        await harness.go()
        harness.write(high("top", priority=9, cpu="4"))
        await harness.go()
        assert nominated(harness) == {"n": {"top"}}
        slow.released.set()
        await harness.go()
        assert harness.notes("a") == [f"Preempted by pod {uid('top')} on node n"]
        assert harness.notes("b") == [f"Preempted by pod {uid('top')} on node n"]


@pytest.mark.parametrize("change", [{"mode": "Disabled"}, {"preemption": {"enabled": False}}])
async def test_nobody_goes_for_a_preemptor_whose_policy_does_not_let_it_any_more(change: dict[str, Any]) -> None:
    async with running(built_in=False) as harness:
        harness.write(policy(), make_node("n", cpu="4"), low())
        slow = hang(harness, "low")
        harness.write(high())
        await harness.go()
        assert nominated(harness) == {"n": {"high"}}
        changed = policy(**change)
        changed["metadata"]["generation"] = 2
        harness.write(changed)
        slow.released.set()
        await harness.pass_time(3)
        assert not harness.cluster.objects["Pod"]["default/low"]["metadata"].get("deletionTimestamp")
        assert nominated(harness) == {}
        assert harness.cluster.nominated("high") == ""
        assert harness.queue.part_of(uid("high")) is Part.UNSCHEDULABLE


async def test_a_pod_that_no_policy_decides_for_any_more_holds_no_room() -> None:
    async with running(built_in=False) as harness:
        harness.write(policy(), make_node("n", cpu="4"), low(), high())
        await harness.go()
        assert nominated(harness) == {"n": {"high"}}
        changed = policy(mode="Disabled")
        changed["metadata"]["generation"] = 2
        harness.write(changed)
        await harness.go()
        assert nominated(harness) == {}
        assert harness.cluster.nominated("high") == ""


async def test_a_victim_that_ends_before_its_turn_comes_is_not_deleted() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low("a", cpu="2"), low("b", cpu="2"))
        harness.cluster.change("Pod", "default/b", lambda body: body.setdefault("status", {}).update(phase="Succeeded"))
        ended, harness.cluster.feed = harness.cluster.feed[-1:], harness.cluster.feed[:-1]
        harness.write(high())
        for _ in range(100):
            if harness.scheduler.statistics()["preemption"]["running"]:
                break
            await asyncio.sleep(0)
        harness.cluster.hand_over(harness.scheduler, ended[0])
        await harness.go()
        assert harness.cluster.evictions == ["a"]
        assert harness.scheduler.statistics()["preemption"]["outcomes"] == {"gone": 1, "evicted": 1}


async def test_what_cannot_be_done_is_given_up_and_tried_again_after_the_backoff() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low())
        harness.cluster.eviction_faults["low"] = "403 Forbidden: no"
        harness.write(high())
        await harness.go()
        assert nominated(harness) == {}
        assert harness.cluster.nominated("high") == ""
        assert harness.queue.part_of(uid("high")) is Part.BACKOFF
        del harness.cluster.eviction_faults["low"]
        await harness.pass_time(2)
        assert harness.cluster.evictions == ["low", "low"]
        assert nominated(harness) == {"n": {"high"}}


async def test_a_victim_that_does_not_go_spares_those_that_have_not_been_asked() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low("a", cpu="2"), low("b", cpu="2"))
        harness.cluster.eviction_faults["a"] = "500 InternalError: x"
        slow = hang(harness, "b")
        harness.write(high())
        await harness.go()
        slow.released.set()
        await harness.go()
        assert not harness.cluster.objects["Pod"]["default/b"]["metadata"].get("deletionTimestamp")


async def test_an_exception_of_the_port_is_a_failure_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low())

        async def broken(*_: Any) -> bool:
            raise RuntimeError("no contract speaks of this")

        monkeypatch.setattr(harness.cluster, "evict", broken)
        harness.write(high())
        await harness.go()
        assert harness.queue.part_of(uid("high")) is Part.BACKOFF
        assert harness.errors.counts == {"evicting": 1}


async def test_a_pod_that_loses_its_policy_meanwhile_and_finds_another_begins_anew() -> None:
    async with running() as harness:
        harness.write(policy(schedulerName="ours"), make_node("n", cpu="4"), low())
        slow = hang(harness, "low")
        harness.write(high(scheduler="ours"))
        await harness.go()
        harness.cluster.delete("SchedulingPolicy", "p")
        await harness.go()
        assert harness.queue.part_of(uid("high")) is None
        harness.write(policy(schedulerName="ours"))
        await harness.go()
        assert harness.queue.part_of(uid("high")) is Part.IN_FLIGHT
        slow.released.set()
        await harness.go()
        assert harness.cluster.objects["Pod"]["default/low"]["metadata"]["deletionTimestamp"]
        harness.cluster.finish("low")
        await harness.pass_time(3)
        assert harness.cluster.node_of("high") == "n"
        assert harness.errors.counts == {}
        assert harness.scheduler.statistics()["preemption"]["running"] == 0


async def test_a_victim_whose_bind_is_on_its_way_is_deleted_all_the_same() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"))
        bind = harness.cluster.faults["low"] = Hang()
        harness.write(make_pod("low", cpu="4", priority=1))
        await harness.go()
        harness.write(high())
        await harness.go()
        assert "default/low" not in harness.cluster.objects["Pod"]
        assert isinstance(bind, Hang)
        bind.released.set()
        await harness.pass_time(3)
        assert harness.cluster.node_of("high") == "n"
        assert harness.cache.statistics()["pods"]["binding"] == 0


async def test_a_victim_that_waits_for_its_volumes_only_loses_its_room() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), *claims())
        harness.write(make_pod("low", cpu="4", priority=1, volumes=[volume("data")]))
        await harness.go()
        assert harness.scheduler.statistics()["volumes"]["waiting"] == 1
        harness.write(high())
        await harness.pass_time(2)
        assert harness.cluster.evictions == []
        assert harness.cluster.node_of("high") == "n"
        assert harness.notes("low")[1] == 'running PreBind plugin "VolumeBinding": preempted'
        assert harness.notes("low")[2] == f"Preempted by pod {uid('high')} on node n (in scheduler memory)."
        assert harness.cluster.node_of("low") == ""


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


def guarded(harness: Harness, allowed: int) -> None:
    """Three nodes, each with a pod under one budget, and a dearer one without."""
    harness.write(budget("b", allowed, app="x"))
    for i in range(3):
        harness.write(make_node(f"n{i}", cpu="4"), low(f"low-{i}", node=f"n{i}", labels={"app": "x"}))
    for i in range(3):
        harness.write(make_node(f"m{i}", cpu="4"), low(f"dear-{i}", node=f"m{i}", priority=5))


async def test_own_evictions_count_against_a_budget_before_its_status_does() -> None:
    async with running() as harness:
        guarded(harness, allowed=1)
        harness.write(high("one"), high("two"))
        await harness.go()
        assert sorted(name.split("-")[0] for name in harness.cluster.evictions) == ["dear", "low"]


async def test_they_count_once_when_the_status_shows_them() -> None:
    async with running() as harness:
        guarded(harness, allowed=2)
        harness.write(high("one"))
        await harness.go()
        harness.cluster.change(
            "PodDisruptionBudget",
            "default/b",
            lambda body: body["status"].update(disruptionsAllowed=1, currentHealthy=2),
        )
        await harness.pass_time(2)
        harness.write(high("two"))
        await harness.go()
        assert sorted(name.split("-")[0] for name in harness.cluster.evictions) == ["low", "low"]
        harness.write(high("three"))
        await harness.go()
        assert harness.cluster.evictions[2].startswith("dear")


async def test_they_count_on_while_the_status_does_not_show_them() -> None:
    async with running() as harness:
        guarded(harness, allowed=1)
        harness.write(high("one"))
        await harness.pass_time(5)
        harness.write(high("two"))
        await harness.go()
        assert sorted(name.split("-")[0] for name in harness.cluster.evictions) == ["dear", "low"]


async def test_a_pod_that_could_not_be_pushed_out_does_not_count() -> None:
    async with running() as harness:
        guarded(harness, allowed=1)
        for i in range(3):
            harness.cluster.eviction_faults[f"low-{i}"] = "500"
        harness.write(high("one"))
        await harness.go()
        harness.cluster.eviction_faults.clear()
        await harness.pass_time(2)
        assert len(harness.cluster.evictions) == 2
        assert all(name.startswith("low") for name in harness.cluster.evictions)


async def test_a_pod_of_which_only_the_successor_is_heard_does_not_count_for_ever() -> None:
    async with running() as harness:
        guarded(harness, allowed=1)
        harness.write(high("one"))
        await settle()
        (victim,) = harness.cluster.evictions
        harness.cluster.finish(victim)
        harness.cluster.feed.clear()  # the watch has missed that it began to leave, and that it has left
        harness.write(low(victim, node="m0", cpu="0", labels={"app": "x"}, uid="successor"))
        await harness.pass_time(SHOWN_SECONDS + 1)
        harness.write(high("two"))  # looks, and finds that the pod is gone
        await harness.pass_time(MOST_SECONDS)
        harness.write(high("three"))
        await harness.go()
        assert sorted(name.split("-")[0] for name in harness.cluster.evictions) == ["dear", "low", "low"]


async def test_a_pod_that_only_lost_its_room_does_not_count() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), *claims(), budget("b", 1, app="x"))
        harness.write(make_pod("low", cpu="4", priority=1, volumes=[volume("data")], labels={"app": "x"}))
        await harness.go()
        harness.write(high())
        await harness.pass_time(2)
        assert harness.cluster.node_of("high") == "n"
        assert harness.cache.state.disrupting == {}


async def test_a_budget_is_violated_where_there_is_no_other_way() -> None:
    async with running() as harness:
        harness.write(budget("b", 0, app="x"), make_node("n", cpu="4"), low(labels={"app": "x"}), high())
        await harness.go()
        assert harness.cluster.evictions == ["low"]


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_no_eviction_begins_once_the_scheduler_is_closed() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low("a", cpu="2"), low("b", cpu="2"))
        slow = [hang(harness, "a"), hang(harness, "b")]
        harness.write(high())
        await harness.go()
        harness.scheduler.close()
        for one in slow:
            one.released.set()
        await harness.go()
        assert all(not pod["metadata"].get("deletionTimestamp") for pod in harness.cluster.objects["Pod"].values())
        assert harness.queue.part_of(uid("high")) is Part.ACTIVE
        harness.cluster.eviction_faults.clear()
        harness.scheduler.open()
        await harness.go()
        assert harness.cluster.objects["Pod"]["default/a"]["metadata"]["deletionTimestamp"]


async def test_stopping_waits_for_the_evictions_that_run() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low())
        slow = hang(harness, "low")
        harness.write(high())
        await harness.go()
        stop = asyncio.ensure_future(harness.scheduler.stop())
        await harness.clock.advance(1)
        assert not stop.done()
        slow.released.set()
        await harness.go()
        assert stop.done()
        assert harness.scheduler.statistics()["preemption"]["running"] == 0
