"""Pods that wait to be permitted: they keep their room until they are allowed, rejected, or not needed any more."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth.engine.binding_points import Permit
from berth.scheduler.queue.queue import Part
from berth.serving.metrics import render
from engine.storage import make_claim, make_class, pod_with
from policy.builders import make_policy
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Body, Hang
from scheduler.staged_plugins import Script, installed
from scheduler.test_stages import UNDONE, acting, condition, errors, queue, stages
from support.builders import make_node, make_pod

UID = "pod-default-web"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with installed(tmp_path, monkeypatch) as found:
        yield found


def plugin(script: Script, name: str) -> Any:
    """The one that was asked last under this name."""
    return script.made[name][-1]


async def wait_for(harness: Harness, script: Script, *names: str, seconds: float = 60, pod: Body | None = None) -> None:
    """A pod that waits for these plugins."""
    for name in names:
        script.says(name, "permit", Permit.wait(seconds))
    harness.write(acting("one", "two"), make_node("a", cpu=1), pod or make_pod("web", cpu=1))
    await harness.go()


# --- waiting, and how it ends ----------------------------------------------------------------------------------------


async def test_a_pod_that_waits_keeps_its_room_can_be_seen_and_is_bound_when_it_is_allowed(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        harness.write(make_pod("other", cpu=1))
        await harness.pass_time(10)
        assert (harness.cluster.node_of("web"), harness.cluster.node_of("other")) == ("", "")
        (seen,) = plugin(script, "one").waiting.pods()
        assert (seen.pod.name, seen.node_name, seen.plugins) == ("web", "a", ("one",))
        assert stages(harness) == {"running": 1, "waiting": 1}
        assert plugin(script, "one").waiting.allow(UID)
        assert harness.cluster.attempts == []  # not in the middle of somebody else's step
        await harness.go()
        assert harness.cluster.node_of("web") == "a"
        assert plugin(script, "one").waiting.pods() == []
        assert stages(harness) == {"passed": 1}


async def test_pods_that_wait_are_a_metric(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        text = render(lambda: {"scheduler": harness.scheduler.statistics()}).decode()
        assert "berth_waiting_pods 1.0" in text
        plugin(script, "one").waiting.reject(UID, "no")
        await harness.go()
        text = render(lambda: {"scheduler": harness.scheduler.statistics()}).decode()
        assert "berth_waiting_pods 0.0" in text
        assert 'berth_stages_total{outcome="rejected"} 1.0' in text


async def test_a_pod_that_waits_takes_none_of_the_places_for_binds(script: Script) -> None:
    async with running(bind_limit=1) as harness:
        script.says("one", "permit", lambda _, pod: Permit.wait(60) if pod.name.startswith("slow") else Permit.allow())
        harness.write(acting("one"), make_node("a"), *(make_pod(f"slow{i}", priority=9) for i in range(3)))
        harness.write(make_pod("web"))
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_a_pod_waits_until_every_plugin_that_said_so_has_allowed_it(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one", "two")
        assert plugin(script, "one").waiting.allow(UID)
        assert not plugin(script, "one").waiting.allow(UID)
        await harness.go()
        assert harness.cluster.node_of("web") == ""
        assert plugin(script, "two").waiting.pods()[0].plugins == ("two",)
        assert plugin(script, "two").waiting.allow(UID)
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_a_plugin_that_rejects_wins_over_one_that_has_the_pod_wait(script: Script) -> None:
    async with running() as harness:
        script.says("two", "permit", Permit.reject("never"))
        await wait_for(harness, script, "one")
        assert condition(harness, "web") == ("Unschedulable", "0/1 nodes are available: 1 never.")
        assert stages(harness) == {"rejected": 1}


@pytest.mark.parametrize(
    ("seconds", "cut", "words"), [(90, 90, "1m30s"), (2.5, 2.5, "2.5s"), (0.25, 0.25, "250ms"), (5000, 900, "15m0s")]
)
async def test_a_pod_that_nobody_allows_is_rejected_when_its_time_is_up(
    script: Script, seconds: float, cut: float, words: str
) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one", seconds=seconds)
        await harness.clock.advance(cut - 0.1)
        assert stages(harness) == {"running": 1, "waiting": 1}
        await harness.pass_time(0.1)
        note = f"0/1 nodes are available: 1 rejected due to timeout after waiting {words} at plugin one."
        assert condition(harness, "web") == ("Unschedulable", note)
        assert script.of("web")[-2:] == UNDONE
        assert queue(harness) == {"unschedulable": 1}
        assert harness.cache.assumed() == {}
        assert errors(harness) == {}


async def test_the_shortest_wait_ends_it(script: Script) -> None:
    async with running() as harness:
        script.says("two", "permit", Permit.wait(5))
        await wait_for(harness, script, "one", seconds=10)
        await harness.pass_time(5)
        assert "after waiting 5s at plugin two" in condition(harness, "web")[1]


async def test_any_plugin_may_reject_a_pod_that_waits_and_what_changes_its_mind_brings_the_pod_back(
    script: Script,
) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        assert plugin(script, "two").waiting.reject(UID, "not now")
        assert not plugin(script, "one").waiting.allow(UID)
        assert not plugin(script, "two").waiting.reject(UID, "again")
        await harness.pass_time(15)
        assert condition(harness, "web") == ("Unschedulable", "0/1 nodes are available: 1 not now.")
        assert queue(harness) == {"unschedulable": 1}
        script.answers.clear()
        harness.write(make_node("b"))
        await harness.go()
        assert harness.cluster.node_of("web") != ""


async def test_a_pod_that_was_allowed_cannot_be_rejected_any_more(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        assert plugin(script, "one").waiting.allow(UID)
        assert not plugin(script, "one").waiting.reject(UID, "too late")
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_nobody_can_allow_or_reject_a_pod_that_does_not_wait(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script)
        waiting = plugin(script, "one").waiting
        assert not waiting.allow(UID)
        assert not waiting.reject("no such pod", "no")
        with pytest.raises(ValueError, match="a rejection has a reason, not ''"):
            waiting.reject(UID, "")


# --- what may happen meanwhile ---------------------------------------------------------------------------------------


async def test_a_pod_that_is_deleted_while_it_waits_is_undone(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        harness.cluster.delete("Pod", "default/web")
        await harness.go()
        assert script.of("web")[-2:] == UNDONE
        assert (queue(harness), dict(harness.cache.assumed()), stages(harness)) == ({}, {}, {"gone": 1})
        assert harness.notes("web") == ["Node a is chosen; waiting for a permit of one"]
        assert not plugin(script, "one").waiting.allow(UID)
        harness.write(make_pod("other", cpu=1))
        script.answers.clear()
        await harness.go()
        assert harness.cluster.node_of("other") == "a"


async def test_a_pod_that_begins_to_terminate_while_it_waits_is_undone(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        now = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        harness.cluster.change("Pod", "default/web", lambda body: body["metadata"].update(now))
        await harness.go()
        assert script.of("web")[-2:] == UNDONE
        assert stages(harness) == {"gone": 1}
        assert (queue(harness), dict(harness.cache.assumed()), harness.cluster.attempts) == ({}, {}, [])


async def test_a_pod_that_is_made_again_under_its_name_is_another_one(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        script.answers.clear()
        harness.cluster.delete("Pod", "default/web")
        harness.cluster.feed.clear()  # the watch was away for a moment
        harness.write(make_pod("web", cpu=1, uid="second"))
        await harness.go()
        assert harness.cluster.bound == [("second", "a")]
        assert script.of("web").count("one unreserve") == 1
        assert stages(harness) == {"gone": 1, "passed": 1}


@pytest.mark.parametrize("node", ["a", "b"])
async def test_a_pod_that_somebody_else_binds_while_it_waits_is_theirs(script: Script, node: str) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        harness.write(make_node("b", cpu=1))
        harness.cluster.change("Pod", "default/web", lambda body: body["spec"].update(nodeName=node))
        await harness.go()
        assert script.of("web")[-2:] == UNDONE
        assert list(harness.cache.state.table.pods_on(node)) == [UID]
        assert (queue(harness), harness.cluster.attempts) == ({}, [])


async def test_a_pod_whose_node_goes_while_it_waits_is_not_bound_to_it(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        harness.cluster.delete("Node", "a")
        harness.tell()
        plugin(script, "one").waiting.allow(UID)
        await harness.go()
        assert harness.cluster.attempts == []
        assert condition(harness, "web") == ("SchedulerError", 'node "a" not found')
        script.answers.clear()
        harness.write(make_node("b"))
        await harness.pass_time(2)
        assert harness.cluster.node_of("web") == "b"


async def test_a_pod_that_asks_for_something_else_is_tried_again_when_it_is_rejected(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        harness.cluster.change("Pod", "default/web", lambda body: body["metadata"].update(labels={"app": "other"}))
        await harness.go()
        script.answers.clear()
        plugin(script, "one").waiting.reject(UID, "not you")
        await harness.pass_time(2)
        assert harness.cluster.node_of("web") == "a"


async def test_a_pod_stays_with_the_generation_that_placed_it_and_the_next_one_may_allow_it(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        old = plugin(script, "one")
        harness.write(make_policy("p", generation=2, predicates=[{"name": "one", "plugin": "Actor"}]))
        script.answers.clear()
        harness.write(make_pod("other"))
        await harness.go()
        new = plugin(script, "one")
        assert new is not old
        assert harness.cluster.node_of("web") == ""
        new.waiting.allow(UID)
        await harness.go()
        assert harness.cluster.node_of("web") == "a"
        assert "two post_bind" in script.of("web")  # which the new generation does not have


async def test_a_pod_whose_policy_is_deleted_while_it_waits_is_bound_all_the_same(script: Script) -> None:
    async with running(built_in=False) as harness:
        await wait_for(harness, script, "one")
        harness.cluster.delete("SchedulingPolicy", "p")
        await harness.go()
        plugin(script, "one").waiting.allow(UID)
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_a_pod_that_is_rejected_after_its_policy_was_deleted_is_nobody_s(script: Script) -> None:
    async with running() as harness:
        script.says("one", "permit", Permit.wait(60))
        harness.write(acting("one", "two", schedulerName="mine"), make_node("a"), make_pod("web", scheduler="mine"))
        await harness.go()
        harness.cluster.delete("SchedulingPolicy", "p")
        await harness.go()
        plugin(script, "one").waiting.reject(UID, "no")
        await harness.go()
        assert script.of("web")[-2:] == UNDONE
        assert (queue(harness), dict(harness.cache.assumed())) == ({}, {})
        assert UID in harness.cache.pending


async def test_stopping_lets_go_of_pods_that_wait(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        await harness.scheduler.stop()
        assert script.of("web")[-2:] == UNDONE
        assert (harness.cluster.attempts, dict(harness.cache.assumed())) == ([], {})
        assert harness.scheduler.statistics()["stages"] == {"running": 0, "waiting": 0, "cut_off": 1}
        assert not plugin(script, "one").waiting.allow(UID)


async def test_stopping_lets_go_of_pods_that_plugins_prepare(script: Script) -> None:
    async with running() as harness:
        hang = Hang()
        script.says("one", "pre_bind", lambda *_: hang.released.wait())
        await wait_for(harness, script)
        await harness.scheduler.stop()
        assert script.of("web")[-3:] == ["one pre_bind", *UNDONE]
        hang.released.set()
        await harness.go()
        assert harness.cluster.attempts == []


# --- preemption ------------------------------------------------------------------------------------------------------


async def test_a_pod_that_waits_is_not_evicted_but_loses_its_room_to_one_of_higher_priority(script: Script) -> None:
    async with running() as harness:
        script.says("one", "permit", lambda _, pod: Permit.wait(60) if pod.name == "web" else Permit.allow())
        await wait_for(harness, script)
        harness.write(make_pod("high", cpu=1, priority=9))
        await harness.pass_time(2)
        assert harness.cluster.evictions == []
        assert harness.cluster.node_of("high") == "a"
        assert harness.notes("web")[1] == "waiting on permit for pod: preempted"
        assert script.of("web")[2:6] == ["one permit", "two permit", *UNDONE]
        assert harness.queue.part_of(UID) is not None


@pytest.mark.parametrize("stage", ["permit", "pre_bind"])
async def test_a_pod_that_is_given_up_has_no_room_at_once_and_is_back_in_backoff(script: Script, stage: str) -> None:
    async with running() as harness:
        hang = Hang()
        script.says("one", "pre_bind", lambda *_: hang.released.wait())
        await wait_for(harness, script, *(["one"] if stage == "permit" else []))
        assert harness.components.binding_cycle.give_up(UID)
        assert not harness.components.binding_cycle.give_up(UID)
        assert dict(harness.cache.assumed()) == {}
        assert harness.queue.part_of(UID) is Part.BACKOFF
        assert script.of("web")[-2:] == UNDONE
        assert condition(harness, "web")[0] == "SchedulerError"
        assert stages(harness) == {"preempted": 1}


async def test_a_pod_that_may_be_bound_at_any_moment_is_not_given_up(script: Script) -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Hang()
        await wait_for(harness, script)
        assert not harness.components.binding_cycle.give_up(UID)
        assert UID in harness.cache.assumed()


@pytest.mark.parametrize("permit", [Permit.wait(5), Permit.reject("no")], ids=["waits", "refused"])
async def test_a_pod_that_does_not_get_the_node_that_was_made_free_for_it_leaves_it_to_others(
    script: Script, permit: Permit
) -> None:
    async with running() as harness:
        script.says("one", "permit", lambda _, pod: permit if pod.name == "web" else Permit.allow())
        await wait_for(harness, script, pod=make_pod("web", cpu=1, nominated="a"))
        await harness.pass_time(30)
        assert harness.cluster.nominated("web") == ""
        assert harness.cache.state.nominated == {}
        harness.write(make_pod("other", cpu=1))
        await harness.pass_time(2)
        assert harness.cluster.node_of("other") == "a"


async def test_volumes_that_a_waiting_pod_has_reserved_are_free_when_it_is_rejected(script: Script) -> None:
    async with running() as harness:
        harness.write(make_class(), make_claim("data"))
        await wait_for(harness, script, "one", pod=pod_with("data", name="web"))
        assert harness.cluster.volume_writes == []  # nothing is written for a pod that may yet be rejected
        assert list(harness.cache.state.volumes.reservations.plans) == [UID]
        plugin(script, "one").waiting.reject(UID, "no")
        await harness.pass_time(15)
        assert not harness.cache.state.volumes.reservations.plans
        assert queue(harness) == {"unschedulable": 1}


# --- a gang ----------------------------------------------------------------------------------------------------------


def gang_of(size: int, **spec: Any) -> Body:
    return make_policy("p", predicates=[{"name": "Gang", "args": {"size": size}}], **spec)


def members(*names: str) -> list[Body]:
    return [make_pod(name, cpu=1, labels={"gang": "g"}) for name in names]


async def test_a_gang_is_bound_together(script: Script) -> None:
    async with running() as harness:
        harness.write(gang_of(3), make_node("a"), *members("m0", "m1"))
        await harness.pass_time(20)
        assert harness.cluster.bound == []
        harness.write(*members("m2"))
        await harness.go()
        assert sorted(uid for uid, _ in harness.cluster.bound) == [f"pod-default-m{i}" for i in range(3)]


async def test_a_gang_that_does_not_fit_gives_all_its_room_back(script: Script) -> None:
    async with running() as harness:
        harness.write(gang_of(3), make_node("a", cpu=2), *members("m0", "m1", "m2"))
        await harness.go()
        assert stages(harness) == {"running": 2, "waiting": 2}
        await harness.pass_time(30)
        assert harness.cluster.bound == []
        assert not list(harness.cache.state.table.pods_on("a")) or stages(harness)["running"] <= 2
        notes = [*harness.notes("m0"), *harness.notes("m1")]
        assert any("rejected due to timeout after waiting 30s at plugin Gang" in note for note in notes)
        harness.write(make_node("b", cpu=2))
        await harness.pass_time(60)
        assert len(harness.cluster.bound) == 3


async def test_a_gang_that_loses_a_member_waits_for_nothing(script: Script) -> None:
    async with running() as harness:
        harness.write(gang_of(3), make_node("a"), *members("m0", "m1"))
        await harness.go()
        harness.cluster.delete("Pod", "default/m0")
        await harness.go()
        assert harness.notes("m1")[1] == "0/1 nodes are available: 1 its gang has lost m0."
        assert harness.cluster.bound == []
