"""From a pod that appears to a pod that is bound, or that says why not."""

import asyncio
import logging
from typing import Any

import pytest

from berth.engine.pipeline import Pipeline
from berth.scheduler.queue.queue import Part, QueuedPod
from scheduler.harness import Harness, running
from scheduler.virtual_clock import settle
from support.builders import make_node, make_pod


def policy(name: str, scheduler: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": name, "uid": f"policy-{name}", "generation": 1},
        "spec": {"schedulerName": scheduler, **spec},
    }


async def test_a_pod_is_bound_to_a_node_with_room_and_told_so() -> None:
    async with running() as harness:
        harness.write(make_node("full", cpu="1"), make_pod("old", node="full", cpu="1"), make_node("free", cpu="4"))
        harness.write(make_pod("web", cpu="2"))
        await harness.go()
        assert harness.cluster.node_of("web") == "free"
        ((name, event),) = harness.cluster.events
        assert (name, event.type, event.reason, event.action) == ("web", "Normal", "Scheduled", "Binding")
        assert event.note == "Successfully assigned default/web to free"
        statistics = harness.scheduler.statistics()
        assert statistics["attempts"] == {"scheduled": 1}
        assert statistics["binds"] == {"running": 0, "waiting": 0, "bound": 1}
        assert statistics["cache"]["pods"] == {"pending": 0, "binding": 0, "echo_pending": 0, "bound": 2}
        assert sum(statistics["queue"].values()) == 0


async def test_a_pod_that_fits_nowhere_is_parked_and_says_why() -> None:
    async with running() as harness:
        harness.write(make_node("small", cpu="1"), make_pod("web", cpu="2"))
        await harness.go()
        assert harness.cluster.node_of("web") == ""
        message = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption"
        message += " is not helpful for scheduling."
        assert harness.cluster.conditions["pod-default-web"] == ("Unschedulable", message)
        ((name, event),) = harness.cluster.events
        assert (name, event.type, event.reason, event.action) == ("web", "Warning", "FailedScheduling", "Scheduling")
        assert event.note == message
        assert harness.scheduler.statistics()["queue"]["unschedulable"] == 1
        assert harness.scheduler.statistics()["attempts"] == {"unschedulable": 1}


async def test_the_echo_of_our_own_condition_does_not_try_the_pod_again() -> None:
    async with running() as harness:
        harness.write(make_node("small", cpu="1"), make_pod("web", cpu="2"))
        await harness.pass_time(60)
        assert harness.scheduler.statistics()["attempts"] == {"unschedulable": 1}


async def test_a_parked_pod_is_placed_when_a_node_comes() -> None:
    async with running() as harness:
        harness.write(make_pod("web", cpu="2"))
        await harness.go()
        harness.write(make_node("a"))
        await harness.pass_time(2)
        assert harness.cluster.node_of("web") == "a"


async def test_a_parked_pod_is_placed_when_room_comes_free() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="2"), make_pod("old", node="a", cpu="2"), make_pod("web", cpu="2"))
        await harness.go()
        assert harness.cluster.node_of("web") == ""
        harness.cluster.delete("Pod", "default/old")
        await harness.pass_time(2)
        assert harness.cluster.node_of("web") == "a"


async def test_a_node_not_ready_when_added_takes_the_pod_once_its_taint_is_gone() -> None:
    async with running() as harness:
        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        harness.write(make_node("a", taints=[taint]), make_pod("web"))
        await harness.go()
        harness.write(make_node("a"))
        await harness.pass_time(2)
        assert harness.cluster.node_of("web") == "a"


async def test_a_toleration_added_to_the_pending_pod_itself_wakes_it() -> None:
    async with running() as harness:
        harness.write(make_node("a", taints=[{"key": "k", "value": "", "effect": "NoSchedule"}]), make_pod("web"))
        await harness.go()
        harness.write(make_pod("web", tolerations=[{"operator": "Exists"}]))
        await harness.pass_time(2)
        assert harness.cluster.node_of("web") == "a"


async def test_a_gated_pod_is_placed_once_its_gates_are_gone() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_pod("web", gates=["example.com/wait"]))
        await harness.pass_time(400, step=50)
        assert harness.cluster.attempts == []
        assert harness.scheduler.statistics()["queue"]["gated"] == 1
        harness.write(make_pod("web"))
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


@pytest.mark.parametrize(
    ("news", "part"),
    [
        (make_pod("web", gates=["example.com/wait"]), Part.GATED),
        (make_pod("web", deleting=True), None),
        (make_pod("web", node="elsewhere"), None),
        (make_pod("web", uid="another"), None),
        (make_pod("web", scheduler="another"), None),
    ],
    ids=["gated", "deleting", "bound", "made again", "not ours"],
)
async def test_what_happens_to_a_pod_between_pop_and_decision_counts(
    monkeypatch: pytest.MonkeyPatch, news: dict[str, Any], part: Part | None
) -> None:
    harness = Harness()
    pop = harness.queue.pop

    async def pop_late() -> QueuedPod:
        item = await pop()
        if item.attempts == 1 and item.uid == "pod-default-web":
            harness.write(news)
        return item

    monkeypatch.setattr(harness.queue, "pop", pop_late)
    harness.write(make_node("a"), make_pod("web"))
    harness.scheduler.open()
    run = asyncio.ensure_future(harness.scheduler.run())
    await settle()
    assert harness.cluster.bound == harness.scheduler.statistics()["attempts"].get("scheduled", 0) * [("another", "a")]
    assert harness.queue.part_of("pod-default-web") is part
    await harness.scheduler.stop()
    await run


@pytest.mark.parametrize(
    "fields", [{"scheduler": "default-scheduler"}, {"deleting": True}, {"phase": "Failed"}], ids=str
)
async def test_a_pod_that_is_not_ours_to_place_is_left_alone(fields: dict[str, Any]) -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_pod("web", **fields))
        await harness.pass_time(10)
        assert harness.cluster.attempts == []
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0


async def test_a_pod_deleted_while_parked_leaves_the_queue() -> None:
    async with running() as harness:
        harness.write(make_pod("web"))
        await harness.go()
        harness.cluster.delete("Pod", "default/web")
        await harness.go()
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0


async def test_a_pod_made_again_under_its_name_replaces_the_older_one_in_the_queue() -> None:
    async with running() as harness:
        harness.write(make_pod("web", uid="old"))
        await harness.go()
        harness.write(make_pod("web", uid="new"))
        await harness.go()
        assert harness.queue.part_of("old") is None
        harness.write(make_node("a"))
        await harness.pass_time(2)
        assert harness.cluster.bound == [("new", "a")]


async def test_a_pod_bound_by_somebody_else_while_it_waits_leaves_the_queue() -> None:
    async with running() as harness:
        harness.write(make_pod("web", cpu="1"))
        await harness.go()
        harness.write(make_pod("web", cpu="1", node="far-away"))
        await harness.go()
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0
        assert harness.cache.statistics()["pods"]["bound"] == 1


async def test_nothing_is_decided_while_closed() -> None:
    async with running() as harness:
        harness.scheduler.close()
        harness.write(make_node("a"), make_pod("web"))
        await harness.pass_time(10)
        assert harness.cluster.attempts == []
        harness.scheduler.open()
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_nothing_is_decided_before_the_first_opening() -> None:
    harness = Harness()
    harness.write(make_node("a"), make_pod("web"))
    assert harness.scheduler.statistics()["queue"]["active"] == 1
    assert harness.queue.part_of("pod-default-web") == "active"


async def test_higher_priority_takes_the_last_place() -> None:
    async with running() as harness:
        harness.scheduler.close()
        harness.write(make_node("a", cpu="1"), make_pod("low", cpu="1"), make_pod("high", cpu="1", priority=100))
        harness.scheduler.open()
        await harness.go()
        assert (harness.cluster.node_of("high"), harness.cluster.node_of("low")) == ("a", "")


async def test_room_for_exactly_so_many_pods_is_filled_and_the_rest_say_why() -> None:
    async with running() as harness:
        harness.write(*[make_node(f"n{number}", cpu="2") for number in range(5)])
        harness.write(*[make_pod(f"p{number}", cpu="1") for number in range(15)])
        await harness.pass_time(30)
        nodes = [harness.cluster.node_of(f"p{number}") for number in range(15)]
        assert sorted(filter(None, nodes)) == sorted([f"n{number}" for number in range(5)] * 2)
        assert len(harness.cluster.conditions) == 5
        harness.write(*[make_node(f"more{number}", cpu="2") for number in range(3)])
        await harness.pass_time(30)
        assert all(harness.cluster.node_of(f"p{number}") for number in range(15))


async def test_an_exception_in_a_decision_puts_the_pod_into_backoff_and_the_loop_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    decide = Pipeline.decide

    def failing(self: Pipeline, pod: Any, *rest: Any) -> Any:
        if pod.name == "cursed":
            raise ZeroDivisionError("a plugin went wrong")
        return decide(self, pod, *rest)

    monkeypatch.setattr(Pipeline, "decide", failing)
    async with running() as harness:
        with caplog.at_level(logging.ERROR):
            harness.write(make_node("a"), make_pod("cursed", priority=10), make_pod("web"))
            await harness.pass_time(4)
        assert harness.cluster.node_of("web") == "a"
        assert harness.cluster.conditions["pod-default-cursed"][0] == "SchedulerError"
        assert "a plugin went wrong" in harness.cluster.conditions["pod-default-cursed"][1]
        assert harness.scheduler.statistics()["attempts"]["error"] == 3
        assert [record.exc_info is not None for record in caplog.records] == [True, False, False]
        monkeypatch.setattr(Pipeline, "decide", decide)
        await harness.pass_time(10)
        assert harness.cluster.node_of("cursed") == "a"


async def test_observing_nonsense_never_raises_and_is_counted() -> None:
    async with running() as harness:
        harness.observe("NoSuchKind", {"metadata": {"name": "x", "uid": "u"}})
        harness.remove("NoSuchKind", {"metadata": {"name": "x", "uid": "u"}})
        harness.observe("Pod", {"metadata": {"name": "x", "namespace": "y", "uid": "z"}, "spec": 7})
        assert harness.errors.counts == {"observing": 1, "removing": 1}
        assert harness.scheduler.statistics()["cache"]["invalid"] == {"Pod": 1}
        harness.write(make_node("a"), make_pod("web"))
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_a_policy_serves_pods_that_were_there_before_it() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_pod("web", scheduler="batch"))
        await harness.go()
        assert harness.cluster.attempts == []
        harness.write(policy("batch", "batch"))
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_pods_of_a_deleted_policy_wait_for_the_next_one() -> None:
    async with running() as harness:
        harness.write(policy("batch", "batch"), make_pod("web", scheduler="batch"))
        await harness.go()
        assert harness.scheduler.statistics()["queue"]["unschedulable"] == 1
        harness.cluster.delete("SchedulingPolicy", "batch")
        harness.write(make_node("a"))
        await harness.pass_time(10)
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0
        assert harness.cluster.attempts == []
        harness.write(policy("again", "batch"))
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_a_changed_policy_wakes_every_parked_pod_and_takes_effect_on_the_next_attempt() -> None:
    async with running() as harness:
        harness.write(make_node("a", taints=[{"key": "k", "value": "", "effect": "NoSchedule"}]), make_pod("web"))
        await harness.go()
        assert harness.cluster.node_of("web") == ""
        harness.write(policy("lax", "berth", predicates=[{"name": "TaintToleration", "enabled": False}]))
        await harness.pass_time(2)
        assert harness.cluster.node_of("web") == "a"


async def test_a_bad_policy_changes_nothing_and_wakes_nobody() -> None:
    async with running() as harness:
        harness.write(make_pod("web"))
        await harness.go()
        harness.write(policy("bad", "berth", predicates=[{"name": "NoSuchPlugin"}]))
        await harness.pass_time(20)
        assert harness.scheduler.statistics()["attempts"] == {"unschedulable": 1}
        assert harness.scheduler.statistics()["queue"]["unschedulable"] == 1


async def test_a_claim_that_is_not_bound_parks_the_pod_until_it_is() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    claim: dict[str, Any] = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default", "uid": "claim"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    }
    async with running() as harness:
        harness.write(make_node("a"), claim, make_pod("web", volumes=volumes))
        await harness.go()
        assert harness.cluster.node_of("web") == ""
        before = harness.scheduler.statistics()["attempts"]
        bound = claim["metadata"] | {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        spec = claim["spec"] | {"volumeName": "pv"}
        harness.write(claim | {"metadata": bound, "spec": spec, "status": {"phase": "Bound"}})
        await harness.pass_time(2)
        assert harness.scheduler.statistics()["attempts"] != before
