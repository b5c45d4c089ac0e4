"""Whatever is done to the queue in whatever order: a pod is in exactly one part, and every pod gets its turn."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from berth.engine.events import Event
from berth.model import Pod, parse_pod
from berth.scheduler import Queue
from berth.scheduler.queue import FLUSH_SECONDS, Part, QueuedPod
from scheduler.virtual_clock import VirtualClock, settle
from support.builders import make_pod

NAMES = st.sampled_from("abcdef")
EVENTS = st.frozensets(st.sampled_from([Event.POD_REMOVED, Event.NODE_ADDED, Event.NODE_TAINTS, Event.POLICY]))
WAKES_ON = st.frozensets(st.sampled_from([Event.POD_REMOVED, Event.NODE_ADDED, Event.NODE_TAINTS]))


def make(name: str, priority: int, tolerant: bool, gated: bool) -> Pod:
    tolerations = [{"operator": "Exists"}] if tolerant else []
    return parse_pod(make_pod(name, uid=name, priority=priority, tolerations=tolerations, gates=["g"] * gated))


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = VirtualClock()
        self.queue = Queue(self.clock)
        self.pods: dict[str, Pod] = {}
        self.flying: dict[str, QueuedPod] = {}
        self.stale: list[QueuedPod] = []  # in flight when their pods were removed
        self.placed: dict[str, QueuedPod] = {}

    def teardown(self) -> None:
        for item in self.flying.values():
            self.queue.park(item, frozenset())
        self.flying.clear()
        self.every_pod_gets_its_turn()
        self.loop.close()

    def wait(self, work: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(work)

    @rule(name=NAMES, priority=st.integers(0, 2), tolerant=st.booleans(), gated=st.booleans())
    def add(self, name: str, priority: int, tolerant: bool, gated: bool) -> None:
        self.placed.pop(name, None)
        self.pods[name] = make(name, priority, tolerant, gated)
        self.queue.add(self.pods[name])

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.pods.pop(name, None)
        self.placed.pop(name, None)
        if name in self.flying:
            self.stale.append(self.flying.pop(name))
        self.queue.remove(name)

    @rule()
    def pop(self) -> None:
        item = self.take()
        if item is not None:
            assert item.uid in self.pods
            assert item.uid not in self.flying
            self.flying[item.uid] = item

    def take(self) -> QueuedPod | None:
        async def attempt() -> QueuedPod | None:
            task = asyncio.ensure_future(self.queue.pop())
            await settle()
            if task.done():
                return task.result()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return None

        return self.loop.run_until_complete(attempt())

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), wakes_on=WAKES_ON)
    def park(self, data: st.DataObject, wakes_on: frozenset[Event]) -> None:
        self.queue.park(self.land(data), wakes_on)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        self.queue.fail(self.land(data))

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def place(self, data: st.DataObject) -> None:
        item = self.land(data)
        self.queue.done(item.uid)
        del self.pods[item.uid]
        self.placed[item.uid] = item

    @precondition(lambda self: self.placed)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        item = self.placed.pop(data.draw(st.sampled_from(sorted(self.placed))))
        self.pods[item.uid] = item.pod
        self.queue.retry(item.pod, item.attempts)

    @precondition(lambda self: self.stale)
    @rule(error=st.booleans())
    def end_an_attempt_whose_pod_is_gone(self, error: bool) -> None:
        item = self.stale.pop()
        if error:
            self.queue.fail(item)
        else:
            self.queue.park(item, frozenset())

    @rule(events=EVENTS)
    def wake(self, events: frozenset[Event]) -> None:
        self.queue.wake(events)

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 100.0, FLUSH_SECONDS]))
    def advance(self, seconds: float) -> None:
        self.wait(self.clock.advance(seconds))

    def land(self, data: st.DataObject) -> QueuedPod:
        return self.flying.pop(data.draw(st.sampled_from(sorted(self.flying))))

    @invariant()
    def each_pod_is_in_exactly_one_part(self) -> None:
        statistics = self.queue.statistics()
        assert sum(statistics.values()) == len(self.pods)
        parts = {name: self.queue.part_of(name) for name in self.pods}
        for part in Part:
            assert statistics[part.value] == sum(where is part for where in parts.values())

    @invariant()
    def what_is_in_flight_was_given_out(self) -> None:
        assert {name for name in self.pods if self.queue.part_of(name) is Part.IN_FLIGHT} == set(self.flying)

    def every_pod_gets_its_turn(self) -> None:
        self.wait(self.clock.advance(FLUSH_SECONDS))
        turns = set()
        while (item := self.take()) is not None:
            turns.add(item.uid)
        assert turns == {name for name, pod in self.pods.items() if not pod.gates}


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40)
