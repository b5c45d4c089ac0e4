"""A pod that has its node and is not bound at once says in the API which node it is to get, as with kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.scheduler.queue.queue import Part
from engine.storage import make_claim, pod_with
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Fault, Hang, Refusal
from scheduler.staged_plugins import Script, installed
from scheduler.test_stages import acting
from scheduler.test_stages_waiting import plugin, wait_for
from scheduler.test_volumes import HERE, MADE, SELECTED, THERE, provision
from support.builders import make_node, make_pod

UID = "pod-default-web"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with installed(tmp_path, monkeypatch) as found:
        yield found


def wait_for_volume(harness: Harness) -> None:
    harness.write(HERE, MADE, make_claim("data"), pod_with("data", name="web"))


def drop_selection(harness: Harness) -> None:
    """What a provisioner does that cannot make the volume there."""
    edit = "PersistentVolumeClaim", "default/data"
    harness.cluster.change(*edit, lambda body: body["metadata"]["annotations"].pop(SELECTED))


# --- who is nominated -------------------------------------------------------------------------------------------------


async def test_a_pod_that_waits_for_a_permit_is_nominated_to_its_node_until_it_is_bound(script: Script) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        assert harness.cluster.nominations == [("web", "a")]
        assert harness.cluster.nominated("web") == "a"
        assert not harness.cache.state.nominated  # it is assumed there, and counts once
        assert UID in harness.cache.assumed()
        plugin(script, "one").waiting.allow(UID)
        await harness.go()
        assert (harness.cluster.node_of("web"), harness.cluster.nominated("web")) == ("a", "")
        assert len(harness.cluster.nominations) == 1


async def test_a_pod_whose_volume_is_made_first_is_nominated_to_its_node() -> None:
    async with running() as harness:
        wait_for_volume(harness)
        await harness.go()
        assert harness.cluster.nominations == [("web", "here")]
        provision(harness, "data", "z1")
        await harness.go()
        assert (harness.cluster.node_of("web"), harness.cluster.nominated("web")) == ("here", "")


async def test_a_pod_for_which_plugins_prepare_something_is_nominated_to_its_node(script: Script) -> None:
    async with running() as harness:
        harness.write(acting("one"), make_node("a"), make_pod("web"))
        await harness.go()
        assert harness.cluster.nominations == [("web", "a")]
        assert harness.cluster.node_of("web") == "a"


async def test_a_pod_that_is_bound_at_once_or_waits_for_other_binds_only_costs_no_request() -> None:
    async with running(bind_limit=1) as harness:
        harness.cluster.faults["first"] = hang = Hang()
        harness.write(make_node("a"), make_pod("first"), make_pod("web"))
        await harness.go()
        hang.released.set()
        await harness.go()
        assert harness.cluster.node_of("web") == "a"
        assert harness.cluster.nominations == []


async def test_a_pod_that_is_nominated_to_its_node_already_is_not_written_again() -> None:
    async with running() as harness:
        harness.write(HERE, MADE, make_claim("data"), pod_with("data", name="web", nominated="here"))
        await harness.go()
        assert UID in harness.cache.assumed()
        assert harness.cluster.nominations == []


async def test_nobody_is_nominated_who_has_his_node_where_it_is_switched_off() -> None:
    async with running(expectation=False) as harness:
        wait_for_volume(harness)
        await harness.go()
        assert UID in harness.cache.assumed()
        assert harness.cluster.nominations == []


# --- a pod that does not get its node ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_pod_that_is_rejected_while_it_waits_is_nominated_no_more_and_waits_for_news(
    script: Script, is_shown: bool
) -> None:
    async with running() as harness:
        await wait_for(harness, script, "one")
        if not is_shown:  # our write is not shown yet when the pod is rejected
            harness = await anew(harness, script)
        plugin(script, "one").waiting.reject(UID, "not today")
        await harness.pass_time(30)
        assert harness.cluster.nominated("web") == ""
        assert not harness.cache.state.nominated
        assert harness.queue.part_of(UID) is Part.UNSCHEDULABLE
        assert script.of("web").count("one permit") == (1 if is_shown else 2)


async def anew(harness: Harness, script: Script) -> Harness:
    """The pod waits once more, and the watch has nothing said of it since."""
    harness.cluster.finish("web")
    await harness.go()
    harness.cluster.write("Pod", make_pod("web", cpu=1))
    harness.tell()
    await harness.clock.advance(0)
    assert harness.cluster.nominated("web") == "a"
    assert harness.cluster.feed
    return harness


async def test_a_pod_whose_volume_cannot_be_made_is_nominated_no_more() -> None:
    async with running() as harness:
        wait_for_volume(harness)
        await harness.go()
        drop_selection(harness)
        harness.tell()
        await harness.clock.advance(0)
        assert harness.cluster.nominations[:2] == [("web", "here"), ("web", "")]


@pytest.mark.parametrize("fault", [Refusal(403, "no"), Fault.CUT_BEFORE])
async def test_a_pod_whose_bind_fails_is_nominated_no_more(fault: Fault | Refusal) -> None:
    async with running() as harness:
        wait_for_volume(harness)
        await harness.go()
        harness.cluster.faults["web"] = fault
        provision(harness, "data", "z1")
        await harness.go()
        assert harness.cluster.nominations == [("web", "here"), ("web", "")]
        assert not harness.cache.state.nominated


async def test_a_preemptor_whose_bind_fails_is_nominated_no_more() -> None:
    async with running() as harness:
        harness.cluster.faults["high"] = Refusal(403, "no")
        harness.write(make_node("n", cpu="1"), make_pod("low", cpu="1", node="n", priority=1))
        harness.write(make_pod("high", cpu="1", priority=9))
        await harness.go()
        harness.cluster.finish("low")
        await harness.pass_time(1)
        assert harness.cluster.nominations == [("high", "n"), ("high", "")]


# --- another replica --------------------------------------------------------------------------------------------------


async def test_the_next_leader_goes_on_with_the_node_that_is_expected() -> None:
    async with running() as harness:
        harness.write(HERE, THERE, MADE, make_claim("data"), pod_with("data", name="web", cpu="1"))
        await harness.go()
        node = harness.cluster.nominated("web")
        harness.scheduler.stand_by()
        assert list(harness.cache.state.nominated) == [node]
        harness.write(make_pod("full", cpu="2", node=node))  # the other one is the better by now
        harness.scheduler.take_over()
        await harness.pass_time(2)
        assert harness.cache.assumed()[UID].node_name == node
        assert harness.cluster.nominations == [("web", node)]
