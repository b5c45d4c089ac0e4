"""A scheduler whose replica does not lead: it hears everything and decides nothing, and goes on from there later."""

import pytest

from scheduler.house import House, running
from scheduler.memory_cluster import Fault, Hang
from support.builders import make_node, make_pod


async def test_a_standby_decides_nothing_and_hears_everything() -> None:
    async with running() as house:
        house.scheduler.stand_by()
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"), make_pod("other", cpu="1"))
        await house.pass_time(20)
        assert house.cluster.attempts == []
        house.cluster.change("Pod", "default/other", lambda body: body["spec"].update(nodeName="a"))
        await house.go()
        house.scheduler.take_over()
        await house.pass_time(5)
        assert house.cluster.bound == []  # the room is taken
        assert house.cluster.conditions["pod-default-web"][0] == "Unschedulable"


async def test_a_bind_that_was_not_sent_because_another_leads_is_told_to_nobody() -> None:
    async with running() as house:
        house.cluster.faults["web"] = Fault.FENCED
        house.write(make_node("a"), make_pod("web"))
        await house.go()
        assert house.scheduler.statistics()["binds"]["fenced"] == 1
        assert not house.cache.assumed()
        assert house.notes("web") == []
        assert house.cluster.conditions == {}
        del house.cluster.faults["web"]
        await house.pass_time(5)
        assert len(house.cluster.bound) == 1


async def test_a_bind_that_is_on_its_way_when_the_lead_is_lost_ends_as_it_does() -> None:
    async with running() as house:
        house.cluster.faults["web"] = hang = Hang()
        house.write(make_node("a"), make_pod("web"))
        await house.go()
        house.scheduler.stand_by()
        assert len(house.cache.assumed()) == 1
        hang.released.set()
        await house.go()
        assert len(house.cluster.bound) == 1
        assert not house.cache.assumed()


async def test_a_pod_that_was_parked_is_tried_again_by_whoever_takes_over() -> None:
    async with running() as house:
        house.write(make_node("a", cpu="1"), make_pod("big", cpu="2"))
        await house.go()
        house.scheduler.stand_by()
        house.cluster.conditions.clear()
        await house.pass_time(3)
        house.scheduler.take_over()
        await house.pass_time(3)
        assert house.cluster.conditions["pod-default-big"][0] == "Unschedulable"


async def test_an_echo_is_missing_when_it_is_late_and_not_before() -> None:
    async with running() as house:
        house.write(make_node("a"), make_pod("web"))
        await house.clock.advance(4)
        assert not house.scheduler.echo_is_missing(5)
        await house.clock.advance(2)
        assert house.scheduler.echo_is_missing(5)
        await house.go()
        assert not house.scheduler.echo_is_missing(5)


async def test_a_bind_that_nobody_has_acknowledged_has_no_echo_to_be_missing() -> None:
    async with running() as house:
        house.cluster.faults["web"] = Hang()
        house.write(make_node("a"), make_pod("web"))
        await house.clock.advance(20)
        assert not house.scheduler.echo_is_missing(5)


async def test_nominations_that_were_never_written_are_not_kept_in_mind() -> None:
    async with running() as house:
        house.cluster.nominations_fail = True
        house.write(make_node("n", cpu="1"), make_pod("low", cpu="1", node="n", priority=1))
        house.write(make_pod("high", cpu="1", priority=9))
        await house.go()
        assert "n" in house.cache.state.nominated
        house.scheduler.stand_by()
        assert not house.cache.state.nominated


async def test_what_another_replica_nominates_counts_when_the_lead_is_lost() -> None:
    async with running() as house:
        house.cluster.nominations_fail = True
        house.write(make_node("n", cpu="1"), make_node("m", cpu="1"))
        house.write(make_pod("low", cpu="1", node="n", priority=1), make_pod("full", cpu="1", node="m", priority=99))
        house.write(make_pod("high", cpu="1", priority=9))
        await house.go()
        house.cluster.change("Pod", "default/high", lambda body: body["status"].update(nominatedNodeName="m"))
        house.tell()
        assert list(house.cache.state.nominated) == ["n"]
        house.scheduler.stand_by()
        assert list(house.cache.state.nominated) == ["m"]


async def test_an_echo_is_missing_although_an_older_bind_was_acknowledged_after_it() -> None:
    async with running() as house:
        house.cluster.faults["slow"] = slow = Hang()
        house.write(make_node("a"), make_pod("slow"))
        await house.clock.advance(1)
        house.write(make_pod("web"))
        await house.clock.advance(4)
        slow.released.set()
        await house.clock.advance(2)
        assert house.scheduler.echo_is_missing(5)


# --- nominations ------------------------------------------------------------------------------------------------------


def stand_by(house: House) -> None:
    """Another replica leads: nothing that is decided here is written from now on."""
    house.scheduler.stand_by()
    house.cluster.nominations_fail = True


def take_over(house: House) -> None:
    house.cluster.nominations_fail = False
    house.scheduler.take_over()


def nominate(house: House, name: str, node: str) -> None:
    """The leader nominates the pod, and the watch shows it."""
    house.cluster.change("Pod", f"default/{name}", lambda body: body["status"].update(nominatedNodeName=node))
    house.tell()


async def test_a_standby_shows_the_nominations_of_the_leader_also_after_the_node_of_one_has_gone() -> None:
    house = House()
    house.write(make_node("n", cpu="1"), make_node("m", cpu="1"), make_pod("high", cpu="1", priority=9, nominated="n"))
    house.cluster.delete("Node", "n")
    house.tell()
    assert (list(house.cache.state.nominated), house.cluster.nominations) == (["n"], [])
    nominate(house, "high", "m")
    assert list(house.cache.state.nominated) == ["m"]


async def test_a_pod_whose_nomination_changed_under_another_leader_does_not_preempt_again_after_a_takeover() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    async with running() as house:
        stand_by(house)
        house.write(make_node("n", cpu="1"), make_node("m", cpu="1"), make_node("o", cpu="1"))
        house.write(make_pod("low", cpu="1", node="m", priority=1), make_pod("other", cpu="1", node="o", priority=1))
        house.write(make_pod("high", cpu="1", priority=9, nominated="n"))
        house.cluster.delete("Node", "n")
        house.tell()
        nominate(house, "high", "m")
        leaving = {"deletionTimestamp": "2026-01-01T00:00:30Z"}
        house.cluster.change("Pod", "default/low", lambda body: body["metadata"].update(leaving))
        house.cluster.change("Pod", "default/low", lambda body: body["status"].update(conditions=[condition]))
        await house.go()
        take_over(house)
        await house.pass_time(3)
        assert house.cluster.evictions == []
        house.cluster.finish("low")
        await house.pass_time(3)
        assert house.cluster.node_of("high") == "m"


@pytest.mark.parametrize("gates", [(), ("wait",)])
async def test_a_nomination_to_a_node_that_went_under_another_leader_is_taken_out_of_the_api(
    gates: tuple[str, ...],
) -> None:
    async with running() as house:
        stand_by(house)
        house.write(make_node("n", cpu="1"), make_node("m", cpu="1"), make_pod("full", cpu="1", node="m", priority=99))
        house.write(make_pod("high", cpu="1", priority=9, nominated="n", schedulingGates=[{"name": g} for g in gates]))
        house.cluster.delete("Node", "n")
        house.tell()
        take_over(house)
        await house.go()
        assert house.cluster.nominated("high") == ""
        assert not house.cache.state.nominated


async def test_a_nomination_to_a_node_that_does_not_exist_is_taken_out_of_the_api_at_the_start() -> None:
    house = House()
    house.write(make_node("m", cpu="1"), make_pod("gated", priority=9, nominated="n", schedulingGates=[{"name": "g"}]))
    house.write(make_pod("theirs", scheduler="other", nominated="n"))
    house.scheduler.open()
    assert (house.cluster.nominated("gated"), house.cluster.nominated("theirs")) == ("", "n")
    await house.scheduler.stop()


async def test_an_eviction_that_fails_after_the_lead_was_lost_withdraws_no_nomination() -> None:
    async with running() as house:
        house.cluster.eviction_faults = {"a": (hang := Hang()), "b": "forbidden"}
        house.write(make_node("n", cpu="2"), make_node("m", cpu="2"), make_pod("full", cpu="2", node="m", priority=99))
        house.write(*(make_pod(name, cpu="1", node="n", priority=1) for name in ("a", "b")))
        house.write(make_pod("high", cpu="2", priority=9))
        await house.go()
        stand_by(house)
        hang.released.set()
        await house.go()
        nominate(house, "high", "m")
        assert list(house.cache.state.nominated) == ["m"]


async def test_a_pod_that_may_not_preempt_gives_up_the_node_that_does_not_fit_it_any_more() -> None:
    spec = {"schedulerName": "berth", "preemption": {"enabled": False}}
    policy = {"kind": "SchedulingPolicy", "metadata": {"name": "p", "uid": "p", "generation": 1}, "spec": spec}
    async with running(built_in=False) as house:
        house.write(policy, make_node("n", cpu="1"), make_pod("full", cpu="1", node="n"))
        house.write(make_pod("web", cpu="1", nominated="n"))
        await house.go()
        assert house.cluster.nominated("web") == ""
