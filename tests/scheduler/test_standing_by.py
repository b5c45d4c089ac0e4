"""A scheduler whose replica does not lead: it hears everything and decides nothing, and goes on from there later."""

import pytest

from scheduler.harness import Harness, running
from scheduler.memory_cluster import Fault, Hang
from support.builders import make_node, make_pod


async def test_a_standby_decides_nothing_and_hears_everything() -> None:
    async with running() as harness:
        harness.scheduler.stand_by()
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"), make_pod("other", cpu="1"))
        await harness.pass_time(20)
        assert harness.cluster.attempts == []
        harness.cluster.change("Pod", "default/other", lambda body: body["spec"].update(nodeName="a"))
        await harness.go()
        harness.scheduler.take_over()
        await harness.pass_time(5)
        assert harness.cluster.bound == []  # the room is taken
        assert harness.cluster.conditions["pod-default-web"][0] == "Unschedulable"


async def test_a_bind_that_was_not_sent_because_another_leads_is_told_to_nobody() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Fault.FENCED
        harness.write(make_node("a"), make_pod("web"))
        await harness.go()
        assert harness.scheduler.statistics()["binds"]["fenced"] == 1
        assert not harness.cache.assumed()
        assert harness.notes("web") == []
        assert harness.cluster.conditions == {}
        del harness.cluster.faults["web"]
        await harness.pass_time(5)
        assert len(harness.cluster.bound) == 1


async def test_a_bind_that_is_on_its_way_when_the_lead_is_lost_ends_as_it_does() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = hang = Hang()
        harness.write(make_node("a"), make_pod("web"))
        await harness.go()
        harness.scheduler.stand_by()
        assert len(harness.cache.assumed()) == 1
        hang.released.set()
        await harness.go()
        assert len(harness.cluster.bound) == 1
        assert not harness.cache.assumed()


async def test_a_pod_that_was_parked_is_tried_again_by_whoever_takes_over() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"), make_pod("big", cpu="2"))
        await harness.go()
        harness.scheduler.stand_by()
        harness.cluster.conditions.clear()
        await harness.pass_time(3)
        harness.scheduler.take_over()
        await harness.pass_time(3)
        assert harness.cluster.conditions["pod-default-big"][0] == "Unschedulable"


async def test_an_echo_is_missing_when_it_is_late_and_not_before() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_pod("web"))
        await harness.clock.advance(4)
        assert not harness.unconfirmed.has_late_acknowledged(5)
        await harness.clock.advance(2)
        assert harness.unconfirmed.has_late_acknowledged(5)
        await harness.go()
        assert not harness.unconfirmed.has_late_acknowledged(5)


async def test_a_bind_that_nobody_has_acknowledged_has_no_echo_to_be_missing() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Hang()
        harness.write(make_node("a"), make_pod("web"))
        await harness.clock.advance(20)
        assert not harness.unconfirmed.has_late_acknowledged(5)


async def test_nominations_that_were_never_written_are_not_kept_in_mind() -> None:
    async with running() as harness:
        harness.cluster.nominations_fail = True
        harness.write(make_node("n", cpu="1"), make_pod("low", cpu="1", node="n", priority=1))
        harness.write(make_pod("high", cpu="1", priority=9))
        await harness.go()
        assert "n" in harness.cache.state.nominated
        harness.scheduler.stand_by()
        assert not harness.cache.state.nominated


async def test_what_another_replica_nominates_counts_when_the_lead_is_lost() -> None:
    async with running() as harness:
        harness.cluster.nominations_fail = True
        harness.write(make_node("n", cpu="1"), make_node("m", cpu="1"))
        harness.write(make_pod("low", cpu="1", node="n", priority=1), make_pod("full", cpu="1", node="m", priority=99))
        harness.write(make_pod("high", cpu="1", priority=9))
        await harness.go()
        harness.cluster.change("Pod", "default/high", lambda body: body["status"].update(nominatedNodeName="m"))
        harness.tell()
        assert list(harness.cache.state.nominated) == ["n"]
        harness.scheduler.stand_by()
        assert list(harness.cache.state.nominated) == ["m"]


async def test_an_echo_is_missing_although_an_older_bind_was_acknowledged_after_it() -> None:
    async with running() as harness:
        harness.cluster.faults["slow"] = slow = Hang()
        harness.write(make_node("a"), make_pod("slow"))
        await harness.clock.advance(1)
        harness.write(make_pod("web"))
        await harness.clock.advance(4)
        slow.released.set()
        await harness.clock.advance(2)
        assert harness.unconfirmed.has_late_acknowledged(5)


# --- nominations ------------------------------------------------------------------------------------------------------


def stand_by(harness: Harness) -> None:
    """Another replica leads: nothing that is decided here is written from now on."""
    harness.scheduler.stand_by()
    harness.cluster.nominations_fail = True


def take_over(harness: Harness) -> None:
    harness.cluster.nominations_fail = False
    harness.scheduler.take_over()


def nominate(harness: Harness, name: str, node: str) -> None:
    """The leader nominates the pod, and the watch shows it."""
    harness.cluster.change("Pod", f"default/{name}", lambda body: body["status"].update(nominatedNodeName=node))
    harness.tell()


async def test_a_standby_shows_the_nominations_of_the_leader_also_after_the_node_of_one_has_gone() -> None:
    harness = Harness()
    harness.write(
        make_node("n", cpu="1"), make_node("m", cpu="1"), make_pod("high", cpu="1", priority=9, nominated="n")
    )
    harness.cluster.delete("Node", "n")
    harness.tell()
    assert (list(harness.cache.state.nominated), harness.cluster.nominations) == (["n"], [])
    nominate(harness, "high", "m")
    assert list(harness.cache.state.nominated) == ["m"]


async def test_a_pod_whose_nomination_changed_under_another_leader_does_not_preempt_again_after_a_takeover() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    async with running() as harness:
        stand_by(harness)
        harness.write(make_node("n", cpu="1"), make_node("m", cpu="1"), make_node("o", cpu="1"))
        harness.write(make_pod("low", cpu="1", node="m", priority=1), make_pod("other", cpu="1", node="o", priority=1))
        harness.write(make_pod("high", cpu="1", priority=9, nominated="n"))
        harness.cluster.delete("Node", "n")
        harness.tell()
        nominate(harness, "high", "m")
        leaving = {"deletionTimestamp": "2026-01-01T00:00:30Z"}
        harness.cluster.change("Pod", "default/low", lambda body: body["metadata"].update(leaving))
        harness.cluster.change("Pod", "default/low", lambda body: body["status"].update(conditions=[condition]))
        await harness.go()
        take_over(harness)
        await harness.pass_time(3)
        assert harness.cluster.evictions == []
        harness.cluster.finish("low")
        await harness.pass_time(3)
        assert harness.cluster.node_of("high") == "m"


@pytest.mark.parametrize("gates", [(), ("wait",)])
async def test_a_nomination_to_a_node_that_went_under_another_leader_is_taken_out_of_the_api(
    gates: tuple[str, ...],
) -> None:
    async with running() as harness:
        stand_by(harness)
        harness.write(
            make_node("n", cpu="1"), make_node("m", cpu="1"), make_pod("full", cpu="1", node="m", priority=99)
        )
        harness.write(
            make_pod("high", cpu="1", priority=9, nominated="n", schedulingGates=[{"name": g} for g in gates])
        )
        harness.cluster.delete("Node", "n")
        harness.tell()
        take_over(harness)
        await harness.go()
        assert harness.cluster.nominated("high") == ""
        assert not harness.cache.state.nominated


async def test_a_nomination_to_a_node_that_does_not_exist_is_taken_out_of_the_api_at_the_start() -> None:
    harness = Harness()
    harness.write(
        make_node("m", cpu="1"), make_pod("gated", priority=9, nominated="n", schedulingGates=[{"name": "g"}])
    )
    harness.write(make_pod("theirs", scheduler="other", nominated="n"))
    harness.scheduler.open()
    assert (harness.cluster.nominated("gated"), harness.cluster.nominated("theirs")) == ("", "n")
    await harness.scheduler.stop()


async def test_an_eviction_that_fails_after_the_lead_was_lost_withdraws_no_nomination() -> None:
    async with running() as harness:
        harness.cluster.eviction_faults = {"a": (hang := Hang()), "b": "forbidden"}
        harness.write(
            make_node("n", cpu="2"), make_node("m", cpu="2"), make_pod("full", cpu="2", node="m", priority=99)
        )
        harness.write(*(make_pod(name, cpu="1", node="n", priority=1) for name in ("a", "b")))
        harness.write(make_pod("high", cpu="2", priority=9))
        await harness.go()
        stand_by(harness)
        hang.released.set()
        await harness.go()
        nominate(harness, "high", "m")
        assert list(harness.cache.state.nominated) == ["m"]


async def test_a_pod_that_may_not_preempt_gives_up_the_node_that_does_not_fit_it_any_more() -> None:
    spec = {"schedulerName": "berth", "preemption": {"enabled": False}}
    policy = {"kind": "SchedulingPolicy", "metadata": {"name": "p", "uid": "p", "generation": 1}, "spec": spec}
    async with running(built_in=False) as harness:
        harness.write(policy, make_node("n", cpu="1"), make_pod("full", cpu="1", node="n"))
        harness.write(make_pod("web", cpu="1", nominated="n"))
        await harness.go()
        assert harness.cluster.nominated("web") == ""
