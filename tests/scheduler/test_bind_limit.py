"""However pods come to be bound, so many binds run at once and no more; those that wait for a place keep their room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine.binding_points import Permit
from berth.model import Pod
from berth.scheduler.binding.binding import OTHERS_LIMIT
from berth.scheduler.binding.places import Places
from berth.scheduler.ports import Declined
from berth.scheduler.queue.queue import Part
from engine.storage import make_claim, pod_with
from policy.builders import make_policy
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Hang, Refusal
from scheduler.staged_plugins import Script, installed
from scheduler.test_attempts import EXTENDERS, Patient
from scheduler.test_stages import acting
from scheduler.test_volumes import HERE, MADE, provision
from support.builders import make_node, make_pod

PODS = 20
LIMIT = 3


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with installed(tmp_path, monkeypatch) as found:
        yield found


@asynccontextmanager
async def asked_about(count: int = PODS, limit: int = LIMIT) -> AsyncIterator[tuple[Harness, Patient]]:
    """A harness, and as many pods about which extenders are being asked."""
    extenders = Patient()
    async with running(extenders=extenders, bind_limit=limit) as harness:
        harness.write(make_node("a", cpu="1000", pods=1000), make_policy(extenders=EXTENDERS))
        harness.write(*(make_pod(f"p{number}", cpu="1") for number in range(count)))
        await harness.go()
        yield harness, extenders


def answer_all(extenders: Patient) -> None:
    for number in range(len(extenders.calls)):
        extenders.conclude("a", call=number)


def hang_all(harness: Harness, count: int = PODS) -> list[Hang]:
    hangs = [Hang() for _ in range(count)]
    harness.cluster.faults.update({f"p{number}": hang for number, hang in enumerate(hangs)})
    return hangs


def binds(harness: Harness) -> tuple[int, int]:
    """How many run, and how many wait."""
    found = harness.scheduler.statistics()["binds"]
    return found["running"], found["waiting"]


async def check(harness: Harness, hangs: list[Hang], count: int = PODS) -> None:
    """Of these pods, which all have their node, no more are bound at once than may be, and all in the end."""
    await harness.go()
    assert len(harness.cache.assumed()) == count
    assert harness.cluster.running_binds == LIMIT
    assert binds(harness)[1] == count - LIMIT
    for hang in hangs:
        hang.released.set()
    await harness.go()
    assert len(harness.cluster.bound) == count
    assert harness.cluster.most_running_binds == LIMIT
    assert binds(harness) == (0, 0)


async def test_pods_that_extenders_were_asked_about_are_bound_a_few_at_a_time() -> None:
    async with asked_about() as (harness, extenders):
        hangs = hang_all(harness)
        answer_all(extenders)
        await check(harness, hangs)


async def test_pods_that_are_permitted_at_once_and_that_no_plugin_binds_go_a_few_at_a_time(script: Script) -> None:
    async with running(bind_limit=LIMIT) as harness:
        script.says("one", "permit", Permit.wait(60))
        hangs = hang_all(harness)
        harness.write(acting("one"), make_node("a", cpu="1000"), *(make_pod(f"p{n}", cpu="1") for n in range(PODS)))
        await harness.go()
        waiting = script.made["one"][-1].waiting
        for pod in waiting.pods():
            assert waiting.allow(pod.pod.uid)
        await check(harness, hangs)


async def test_pods_whose_volumes_are_all_there_at_once_are_bound_a_few_at_a_time() -> None:
    async with running(bind_limit=LIMIT) as harness:
        hangs = hang_all(harness)
        harness.write(HERE, MADE, *(make_claim(f"c{n}") for n in range(PODS)))
        harness.write(*(pod_with(f"c{n}", name=f"p{n}") for n in range(PODS)))
        await harness.go()
        for number in range(PODS):
            provision(harness, f"c{number}", "z1")
        await check(harness, hangs)


async def test_an_extender_is_asked_for_so_many_binds_at_once() -> None:
    count, running_now, most = OTHERS_LIMIT + 20, 0, 0
    released = asyncio.Event()
    async with asked_about(count) as (harness, extenders):

        async def bind(pod: Pod, node_name: str) -> None:
            nonlocal running_now, most
            running_now += 1
            most = max(most, running_now)
            await released.wait()
            running_now -= 1
            harness.cluster.carry_out(pod, node_name, {})

        extenders.bind = bind
        answer_all(extenders)
        await harness.go()
        assert (running_now, binds(harness)) == (OTHERS_LIMIT, (OTHERS_LIMIT, 20))
        released.set()
        await harness.go()
        assert (len(harness.cluster.bound), most) == (count, OTHERS_LIMIT)


async def test_pods_that_an_extender_declines_to_bind_take_a_place_at_the_api_server() -> None:
    async with asked_about() as (harness, extenders):

        async def bind(pod: Pod, node_name: str) -> None:
            raise Declined("no time")

        extenders.bind = bind
        hangs = hang_all(harness)
        answer_all(extenders)
        await harness.go()
        assert harness.cluster.running_binds == LIMIT
        for hang in hangs:
            hang.released.set()
        await harness.go()
        assert (len(harness.cluster.bound), harness.cluster.most_running_binds) == (PODS, LIMIT)


async def test_a_bind_that_is_refused_after_an_extender_has_failed_is_looked_up() -> None:
    async with asked_about(1) as (harness, extenders):

        async def bind(pod: Pod, node_name: str) -> None:
            harness.cluster.carry_out(pod, node_name, {})
            raise Declined("the answer was lost")

        extenders.bind = bind
        harness.cluster.faults["p0"] = Refusal(403, "no")
        answer_all(extenders)
        await harness.go()
        assert harness.cluster.reads == ["p0"]
        assert harness.scheduler.statistics()["binds"]["found_bound"] == 1


# --- those that wait for a place --------------------------------------------------------------------------------------


async def test_a_stop_lets_go_of_pods_that_wait_for_a_place_at_once() -> None:
    async with asked_about() as (harness, extenders):
        hangs = hang_all(harness)
        answer_all(extenders)
        await harness.go()
        stopping = asyncio.ensure_future(harness.scheduler.stop())
        await harness.go()
        assert len(harness.cache.assumed()) == LIMIT
        for hang in hangs:
            hang.released.set()
        await harness.go()
        assert stopping.done()
        assert (len(harness.cluster.bound), len(harness.cluster.attempts)) == (LIMIT, LIMIT)


async def test_a_standby_lets_go_of_pods_that_wait_for_a_place_and_another_lead_begins_anew_with_them() -> None:
    async with asked_about() as (harness, extenders):
        hangs = hang_all(harness)
        answer_all(extenders)
        await harness.go()
        harness.scheduler.stand_by()
        assert len(harness.cache.assumed()) == LIMIT
        for hang in hangs:
            hang.released.set()
        await harness.go()
        assert (len(harness.cluster.attempts), binds(harness)) == (LIMIT, (0, 0))
        extenders.calls.clear()
        harness.scheduler.take_over()
        await harness.pass_time(3)
        answer_all(extenders)
        await harness.go()
        assert len(harness.cluster.bound) == PODS


@pytest.mark.parametrize("end", [lambda harness: harness.cluster.finish("p19"), lambda harness: delete_node(harness)])
async def test_a_pod_that_does_not_get_its_node_while_it_waits_takes_no_place(end: Callable[[Harness], Any]) -> None:
    async with asked_about() as (harness, extenders):
        hangs = hang_all(harness)
        answer_all(extenders)
        await harness.go()
        end(harness)
        await harness.go()
        for hang in hangs:
            hang.released.set()
        await harness.go()
        assert binds(harness) == (0, 0)
        assert not harness.cache.assumed()
        assert ("p19", "a") not in harness.cluster.attempts
        harness.write(make_node("a", cpu="1000", uid="second"), make_policy("plain", schedulerName="plain"))
        harness.write(*(make_pod(f"late{number}", scheduler="plain", cpu="1") for number in range(LIMIT + 1)))
        await harness.pass_time(2)
        assert all(harness.cluster.node_of(f"late{number}") == "a" for number in range(LIMIT + 1))


def delete_node(harness: Harness) -> None:
    harness.cluster.delete("Node", "a")


async def test_a_pod_that_waits_for_a_place_gives_its_room_up_to_a_preemptor_without_being_deleted() -> None:
    async with asked_about(0, limit=1) as (harness, extenders):
        hang_all(harness, 1)
        harness.write(make_pod("p0", cpu="1", priority=99), make_pod("p1", cpu="1"))
        await harness.go()
        harness.cluster.change("Node", "a", lambda body: body["status"]["allocatable"].update(cpu="2"))
        harness.tell()
        answer_all(extenders)
        await harness.go()
        assert binds(harness) == (1, 1)
        harness.write(make_policy("plain", schedulerName="plain"))
        harness.write(make_pod("top", scheduler="plain", cpu="1", priority=9))
        harness.components.cycle.attempt(await harness.queue.pop())  # the loop itself waits for a place
        await harness.go()
        assert harness.cluster.evictions == []
        assert harness.queue.part_of("pod-default-p1") is Part.BACKOFF


# --- places -----------------------------------------------------------------------------------------------------------


async def test_a_place_that_was_given_to_who_is_cancelled_in_the_same_moment_is_free_again() -> None:
    places = Places(1)
    assert places.take()
    waiting = [asyncio.ensure_future(places.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    places.give_back()
    waiting[0].cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert waiting[0].cancelled()
    assert waiting[1].done()
    places.give_back()
    assert places.is_idle


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["come", "leave", "cancel", "go"]), st.integers(0, 30)), max_size=60),
)
def test_places_are_never_more_than_allowed_none_is_lost_and_who_came_first_is_first(
    limit: int, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(play(limit, steps))


async def play(limit: int, steps: list[tuple[str, int]]) -> None:
    places = Places(limit)
    comers: dict[asyncio.Task[None], int] = {}
    inside: list[int] = []
    entered: list[int] = []

    async def come(number: int) -> None:
        await places.wait()
        inside.append(number)
        entered.append(number)

    for number, (step, choice) in enumerate(steps):
        if step == "come":
            comers[asyncio.ensure_future(come(number))] = number
            await asyncio.sleep(0)  # it has asked
        elif step == "leave" and inside:
            inside.pop(choice % len(inside))
            places.give_back()
        elif step == "cancel" and comers:
            list(comers)[choice % len(comers)].cancel()
        elif step == "go":
            await asyncio.sleep(0)
        assert len(inside) <= limit
    for _ in range(5):
        await asyncio.sleep(0)
    waiting = [task for task in comers if not task.done()]
    assert len(inside) == limit or not waiting
    assert entered == sorted(entered)
    while inside:
        inside.pop()
        places.give_back()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert all(task.done() for task in comers)
    assert places.is_idle
