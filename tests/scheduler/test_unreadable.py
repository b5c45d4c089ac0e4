"""Pods of ours that wait and make no sense: they are told so, once, and never tried."""

from typing import Any

from scheduler.harness import Harness, running
from scheduler.memory_cluster import Hang
from support.builders import make_node, make_pod

PROBLEM = 'Pod default/web: spec.tolerations[0].operator: "Is" is not one of Equal, Exists, Lt, Gt'
POLICY = {
    "kind": "SchedulingPolicy",
    "apiVersion": "berth.dev/v1alpha1",
    "metadata": {"name": "batch", "uid": "1", "generation": 1},
    "spec": {"schedulerName": "batch"},
}


def senseless(operator: str = "Is", **changes: Any) -> dict[str, Any]:
    return make_pod("web", tolerations=[{"operator": operator}], **changes)


async def told(harness: Harness) -> list[str]:
    await harness.pass_time(400, step=20)
    return harness.notes("web")


async def test_a_pod_that_makes_no_sense_is_told_so_once_and_never_tried() -> None:
    async with running() as harness:
        harness.write(make_node("a"), senseless())
        assert await told(harness) == [PROBLEM]
        [(_, event)] = harness.cluster.events
        assert (event.type, event.reason) == ("Warning", "FailedScheduling")
        assert harness.cluster.conditions == {"pod-default-web": ("SchedulerError", PROBLEM)}
        assert harness.cluster.attempts == []
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0


async def test_it_is_placed_as_soon_as_it_makes_sense() -> None:
    async with running() as harness:
        harness.write(make_node("a"), senseless())
        await harness.go()
        harness.write(senseless("Exists"))
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_another_problem_is_told_and_so_is_the_same_one_of_a_new_spec() -> None:
    async with running() as harness:
        harness.write(make_node("a"), senseless())
        await harness.go()
        harness.write(senseless("Has"))
        assert len(await told(harness)) == 2
        again = senseless("Has")
        again["metadata"]["generation"] = 2
        harness.write(again)
        assert len(await told(harness)) == 3


async def test_a_problem_that_comes_back_is_told_again() -> None:
    async with running() as harness:
        harness.write(senseless())
        await harness.go()
        harness.write(make_pod("web"))
        await harness.go()
        harness.write(senseless())
        await harness.go()
        assert harness.notes("web").count(PROBLEM) == 2


async def test_pods_that_do_not_wait_for_us_are_not_spoken_to() -> None:
    for changes in (
        {"scheduler": "other"},
        {"deleting": True},
        {"gates": ["x.y/z"]},
        {"node": "a"},
        {"phase": "Failed"},
    ):
        async with running() as harness:
            harness.write(make_node("a"), senseless(**changes))
            assert await told(harness) == []
            assert harness.cluster.conditions == {}


async def test_a_policy_that_comes_to_serve_it_has_it_told() -> None:
    async with running() as harness:
        harness.write(make_node("a"), senseless(scheduler="batch"))
        await harness.go()
        assert harness.notes("web") == []
        harness.write(POLICY)
        assert await told(harness) == [PROBLEM]


async def test_nothing_is_said_before_decisions_may_be_made() -> None:
    harness = Harness()
    harness.write(senseless())
    assert harness.notes("web") == []
    harness.scheduler.open()
    harness.scheduler.open()
    assert harness.notes("web") == [PROBLEM]


async def test_a_pod_that_stops_making_sense_while_it_waits_leaves_the_queue() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="2"))
        await harness.go()
        harness.write(senseless(cpu="2"))
        harness.write(make_node("a", cpu="4"))
        assert PROBLEM in await told(harness)
        assert harness.cluster.attempts == []
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0


async def test_a_pod_that_stops_making_sense_while_it_is_bound_is_not_told_if_the_bind_succeeds() -> None:
    async with running() as harness:
        hang = harness.cluster.faults["web"] = Hang()
        harness.write(make_node("a"), make_pod("web"))
        await harness.go()
        harness.write(senseless())
        await harness.go()
        assert harness.notes("web") == []
        hang.released.set()
        await harness.go()
        assert harness.notes("web") == ["Successfully assigned default/web to a"]


async def test_a_pod_that_stops_making_sense_while_its_bind_fails_is_told() -> None:
    async with running() as harness:
        hang = harness.cluster.faults["web"] = Hang()
        harness.write(make_node("a"), make_pod("web"))
        await harness.go()
        harness.write(senseless())
        harness.cluster.objects["Pod"].clear()
        hang.released.set()
        assert await told(harness) == [PROBLEM]
        assert harness.cluster.attempts == [("web", "a")]
        assert not harness.cache.assumed()
