"""Pods whose policy has extenders: who is asked what, and what comes of the answers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from berth.engine.extender_result import ExtenderResult, Refusal, verdicts_of
from berth.engine.verdict import Code
from scheduler.extender_service import (
    Body,
    ExtendedHarness,
    Service,
    extender_at,
    let_through,
    names_in,
    policy_with,
    running_extended,
    serving,
)
from support.builders import make_node, make_pod

RECORDED = json.loads((Path(__file__).parents[1] / "cluster" / "extender_requests.json").read_text())


def only(*names: str) -> Any:
    return lambda question: let_through(question, *(name for name in names if name in names_in(question)))


def scores(**points: int) -> Any:
    return lambda question: [{"Host": name, "Score": score} for name, score in points.items()]


# --- filter


async def test_a_pod_goes_where_an_extender_lets_it(harness: ExtendedHarness, service: Service) -> None:
    service.on("filter", only("b"))
    harness.write(make_node("a"), make_node("b"), make_node("c"), policy_with(extender_at(service)), make_pod("web"))
    assert await harness.until_bound("web") == "b"
    (question,) = service.questions("filter")
    assert question["NodeNames"] == ["a", "b", "c"]
    assert question["Nodes"] is None
    assert question["Pod"]["metadata"]["name"] == "web"


async def test_an_extender_that_keeps_no_nodes_gets_them_in_full(harness: ExtendedHarness, service: Service) -> None:
    service.on("filter", only("b"))
    extender = extender_at(service, nodeCacheCapable=False)
    harness.write(make_node("a"), make_node("b", labels={"disk": "fast"}), policy_with(extender), make_pod("web"))
    assert await harness.until_bound("web") == "b"
    (question,) = service.questions("filter")
    assert question["NodeNames"] is None
    assert question["Nodes"]["items"][1]["metadata"]["labels"] == {"disk": "fast"}


async def test_only_nodes_that_fit_are_asked_about(harness: ExtendedHarness, service: Service) -> None:
    harness.write(make_node("small", cpu="1"), make_node("large", cpu="8"), policy_with(extender_at(service)))
    harness.write(make_pod("web", cpu="4"))
    assert await harness.until_bound("web") == "large"
    assert [names_in(question) for question in service.questions("filter")] == [["large"]]


async def test_nobody_is_asked_where_no_node_fits(harness: ExtendedHarness, service: Service) -> None:
    harness.write(make_node("small", cpu="1"), policy_with(extender_at(service)), make_pod("web", cpu="4"))
    message = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not"
    assert await harness.until_told("web") == ("Unschedulable", f"{message} helpful for scheduling.")
    assert service.asked == []


async def test_the_reasons_of_extenders_are_counted_as_those_of_plugins(
    harness: ExtendedHarness, service: Service
) -> None:
    service.on(
        "filter",
        lambda question: {
            "NodeNames": [],
            "FailedNodes": {"a": "no licence", "b": "no licence", "c": "is overruled"},
            "FailedAndUnresolvableNodes": {"c": "wrong building"},
        },
    )
    nodes = [make_node("a"), make_node("b"), make_node("c"), make_node("full", cpu="0")]
    harness.write(*nodes, policy_with(extender_at(service)), make_pod("web", cpu="1"))
    assert await harness.until_told("web") == (
        "Unschedulable",
        "0/4 nodes are available: 1 Insufficient cpu, 1 wrong building, 2 no licence. "
        "preemption: 0/4 nodes are available: 2 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling.",
    )


async def test_a_pod_that_extenders_refuse_is_woken_by_any_event(harness: ExtendedHarness, service: Service) -> None:
    service.on("filter", lambda question: {"NodeNames": [], "FailedNodes": {"a": "not today"}})
    harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    await harness.until_told("web")
    service.on("filter", only("a"))
    harness.write(make_node("a", labels={"any": "change"}))
    await harness.clock.advance(2)
    assert await harness.until_bound("web") == "a"


async def test_a_node_that_is_let_through_fits_whatever_is_said_of_it(
    harness: ExtendedHarness, service: Service
) -> None:
    service.on("filter", lambda question: {"NodeNames": ["a"], "FailedNodes": {"a": "both"}})
    harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    assert await harness.until_bound("web") == "a"


async def test_field_names_are_read_in_any_case(harness: ExtendedHarness, service: Service) -> None:
    service.on("filter", lambda question: {"nodenames": ["a"], "failednodes": {"b": "no"}})
    harness.write(make_node("a"), make_node("b"), policy_with(extender_at(service)), make_pod("web"))
    assert await harness.until_bound("web") == "a"


async def test_extenders_are_asked_in_a_row_about_what_is_left(harness: ExtendedHarness, service: Service) -> None:
    async with serving() as second:
        service.on("filter", only("a", "b"))
        second.on("filter", only("b", "c"))
        harness.write(*map(make_node, "abc"), policy_with(extender_at(service), extender_at(second)), make_pod("web"))
        assert await harness.until_bound("web") == "b"
        assert [names_in(question) for question in second.questions("filter")] == [["a", "b"]]


async def test_one_that_may_be_ignored_is_asked_last(harness: ExtendedHarness, service: Service) -> None:
    async with serving() as second:
        second.on("filter", only("b"))
        extenders = extender_at(service, ignorable=True), extender_at(second)
        harness.write(*map(make_node, "abc"), policy_with(*extenders), make_pod("web"))
        await harness.until_bound("web")
        assert [names_in(question) for question in service.questions("filter")] == [["b"]]


async def test_the_reasons_of_all_extenders_are_counted(harness: ExtendedHarness, service: Service) -> None:
    async with serving() as second:
        service.on("filter", lambda question: {"NodeNames": ["b"], "FailedNodes": {"a": "no licence"}})
        second.on("filter", lambda question: {"NodeNames": [], "FailedNodes": {"a": "not asked", "b": "too old"}})
        harness.write(*map(make_node, "ab"), policy_with(extender_at(service), extender_at(second)), make_pod("web"))
        message = "0/2 nodes are available: 1 no licence, 1 too old. preemption: 0/2 nodes are available: 2 No"
        message += " preemption victims found for incoming pod."
        assert await harness.until_told("web") == ("Unschedulable", message)


async def test_nobody_is_asked_about_no_nodes(harness: ExtendedHarness, service: Service) -> None:
    async with serving() as second:
        service.on("filter", only())
        harness.write(make_node("a"), policy_with(extender_at(service), extender_at(second)), make_pod("web"))
        await harness.until_told("web")
        assert second.asked == []


async def test_removing_pods_helps_where_an_extender_says_so_and_nowhere_else(
    harness: ExtendedHarness, service: Service
) -> None:
    """What it says nothing of is refused for good, as in kube-scheduler."""
    harness.write(*map(make_node, "abc"))
    table = harness.cache.state.table
    refused = {"a": Refusal(Code.UNSCHEDULABLE, "busy"), "b": Refusal(Code.UNRESOLVABLE, "wrong building")}
    said = verdicts_of(ExtenderResult(frozenset(), refused), table, table.rows, np.ones(3, dtype=np.bool_))
    assert [Code(code) for code in said.codes] == [Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.UNRESOLVABLE]


# --- prioritize


async def test_points_decide_with_their_weight(harness: ExtendedHarness, service: Service) -> None:
    async with serving() as second:
        service.on("prioritize", scores(a=10, nobody=10))
        second.on("prioritize", scores(b=4))
        light = extender_at(service, prioritizeVerb="prioritize")
        heavy = extender_at(second, prioritizeVerb="prioritize", weight=3)
        harness.write(*map(make_node, "abc"), policy_with(light, heavy), make_pod("web"))
        assert await harness.until_bound("web") == "b"


async def test_the_points_of_several_extenders_add_up(harness: ExtendedHarness, service: Service) -> None:
    async with serving() as second:
        service.on("prioritize", scores(a=10, b=8))
        second.on("prioritize", scores(b=8, c=10))
        extenders = [extender_at(each, prioritizeVerb="prioritize", weight=50) for each in (service, second)]
        harness.write(*map(make_node, "abc"), policy_with(*extenders), make_pod("web"))
        assert await harness.until_bound("web") == "b"


async def test_a_tenth_of_a_point_counts_as_one_of_a_plugin(harness: ExtendedHarness, service: Service) -> None:
    """A full score of an extender of weight 1 is worth what a full score of a plugin of weight 1 is."""
    service.on("prioritize", scores(small=10))
    extender = extender_at(service, prioritizeVerb="prioritize", weight=1)
    priorities = [{"name": "NodeResourcesFit", "weight": 1}]
    harness.write(make_node("small", cpu="2", memory="4Gi"), make_node("large", cpu="100", memory="400Gi"))
    harness.write(policy_with(extender, base="Empty", priorities=priorities), make_pod("web", cpu="1", memory="2Gi"))
    assert await harness.until_bound("web") == "small"  # 50 + 100 against 99


async def test_a_single_node_is_not_prioritised(harness: ExtendedHarness, service: Service) -> None:
    service.on("filter", only("a"))
    extender = extender_at(service, prioritizeVerb="prioritize")
    harness.write(*map(make_node, "ab"), policy_with(extender), make_pod("web"))
    assert await harness.until_bound("web") == "a"
    assert service.questions("prioritize") == []


@pytest.mark.parametrize("answer", [{"a": 1}, [{"Host": "a", "Score": 1.5}], [{"Host": "a", "Score": 2**62}], "text"])
async def test_an_extender_that_fails_to_prioritise_gives_no_points(
    harness: ExtendedHarness, service: Service, answer: Any
) -> None:
    service.on("prioritize", lambda question: answer)
    harness.write(
        *map(make_node, "ab"), policy_with(extender_at(service, prioritizeVerb="prioritize")), make_pod("web")
    )
    await harness.until_bound("web")
    assert list(harness.failures("extended")) == [f"extender {service.url}"]


async def test_an_extender_without_a_filter_is_asked_to_prioritise_alone(
    harness: ExtendedHarness, service: Service
) -> None:
    service.on("prioritize", scores(b=10))
    extender = {"urlPrefix": f"{service.url}/", "prioritizeVerb": "prioritize", "weight": 100, "nodeCacheCapable": True}
    harness.write(*map(make_node, "ab"), policy_with(extender), make_pod("web"))
    assert await harness.until_bound("web") == "b"
    assert {asked.verb for asked in service.asked} == {"prioritize"}


# --- whom it concerns


def managing(service: Service, *names: str) -> Body:
    return extender_at(service, managedResources=[{"name": name} for name in names])


async def test_an_extender_is_asked_about_pods_that_name_its_resources(
    harness: ExtendedHarness, service: Service
) -> None:
    harness.write(make_node("a", extended={"example.com/fpga": 1}), policy_with(managing(service, "example.com/fpga")))
    harness.write(make_pod("plain"), make_pod("fpga", requests={"example.com/fpga": 1}))
    harness.write(make_pod("zero", requests={"example.com/fpga": 0}))
    start = {"name": "start", "resources": {"limits": {"example.com/fpga": 0}}}
    harness.write(make_pod("init", initContainers=[start]))
    for name in ("plain", "fpga", "zero", "init"):
        await harness.until_bound(name)
    assert {question["Pod"]["metadata"]["name"] for question in service.questions("filter")} == {"fpga", "zero", "init"}


async def test_a_resource_that_is_left_to_an_extender_is_not_counted(
    harness: ExtendedHarness, service: Service
) -> None:
    resource = {"name": "example.com/fpga", "ignoredByScheduler": True}
    harness.write(make_node("a"), policy_with(extender_at(service, managedResources=[resource])))
    harness.write(make_pod("fpga", requests={"example.com/fpga": 1}))
    assert await harness.until_bound("fpga") == "a"


# --- failures


async def test_an_attempt_fails_with_its_extender_and_is_made_again(harness: ExtendedHarness, service: Service) -> None:
    service.on("filter", lambda question: web.Response(status=500))
    harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    problem = f"failed filter with extender at URL {service.url}/filter, code 500"
    assert await harness.until_told("web") == ("SchedulerError", problem)
    assert harness.failures("extended") == {f"extender {service.url}": problem}
    service.on("filter", only("a"))
    await harness.clock.advance(2)
    assert await harness.until_bound("web") == "a"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"Error": "out of licences"}, "out of licences"),
        ({"NodeNames": ["a", "elsewhere"]}, 'claims a filtered node "elsewhere" which is not found in the input node'),
        ({"NodeNames": "a"}, "NodeNames is not a list"),
        ({"NodeNames": [], "FailedNodes": {"a": 1}}, "FailedNodes[a] is not text"),
        (["a"], "it is not an object"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_an_error(
    harness: ExtendedHarness, service: Service, answer: Any, problem: str
) -> None:
    service.on("filter", lambda question: answer)
    harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    reason, message = await harness.until_told("web")
    assert reason == "SchedulerError"
    assert problem in message


async def test_an_extender_that_may_be_ignored_is_when_it_fails(harness: ExtendedHarness, service: Service) -> None:
    service.on("filter", lambda question: web.Response(status=503))
    harness.write(make_node("a"), policy_with(extender_at(service, ignorable=True)), make_pod("web"))
    assert await harness.until_bound("web") == "a"
    assert list(harness.failures("extended")) == [f"extender {service.url}"]


async def test_an_empty_answer_lets_no_node_through(harness: ExtendedHarness, service: Service) -> None:
    service.on("filter", lambda question: {})
    harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    assert (await harness.until_told("web"))[0] == "Unschedulable"


# --- as kube-scheduler asks


@pytest.mark.parametrize("form", ["names", "objects"])
async def test_the_questions_have_the_shape_of_kube_schedulers(
    harness: ExtendedHarness, service: Service, form: str
) -> None:
    extender = extender_at(service, nodeCacheCapable=form == "names", prioritizeVerb="prioritize", bindVerb="bind")
    harness.write(*map(make_node, ("n1", "n2")), policy_with(extender), make_pod("web"))
    await harness.until(lambda: service.questions("bind"))
    for verb in ("filter", "prioritize"):
        (asked,) = (asked for asked in service.asked if asked.verb == verb)
        expected = RECORDED[f"{form}/{verb}"]["body"]
        assert _outline(asked.body) == _outline(expected)
        assert asked.headers["Content-Type"] == RECORDED[f"{form}/{verb}"]["content_type"]
    (binding,) = service.questions("bind")
    assert binding.keys() == RECORDED["names/bind"]["body"].keys()


def _outline(question: Body) -> Body:
    """All but what pods and nodes have to say of themselves."""
    nodes = question["Nodes"] and {**question["Nodes"], "items": len(question["Nodes"]["items"])}
    return {**question, "Pod": "metadata" in question["Pod"], "Nodes": nodes}


async def test_a_pod_is_tried_first_on_the_node_that_was_made_free_for_it(
    harness: ExtendedHarness, service: Service
) -> None:
    harness.write(*map(make_node, "abc"), policy_with(extender_at(service)), make_pod("web", nominated="b"))
    assert await harness.until_bound("web") == "b"
    assert [names_in(question) for question in service.questions("filter")] == [["b"]]


async def test_all_nodes_are_tried_when_that_one_is_refused(harness: ExtendedHarness, service: Service) -> None:
    service.on("filter", only("c"))
    harness.write(*map(make_node, "abc"), policy_with(extender_at(service)), make_pod("web", nominated="b"))
    assert await harness.until_bound("web") == "c"
    assert [names_in(question) for question in service.questions("filter")] == [["b"], ["a", "b", "c"]]


async def test_asking_ends_with_the_scheduler(service: Service) -> None:
    service.on("filter", lambda question: asyncio.Event().wait())
    async with running_extended() as harness:
        harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
        await harness.until(lambda: service.asked)
    assert harness.cluster.node_of("web") == ""
