"""What happens in the cluster while an extender thinks."""

import asyncio
from typing import Any

from berth.scheduler.queue.queue import Part
from scheduler.extender_service import (
    Body,
    ExtendedHouse,
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


async def asked(house: ExtendedHouse, service: Service, times: int = 1) -> None:
    await house.until(lambda: len(service.asked) >= times)


# --- nodes


async def test_a_node_made_again_under_its_name_was_not_asked_about(house: ExtendedHouse, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    house.write(make_node("a", uid="first"), policy_with(extender_at(service)), make_pod("web"))
    await asked(house, service)
    house.cluster.delete("Node", "a")
    house.write(make_node("a", uid="second"))
    thought.over.set()
    reason, message = await house.until_told("web")
    assert reason == "Unschedulable"
    assert message.startswith("0/1 nodes are available: 1 node(s) were left out by an extender. preemption: ")
    await house.clock.advance(2)
    assert await house.until_bound("web") == "a"
    assert len(service.asked) == 2


async def test_the_other_nodes_of_the_answer_still_count(house: ExtendedHouse, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    house.write(make_node("a", uid="first"), make_node("b"), policy_with(extender_at(service)), make_pod("web"))
    await asked(house, service)
    house.cluster.delete("Node", "a")
    house.write(make_node("a", uid="second"))
    thought.over.set()
    assert await house.until_bound("web") == "b"


async def test_what_was_said_against_a_node_is_not_held_against_its_namesake(
    house: ExtendedHouse, service: Service
) -> None:
    over = asyncio.Event()

    async def refuse(question: Body) -> Body:
        await over.wait()
        return {"NodeNames": [], "FailedNodes": {"a": "worn out"}}

    service.on("filter", refuse)
    house.write(make_node("a", uid="first"), policy_with(extender_at(service)), make_pod("web"))
    await asked(house, service)
    house.cluster.delete("Node", "a")
    house.write(make_node("a", uid="second"))
    over.set()
    assert "worn out" not in (await house.until_told("web"))[1]


async def test_a_node_that_comes_later_was_not_asked_about(house: ExtendedHouse, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    house.write(make_node("a", cpu="2"), policy_with(extender_at(service)), make_pod("web", cpu="1"))
    await asked(house, service)
    house.write(make_node("empty", cpu="64"))
    thought.over.set()
    assert await house.until_bound("web") == "a"


async def test_room_that_is_taken_meanwhile_is_taken(house: ExtendedHouse, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    house.write(make_node("a", cpu="2"), policy_with(extender_at(service)), make_pod("web", cpu="2"))
    await asked(house, service)
    house.write(make_pod("quick", cpu="1", node="a"))
    thought.over.set()
    reason, message = await house.until_told("web")
    assert reason == "Unschedulable"
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu. preemption: ")


async def test_two_pods_do_not_take_the_room_of_one(house: ExtendedHouse, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    house.write(make_node("a", cpu="2"), policy_with(extender_at(service)))
    house.write(make_pod("one", cpu="2"), make_pod("two", cpu="2"))
    await asked(house, service, 2)
    thought.over.set()
    await house.until(lambda: house.cluster.bound and house.cluster.conditions)
    assert len(house.cluster.bound) == 1


# --- pods


async def test_asking_about_a_pod_that_is_gone_ends(house: ExtendedHouse, service: Service) -> None:
    service.on("filter", Thought())
    house.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    await asked(house, service)
    house.cluster.delete("Pod", "default/web")
    house.tell()
    assert len(house.extending) == 0
    await house.go()
    assert house.scheduler.statistics()["attempts"] == {}
    assert house.queue.part_of("pod-default-web") is None


async def test_a_pod_that_changes_is_asked_about_again(house: ExtendedHouse, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    house.write(make_node("a"), make_node("b", labels={"disk": "fast"}), policy_with(extender_at(service)))
    house.write(make_pod("web", gates=[]))
    await asked(house, service)
    house.write(make_pod("web", node_selector={"disk": "fast"}))
    await asked(house, service, 2)
    assert names_in(service.asked[1].body) == ["b"]
    thought.over.set()
    assert await house.until_bound("web") == "b"


async def test_a_pod_that_says_something_new_of_itself_is_not_asked_about_again(
    house: ExtendedHouse, service: Service
) -> None:
    thought = Thought()
    service.on("filter", thought)
    house.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    await asked(house, service)
    house.cluster.change("Pod", "default/web", lambda body: body.setdefault("status", {}).update(qosClass="BestEffort"))
    house.tell()
    thought.over.set()
    assert await house.until_bound("web") == "a"
    assert len(service.asked) == 1


# --- policies


async def test_a_pod_is_judged_by_the_policy_that_replaced_the_one_it_was_asked_under(
    house: ExtendedHouse, service: Service
) -> None:
    service.on("filter", Thought())
    house.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    await asked(house, service)
    house.write(policy_with(generation=2))
    assert await house.until_bound("web") == "a"
    assert len(house.extending) == 0


async def test_asking_goes_on_when_another_policy_changes(house: ExtendedHouse, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    house.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    await asked(house, service)
    house.write(policy_with(name="other", scheduler="other"))
    thought.over.set()
    assert await house.until_bound("web") == "a"
    assert len(service.asked) == 1


async def test_nothing_is_decided_while_the_scheduler_is_closed(house: ExtendedHouse, service: Service) -> None:
    thought = Thought()
    service.on("filter", thought)
    house.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
    await asked(house, service)
    house.scheduler.close()
    thought.over.set()
    await house.until(lambda: house.queue.part_of("pod-default-web") is Part.ACTIVE)
    assert house.cluster.attempts == []
    house.scheduler.open()
    assert await house.until_bound("web") == "a"


# --- others


async def test_an_extender_that_hangs_holds_up_nobody_else(service: Service) -> None:
    service.on("filter", Thought())
    async with running_extended(places=2) as house, serving() as healthy:
        house.write(make_node("a"), policy_with(extender_at(service)))
        house.write(policy_with(extender_at(healthy), name="healthy", scheduler="healthy"))
        house.write(policy_with(name="plain", scheduler="plain"))
        house.write(*(make_pod(f"stuck-{number}") for number in range(10)))
        await asked(house, service, 2)
        house.write(make_pod("plain", scheduler="plain"), make_pod("healthy", scheduler="healthy"))
        assert await house.until_bound("plain") == "a"
        assert await house.until_bound("healthy") == "a"
        assert house.extending.statistics() == {"waiting": 2, "held": 8}
        assert house.queue.statistics()["held"] == 8
        assert len(service.asked) == 2


async def test_who_is_held_asks_when_it_is_its_turn_the_most_important_first(service: Service) -> None:
    first = Thought("first")
    service.on("filter", first)
    async with running_extended(places=1) as house:
        house.write(make_node("a"), policy_with(extender_at(service)), make_pod("first"))
        await asked(house, service)
        house.write(make_pod("low", priority=1))
        await house.clock.advance(1)
        house.write(make_pod("high", priority=9), make_pod("middle", priority=5))
        await house.until(lambda: house.extending.statistics()["held"] == 3)
        first.over.set()
        for name in ("first", "low", "middle", "high"):
            await house.until_bound(name)
        order = [question["Pod"]["metadata"]["name"] for question in service.questions("filter")]
        assert order == ["first", "high", "middle", "low"]
        assert house.extending.statistics() == {"waiting": 0, "held": 0}


async def test_who_is_held_and_goes_away_leaves_its_turn_to_the_next(service: Service) -> None:
    first = Thought("first")
    service.on("filter", first)
    async with running_extended(places=1) as house:
        house.write(make_node("a"), policy_with(extender_at(service)), make_pod("first"))
        await asked(house, service)
        house.write(make_pod("gone", priority=9), make_pod("last"))
        await house.until(lambda: house.extending.statistics()["held"] == 2)
        house.cluster.delete("Pod", "default/gone")
        house.tell()
        first.over.set()
        assert await house.until_bound("last") == "a"
        await house.until(lambda: not sum(house.queue.statistics().values()))


async def test_a_place_is_free_again_though_the_pod_went_before_anything_was_asked(service: Service) -> None:
    async with running_extended(places=1) as house:
        house.write(make_node("a"), policy_with(extender_at(service)))
        start = house.extending.start

        def start_and_lose(*attempt: Any) -> None:
            house.extending.start = start  # type: ignore[method-assign]
            start(*attempt)
            house.cluster.delete("Pod", "default/brief")
            house.tell()

        house.extending.start = start_and_lose  # type: ignore[method-assign]
        house.write(make_pod("brief"))
        await house.until(lambda: "default/brief" not in house.cluster.objects["Pod"])
        house.write(make_pod("web"))
        assert await house.until_bound("web") == "a"
        assert [question["Pod"]["metadata"]["name"] for question in service.questions("filter")] == ["web"]


async def test_who_is_held_is_released_by_a_policy_without_the_extender(service: Service) -> None:
    service.on("filter", Thought())
    async with running_extended(places=1) as house:
        house.write(make_node("a"), policy_with(extender_at(service)))
        house.write(make_pod("one"), make_pod("two"), make_pod("three"))
        await asked(house, service)
        house.write(policy_with(generation=2))
        for name in ("one", "two", "three"):
            assert await house.until_bound(name) == "a"


async def test_who_is_held_is_released_though_pods_of_another_policy_keep_their_places(service: Service) -> None:
    service.on("filter", Thought())
    async with running_extended(places=1) as house:
        house.write(make_node("a"), policy_with(extender_at(service)))
        house.write(policy_with(extender_at(service), name="other", scheduler="other"), make_pod("one"))
        await asked(house, service)
        house.write(make_pod("two", scheduler="other"))
        await house.until(lambda: house.extending.statistics()["held"] == 1)
        house.write(policy_with(name="other", scheduler="other", generation=2))
        assert await house.until_bound("two") == "a"
        assert house.extending.statistics() == {"waiting": 1, "held": 0}


async def test_who_is_held_while_the_scheduler_closes_is_tried_when_it_opens(service: Service) -> None:
    first = Thought("first")
    service.on("filter", first)
    async with running_extended(places=1) as house:
        house.write(make_node("a"), policy_with(extender_at(service)), make_pod("first"))
        await asked(house, service)
        house.write(make_pod("second"))
        await house.until(lambda: house.extending.statistics()["held"] == 1)
        house.scheduler.close()
        first.over.set()
        await house.until(lambda: house.queue.part_of("pod-default-second") is Part.ACTIVE)
        assert len(service.asked) == 1
        house.scheduler.open()
        assert await house.until_bound("second") == "a"


async def test_a_timeout_of_one_extender_is_an_error_of_its_own_pods(house: ExtendedHouse, service: Service) -> None:
    service.on("filter", Thought())
    house.write(make_node("a"), policy_with(extender_at(service, timeoutSeconds=0.05)), make_pod("web"))
    problem = f'Post "{service.url}/filter": no answer within 0.05 s'
    assert await house.until_told("web") == ("SchedulerError", problem)
    assert house.failures("extended") == {f"extender {service.url}": problem}


# --- binding


def binding(house: ExtendedHouse, **problem: Any) -> Any:
    """Binds as an extender does, behind our back."""

    def bind(question: Body) -> Body:
        key = f"{question['PodNamespace']}/{question['PodName']}"
        assert house.cluster.objects["Pod"][key]["metadata"]["uid"] == question["PodUID"]
        house.cluster.change("Pod", key, lambda body: body["spec"].update(nodeName=question["Node"]))
        return problem

    return bind


def binder_at(service: Service, **fields: Any) -> Body:
    return {"urlPrefix": service.url, "bindVerb": "bind", **fields}


async def test_an_extender_binds_instead_of_us(house: ExtendedHouse, service: Service) -> None:
    service.on("bind", binding(house))
    house.write(make_node("a"), policy_with(binder_at(service)), make_pod("web"))
    assert await house.until_bound("web") == "a"
    await house.until(lambda: house.notes("web"))
    assert house.cluster.attempts == []
    assert house.notes("web") == ["Successfully assigned default/web to a"]


async def test_an_extender_binds_only_what_it_manages(house: ExtendedHouse, service: Service) -> None:
    extender = binder_at(service, managedResources=[{"name": "example.com/fpga"}])
    house.write(make_node("a"), policy_with(extender), make_pod("web"))
    assert await house.until_bound("web") == "a"
    assert service.asked == []


async def test_a_bind_that_an_extender_refuses_is_made_again(house: ExtendedHouse, service: Service) -> None:
    service.on("bind", lambda question: {"Error": "no device left"})
    house.write(make_node("a"), policy_with(binder_at(service)), make_pod("web"))
    reason, message = await house.until_told("web")
    assert reason == "SchedulerError"
    assert "no device left" in message
    assert house.failures("extended") == {f"extender {service.url}": "no device left"}
    service.on("bind", binding(house))
    await house.clock.advance(2)
    assert await house.until_bound("web") == "a"


async def test_a_bind_whose_answer_is_lost_is_found(house: ExtendedHouse, service: Service) -> None:
    bind = binding(house)

    async def bind_and_hang(question: Body) -> None:
        bind(question)
        await asyncio.Event().wait()

    service.on("bind", bind_and_hang)
    house.write(make_node("a"), policy_with(binder_at(service, timeoutSeconds=0.05)), make_pod("web"))
    await house.until(lambda: house.notes("web"))
    assert house.notes("web") == ["Successfully assigned default/web to a"]
    assert house.cluster.reads == ["web"]


async def test_we_bind_where_an_extender_that_may_be_ignored_does_not(house: ExtendedHouse, service: Service) -> None:
    service.on("bind", lambda question: {"Error": "no time"})
    extender = binder_at(service, ignorable=True)
    house.write(make_node("a"), policy_with(extender, annotatePods=True), make_pod("web"))
    assert await house.until_bound("web") == "a"
    assert house.cluster.attempts == [("web", "a")]
    assert house.cluster.annotations_of("web")["berth.dev/policy"] == "extended"


async def test_an_extender_that_hangs_over_a_bind_holds_up_no_other_bind(service: Service) -> None:
    service.on("bind", lambda question: asyncio.Event().wait())
    async with running_extended(bind_limit=1) as house:
        house.write(make_node("a"), policy_with(name="plain", scheduler="plain"))
        house.write(policy_with(binder_at(service, timeoutSeconds=0.2)))
        house.write(make_pod("one"), make_pod("two"), make_pod("plain", scheduler="plain"))
        assert await house.until_bound("plain") == "a"
        await house.until(lambda: len(service.asked) == 2)
        # Both hang still; the house waits for them no longer than it waits for any bind.
        for name in ("one", "two"):
            house.cluster.delete("Pod", f"default/{name}")
        await house.go()
