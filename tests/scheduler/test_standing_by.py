"""A scheduler whose replica does not lead: it hears everything and decides nothing, and goes on from there later."""

from scheduler.house import running
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
