"""What the loop measures of itself: each attempt once, under the right result, and at next to no cost of labels."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from berth.engine.binding_points import Permit
from berth.model import parse_pod
from berth.scheduler.measures import MOST_PROFILES, OTHERS, SAMPLED, Histogram, Measures, Names
from berth.scheduler.queue.queue import Queue
from policy.builders import make_policy
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Fault, Refusal
from scheduler.staged_plugins import installed
from scheduler.virtual_clock import VirtualClock
from support.builders import make_node, make_pod


def attempts(harness: Harness) -> dict[tuple[str, ...], int]:
    measures = harness.scheduler.statistics()["measures"]
    return {labels: said["count"] for labels, said in measures["attempt_seconds"]}


def points(harness: Harness) -> dict[tuple[str, ...], int]:
    return {labels[1:]: said["count"] for labels, said in harness.scheduler.statistics()["measures"]["point_seconds"]}


def incoming(queue: Queue) -> dict[tuple[str, str], int]:
    return queue.counters.incoming()


# --- histograms and labels -------------------------------------------------------------------------------------------


def test_a_value_on_a_bound_is_not_above_it() -> None:
    histogram = Histogram((1.0, 2.0, 4.0))
    for value in (0.5, 1.0, 1.5, 4.0, 99.0):
        histogram.observe(value)
    assert histogram.statistics() == {"buckets": {1.0: 2, 2.0: 3, 4.0: 4}, "count": 5, "sum": 106.0}


def test_names_beyond_the_first_so_many_are_one() -> None:
    names = Names(2)
    assert [names.of(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", OTHERS, "a", OTHERS]


def test_names_that_are_gone_make_room_and_those_that_stay_keep_theirs() -> None:
    names = Names(2)
    assert names.keep(["c", "b"]) == {"b": "b", "c": "c"}
    assert names.keep(["a", "b", "c"]) == {"a": OTHERS, "b": "b", "c": "c"}
    assert names.keep(["a", "c"]) == {"a": "a", "c": "c"}


def test_scheduler_names_without_end_are_bounded() -> None:
    measures = Measures(VirtualClock())
    for number in range(2000):
        measures.ended(f"odd\n{number}" * 20, "error", 0.0)
        stopwatch = measures.stopwatch(f"odd\n{number}" * 20)
        if stopwatch is not None:
            stopwatch("Filter")
    said = measures.statistics()
    assert len(said["attempt_seconds"]) == MOST_PROFILES + 1
    assert dict(Counter({labels[0]: one["count"] for labels, one in said["attempt_seconds"]}))[OTHERS] == 1950
    assert len(said["point_seconds"]) <= MOST_PROFILES + 1
    assert measures.results == {"error": 2000}


def test_scheduler_names_beyond_the_first_so_many_are_served_as_one() -> None:
    served = [f"s{number:03}" for number in range(MOST_PROFILES + 2)]
    assert Measures(VirtualClock()).statistics(served)["profiles"] == [OTHERS, *served[:MOST_PROFILES]]


def test_a_scheduler_name_that_goes_makes_room_unless_something_was_counted_for_it() -> None:
    measures = Measures(VirtualClock())
    served = [f"s{number:03}" for number in range(MOST_PROFILES)]
    measures.statistics(served)
    measures.ended("s000", "error", 0.0)
    measures.point("s001", "Filter", "Success", 0.1)
    assert measures.statistics(["new"])["profiles"] == ["new", "s000", "s001"]


def test_an_attempt_that_outlives_its_scheduler_name_makes_no_label_too_many() -> None:
    measures = Measures(VirtualClock())
    stopwatch = measures.stopwatch("old")
    assert stopwatch is not None
    measures.statistics(f"s{number:03}" for number in range(MOST_PROFILES))
    stopwatch("Filter")
    ((labels, _),) = measures.statistics()["point_seconds"]
    assert labels == (OTHERS, "Filter", "Success")


# --- attempts --------------------------------------------------------------------------------------------------------


async def test_an_attempt_is_counted_when_the_pod_is_bound_with_the_time_since_it_began() -> None:
    async with running() as harness:
        harness.write(make_node("a"))
        harness.write(make_pod("web"))
        await harness.go()
        assert attempts(harness) == {("berth", "scheduled"): 1}
        said = harness.scheduler.statistics()["measures"]
        assert said["attempts_needed"]["sum"] == 1
        assert [labels for labels, _ in said["wait_seconds"]] == [("1",)]


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Refusal(403, "no"), Refusal(404, "no such pod")])
async def test_a_bind_that_fails_is_an_error_and_the_next_attempt_another(fault: Any) -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = fault
        harness.write(make_node("a"))
        harness.write(make_pod("web"))
        await harness.go()
        assert attempts(harness) == {("berth", "error"): 1}
        harness.cluster.faults.clear()
        await harness.pass_time(3)
        assert attempts(harness) == {("berth", "error"): 1, ("berth", "scheduled"): 1}
        said = harness.scheduler.statistics()["measures"]
        assert (said["attempts_needed"]["count"], said["attempts_needed"]["sum"]) == (1, 2)
        ((labels, waited),) = said["wait_seconds"]
        assert labels == ("2",)
        assert waited["sum"] >= 1.0  # since it was first to be tried, the backoff included


async def test_many_attempts_are_told_apart_up_to_a_number() -> None:
    measures = Measures(VirtualClock())
    for number in (1, 14, 15, 16, 99):
        measures.scheduled("berth", 0.0, number, 0.0)
    labels = {labels: said["count"] for labels, said in measures.statistics()["wait_seconds"]}
    assert labels == {("1",): 1, ("14",): 1, ("15+",): 3}


async def test_a_pod_without_a_node_is_unschedulable_and_blamed_on_the_plugin() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"), make_node("b", cpu="1"))
        harness.write(make_pod("big", cpu="9"))
        await harness.go()
        assert attempts(harness) == {("berth", "unschedulable"): 1}
        assert harness.scheduler.statistics()["blamed"] == {("NodeResourcesFit", "berth"): 1}
        harness.write(make_node("c", cpu="20"))
        await harness.pass_time(3)
        assert attempts(harness) == {("berth", "unschedulable"): 1, ("berth", "scheduled"): 1}
        assert harness.scheduler.statistics()["blamed"] == {}


async def test_blame_ends_with_the_pod() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"))
        harness.write(make_pod("big", cpu="9"), make_pod("gated", schedulingGates=[{"name": "g"}]))
        await harness.go()
        assert harness.scheduler.statistics()["blamed"] == {
            ("NodeResourcesFit", "berth"): 1,
            ("SchedulingGates", "berth"): 1,
        }
        harness.write(make_pod("gated"))
        harness.cluster.delete("Pod", "default/big")
        await harness.go()
        assert harness.scheduler.statistics()["blamed"] == {}


async def test_the_profile_is_the_name_that_the_pod_asks_for() -> None:
    async with running() as harness:
        harness.write(make_policy("batch", schedulerName="night"))
        harness.write(make_node("a"))
        harness.write(make_pod("web"), make_pod("job", scheduler="night"))
        await harness.go()
        assert attempts(harness) == {("berth", "scheduled"): 1, ("night", "scheduled"): 1}


# --- extension points ------------------------------------------------------------------------------------------------


async def test_one_attempt_in_ten_is_measured_point_by_point() -> None:
    async with running() as harness:
        harness.write(*(make_node(f"n{number}", cpu="64") for number in range(3)))
        harness.write(*(make_pod(f"web-{number:02}") for number in range(2 * SAMPLED)))
        await harness.go()
        assert attempts(harness) == {("berth", "scheduled"): 2 * SAMPLED}
        # The first is new to the engine; the tenth after it is like those before: their answer is brought up to date.
        assert points(harness) == {
            ("PreFilter", "Success"): 1,
            ("Filter", "Success"): 2,
            ("Score", "Success"): 2,
            ("Bind", "Success"): 2,
        }


async def test_what_fails_at_a_point_has_its_status() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Refusal(403, "no")
        harness.write(make_node("a", cpu="1"))
        harness.write(make_pod("web"))
        await harness.go()
        assert points(harness)["Bind", "Error"] == 1
    async with running() as harness:
        harness.write(make_node("a", cpu="1"))
        harness.write(make_pod("big", cpu="9"))
        await harness.go()
        assert points(harness) == {
            ("PreFilter", "Success"): 1,
            ("Filter", "Success"): 1,
            ("PostFilter", "Unschedulable"): 1,
        }


async def test_a_pre_filter_that_refuses_says_so() -> None:
    async with running() as harness:
        harness.write(make_node("a"))
        harness.write(make_pod("web", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]))
        await harness.go()
        ((point, status),) = (key for key in points(harness) if key[0] == "PreFilter")
        assert (point, status) == ("PreFilter", "UnschedulableAndUnresolvable")


async def test_what_plugins_do_before_the_bind_is_measured_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with installed(tmp_path, monkeypatch) as script:
        async with running() as harness:
            harness.write(make_policy(predicates=[{"name": "one", "plugin": "Actor"}]), make_node("a"))
            harness.write(make_pod("web"))
            await harness.go()
            found = points(harness)
            assert {found[point, "Success"] for point in ("Reserve", "Permit", "PreBind", "Bind")} == {1}
        async with running() as harness:
            script.says("one", "reserve", "not here")
            harness.write(make_policy(predicates=[{"name": "one", "plugin": "Actor"}]), make_node("a"))
            harness.write(make_pod("web"))
            await harness.go()
            assert points(harness)["Reserve", "Unschedulable"] == 1
            assert attempts(harness) == {("berth", "unschedulable"): 1}
            assert harness.scheduler.statistics()["blamed"] == {("one", "berth"): 1}


async def test_a_pod_that_waits_for_a_permit_and_is_refused_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installed(tmp_path, monkeypatch) as script:
        async with running() as harness:
            script.says("one", "permit", Permit.wait(5))
            harness.write(make_policy(predicates=[{"name": "one", "plugin": "Actor"}]), make_node("a"))
            harness.write(make_pod("web"))
            await harness.go()
            assert points(harness)["Permit", "Wait"] == 1
            assert attempts(harness) == {}
            await harness.pass_time(6)
            assert attempts(harness) == {("berth", "unschedulable"): 1}
            assert harness.scheduler.statistics()["blamed"] == {("one", "berth"): 1}


# --- what comes into the queue ---------------------------------------------------------------------------------------


async def test_what_brings_pods_into_the_queue_is_counted_in_kube_schedulers_words() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"))
        harness.write(make_pod("big", cpu="9"))
        await harness.go()
        assert incoming(harness.queue) == {
            ("active", "UnschedulablePodAdd"): 1,
            ("unschedulable", "ScheduleAttemptFailure"): 1,
        }
        harness.write(make_node("b", cpu="8", labels={"x": "y"}))
        harness.write(make_node("c", cpu="10"))
        await harness.go()
        assert incoming(harness.queue)["backoff", "NodeAdd"] == 1
        assert incoming(harness.queue)["active", "PopFromBackoffQ"] == 1


async def test_gates_backoffs_and_timeouts_are_counted_too() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"))
        harness.write(make_pod("gated", schedulingGates=[{"name": "g"}]), make_pod("big", cpu="9"))
        await harness.go()
        harness.write(make_pod("gated"))
        harness.cluster.faults["bad"] = Refusal(403, "no")
        harness.write(make_pod("bad", cpu="100m"))
        await harness.go()
        counts = incoming(harness.queue)
        assert counts["unschedulable", "UnschedulablePodAdd"] == 1
        assert counts["active", "UnschedulablePodUpdatePodSchedulingGatesEliminated"] == 1
        assert counts["backoff", "ScheduleAttemptFailure"] == 1
        await harness.pass_time(301, step=5)
        counts = incoming(harness.queue)
        assert counts["active", "BackoffComplete"] >= 1
        assert counts["active", "UnschedulableTimeout"] >= 1


async def test_a_change_of_policy_is_counted_as_such() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"))
        harness.write(make_pod("big", cpu="9"))
        await harness.go()
        harness.write(make_policy())
        await harness.go()
        assert incoming(harness.queue)["active", "SchedulingPolicyUpdate"] == 1


def test_an_update_that_moves_nothing_is_not_counted() -> None:
    queue = Queue(VirtualClock())
    queue.add(parse_pod(make_pod("web", schedulingGates=[{"name": "g"}])))
    queue.add(parse_pod(make_pod("web", schedulingGates=[{"name": "h"}], labels={"a": "b"})))
    assert incoming(queue) == {("unschedulable", "UnschedulablePodAdd"): 1}
