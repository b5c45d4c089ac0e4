"""Pods of ours that wait and make no sense: they are told so, once, and never tried."""

from typing import Any

from scheduler.house import House, running
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


async def told(house: House) -> list[str]:
    await house.pass_time(400, step=20)
    return house.notes("web")


async def test_a_pod_that_makes_no_sense_is_told_so_once_and_never_tried() -> None:
    async with running() as house:
        house.write(make_node("a"), senseless())
        assert await told(house) == [PROBLEM]
        [(_, event)] = house.cluster.events
        assert (event.type, event.reason) == ("Warning", "FailedScheduling")
        assert house.cluster.conditions == {"pod-default-web": ("SchedulerError", PROBLEM)}
        assert house.cluster.attempts == []
        assert sum(house.scheduler.statistics()["queue"].values()) == 0


async def test_it_is_placed_as_soon_as_it_makes_sense() -> None:
    async with running() as house:
        house.write(make_node("a"), senseless())
        await house.go()
        house.write(senseless("Exists"))
        await house.go()
        assert house.cluster.node_of("web") == "a"


async def test_another_problem_is_told_and_so_is_the_same_one_of_a_new_spec() -> None:
    async with running() as house:
        house.write(make_node("a"), senseless())
        await house.go()
        house.write(senseless("Has"))
        assert len(await told(house)) == 2
        again = senseless("Has")
        again["metadata"]["generation"] = 2
        house.write(again)
        assert len(await told(house)) == 3


async def test_a_problem_that_comes_back_is_told_again() -> None:
    async with running() as house:
        house.write(senseless())
        await house.go()
        house.write(make_pod("web"))
        await house.go()
        house.write(senseless())
        await house.go()
        assert house.notes("web").count(PROBLEM) == 2


async def test_pods_that_do_not_wait_for_us_are_not_spoken_to() -> None:
    for changes in (
        {"scheduler": "other"},
        {"deleting": True},
        {"gates": ["x.y/z"]},
        {"node": "a"},
        {"phase": "Failed"},
    ):
        async with running() as house:
            house.write(make_node("a"), senseless(**changes))
            assert await told(house) == []
            assert house.cluster.conditions == {}


async def test_a_policy_that_comes_to_serve_it_has_it_told() -> None:
    async with running() as house:
        house.write(make_node("a"), senseless(scheduler="batch"))
        await house.go()
        assert house.notes("web") == []
        house.write(POLICY)
        assert await told(house) == [PROBLEM]


async def test_nothing_is_said_before_decisions_may_be_made() -> None:
    house = House()
    house.write(senseless())
    assert house.notes("web") == []
    house.scheduler.open()
    house.scheduler.open()
    assert house.notes("web") == [PROBLEM]


async def test_a_pod_that_stops_making_sense_while_it_waits_leaves_the_queue() -> None:
    async with running() as house:
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="2"))
        await house.go()
        house.write(senseless(cpu="2"))
        house.write(make_node("a", cpu="4"))
        assert PROBLEM in await told(house)
        assert house.cluster.attempts == []
        assert sum(house.scheduler.statistics()["queue"].values()) == 0


async def test_a_pod_that_stops_making_sense_while_it_is_bound_is_not_told_if_the_bind_succeeds() -> None:
    async with running() as house:
        hang = house.cluster.faults["web"] = Hang()
        house.write(make_node("a"), make_pod("web"))
        await house.go()
        house.write(senseless())
        await house.go()
        assert house.notes("web") == []
        hang.released.set()
        await house.go()
        assert house.notes("web") == ["Successfully assigned default/web to a"]


async def test_a_pod_that_stops_making_sense_while_its_bind_fails_is_told() -> None:
    async with running() as house:
        hang = house.cluster.faults["web"] = Hang()
        house.write(make_node("a"), make_pod("web"))
        await house.go()
        house.write(senseless())
        house.cluster.objects["Pod"].clear()
        hang.released.set()
        assert await told(house) == [PROBLEM]
        assert house.cluster.attempts == [("web", "a")]
        assert not house.cache.assumed()
