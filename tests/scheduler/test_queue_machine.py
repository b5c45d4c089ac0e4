"""Whatever is done to the queue in whatever order: a pod is in exactly one part, and every pod gets its turn."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from berth.engine.events import Change, Event
from berth.engine.plugin import FilterPlugin
from berth.engine.state.state import State
from berth.model import Pod, parse_pod
from berth.policy.records import BackoffSettings
from berth.scheduler import Queue
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.queue.queued_pod import DEFAULT_BACKOFF, Part, QueuedPod
from berth.scheduler.queue.queueing_hints import QueueingHints
from scheduler.recording_plugins import Recording, known_change
from scheduler.virtual_clock import VirtualClock, settle
from support.builders import make_pod
from support.examples import examples

NAMES = st.sampled_from("abcdef")
EVENTS = st.frozensets(st.sampled_from([Event.POD_REMOVED, Event.NODE_ADDED, Event.NODE_TAINTS, Event.POLICY]))
BACKOFFS = st.sampled_from([DEFAULT_BACKOFF, BackoffSettings(5, 60, 50), BackoffSettings(0.5, 2, 1000)])
LONGEST_FLUSH_SECONDS = 1000
RETRY_EVENTS = st.frozensets(st.sampled_from([Event.POD_REMOVED, Event.NODE_ADDED, Event.NODE_TAINTS]))
HELPFUL = (
    Recording(True, Event.POD_REMOVED),
    Recording(True, Event.NODE_ADDED, Event.NODE_TAINTS),
    Recording(False, Event.POD_REMOVED, Event.NODE_ADDED),
)
PLUGINS = st.sets(st.sampled_from(HELPFUL)).map(lambda chosen: [plugin for plugin in HELPFUL if plugin in chosen])


def make(name: str, priority: int, tolerant: bool, gated: bool) -> Pod:
    tolerations = [{"operator": "Exists"}] if tolerant else []
    return parse_pod(make_pod(name, uid=name, priority=priority, tolerations=tolerations, gates=["g"] * gated))


def helps(change: Change, retry_events: frozenset[Event], plugins: Sequence[FilterPlugin]) -> bool:
    """Whether a change helps a pod that was refused by these, in the plainest words."""
    if Event.POLICY in change.events:
        return True
    if not change.events & retry_events:
        return False
    unjudged = not plugins or not change.known
    helpful = [plugin for plugin in plugins if isinstance(plugin, Recording) and plugin.helps is True]
    return unjudged or any(plugin.retry_events & change.events for plugin in helpful)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = VirtualClock()
        self.queue = Queue(self.clock, hints=QueueingHints(State(), ErrorLog()))
        self.missed: dict[str, list[Change]] = {}  # by UID, since it is in flight
        self.pods: dict[str, Pod] = {}
        self.flying: dict[str, QueuedPod] = {}
        self.held: list[QueuedPod] = []
        self.stale: list[QueuedPod] = []  # in flight when their pods were removed
        self.placed: dict[str, QueuedPod] = {}

    def teardown(self) -> None:
        for item in self.held:
            if self.queue.resume(item):
                self.flying[item.uid] = item
        for item in self.flying.values():
            self.queue.add_unschedulable(item, frozenset())
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
            self.missed[item.uid] = []

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
    @rule(data=st.data(), retry_events=RETRY_EVENTS, backoff=BACKOFFS, plugins=PLUGINS)
    def park(
        self, data: st.DataObject, retry_events: frozenset[Event], backoff: BackoffSettings, plugins: list[FilterPlugin]
    ) -> None:
        item = self.land(data)
        changed, waits = item.changed, not self.pods[item.uid].gates
        self.queue.add_unschedulable(item, retry_events, backoff, plugins)
        helped = changed or any(helps(change, retry_events, plugins) for change in self.missed[item.uid])
        assert (item.part is Part.UNSCHEDULABLE) == (waits and not helped)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), backoff=BACKOFFS)
    def fail(self, data: st.DataObject, backoff: BackoffSettings) -> None:
        self.queue.fail(self.land(data), backoff)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        self.queue.abandon(self.land(data))

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        self.held.append(self.land(data))
        self.queue.hold(self.held[-1])

    @precondition(lambda self: self.held)
    @rule()
    def resume(self) -> None:
        item = self.held.pop()
        was_held = item.uid in self.pods and item.part is Part.HELD
        assert self.queue.resume(item) == was_held
        if was_held:
            self.flying[item.uid] = item
            self.missed[item.uid] = []

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
            self.queue.add_unschedulable(item, frozenset())

    @rule(events=EVENTS, known=st.booleans())
    def wake(self, events: frozenset[Event], known: bool) -> None:
        change = known_change(*events) if known and events else Change(events)
        waiting = [item for item in self.queue.items() if item.part is Part.UNSCHEDULABLE]
        self.queue.wake([change] if known and events else events)
        for missed in self.missed.values():
            missed.append(change)
        for item in waiting:
            assert (item.part is Part.UNSCHEDULABLE) == (not helps(change, item.retry_events, item.plugins))

    @rule(names=st.frozensets(NAMES))
    def change_namespace(self, names: frozenset[str]) -> None:
        self.queue.wake_in("default", lambda pod: pod.name in names)

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 100.0, DEFAULT_BACKOFF.flush_seconds]))
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
        self.wait(self.clock.advance(LONGEST_FLUSH_SECONDS))
        turns = set()
        while (item := self.take()) is not None:
            turns.add(item.uid)
        assert turns == {name for name, pod in self.pods.items() if not pod.gates}


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=examples(60), stateful_step_count=40)
