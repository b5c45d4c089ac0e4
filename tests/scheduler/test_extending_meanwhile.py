"""What happens in the cluster while an extender thinks."""

import asyncio
from typing import Any

import pytest

from berth.scheduler.queue.queue import Part
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


class Thought:
    """An answer that comes when the test says so; others come at once."""

    def __init__(self, about: str = "") -> None:
        self._about = about
        self.over = asyncio.Event()

    async def __call__(self, question: Body) -> Body:
        names = names_in(question)
        if self._about in ("", question["Pod"]["metadata"]["name"]):
            await self.over.wait()
        return let_through(question, *names)


async def asked(harness: ExtendedHarness, service: Service, times: int = 1) -> None:
    await harness.until(lambda: len(service.asked) >= times)


# --- nodes


async def test_a_node_made_again_under_its_name_was_not_asked_about(harness: ExtendedHarness, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    harness.write(make_node("a", uid="first"), policy_with(extender_at(service)), make_pod("web"))
    await asked(harness, service)
    harness.cluster.delete("Node", "a")
    harness.write(make_node("a", uid="second"))
    thought.over.set()
    reason, message = await harness.until_told("web")
    assert reason == "Unschedulable"
    assert message.startswith("0/1 nodes are available: 1 node(s) were left out by an extender. preemption: ")
    await harness.clock.advance(2)
    assert await harness.until_bound("web") == "a"
    assert len(service.asked) == 2


async def test_the_other_nodes_of_the_answer_still_count(harness: ExtendedHarness, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    harness.write(make_node("a", uid="first"), make_node("b"), policy_with(extender_at(service)), make_pod("web"))
    await asked(harness, service)
    harness.cluster.delete("Node", "a")
    harness.write(make_node("a", uid="second"))
    thought.over.set()
    assert await harness.until_bound("web") == "b"


async def test_what_was_said_against_a_node_is_not_held_against_its_namesake(
    harness: ExtendedHarness, service: Service
) -> None:
    over = asyncio.Event()

    async def refuse(question: Body) -> Body:
        await over.wait()
        return {"NodeNames": [], "FailedNodes": {"a": "worn out"}}

    service.on("filter", refuse)
    harness.write(make_node("a", uid="first"), policy_with(extender_at(service)), make_pod("web"))
    await asked(harness, service)
    harness.cluster.delete("Node", "a")
    harness.write(make_node("a", uid="second"))
    over.set()
    assert "worn out" not in (await harness.until_told("web"))[1]


async def test_a_node_that_comes_later_was_not_asked_about(harness: ExtendedHarness, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    harness.write(make_node("a", cpu="2"), policy_with(extender_at(service)), make_pod("web", cpu="1"))
    await asked(harness, service)
    harness.write(make_node("empty", cpu="64"))
    thought.over.set()
    assert await harness.until_bound("web") == "a"


async def test_room_that_is_taken_meanwhile_is_taken(harness: ExtendedHarness, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    harness.write(make_node("a", cpu="2"), policy_with(extender_at(service)), make_pod("web", cpu="2"))
    await asked(harness, service)
    harness.write(make_pod("quick", cpu="1", node="a"))
    thought.over.set()
    reason, message = await harness.until_told("web")
    assert reason == "Unschedulable"
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu. preemption: ")


async def test_two_pods_do_not_take_the_room_of_one(harness: ExtendedHarness, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    harness.write(make_node("a", cpu="2"), policy_with(extender_at(service)))
    harness.write(make_pod("one", cpu="2"), make_pod("two", cpu="2"))
    await asked(harness, service, 2)
    thought.over.set()
    await harness.until(lambda: harness.cluster.bound and harness.cluster.conditions)
    assert len(harness.cluster.bound) == 1


# --- pods


async def test_asking_about_a_pod_that_is_gone_ends(harness: ExtendedHarness, service: Service) -> None:
    service.on("filter", Thought())
    harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    await asked(harness, service)
    harness.cluster.delete("Pod", "default/web")
    harness.tell()
    assert len(harness.extending) == 0
    await harness.go()
    assert harness.scheduler.statistics()["attempts"] == {}
    assert harness.queue.part_of("pod-default-web") is None


async def test_a_pod_that_changes_is_asked_about_again(harness: ExtendedHarness, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    harness.write(make_node("a"), make_node("b", labels={"disk": "fast"}), policy_with(extender_at(service)))
    harness.write(make_pod("web", gates=[]))
    await asked(harness, service)
    harness.write(make_pod("web", node_selector={"disk": "fast"}))
    await asked(harness, service, 2)
    assert names_in(service.asked[1].body) == ["b"]
    thought.over.set()
    assert await harness.until_bound("web") == "b"


async def test_a_pod_that_says_something_new_of_itself_is_not_asked_about_again(
    harness: ExtendedHarness, service: Service
) -> None:
    thought = Thought()
    service.on("filter", thought)
    harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    await asked(harness, service)
    harness.cluster.change(
        "Pod", "default/web", lambda body: body.setdefault("status", {}).update(qosClass="BestEffort")
    )
    harness.tell()
    thought.over.set()
    assert await harness.until_bound("web") == "a"
    assert len(service.asked) == 1


# --- policies


async def test_a_pod_is_judged_by_the_policy_that_replaced_the_one_it_was_asked_under(
    harness: ExtendedHarness, service: Service
) -> None:
    service.on("filter", Thought())
    harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    await asked(harness, service)
    harness.write(policy_with(generation=2))
    assert await harness.until_bound("web") == "a"
    assert len(harness.extending) == 0


async def test_asking_goes_on_when_another_policy_changes(harness: ExtendedHarness, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    await asked(harness, service)
    harness.write(policy_with(name="other", scheduler="other"))
    thought.over.set()
    assert await harness.until_bound("web") == "a"
    assert len(service.asked) == 1


async def test_nothing_is_decided_while_the_scheduler_is_closed(harness: ExtendedHarness, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    await asked(harness, service)
    harness.scheduler.close()
    thought.over.set()
    await harness.until(lambda: harness.queue.part_of("pod-default-web") is Part.ACTIVE)
    assert harness.cluster.attempts == []
    harness.scheduler.open()
    assert await harness.until_bound("web") == "a"


# --- others


async def test_an_extender_that_hangs_holds_up_nobody_else(service: Service) -> None:
    service.on("filter", Thought())
    async with running_extended(places=2) as harness, serving() as healthy:
        harness.write(make_node("a"), policy_with(extender_at(service)))
        harness.write(policy_with(extender_at(healthy), name="healthy", scheduler="healthy"))
        harness.write(policy_with(name="plain", scheduler="plain"))
        harness.write(*(make_pod(f"stuck-{number}") for number in range(10)))
        await asked(harness, service, 2)
        harness.write(make_pod("plain", scheduler="plain"), make_pod("healthy", scheduler="healthy"))
        assert await harness.until_bound("plain") == "a"
        assert await harness.until_bound("healthy") == "a"
        assert harness.extending.statistics() == {"waiting": 2, "held": 8}
        assert harness.queue.statistics()["held"] == 8
        assert len(service.asked) == 2


async def test_who_is_held_asks_when_it_is_its_turn_the_most_important_first(service: Service) -> None:
    first = Thought("first")
    service.on("filter", first)
    async with running_extended(places=1) as harness:
        harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("first"))
        await asked(harness, service)
        harness.write(make_pod("low", priority=1))
        await harness.clock.advance(1)
        harness.write(make_pod("high", priority=9), make_pod("middle", priority=5))
        await harness.until(lambda: harness.extending.statistics()["held"] == 3)
        first.over.set()
        for name in ("first", "low", "middle", "high"):
            await harness.until_bound(name)
        order = [question["Pod"]["metadata"]["name"] for question in service.questions("filter")]
        assert order == ["first", "high", "middle", "low"]
        assert harness.extending.statistics() == {"waiting": 0, "held": 0}


async def test_who_is_held_and_goes_away_leaves_its_turn_to_the_next(service: Service) -> None:
    first = Thought("first")
    service.on("filter", first)
    async with running_extended(places=1) as harness:
        harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("first"))
        await asked(harness, service)
        harness.write(make_pod("gone", priority=9), make_pod("last"))
        await harness.until(lambda: harness.extending.statistics()["held"] == 2)
        harness.cluster.delete("Pod", "default/gone")
        harness.tell()
        first.over.set()
        assert await harness.until_bound("last") == "a"
        await harness.until(lambda: not sum(harness.queue.statistics().values()))


async def test_a_place_is_free_again_though_the_pod_went_before_anything_was_asked(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_extended(places=1) as harness:
        harness.write(make_node("a"), policy_with(extender_at(service)))
        start = harness.extending.start

        def start_and_lose(*attempt: Any) -> None:
            monkeypatch.undo()
            start(*attempt)
            harness.cluster.delete("Pod", "default/brief")
            harness.tell()

        monkeypatch.setattr(harness.extending, "start", start_and_lose)
        harness.write(make_pod("brief"))
        await harness.until(lambda: "default/brief" not in harness.cluster.objects["Pod"])
        harness.write(make_pod("web"))
        assert await harness.until_bound("web") == "a"
        assert [question["Pod"]["metadata"]["name"] for question in service.questions("filter")] == ["web"]


async def test_who_is_held_is_released_by_a_policy_without_the_extender(service: Service) -> None:
    service.on("filter", Thought())
    async with running_extended(places=1) as harness:
        harness.write(make_node("a"), policy_with(extender_at(service)))
        harness.write(make_pod("one"), make_pod("two"), make_pod("three"))
        await asked(harness, service)
        harness.write(policy_with(generation=2))
        for name in ("one", "two", "three"):
            assert await harness.until_bound(name) == "a"


async def test_who_is_held_is_released_though_pods_of_another_policy_keep_their_places(service: Service) -> None:
    service.on("filter", Thought())
    async with running_extended(places=1) as harness:
        harness.write(make_node("a"), policy_with(extender_at(service)))
        harness.write(policy_with(extender_at(service), name="other", scheduler="other"), make_pod("one"))
        await asked(harness, service)
        harness.write(make_pod("two", scheduler="other"))
        await harness.until(lambda: harness.extending.statistics()["held"] == 1)
        harness.write(policy_with(name="other", scheduler="other", generation=2))
        assert await harness.until_bound("two") == "a"
        assert harness.extending.statistics() == {"waiting": 1, "held": 0}


async def test_who_is_held_while_the_scheduler_closes_is_tried_when_it_opens(service: Service) -> None:
    first = Thought("first")
    service.on("filter", first)
    async with running_extended(places=1) as harness:
        harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("first"))
        await asked(harness, service)
        harness.write(make_pod("second"))
        await harness.until(lambda: harness.extending.statistics()["held"] == 1)
        harness.scheduler.close()
        first.over.set()
        await harness.until(lambda: harness.queue.part_of("pod-default-second") is Part.ACTIVE)
        assert len(service.asked) == 1
        harness.scheduler.open()
        assert await harness.until_bound("second") == "a"


async def test_a_timeout_of_one_extender_is_an_error_of_its_own_pods(
    harness: ExtendedHarness, service: Service
) -> None:
    service.on("filter", Thought())
    harness.write(make_node("a"), policy_with(extender_at(service, timeoutSeconds=0.05)), make_pod("web"))
    problem = f'Post "{service.url}/filter": no answer within 0.05 s'
    assert await harness.until_told("web") == ("SchedulerError", problem)
    assert harness.failures("extended") == {f"extender {service.url}": problem}


# --- binding


def binding(harness: ExtendedHarness, **problem: Any) -> Any:
    """Binds as an extender does, behind our back."""

    def bind(question: Body) -> Body:
        key = f"{question['PodNamespace']}/{question['PodName']}"
        assert harness.cluster.objects["Pod"][key]["metadata"]["uid"] == question["PodUID"]
        harness.cluster.change("Pod", key, lambda body: body["spec"].update(nodeName=question["Node"]))
        return problem

    return bind


def binder_at(service: Service, **fields: Any) -> Body:
    return {"urlPrefix": service.url, "bindVerb": "bind", **fields}


async def test_an_extender_binds_instead_of_us(harness: ExtendedHarness, service: Service) -> None:
    service.on("bind", binding(harness))
    harness.write(make_node("a"), policy_with(binder_at(service)), make_pod("web"))
    assert await harness.until_bound("web") == "a"
    await harness.until(lambda: harness.notes("web"))
    assert harness.cluster.attempts == []
    assert harness.notes("web") == ["Successfully assigned default/web to a"]


async def test_an_extender_binds_only_what_it_manages(harness: ExtendedHarness, service: Service) -> None:
    extender = binder_at(service, managedResources=[{"name": "example.com/fpga"}])
    harness.write(make_node("a"), policy_with(extender), make_pod("web"))
    assert await harness.until_bound("web") == "a"
    assert service.asked == []


async def test_a_bind_that_an_extender_refuses_is_made_again(harness: ExtendedHarness, service: Service) -> None:
    service.on("bind", lambda question: {"Error": "no device left"})
    harness.write(make_node("a"), policy_with(binder_at(service)), make_pod("web"))
    reason, message = await harness.until_told("web")
    assert reason == "SchedulerError"
    assert "no device left" in message
    assert harness.failures("extended") == {f"extender {service.url}": "no device left"}
    service.on("bind", binding(harness))
    await harness.clock.advance(2)
    assert await harness.until_bound("web") == "a"


async def test_a_bind_whose_answer_is_lost_is_found(harness: ExtendedHarness, service: Service) -> None:
    bind = binding(harness)

    async def bind_and_hang(question: Body) -> None:
        bind(question)
        await asyncio.Event().wait()

    service.on("bind", bind_and_hang)
    harness.write(make_node("a"), policy_with(binder_at(service, timeoutSeconds=0.05)), make_pod("web"))
    await harness.until(lambda: harness.notes("web"))
    assert harness.notes("web") == ["Successfully assigned default/web to a"]
    assert harness.cluster.reads == ["web"]


async def test_we_bind_where_an_extender_that_may_be_ignored_does_not(
    harness: ExtendedHarness, service: Service
) -> None:
    service.on("bind", lambda question: {"Error": "no time"})
    extender = binder_at(service, ignorable=True)
    harness.write(make_node("a"), policy_with(extender, annotatePods=True), make_pod("web"))
    assert await harness.until_bound("web") == "a"
    assert harness.cluster.attempts == [("web", "a")]
    assert harness.cluster.annotations_of("web")["berth.dev/policy"] == "extended"


async def test_an_extender_that_hangs_over_a_bind_holds_up_no_other_bind(service: Service) -> None:
    service.on("bind", lambda question: asyncio.Event().wait())
    async with running_extended(bind_limit=1) as harness:
        harness.write(make_node("a"), policy_with(name="plain", scheduler="plain"))
        harness.write(policy_with(binder_at(service, timeoutSeconds=0.2)))
        harness.write(make_pod("one"), make_pod("two"), make_pod("plain", scheduler="plain"))
        assert await harness.until_bound("plain") == "a"
        await harness.until(lambda: len(service.asked) == 2)
        # Both hang still; the harness waits for them no longer than it waits for any bind.
        for name in ("one", "two"):
            harness.cluster.delete("Pod", f"default/{name}")
        await harness.go()
