"""Parked pods and the hints of those who turned them away: who is woken, who is asked, and how often."""

import pytest

from berth.engine.events import Change, Event
from berth.engine.plugin import Plugin
from berth.engine.state import State
from berth.model import Pod, parse_pod
from berth.scheduler import Queue
from berth.scheduler.change_log import MOST_KEPT, ChangeLog
from berth.scheduler.faults import Faults
from berth.scheduler.heap import Order
from berth.scheduler.hints import Hints
from berth.scheduler.queue import Part, QueuedPod
from scheduler.outspoken import Outspoken, known_change
from scheduler.virtual_clock import VirtualClock
from support.builders import make_pod

NODES = frozenset({Event.NODE_ADDED})


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(clock: VirtualClock) -> Queue:
    queue = Queue(clock)
    queue.hints = Hints(State(), Faults())
    return queue


async def popped(queue: Queue, name: str, cpu: str = "1") -> QueuedPod:
    queue.add(parse_pod(make_pod(name, uid=name, cpu=cpu)))
    return await queue.pop()


async def parked(queue: Queue, name: str, *plugins: Plugin, cpu: str = "1") -> None:
    queue.park(await popped(queue, name, cpu), NODES, None, plugins)


async def test_a_change_wakes_those_whose_plugins_say_that_it_may_help(queue: Queue) -> None:
    await parked(queue, "yes", Outspoken(True))
    await parked(queue, "no", Outspoken(False))
    await parked(queue, "either", Outspoken(False), Outspoken(True))
    queue.wake([known_change()])
    assert [queue.part_of(name) for name in ("yes", "no", "either")] == [
        Part.BACKOFF,
        Part.UNSCHEDULABLE,
        Part.BACKOFF,
    ]


async def test_where_nobody_can_be_asked_the_event_is_enough(queue: Queue) -> None:
    await parked(queue, "nobody")
    queue.wake([known_change()])
    await parked(queue, "nothing-known", Outspoken(False))
    queue.wake(NODES)
    assert queue.statistics()["unschedulable"] == 0


async def test_without_hints_the_event_is_enough(queue: Queue) -> None:
    queue.hints = None
    await parked(queue, "web", Outspoken(False))
    queue.wake([known_change()])
    assert queue.part_of("web") is Part.BACKOFF


async def test_a_change_of_policy_is_nobody_s_to_judge(queue: Queue) -> None:
    await parked(queue, "web", Outspoken(False))
    queue.wake([Change(frozenset({Event.POLICY}))])
    assert queue.statistics()["unschedulable"] == 0


async def test_what_came_during_the_attempt_is_judged_by_hints_when_the_pod_is_parked(queue: Queue) -> None:
    for name, helps, part in (("no", False, Part.UNSCHEDULABLE), ("yes", True, Part.BACKOFF)):
        item = await popped(queue, name)
        queue.wake([known_change()])
        queue.park(item, NODES, None, [Outspoken(helps)])
        assert queue.part_of(name) is part
        queue.remove(name)


async def test_of_several_changes_during_the_attempt_each_is_judged(queue: Queue) -> None:
    class OnlyB(Outspoken):
        def hint(self, query: object, state: object, change: Change) -> bool:
            return change.node == "b"

    item = await popped(queue, "web")
    for node in "abc":
        queue.wake([known_change(node=node)])
    queue.park(item, NODES, None, [OnlyB(False)])
    assert queue.part_of("web") is Part.BACKOFF


async def test_more_changes_during_the_attempt_than_are_kept_count_as_help(queue: Queue) -> None:
    item = await popped(queue, "web")
    for _ in range(MOST_KEPT + 1):
        queue.wake([known_change()])
    queue.park(item, NODES, None, [Outspoken(False)])
    assert queue.part_of("web") is Part.BACKOFF


async def test_changes_before_the_attempt_are_none_of_its_business(queue: Queue) -> None:
    other = await popped(queue, "other")  # for whom they are kept
    queue.wake([known_change()])
    await parked(queue, "web", Outspoken(True))
    assert queue.part_of("web") is Part.UNSCHEDULABLE
    queue.park(other, NODES, None, [Outspoken(True)])
    assert queue.part_of("other") is Part.BACKOFF


async def test_nothing_is_kept_when_nobody_is_in_flight(queue: Queue) -> None:
    queue.wake([known_change()])
    assert len(queue._log) == 0
    item = await popped(queue, "web")
    queue.wake([known_change()])
    assert len(queue._log) == 1
    queue.fail(item)
    assert len(queue._log) == 0


async def test_pods_that_are_alike_are_judged_once_however_many_they_are(queue: Queue) -> None:
    plugin = Outspoken(False)
    for number in range(50):
        await parked(queue, f"one-{number}", plugin)
        await parked(queue, f"two-{number}", plugin, cpu="2")
    queue.wake([known_change()])
    assert plugin.asked == 2
    assert queue.statistics()["unschedulable"] == 100
    plugin.helps = True
    queue.wake([known_change()])
    assert plugin.asked == 4
    assert queue.statistics()["unschedulable"] == 0


async def test_no_change_costs_more_than_so_many_questions(queue: Queue) -> None:
    plugin = Outspoken(False)
    for number in range(MOST_JUDGED + 10):
        await parked(queue, f"p-{number}", plugin, cpu=f"{number + 1}m")
    queue.wake([known_change()])
    assert plugin.asked == MOST_JUDGED
    assert queue.statistics()["unschedulable"] == MOST_JUDGED


async def test_a_plugin_that_cannot_tell_pods_apart_is_not_asked(queue: Queue) -> None:
    class Confused(Outspoken):
        def hint_key(self, pod: Pod) -> list[str]:
            return []

    await parked(queue, "web", Confused(False))
    queue.wake([known_change()])
    assert queue.part_of("web") is Part.BACKOFF


async def test_nothing_is_remembered_of_pods_that_are_not_parked_any_more(queue: Queue) -> None:
    await parked(queue, "web", Outspoken(True))
    await parked(queue, "db", Outspoken(False))
    queue.wake([known_change()])
    queue.remove("db")
    parked_pods = queue._unschedulable
    assert not parked_pods._groups
    assert not parked_pods._by_namespace
    assert not any(parked_pods._by_event.values())


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
    await parked(queue, "web", Outspoken(False))
    queue.wake_pod("web")
    assert queue.part_of("web") is Part.BACKOFF
    item = await queue.pop()
    queue.wake_pod("web")
    queue.wake_pod("unknown")
    queue.park(item, NODES, None, [Outspoken(False)])
    assert queue.part_of("web") is Part.BACKOFF


async def test_whatever_happens_on_the_node_that_a_pod_is_nominated_to_wakes_it(queue: Queue) -> None:
    state = State()
    queue.hints = Hints(state, Faults())
    for name in ("nominated", "other"):
        await parked(queue, name, Outspoken(False))
    state.nominate(parse_pod(make_pod("nominated", uid="nominated")), "a")
    queue.wake([known_change(node="b"), known_change(Event.NODE_TAINTS, node="a")])
    assert queue.part_of("nominated") is Part.UNSCHEDULABLE
    queue.wake([known_change(node="a")])
    assert queue.part_of("nominated") is Part.BACKOFF
    assert queue.part_of("other") is Part.UNSCHEDULABLE
    item = await queue.pop()
    queue.wake([known_change(node="a")])
    queue.park(item, NODES, None, [Outspoken(False)])
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
