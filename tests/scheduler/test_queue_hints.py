"""Unschedulable pods and the hints of those who turned them away: who is woken, who is asked, and how often."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from berth.engine.events import Change, Event
from berth.engine.plugin import FilterPlugin
from berth.engine.state.state import State
from berth.model import Pod, parse_pod
from berth.scheduler import Queue
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.queue.change_log import MOST_KEPT, ChangeLog
from berth.scheduler.queue.heap import Order
from berth.scheduler.queue.queue import (
    ASKED_AT_ONCE,
    BROUGHT_AT_ONCE,
    STEPS_A_TURN,
    STEPS_AT_ONCE,
    Part,
    QueuedPod,
)
from berth.scheduler.queue.queueing_hints import QueueingHints
from scheduler.recording_plugins import Recording, known_change
from scheduler.virtual_clock import VirtualClock, settle
from support.builders import make_pod

NODES = frozenset({Event.NODE_ADDED})


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(clock: VirtualClock) -> Queue:
    return Queue(clock, hints=QueueingHints(State(), ErrorLog()))


async def popped(queue: Queue, name: str, cpu: str = "1") -> QueuedPod:
    queue.add(parse_pod(make_pod(name, uid=name, cpu=cpu)))
    return await queue.pop()


async def looked_for_more(queue: Queue) -> None:
    """Somebody waits for a pod, until nothing is left to do."""
    task = asyncio.ensure_future(queue.pop())
    await settle()
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def add_unschedulable(queue: Queue, name: str, *plugins: FilterPlugin, cpu: str = "1") -> None:
    queue.add_unschedulable(await popped(queue, name, cpu), NODES, None, plugins)


async def test_a_change_wakes_those_whose_plugins_say_that_it_may_help(queue: Queue) -> None:
    await add_unschedulable(queue, "yes", Recording(True))
    await add_unschedulable(queue, "no", Recording(False))
    await add_unschedulable(queue, "either", Recording(False), Recording(True))
    queue.wake([known_change()])
    assert [queue.part_of(name) for name in ("yes", "no", "either")] == [
        Part.BACKOFF,
        Part.UNSCHEDULABLE,
        Part.BACKOFF,
    ]


async def test_where_nobody_can_be_asked_the_event_is_enough(queue: Queue) -> None:
    await add_unschedulable(queue, "nobody")
    queue.wake([known_change()])
    await add_unschedulable(queue, "nothing-known", Recording(False))
    queue.wake(NODES)
    assert queue.statistics()["unschedulable"] == 0


async def test_without_hints_the_event_is_enough(clock: VirtualClock) -> None:
    queue = Queue(clock)
    await add_unschedulable(queue, "web", Recording(False))
    queue.wake([known_change()])
    assert queue.part_of("web") is Part.BACKOFF


async def test_a_change_of_policy_is_nobody_s_to_judge(queue: Queue) -> None:
    await add_unschedulable(queue, "web", Recording(False))
    queue.wake([Change(frozenset({Event.POLICY}))])
    assert queue.statistics()["unschedulable"] == 0


async def test_what_came_during_the_attempt_is_judged_by_hints_when_the_pod_is_parked(queue: Queue) -> None:
    for name, helps, part in (("no", False, Part.UNSCHEDULABLE), ("yes", True, Part.BACKOFF)):
        item = await popped(queue, name)
        queue.wake([known_change()])
        queue.add_unschedulable(item, NODES, None, [Recording(helps)])
        assert queue.part_of(name) is part
        queue.remove(name)


async def test_of_several_changes_during_the_attempt_each_is_judged(queue: Queue) -> None:
    class OnlyB(Recording):
        def hint(self, query: object, state: object, change: Change) -> bool:
            return change.node == "b"

    item = await popped(queue, "web")
    for node in "abc":
        queue.wake([known_change(node=node)])
    queue.add_unschedulable(item, NODES, None, [OnlyB(False)])
    assert queue.part_of("web") is Part.BACKOFF


async def test_more_changes_during_the_attempt_than_are_kept_count_as_help(queue: Queue) -> None:
    item = await popped(queue, "web")
    for _ in range(MOST_KEPT + 1):
        queue.wake([known_change()])
    queue.add_unschedulable(item, NODES, None, [Recording(False)])
    assert queue.part_of("web") is Part.BACKOFF


async def test_changes_before_the_attempt_are_none_of_its_business(queue: Queue) -> None:
    other = await popped(queue, "other")  # for whom they are kept
    queue.wake([known_change()])
    await add_unschedulable(queue, "web", Recording(True))
    assert queue.part_of("web") is Part.UNSCHEDULABLE
    queue.add_unschedulable(other, NODES, None, [Recording(True)])
    assert queue.part_of("other") is Part.BACKOFF


async def test_nothing_is_kept_when_nobody_is_in_flight(queue: Queue) -> None:
    queue.wake([known_change()])
    assert queue.sizes()["changes in flight"] == 0
    item = await popped(queue, "web")
    queue.wake([known_change()])
    assert queue.sizes()["changes in flight"] == 1
    queue.fail(item)
    assert queue.sizes()["changes in flight"] == 0


async def test_pods_that_are_alike_are_judged_once_however_many_they_are(queue: Queue) -> None:
    plugin = Recording(False)
    for number in range(30):
        await add_unschedulable(queue, f"one-{number}", plugin)
        await add_unschedulable(queue, f"two-{number}", plugin, cpu="2")
    queue.wake([known_change()])
    assert plugin.asked == 2
    assert queue.statistics()["unschedulable"] == 60
    plugin.helps = True
    queue.wake([known_change()])
    assert plugin.asked == 4
    assert queue.statistics()["unschedulable"] == 0


async def test_no_change_costs_more_than_so_many_questions_at_once_and_all_are_asked(
    queue: Queue, clock: VirtualClock
) -> None:
    plugin = Recording(False)
    for number in range(ASKED_AT_ONCE + 100):
        await add_unschedulable(queue, f"p-{number}", plugin, cpu=f"{number + 1}m")
    queue.wake([known_change()])
    assert plugin.asked == ASKED_AT_ONCE
    await looked_for_more(queue)
    assert plugin.asked == ASKED_AT_ONCE + 100
    assert queue.statistics()["unschedulable"] == ASKED_AT_ONCE + 100


async def test_a_change_that_helps_very_many_brings_back_so_many_at_once_and_then_the_next(
    queue: Queue, clock: VirtualClock
) -> None:
    plugin = Recording(True)
    for number in range(200):
        await add_unschedulable(queue, f"p-{number}", plugin)
    await clock.advance(20)
    queue.wake([known_change()])
    assert queue.statistics()["active"] == BROUGHT_AT_ONCE
    tried = [await queue.pop() for _ in range(200)]
    assert [item.uid for item in tried] == [f"p-{number}" for number in range(200)]
    assert queue.statistics()["active"] == 0


async def test_a_pod_that_was_tried_since_the_change_is_not_brought_back_by_it_again(
    queue: Queue, clock: VirtualClock
) -> None:
    plugin = Recording(True)
    for number in range(BROUGHT_AT_ONCE + 1):
        await add_unschedulable(queue, f"p-{number}", plugin)
    await clock.advance(20)
    queue.wake([known_change()])
    for _ in range(BROUGHT_AT_ONCE + 1):
        queue.add_unschedulable(await queue.pop(), NODES, None, [plugin])
    await looked_for_more(queue)
    assert queue.statistics()["unschedulable"] == BROUGHT_AT_ONCE + 1


async def test_a_pod_that_leaves_while_others_wait_for_it_to_be_tried_does_not_keep_them_waiting(
    queue: Queue, clock: VirtualClock
) -> None:
    for number in range(BROUGHT_AT_ONCE + 1):
        await add_unschedulable(queue, f"p-{number}", Recording(True))
    await clock.advance(20)
    queue.wake([known_change()])
    for number in range(BROUGHT_AT_ONCE):
        queue.remove(f"p-{number}")
    assert (await queue.pop()).uid == f"p-{BROUGHT_AT_ONCE}"


async def test_work_that_is_much_is_done_in_parts_between_attempts(queue: Queue) -> None:
    done: list[int] = []

    def work() -> Iterator[None]:
        for number in range(STEPS_AT_ONCE + 2 * STEPS_A_TURN):
            done.append(number)
            yield

    queue.do_later(work())
    assert len(done) <= STEPS_AT_ONCE + 1
    for name in "ab":
        before = len(done)
        queue.add(parse_pod(make_pod(name, uid=name)))
        await queue.pop()
        assert 0 < len(done) - before <= STEPS_A_TURN + 1
    await looked_for_more(queue)
    assert len(done) == STEPS_AT_ONCE + 2 * STEPS_A_TURN
    queue.do_later(iter([None]))
    assert queue.sizes()["work for later"] == 0


async def test_pods_that_another_policy_decides_for_come_back_behind_new_ones_and_take_turns_with_them(
    queue: Queue, clock: VirtualClock
) -> None:
    for name in ("old-1", "old-2"):
        await add_unschedulable(queue, name, Recording(False))
    queue.add(parse_pod(make_pod("high", uid="high", priority=7)))
    queue.add_unschedulable(await queue.pop(), NODES)
    await clock.advance(20)
    queue.wake({Event.POLICY})
    for name in ("new-1", "new-2", "new-3"):
        queue.add(parse_pod(make_pod(name, uid=name)))
    assert [(await queue.pop()).uid for _ in range(6)] == ["high", "new-1", "old-1", "new-2", "old-2", "new-3"]


async def test_only_a_pod_that_another_decider_has_now_starts_over(queue: Queue) -> None:
    await add_unschedulable(queue, "web", Recording(False))
    (item,) = queue.items()
    item.decider = "one"
    queue.follow_decider("web", "one")
    queue.follow_decider("unknown", "two")
    assert queue.part_of("web") is Part.UNSCHEDULABLE
    queue.follow_decider("web", "two")
    assert queue.part_of("web") is Part.ACTIVE


async def test_a_plugin_that_cannot_tell_pods_apart_is_not_asked(queue: Queue) -> None:
    class Confused(Recording):
        def hint_key(self, pod: Pod) -> Any:
            return []  # which has no hash

    await add_unschedulable(queue, "web", Confused(False))
    queue.wake([known_change()])
    assert queue.part_of("web") is Part.BACKOFF


async def test_nothing_is_remembered_of_pods_that_are_not_parked_any_more(queue: Queue) -> None:
    await add_unschedulable(queue, "web", Recording(True))
    await add_unschedulable(queue, "db", Recording(False))
    queue.wake([known_change()])
    queue.remove("db")
    assert {name for name, size in queue.sizes().items() if size} == {"pods"}


async def test_the_order_is_the_queue_sort_plugin_s(clock: VirtualClock) -> None:
    class ByName:
        name = "ByName"

        def key(self, pod: Pod, since: float, sequence: int) -> Order:
            return *map(ord, pod.name), sequence

    queue = Queue(clock, ByName())
    for name in "cab":
        queue.add(parse_pod(make_pod(name, priority=ord(name))))
    assert [(await queue.pop()).pod.name for _ in range(3)] == ["a", "b", "c"]


async def test_a_pod_that_is_meant_by_name_is_woken_whatever_it_waits_for(queue: Queue) -> None:
    await add_unschedulable(queue, "web", Recording(False))
    queue.wake_pod("web")
    assert queue.part_of("web") is Part.BACKOFF
    item = await queue.pop()
    queue.wake_pod("web")
    queue.wake_pod("unknown")
    queue.add_unschedulable(item, NODES, None, [Recording(False)])
    assert queue.part_of("web") is Part.BACKOFF


async def test_whatever_happens_on_the_node_that_a_pod_is_nominated_to_wakes_it(clock: VirtualClock) -> None:
    state = State()
    queue = Queue(clock, hints=QueueingHints(state, ErrorLog()))
    for name in ("nominated", "other"):
        await add_unschedulable(queue, name, Recording(False))
    state.nominate(parse_pod(make_pod("nominated", uid="nominated")), "a")
    queue.wake([known_change(node="b"), known_change(Event.NODE_TAINTS, node="a")])
    assert queue.part_of("nominated") is Part.UNSCHEDULABLE
    queue.wake([known_change(node="a")])
    assert queue.part_of("nominated") is Part.BACKOFF
    assert queue.part_of("other") is Part.UNSCHEDULABLE
    item = await queue.pop()
    queue.wake([known_change(node="a")])
    queue.add_unschedulable(item, NODES, None, [Recording(False)])
    assert queue.part_of("nominated") is Part.BACKOFF


def test_a_log_tells_what_happened_since_and_when_it_cannot() -> None:
    log = ChangeLog(most=2)
    first, second, third = (known_change(node=name) for name in "abc")
    log.note(first)
    mark = log.mark
    assert log.since(mark) == []
    log.note(second)
    log.note(third)
    assert log.since(mark) == [second, third]
    assert log.since(mark - 1) is None
    log.clear()
    assert log.since(mark) is None
    assert log.since(log.mark) == []
