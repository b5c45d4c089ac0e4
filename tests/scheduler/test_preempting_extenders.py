"""Preemption where extenders have a say in which pods are preempted."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from berth.engine.preemption.victims import Candidate
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.records import Policy
from berth.scheduler.queue.queue import Part
from scheduler.extender_service import Body, ExtendedHarness, Service, policy_with, running_extended
from scheduler.harness import running
from scheduler.test_attempts import Patient
from scheduler.test_preempting import high, low, nominated, uid
from support.builders import make_node


@pytest.fixture
async def harness(service: Service) -> AsyncIterator[ExtendedHarness]:
    async with running_extended() as harness:
        for node in ("n1", "n2"):
            harness.write(make_node(node, cpu="4"), low(f"{node}-low", node, cpu="2"))
            harness.write(low(f"{node}-mid", node, 5, cpu="2"))
        yield harness


def preempting(service: Service, **fields: Any) -> Body:
    return {"urlPrefix": service.url, "preemptVerb": "preempt", "nodeCacheCapable": True, **fields}


def wanting(**names: list[str]) -> Body:
    return {"NodeNameToMetaVictims": {node: {"Pods": [{"UID": uid(n)} for n in each]} for node, each in names.items()}}


async def test_the_extender_chooses_node_and_victims(harness: ExtendedHarness, service: Service) -> None:
    service.on("preempt", lambda question: wanting(n2=["n2-mid"]))
    harness.write(policy_with(preempting(service)), high(cpu="2"))
    await harness.until(lambda: harness.cluster.evictions)
    await harness.go()
    assert harness.cluster.evictions == ["n2-mid"]
    assert nominated(harness) == {"n2": {"high"}}
    assert len(service.questions("preempt")) == 1


async def test_where_it_leaves_no_node_nobody_is_pushed_out(harness: ExtendedHarness, service: Service) -> None:
    service.on("preempt", lambda question: {"NodeNameToMetaVictims": {}})
    harness.write(policy_with(preempting(service)), high(cpu="2"))
    reason, message = await harness.until_told("high")
    assert reason == "Unschedulable"
    assert message.endswith("2 Insufficient cpu. preemption: no candidate node for preemption")
    assert harness.cluster.evictions == []


async def test_where_it_fails_nobody_is_pushed_out(harness: ExtendedHarness, service: Service) -> None:
    service.on("preempt", lambda question: {"NodeNameToMetaVictims": []})
    harness.write(policy_with(preempting(service)), high(cpu="2"))
    _, message = await harness.until_told("high")
    problem = "the answer cannot be used: NodeNameToMetaVictims is not an object"
    assert f"2 Insufficient cpu. preemption: {problem}" in message
    assert harness.cluster.evictions == []


@pytest.mark.parametrize("rank", [5, 4])
async def test_it_cannot_have_pods_pushed_out_that_are_not_of_lower_priority(
    harness: ExtendedHarness, service: Service, rank: int
) -> None:
    service.on("preempt", lambda question: wanting(n2=["n2-low", "n2-mid"]))
    harness.write(policy_with(preempting(service)), high(cpu="2", priority=rank))
    _, message = await harness.until_told("high")
    assert message.endswith("no candidate node for preemption")
    assert harness.cluster.evictions == []


async def test_victims_that_make_too_little_room_are_spared(harness: ExtendedHarness, service: Service) -> None:
    service.on("preempt", lambda question: wanting(n2=["n2-low"]))
    harness.write(policy_with(preempting(service)), high(cpu="4"))
    _, message = await harness.until_told("high")
    assert message.endswith("no candidate node for preemption")
    assert harness.cluster.evictions == []


async def test_other_pods_go_on_while_it_thinks_and_its_answer_is_about_what_is_there_then(
    harness: ExtendedHarness, service: Service
) -> None:
    over = asyncio.Event()

    async def think(question: Body) -> Body:
        await over.wait()
        return wanting(n1=["n1-low"])

    service.on("preempt", think)
    harness.write(policy_with(preempting(service)), high(cpu="2"))
    await harness.until(lambda: service.questions("preempt"))
    assert harness.queue.part_of(uid("high")) is Part.IN_FLIGHT
    harness.write(make_node("n3", cpu="1"), high("small", cpu="1", priority=0))
    await harness.until(lambda: harness.cluster.node_of("small"))
    harness.cluster.finish("n1-low")
    harness.tell()
    over.set()
    await harness.until(lambda: harness.cluster.node_of("high"))
    assert harness.cluster.node_of("high") == "n1"
    assert harness.cluster.evictions == []


async def test_a_victim_that_need_not_go_any_more_when_the_answer_is_here_is_spared(
    harness: ExtendedHarness, service: Service
) -> None:
    over = asyncio.Event()

    async def think(question: Body) -> Body:
        await over.wait()
        victims = question["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {"n1": victims["n1"]}} if "n1" in victims else {"NodeNameToMetaVictims": {}}

    service.on("preempt", think)
    harness.write(policy_with(preempting(service)), high(cpu="4"))
    await harness.until(lambda: service.questions("preempt"))
    harness.write(make_node("n1", cpu="6"))  # two of the four are there now without anybody leaving
    over.set()
    await harness.until(lambda: harness.cluster.evictions)
    await harness.go()
    assert harness.cluster.evictions == ["n1-low"]
    assert len(service.questions("preempt")) == 2


async def test_what_an_extender_adds_to_the_victims_goes_although_the_plugins_need_it_not(
    harness: ExtendedHarness, service: Service
) -> None:
    service.on("preempt", lambda question: wanting(n1=["n1-low", "n1-mid"]))
    harness.write(policy_with(preempting(service)), high(cpu="2"))
    await harness.until(lambda: len(harness.cluster.evictions) == 2)
    assert sorted(harness.cluster.evictions) == ["n1-low", "n1-mid"]
    assert len(service.questions("preempt")) == 1


async def test_an_answer_that_nobody_needs_any_more_is_not_waited_for(
    harness: ExtendedHarness, service: Service
) -> None:
    async def think(question: Body) -> Body:
        await asyncio.Event().wait()
        return {}

    service.on("preempt", think)
    harness.write(policy_with(preempting(service)), high(cpu="2"))
    await harness.until(lambda: service.questions("preempt"))
    harness.cluster.delete("Pod", "default/high")
    harness.tell()
    assert harness.queue.part_of(uid("high")) is None
    await harness.go()
    assert harness.errors.counts == {}


class SlowToLeave(Patient):
    """Extenders that think for ever, and take a while to notice that nobody listens any more."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.left = 0

    def narrows(self, policy: Policy, pod: Pod) -> bool:
        return True

    async def narrow(self, active: ActivePolicy, pod: Pod, candidates: Sequence[Candidate]) -> list[Candidate]:
        self.asked += 1
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(50):
                await asyncio.sleep(0)
            self.left += 1
        return []


async def test_the_end_of_one_question_is_not_taken_for_that_of_the_next() -> None:
    slow = SlowToLeave()
    async with running(extenders=slow) as harness:
        harness.write(make_node("n", cpu="4"), low(), high())
        await harness.go()
        harness.write(high(tolerations=[{"operator": "Exists"}]))
        await harness.go()
        assert (slow.asked, slow.left) == (2, 1)
        harness.cluster.delete("Pod", "default/high")
        await harness.go()
        assert slow.left == 2
