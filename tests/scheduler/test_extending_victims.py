"""Extenders that have a say in which pods are preempted."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from berth.engine.preemption.victims import Candidate, Nomination, cost_of
from berth.model import Pod, parse_pod
from berth.scheduler.ports import NotNarrowed
from scheduler.extender_service import Body, ExtendedHarness, Service, policy_with, running_extended, serving
from support.builders import make_node, make_pod

RECORDED = json.loads((Path(__file__).parents[1] / "cluster" / "extender_requests.json").read_text())


@pytest.fixture
async def harness() -> AsyncIterator[ExtendedHarness]:
    async with running_extended() as harness:
        harness.write(*(make_node(name, cpu="4") for name in ("n1", "n2")))
        for node in ("n1", "n2"):
            harness.write(make_pod(f"{node}-low", node=node, cpu="2", priority=1, uid=f"{node}-low"))
            harness.write(make_pod(f"{node}-mid", node=node, cpu="2", priority=5, uid=f"{node}-mid"))
        yield harness


def preempting(service: Service, **fields: Any) -> Body:
    return {"urlPrefix": service.url, "preemptVerb": "preempt", "nodeCacheCapable": True, **fields}


def candidate(harness: ExtendedHarness, node: str, *uids: str, violations: int = 0) -> Candidate:
    pods = [harness.cache.state.table.pods_on(node)[uid] for uid in uids]
    return Candidate(cost_of(pods, violations), partial(Nomination, node, tuple(pods), violations))


def both(harness: ExtendedHarness) -> list[Candidate]:
    return [candidate(harness, "n1", "n1-low", violations=1), candidate(harness, "n2", "n2-low")]


async def narrowed(
    harness: ExtendedHarness, candidates: list[Candidate], pod: Pod | None = None
) -> dict[str, tuple[Any, ...]]:
    """By node: the victims' UIDs, and the violations; the preemptor is known to the cluster."""
    if pod is None:
        body = make_pod("high", priority=9, cpu="2", scheduler="nobody")
        harness.write(body)
        pod = parse_pod(body)
    active = next(active for active in harness.policies.in_force() if active.policy.name == "extended")
    left = await harness.extending.narrow(active, pod, candidates)
    assert all(each.cost == cost_of(each.nominate().victims, each.violations) for each in left)
    return {
        each.node: (*(victim.uid for victim in each.victims), each.violations)
        for each in (candidate.nominate() for candidate in left)
    }


def victims(**by_node: list[str]) -> Body:
    return {"NodeNameToMetaVictims": {node: {"Pods": [{"UID": uid} for uid in uids]} for node, uids in by_node.items()}}


async def test_an_extender_leaves_some_of_the_candidates(harness: ExtendedHarness, service: Service) -> None:
    service.on("preempt", lambda question: {"NodeNameToMetaVictims": {"n1": question["NodeNameToMetaVictims"]["n1"]}})
    harness.write(policy_with(preempting(service)))
    assert await narrowed(harness, both(harness)) == {"n1": ("n1-low", 1)}


async def test_an_extender_may_want_other_victims(harness: ExtendedHarness, service: Service) -> None:
    service.on("preempt", lambda question: victims(n2=["n2-low", "n2-mid"]))
    harness.write(policy_with(preempting(service)))
    assert await narrowed(harness, both(harness)) == {"n2": ("n2-mid", "n2-low", 0)}


@pytest.mark.parametrize("form", ["names", "objects"])
async def test_the_question_has_the_shape_of_kube_schedulers(
    harness: ExtendedHarness, service: Service, form: str
) -> None:
    service.on("preempt", lambda question: victims())
    harness.write(policy_with(preempting(service, nodeCacheCapable=form == "names")))
    assert await narrowed(harness, both(harness)) == {}
    (question,) = service.questions("preempt")
    expected = RECORDED[f"{form}/preempt"]["body"]
    assert question.keys() == expected.keys()
    filled, empty = ("NodeNameToMetaVictims", "NodeNameToVictims")[:: 1 if form == "names" else -1]
    assert question[empty] is expected[empty] is None
    assert question[filled].keys() == expected[filled].keys() == {"n1", "n2"}
    assert question[filled]["n1"].keys() == expected[filled]["n1"].keys()
    assert question[filled]["n1"]["NumPDBViolations"] == 1
    (victim,) = question[filled]["n1"]["Pods"]
    assert victim.keys() >= expected[filled]["n1"]["Pods"][0].keys() - {"status"}


async def test_each_extender_gets_what_the_one_before_has_left(harness: ExtendedHarness, service: Service) -> None:
    async with serving() as second:
        service.on("preempt", lambda question: victims(n2=["n2-mid"]))
        second.on("preempt", lambda question: {"NodeNameToMetaVictims": question["NodeNameToMetaVictims"]})
        harness.write(policy_with(preempting(service), preempting(second)))
        assert await narrowed(harness, both(harness)) == {"n2": ("n2-mid", 0)}
        (question,) = second.questions("preempt")
        assert question["NodeNameToMetaVictims"] == {"n2": {"Pods": [{"UID": "n2-mid"}], "NumPDBViolations": 0}}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (victims(n1=[]), 'expected at least one victim pod on node "n1"'),
        (victims(n1=["n2-low-2"]), r"claims to preempt pod \(UID: n2-low-2\) on node: n1, but the pod is not found"),
        (victims(n3=["n1-low"]), 'claims to preempt on node "n3", which is unknown'),
        ({"NodeNameToMetaVictims": []}, "NodeNameToMetaVictims is not an object"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_an_error_or_ignored(
    harness: ExtendedHarness, service: Service, answer: Body, problem: str
) -> None:
    service.on("preempt", lambda question: answer)
    harness.write(policy_with(preempting(service)))
    with pytest.raises(NotNarrowed, match=problem):
        await narrowed(harness, both(harness))
    assert list(harness.failures("extended")) == [f"extender {service.url}"]


async def test_an_extender_that_may_be_ignored_is_when_it_fails(harness: ExtendedHarness, service: Service) -> None:
    service.on("preempt", lambda question: web.Response(status=500))
    harness.write(policy_with(preempting(service, ignorable=True)))
    assert await narrowed(harness, both(harness)) == {"n1": ("n1-low", 1), "n2": ("n2-low", 0)}


async def test_a_node_without_victims_is_left_out_by_one_that_may_be_ignored(
    harness: ExtendedHarness, service: Service
) -> None:
    service.on("preempt", lambda question: victims(n1=[], n2=["n2-low"]))
    harness.write(policy_with(preempting(service, ignorable=True)))
    assert await narrowed(harness, both(harness)) == {"n2": ("n2-low", 0)}


async def test_who_has_no_say_is_not_asked(harness: ExtendedHarness, service: Service) -> None:
    resources = [{"name": "example.com/fpga"}]
    harness.write(policy_with(preempting(service, managedResources=resources)))
    assert await narrowed(harness, both(harness)) == {"n1": ("n1-low", 1), "n2": ("n2-low", 0)}
    assert await narrowed(harness, []) == {}
    assert service.asked == []


async def test_what_happens_meanwhile_is_seen(harness: ExtendedHarness, service: Service) -> None:
    over = asyncio.Event()

    async def agree(question: Body) -> Body:
        await over.wait()
        return {"NodeNameToMetaVictims": question["NodeNameToMetaVictims"]}

    service.on("preempt", agree)
    harness.write(policy_with(preempting(service)))
    candidates = [candidate(harness, "n1", "n1-mid", "n1-low"), candidate(harness, "n2", "n2-low")]
    work = asyncio.ensure_future(narrowed(harness, candidates))
    await harness.until(lambda: service.asked)
    harness.cluster.delete("Pod", "default/n1-mid")
    harness.cluster.delete("Node", "n2")
    harness.write(make_node("n2", cpu="4", uid="again"))
    over.set()
    await harness.until(work.done)
    assert work.result() == {"n1": ("n1-low", 0)}
