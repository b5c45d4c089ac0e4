"""Who is tried next, and what brings an unschedulable pod back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from berth.engine.events import Event
from berth.model import Pod, parse_pod
from berth.policy.records import BackoffSettings
from berth.scheduler import Queue
from berth.scheduler.queue.queued_pod import DEFAULT_BACKOFF, Part, QueuedPod
from scheduler.virtual_clock import VirtualClock, settle
from support.builders import make_pod

ROOM = frozenset({Event.POD_REMOVED, Event.NODE_ADDED})
TAINTS = frozenset({Event.NODE_TAINTS})


def pod(name: str, **fields: Any) -> Pod:
    return parse_pod(make_pod(name, **fields))


def uid(name: str) -> str:
    return f"pod-default-{name}"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(clock: VirtualClock) -> Queue:
    return Queue(clock)


@asynccontextmanager
async def popping(queue: Queue) -> AsyncIterator["asyncio.Task[QueuedPod]"]:
    """Somebody who waits for the next pod."""
    task = asyncio.ensure_future(queue.pop())
    await settle()
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def add_unschedulable(queue: Queue, name: str, retry_events: frozenset[Event] = ROOM) -> QueuedPod:
    queue.add(pod(name))
    item = await queue.pop()
    queue.add_unschedulable(item, retry_events)
    return item


async def test_a_higher_priority_goes_first_then_the_older_pod(queue: Queue, clock: VirtualClock) -> None:
    queue.add(pod("first"))
    await clock.advance(1)
    queue.add(pod("second"))
    queue.add(pod("urgent", priority=10))
    assert [(await queue.pop()).pod.name for _ in range(3)] == ["urgent", "first", "second"]


async def test_pods_of_one_moment_go_in_the_order_they_came(queue: Queue) -> None:
    for name in "cab":
        queue.add(pod(name))
    assert [(await queue.pop()).pod.name for _ in range(3)] == ["c", "a", "b"]


async def test_pop_waits_for_a_pod(queue: Queue) -> None:
    async with popping(queue) as popped:
        assert not popped.done()
        queue.add(pod("web"))
        assert (await popped).pod.name == "web"


async def test_a_closed_queue_gives_nothing_until_it_is_opened(queue: Queue) -> None:
    queue.close()
    queue.add(pod("web"))
    async with popping(queue) as popped:
        assert not popped.done()
        queue.open()
        assert (await popped).pod.name == "web"


async def test_closing_holds_for_somebody_who_waits_already(queue: Queue) -> None:
    async with popping(queue) as popped:
        queue.close()
        queue.add(pod("web"))
        await settle()
        assert not popped.done()


async def test_a_popped_pod_is_in_flight_and_leaves_when_done(queue: Queue) -> None:
    queue.add(pod("web"))
    await queue.pop()
    assert queue.part_of(uid("web")) is Part.IN_FLIGHT
    queue.done(uid("web"))
    assert queue.part_of(uid("web")) is None


async def test_a_gated_pod_waits_outside_until_its_gates_are_gone(queue: Queue) -> None:
    queue.add(pod("web", gates=["example.com/wait"]))
    assert queue.part_of(uid("web")) is Part.GATED
    queue.wake({Event.POLICY})
    assert queue.part_of(uid("web")) is Part.GATED
    queue.add(pod("web"))
    assert queue.part_of(uid("web")) is Part.ACTIVE


async def test_a_parked_pod_is_brought_back_only_by_what_its_plugins_wait_for(queue: Queue) -> None:
    await add_unschedulable(queue, "web")
    queue.wake({Event.NODE_TAINTS, Event.POD_ASSIGNED})
    assert queue.part_of(uid("web")) is Part.UNSCHEDULABLE
    queue.wake({Event.POD_REMOVED})
    assert queue.part_of(uid("web")) is Part.BACKOFF


async def test_a_pod_woken_after_its_backoff_is_active_at_once(queue: Queue, clock: VirtualClock) -> None:
    await add_unschedulable(queue, "web")
    await clock.advance(1)
    queue.wake({Event.POD_REMOVED})
    assert queue.part_of(uid("web")) is Part.ACTIVE


async def test_a_change_of_policy_brings_everything_back(queue: Queue, clock: VirtualClock) -> None:
    await add_unschedulable(queue, "web", TAINTS)
    await add_unschedulable(queue, "db", frozenset())
    queue.wake({Event.POLICY})
    assert queue.statistics()["unschedulable"] == 0


@pytest.mark.parametrize("by_namespace", [False, True])
async def test_a_change_of_policy_ends_backoffs_however_long_the_old_policy_made_them(
    queue: Queue, by_namespace: bool
) -> None:
    week = BackoffSettings(604_800.0, 604_800.0, 604_800.0)
    for name in ("failed", "woken", "parked"):
        queue.add(pod(name))
    queue.fail(await queue.pop(), week)
    queue.add_unschedulable(await queue.pop(), ROOM, week)
    queue.wake(ROOM)
    queue.add_unschedulable(await queue.pop(), TAINTS, week)
    assert (queue.statistics()["backoff"], queue.statistics()["unschedulable"]) == (2, 1)
    if by_namespace:
        queue.wake_in("other", lambda _: True)
        queue.wake_in("default", lambda _: True)
    else:
        queue.wake({Event.POLICY})
    assert queue.statistics()["active"] == 3


async def test_the_plugins_of_the_last_attempt_replace_those_of_earlier_ones(queue: Queue) -> None:
    await add_unschedulable(queue, "web", ROOM)
    queue.wake({Event.POD_REMOVED})
    queue.add_unschedulable(await queue.pop(), TAINTS)
    queue.wake({Event.POD_REMOVED})
    assert queue.part_of(uid("web")) is Part.UNSCHEDULABLE
    queue.wake({Event.NODE_TAINTS})
    assert queue.part_of(uid("web")) is Part.BACKOFF


async def test_an_event_during_the_attempt_is_judged_when_the_pod_is_parked(queue: Queue) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    queue.wake({Event.POD_REMOVED})
    queue.add_unschedulable(item, ROOM)
    assert queue.part_of(uid("web")) is Part.BACKOFF


async def test_an_event_during_the_attempt_that_cannot_help_is_not_taken_for_one_that_can(queue: Queue) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    queue.wake({Event.NODE_TAINTS})
    queue.add_unschedulable(item, ROOM)
    assert queue.part_of(uid("web")) is Part.UNSCHEDULABLE


async def test_an_event_before_the_attempt_does_not_count_as_missed(queue: Queue) -> None:
    queue.add(pod("web"))
    queue.wake({Event.POD_REMOVED})
    queue.add_unschedulable(await queue.pop(), ROOM)
    assert queue.part_of(uid("web")) is Part.UNSCHEDULABLE


async def test_an_event_during_an_earlier_attempt_does_not_count_for_the_next(queue: Queue) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    queue.wake({Event.POD_REMOVED})
    queue.add_unschedulable(item, ROOM)
    queue.add_unschedulable(await queue.pop(), ROOM)
    assert queue.part_of(uid("web")) is Part.UNSCHEDULABLE


async def test_a_change_of_policy_during_the_attempt_is_not_lost(queue: Queue) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    queue.wake({Event.POLICY})
    queue.add_unschedulable(item, frozenset())
    assert queue.part_of(uid("web")) is Part.ACTIVE


@pytest.mark.parametrize("by_namespace", [False, True])
async def test_a_change_of_policy_during_the_attempt_ends_the_backoff_of_an_error_of_the_old_policys(
    queue: Queue, by_namespace: bool
) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    if by_namespace:
        queue.wake_in("default", lambda _: True)
    else:
        queue.wake({Event.POLICY})
    queue.fail(item, BackoffSettings(604_800.0, 604_800.0, 604_800.0))
    assert queue.part_of(uid("web")) is Part.ACTIVE
    queue.fail(await queue.pop())
    assert queue.part_of(uid("web")) is Part.BACKOFF


async def test_a_change_of_the_pod_during_the_attempt_is_not_lost(queue: Queue) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    queue.add(pod("web", tolerations=[{"operator": "Exists"}]))
    queue.add_unschedulable(item, ROOM)
    assert queue.part_of(uid("web")) is Part.BACKOFF


async def test_a_toleration_added_to_the_parked_pod_itself_wakes_it(queue: Queue) -> None:
    await add_unschedulable(queue, "web")
    queue.add(pod("web", tolerations=[{"operator": "Exists"}]))
    assert queue.part_of(uid("web")) is Part.BACKOFF
    assert (await queue.pop()).pod.tolerations


async def test_a_status_update_of_a_parked_pod_does_not_wake_it(queue: Queue) -> None:
    await add_unschedulable(queue, "web")
    body = make_pod("web")
    body["metadata"]["resourceVersion"] = "99"
    body["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    queue.add(parse_pod(body))
    assert queue.part_of(uid("web")) is Part.UNSCHEDULABLE


async def test_a_changed_priority_changes_the_order(queue: Queue) -> None:
    queue.add(pod("first"))
    queue.add(pod("second"))
    queue.add(pod("second", priority=5))
    assert (await queue.pop()).pod.name == "second"


async def test_an_idle_scheduler_takes_from_backoff_early(queue: Queue) -> None:
    await add_unschedulable(queue, "web")
    queue.wake({Event.POD_REMOVED})
    assert (await queue.pop()).pod.name == "web"


async def test_a_pod_in_backoff_lets_active_pods_go_first(queue: Queue) -> None:
    queue.add(pod("urgent", priority=10))
    queue.add_unschedulable(await queue.pop(), ROOM)
    queue.wake({Event.POD_REMOVED})
    queue.add(pod("web"))
    assert [(await queue.pop()).pod.name for _ in range(2)] == ["web", "urgent"]


async def test_an_error_is_given_its_time(queue: Queue, clock: VirtualClock) -> None:
    queue.add(pod("web"))
    queue.fail(await queue.pop())
    assert queue.part_of(uid("web")) is Part.BACKOFF
    async with popping(queue) as popped:
        await clock.advance(0.9)
        assert not popped.done()
        await clock.advance(0.1)
        assert (await popped).pod.name == "web"


async def test_an_error_after_a_rejection_does_not_park_the_pod(queue: Queue, clock: VirtualClock) -> None:
    await add_unschedulable(queue, "web")
    queue.wake({Event.POD_REMOVED})
    queue.fail(await queue.pop())
    assert queue.part_of(uid("web")) is Part.BACKOFF
    assert queue.statistics()["unschedulable"] == 0


async def test_backoff_doubles_to_ten_seconds(queue: Queue, clock: VirtualClock) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    waits = []
    for _ in range(6):
        queue.fail(item)
        failed = clock.now()
        async with popping(queue) as popped:
            while not popped.done():
                await clock.advance(0.5)
            item = await popped
        waits.append(clock.now() - failed)
    assert waits == [1, 2, 4, 8, 10, 10]


async def test_a_parked_pod_is_tried_again_after_five_minutes(queue: Queue, clock: VirtualClock) -> None:
    await add_unschedulable(queue, "web", frozenset())
    async with popping(queue) as popped:
        await clock.advance(DEFAULT_BACKOFF.flush_seconds - 1)
        assert not popped.done()
        await clock.advance(1)
        assert (await popped).pod.name == "web"


async def test_a_pod_that_comes_back_without_a_node_waits_out_its_backoff(queue: Queue, clock: VirtualClock) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    queue.done(uid("web"))
    async with popping(queue) as popped:
        queue.retry(item.pod, item.attempts)
        await settle()
        assert not popped.done()
        await clock.advance(1)
        assert (await popped).attempts == 2


async def test_a_pod_that_is_back_already_is_not_there_twice(queue: Queue) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    queue.done(uid("web"))
    queue.add(pod("web"))
    queue.retry(item.pod, item.attempts)
    assert sum(queue.statistics().values()) == 1


async def test_a_pod_removed_during_its_attempt_is_not_parked(queue: Queue) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    queue.remove(uid("web"))
    queue.add_unschedulable(item, ROOM)
    queue.fail(item)
    assert sum(queue.statistics().values()) == 0


async def test_a_pod_made_again_with_the_same_name_during_the_attempt_is_another_pod(queue: Queue) -> None:
    queue.add(pod("web", uid="old"))
    item = await queue.pop()
    queue.remove("old")
    queue.add(pod("web", uid="new"))
    queue.add_unschedulable(item, ROOM)
    assert queue.part_of("old") is None
    assert queue.part_of("new") is Part.ACTIVE


async def test_a_removed_pod_is_gone_from_every_part(queue: Queue, clock: VirtualClock) -> None:
    queue.add(pod("active"))
    queue.add(pod("gated", gates=["example.com/wait"]))
    for part in list(Part):
        queue.remove(uid(part.value))
    await add_unschedulable(queue, "unschedulable")
    await add_unschedulable(queue, "backoff", TAINTS)
    queue.wake(TAINTS)
    queue.add(pod("in-flight"))
    await queue.pop()
    for name in ("unschedulable", "backoff", "in-flight"):
        queue.remove(uid(name))
    assert sum(queue.statistics().values()) == 0
    queue.wake({Event.POLICY})
    async with popping(queue) as popped:
        await clock.advance(2 * DEFAULT_BACKOFF.flush_seconds)
        assert not popped.done()


async def test_waking_touches_only_whom_it_wakes(queue: Queue) -> None:
    for number in range(50):
        await add_unschedulable(queue, f"room-{number}", ROOM)
        await add_unschedulable(queue, f"taint-{number}", TAINTS)
    queue.wake(TAINTS)
    assert {part: count for part, count in queue.statistics().items() if count} == {
        "backoff": 50,
        "unschedulable": 50,
    }
    queue.wake(ROOM)
    assert queue.statistics()["unschedulable"] == 0


# --- paces -----------------------------------------------------------------------------------------------------------

BRISK = BackoffSettings(first_backoff_seconds=3, longest_backoff_seconds=20, flush_seconds=50)


async def test_backoff_goes_by_the_pace_of_each_pod_s_policy(queue: Queue, clock: VirtualClock) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    waits = []
    for _ in range(5):
        queue.fail(item, BRISK)
        failed = clock.now()
        async with popping(queue) as popped:
            while not popped.done():
                await clock.advance(0.5)
            item = await popped
        waits.append(clock.now() - failed)
    assert waits == [3, 6, 12, 20, 20]


async def test_the_first_due_is_tried_first_whoever_was_parked_first(queue: Queue, clock: VirtualClock) -> None:
    for name, backoff in (
        ("slow", BackoffSettings(flush_seconds=300)),
        ("fast", BackoffSettings(flush_seconds=40)),
        ("brisk", BRISK),
    ):
        queue.add(pod(name))
        queue.add_unschedulable(await queue.pop(), frozenset(), backoff)
    turns = []
    for _ in range(3):
        async with popping(queue) as popped:
            while not popped.done():
                await clock.advance(1)
            turns.append(((await popped).pod.name, clock.now()))
    assert turns == [("fast", 40), ("brisk", 50), ("slow", 300)]


async def test_a_pod_keeps_the_pace_of_its_last_attempt(queue: Queue, clock: VirtualClock) -> None:
    queue.add(pod("web"))
    queue.add_unschedulable(await queue.pop(), frozenset(), BRISK)
    await clock.advance(50)
    item = await queue.pop()
    queue.add_unschedulable(item, frozenset())
    assert item.backoff is BRISK


async def test_a_pod_that_comes_back_without_a_node_has_the_pace_that_it_is_given(
    queue: Queue, clock: VirtualClock
) -> None:
    queue.retry(pod("web"), 2, BRISK)
    async with popping(queue) as popped:
        await clock.advance(5.9)
        assert not popped.done()
        await clock.advance(0.1)
        assert (await popped).pod.name == "web"


# --- attempts that are not made, and namespaces ----------------------------------------------------------------------


async def test_an_abandoned_attempt_does_not_count_and_is_made_at_once(queue: Queue) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    queue.abandon(item)
    assert queue.part_of(uid("web")) is Part.ACTIVE
    assert (await queue.pop()).attempts == 1


async def test_an_abandoned_attempt_of_a_pod_that_left_or_got_gates_changes_nothing(queue: Queue) -> None:
    for name in ("gone", "gated"):
        queue.add(pod(name))
    items = [await queue.pop() for _ in range(2)]
    queue.remove(uid("gone"))
    queue.add(pod("gated", gates=["g"]))
    for item in items:
        queue.abandon(item)
    assert queue.part_of(uid("gone")) is None
    assert queue.part_of(uid("gated")) is Part.GATED


async def test_a_pod_that_got_gates_during_its_attempt_is_gated_whatever_comes_of_it(queue: Queue) -> None:
    for name in ("rejected", "failed"):
        queue.add(pod(name))
    items = [await queue.pop() for _ in range(2)]
    for name in ("rejected", "failed"):
        queue.add(pod(name, gates=["g"]))
    queue.add_unschedulable(items[0], ROOM)
    queue.fail(items[1])
    assert [queue.part_of(uid(name)) for name in ("rejected", "failed")] == [Part.GATED, Part.GATED]
    assert queue.statistics()["gated"] == 2
    assert sum(queue.statistics().values()) == 2


async def test_an_attempt_is_the_pod_s_until_the_pod_leaves_even_if_it_comes_back(queue: Queue) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    assert queue.is_in_flight(item)
    queue.remove(uid("web"))
    queue.add(pod("web"))
    again = await queue.pop()
    assert (queue.is_in_flight(item), queue.is_in_flight(again)) == (False, True)


async def test_a_changed_namespace_wakes_those_of_its_pods_whom_it_concerns(queue: Queue) -> None:
    for name, namespace in (("one", "a"), ("two", "a"), ("one", "b")):
        queue.add(pod(name, namespace=namespace))
        queue.add_unschedulable(await queue.pop(), frozenset())
    queue.wake_in("a", lambda pod: pod.name == "one")
    assert queue.part_of("pod-a-one") is Part.ACTIVE
    assert queue.part_of("pod-a-two") is queue.part_of("pod-b-one") is Part.UNSCHEDULABLE


async def test_a_namespace_that_changes_during_the_attempt_is_not_lost(queue: Queue) -> None:
    queue.add(pod("web"))
    item = await queue.pop()
    queue.wake_in("default", lambda pod: True)
    queue.add_unschedulable(item, frozenset())
    assert queue.part_of(uid("web")) is Part.ACTIVE
