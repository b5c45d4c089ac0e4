"""The pods that wait for a node, and when each of them is tried next.

                    add                          pop
      (outside) ----------> active ---------------------> in flight ----> done: assumed, gone, or nobody's any more
          |                 ^  ^  ^                        |     |
          | has gates       |  |  | backoff over, or       |     | fail, or something that may help
          v                 |  |  | nothing else to do     |     v happened during the attempt
        gated --------------+  |  +-------------------- backoff  (1 s, doubling to 10 s with every attempt)
               gates gone      |                           ^  |
                               |  wake, or 5 minutes       |  | park
                               +------------------- unschedulable <----+
                                                    (wake before the backoff is over: to backoff)

Invariants:

1. A UID is in exactly one part, and the part's container holds it; everything that has left is in none.
2. No event is lost: those that come while a pod is in flight are kept with it and judged when it is parked (#72122).
   As an event is only a kind of change, the set of those missed says as much as a log of them, in bounded room.
3. What woke a pod is what rejected it last: each attempt replaces the set (#120334).
4. An attempt that failed, rather than found no node, always comes back after its backoff, and not earlier.
5. Time is the injected clock's: there is no ticker, `pop` computes the next moment at which anything is due.

The order is priority, then the time of the last attempt, so that a pod that fails again and again does not stand in
front of its equals. A waking touches only the pods it wakes (parked pods are indexed by event); a gated pod costs
nothing at all.

What it does not do: know nodes, policies or the API server. Whom it serves is decided by whoever calls `add` and
`remove`.
"""

import asyncio
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from berth.engine.events import Event
from berth.model import Pod
from berth.scheduler.changes import NOTHING, asks_the_same
from berth.scheduler.heap import Heap, Order
from berth.scheduler.ports import Clock
from berth.scheduler.waiting import wait_for_signal

FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 10.0
FLUSH_SECONDS = 300.0


class Part(StrEnum):
    """Where in the queue a pod is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in_flight"


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod on its way through the queue; only the queue changes it."""

    pod: Pod
    sequence: int
    since: float  # when it was added, or when its last attempt ended
    part: Part | None = None  # None: has left
    attempts: int = 0
    ready: float = 0.0  # when its backoff is over
    failed: bool = False  # the last attempt ended in an error, so it must not be tried before its time
    wakes_on: frozenset[Event] = NOTHING
    missed: set[Event] = field(default_factory=set)  # happened since it is in flight
    changed: bool = False  # the pod itself asks for something else since it is in flight

    @property
    def uid(self) -> str:
        return self.pod.uid


class Queue:
    """The waiting pods of all scheduler names that somebody serves."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sequence = itertools.count()
        self._items: dict[str, QueuedPod] = {}
        self._active: Heap[QueuedPod] = Heap()
        self._backoff: Heap[QueuedPod] = Heap()
        self._failed: Heap[QueuedPod] = Heap()
        self._unschedulable: dict[str, QueuedPod] = {}  # in the order of parking, so the first is the first to flush
        self._by_event: dict[Event, dict[str, QueuedPod]] = {event: {} for event in Event}
        self._gated: dict[str, QueuedPod] = {}
        self._in_flight: dict[str, QueuedPod] = {}
        self._open = True
        self._signal = asyncio.Event()

    # --- what there is to schedule -------------------------------------------------------------------------------

    def add(self, pod: Pod) -> None:
        """A pod that wants a node, new or in a new version."""
        item = self._items.get(pod.uid)
        if item is None:
            self._admit(QueuedPod(pod, next(self._sequence), self._clock.now()))
        else:
            self._update(item, pod)

    def remove(self, uid: str) -> None:
        """The pod wants no node any more, wherever it is; an attempt that is under way ends without effect."""
        item = self._items.pop(uid, None)
        if item is not None:
            self._leave(item)

    def part_of(self, uid: str) -> Part | None:
        """Where the pod is."""
        item = self._items.get(uid)
        return item.part if item else None

    def statistics(self) -> dict[str, int]:
        return {
            Part.ACTIVE.value: len(self._active),
            Part.BACKOFF.value: len(self._backoff) + len(self._failed),
            Part.UNSCHEDULABLE.value: len(self._unschedulable),
            Part.GATED.value: len(self._gated),
            Part.IN_FLIGHT.value: len(self._in_flight),
        }

    # --- attempts ------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether pods are given out."""
        return self._open

    def open(self) -> None:
        """Let `pop` give out pods."""
        self._open = True
        self._signal.set()

    def close(self) -> None:
        """Keep `pop` waiting, whatever there is."""
        self._open = False

    async def pop(self) -> QueuedPod:
        """The next pod to try, in flight from now on; waits until there is one."""
        while True:
            self._signal.clear()
            item = self._take() if self._open else None
            if item is not None:
                return item
            await wait_for_signal(self._signal, self._clock, self._seconds_until_due())

    def done(self, uid: str) -> None:
        """The attempt found a node, or the pod is nobody's any more: it leaves."""
        self.remove(uid)

    def park(self, item: QueuedPod, wakes_on: frozenset[Event]) -> None:
        """The attempt found no node: wait for one of these events, of which some may have happened already."""
        if not self._land(item, wakes_on):
            return
        if item.changed or Event.POLICY in item.missed or item.missed & wakes_on:
            self._wake(item)
        else:
            self._enter(item, Part.UNSCHEDULABLE)

    def fail(self, item: QueuedPod) -> None:
        """The attempt ended in an error: again after the backoff."""
        if self._land(item, NOTHING):
            item.failed = True
            self._enter(item, Part.BACKOFF)

    def retry(self, pod: Pod, attempts: int) -> None:
        """A pod that had left with a node comes back without one: again after the backoff of this many attempts."""
        if pod.uid in self._items:
            return
        item = QueuedPod(pod, next(self._sequence), self._clock.now(), attempts=attempts)
        self._items[pod.uid] = item
        self._count_backoff(item)
        item.failed = True
        self._enter(item, Part.GATED if pod.gates else Part.BACKOFF)

    # --- what brings pods back -----------------------------------------------------------------------------------

    def wake(self, events: Iterable[Event]) -> None:
        """These things happened: bring back whom they may help. A change of policy may help everybody."""
        events = frozenset(events)
        if not events:
            return
        for item in self._in_flight.values():
            item.missed |= events
        if Event.POLICY in events:
            self._wake_each(self._unschedulable.values())
            return
        for event in events:
            self._wake_each(self._by_event[event].values())

    # --- inside --------------------------------------------------------------------------------------------------

    def _admit(self, item: QueuedPod) -> None:
        self._items[item.uid] = item
        self._enter(item, Part.GATED if item.pod.gates else Part.ACTIVE)

    def _update(self, item: QueuedPod, pod: Pod) -> None:
        unchanged = asks_the_same(item.pod, pod) and bool(item.pod.gates) == bool(pod.gates)
        item.pod = pod
        if unchanged:
            return
        if item.part is Part.IN_FLIGHT:
            item.changed = True
            return
        part = item.part
        self._leave(item)
        if pod.gates:
            self._enter(item, Part.GATED)
        elif part is Part.UNSCHEDULABLE:
            self._resume(item)  # a toleration added to the pod itself, for example (#127427)
        elif part is Part.BACKOFF:
            self._enter(item, Part.BACKOFF)
        else:
            self._enter(item, Part.ACTIVE)

    def _take(self) -> QueuedPod | None:
        self._bring_back_due(self._clock.now())
        # With nothing else to do, waiting out a backoff helps nobody; but an error is given its time.
        item = self._active.pop() or self._backoff.pop()
        if item is not None:
            self._enter(item, Part.IN_FLIGHT)
            item.attempts += 1
            item.missed.clear()
            item.changed = item.failed = False
        return item

    def _bring_back_due(self, now: float) -> None:
        for heap in (self._backoff, self._failed):
            while (first := heap.first()) is not None and first[1].ready <= now:
                self._leave(first[1])
                self._enter(first[1], Part.ACTIVE)
        while self._unschedulable:
            item = next(iter(self._unschedulable.values()))
            if item.since + FLUSH_SECONDS > now:
                return
            self._wake(item)

    def _seconds_until_due(self) -> float | None:
        """Until a failed pod's backoff or the first flush; the rest of backoff has been taken when this is asked."""
        if not self._open:
            return None
        moments = [item.ready for _, item in filter(None, [self._failed.first()])]
        moments += [item.since + FLUSH_SECONDS for item in itertools.islice(self._unschedulable.values(), 1)]
        return min(moments) - self._clock.now() if moments else None

    def _land(self, item: QueuedPod, wakes_on: frozenset[Event]) -> bool:
        """End the attempt; False when the pod left, or was gated, during it."""
        if self._in_flight.get(item.uid) is not item:
            return False
        self._leave(item)
        self._count_backoff(item)
        item.wakes_on = wakes_on
        if item.pod.gates:
            self._enter(item, Part.GATED)
        return not item.pod.gates

    def _count_backoff(self, item: QueuedPod) -> None:
        item.since = self._clock.now()
        doublings = min(max(item.attempts - 1, 0), 10)
        item.ready = item.since + min(FIRST_BACKOFF_SECONDS * 2**doublings, LONGEST_BACKOFF_SECONDS)

    def _wake_each(self, items: Iterable[QueuedPod]) -> None:
        for item in list(items):
            self._wake(item)

    def _wake(self, item: QueuedPod) -> None:
        self._leave(item)
        self._resume(item)

    def _resume(self, item: QueuedPod) -> None:
        self._enter(item, Part.ACTIVE if item.ready <= self._clock.now() else Part.BACKOFF)

    def _enter(self, item: QueuedPod, part: Part) -> None:
        item.part = part
        if part is Part.ACTIVE:
            self._active.push(item.uid, _turn(item), item)
        elif part is Part.BACKOFF:
            heap = self._failed if item.failed else self._backoff
            heap.push(item.uid, (item.ready, *_turn(item)), item)
        elif part is Part.UNSCHEDULABLE:
            self._unschedulable[item.uid] = item
            for event in item.wakes_on:
                self._by_event[event][item.uid] = item
        elif part is Part.GATED:
            self._gated[item.uid] = item
        else:
            self._in_flight[item.uid] = item
        if part is not Part.GATED:
            self._signal.set()

    def _leave(self, item: QueuedPod) -> None:
        item.part = None
        for container in (self._active, self._backoff, self._failed):
            container.discard(item.uid)
        self._gated.pop(item.uid, None)
        self._in_flight.pop(item.uid, None)
        if self._unschedulable.pop(item.uid, None) is not None:
            for event in item.wakes_on:
                self._by_event[event].pop(item.uid, None)


def _turn(item: QueuedPod) -> Order:
    return -item.pod.priority, item.since, item.sequence
