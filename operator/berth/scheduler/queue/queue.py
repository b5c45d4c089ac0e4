"""The scheduling queue: the pods that wait for a node, and when each of them is tried next.

                    add                          pop
      (outside) ----------> active ---------------------> in flight ----> done: assumed, gone, or without a policy
          |                 ^  ^  ^                        |     |
          | has gates       |  |  | backoff over, or       |     | fail, or an event that may help
          v                 |  |  | active is empty        |     v happened during the attempt
        gated --------------+  |  +-------------------- backoff  (1 s, doubling to 10 s with every attempt)
               gates gone      |                           ^  |
                               |  wake, or 5 minutes       |  | park
                               +------------------- unschedulable <----+
                                                    (wake before the backoff is over: to backoff)

An attempt that has to wait before it may call an extender is held; later it continues as if it had just begun. A pod
that waits on Permit has left the queue, but may still be rejected. It is kept in `_lent`, and events are logged for it
as if it were in flight.

The times are those of kube-scheduler; the policy of the attempt may set others (`BackoffSettings`).

Invariants:

1. A UID is in exactly one part, and that part's container holds it; a pod that has left is in none.
2. No event is lost: events that occur while a pod is in flight are logged, and evaluated when it becomes unschedulable
   (#72122). The log is bounded; if it has overflowed, the pod is tried again.
3. A pod depends on the plugins of its last rejection only: each attempt replaces the set (#120334).
4. A pod whose attempt failed with an error always comes back after its backoff. It comes back earlier only if another
   policy decides for it: the backoff, which may be days, was set by a policy that may be fixed by then.
5. Time is the injected clock's: there is no ticker, `pop` computes when the next pod is due.
6. No event blocks the loop for long: at most ASKED_AT_ONCE hints are evaluated, BROUGHT_AT_ONCE pods moved and
   STEPS_AT_ONCE steps of other work done at once. The rest follows between attempts.

The order is that of the QueueSort plugin (`sorting`). An event touches only the pods that it may help. Unschedulable
pods that are equal to the plugins that rejected them form a group. The groups that an event may help are found by
columns (`unschedulable`) and checked with the plugins' queueing hints (`queueing_hints`). Of each group only as many
pods are moved back at once as there is room for on the node of the event (`openings`). Without hints an event moves
back every pod that listens to it. A gated pod costs nothing.

Pods that come back for another reason than an event (another policy decides for them, or the flush interval is over)
are queued behind new pods. Of two pods of equal priority the new one is tried first, and if both kinds are always
present, they alternate. A higher priority always goes first.

What it does not do: know nodes, policies or the API server. The caller of `add` and `remove` decides which pods are
queued.
"""

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, TypeGuard

from berth.engine.events import Change, Event
from berth.engine.plugin import FilterPlugin
from berth.model import Pod
from berth.policy.records import BackoffSettings
from berth.scheduler.cache.changes import NOTHING, asks_the_same
from berth.scheduler.ports import Clock
from berth.scheduler.queue import queue_reasons as causes
from berth.scheduler.queue.change_log import ChangeLog
from berth.scheduler.queue.heap import Heap, Order
from berth.scheduler.queue.openings import Hope, Opening, Openings
from berth.scheduler.queue.queue_counters import GATES, QueueCounters
from berth.scheduler.queue.queued_pod import DEFAULT_BACKOFF, Part, QueuedPod
from berth.scheduler.queue.queueing_hints import QueueingHints
from berth.scheduler.queue.sorting import PrioritySort, QueueSort
from berth.scheduler.queue.unschedulable import Group, Profile, UnschedulablePods, profile_of
from berth.scheduler.waiting import wait_for_signal

__all__ = ["Part", "Queue", "QueuedPod"]

MOST_DOUBLINGS: Final = 32
ASKED_AT_ONCE: Final = 16  # hints that are evaluated when an event happens, and between two attempts
BROUGHT_AT_ONCE: Final = 64  # pods that one opening, or one `pop`, makes active
STEPS_AT_ONCE: Final = 256  # steps of `do_later` that run at once
STEPS_A_TURN: Final = 64  # further steps between two attempts
MOST_COUNTED: Final = 10_000  # active pods that are looked at to find the place of one: about a millisecond


class Queue:
    """The waiting pods of all scheduler names that have a policy."""

    def __init__(self, clock: Clock, sort: QueueSort | None = None, *, hints: QueueingHints | None = None) -> None:
        """`hints` find the pods that an event may help; None: they are off, and every pod that listens comes back."""
        self._clock = clock
        self._sort: QueueSort = sort or PrioritySort()
        self.hints = hints
        self._sequence = itertools.count()
        self._items: dict[str, QueuedPod] = {}
        self._active: Heap[QueuedPod] = Heap()
        self._returning: Heap[QueuedPod] = Heap()  # active pods that go behind new ones
        self._is_turn_of_returning = False
        self._backoff: Heap[QueuedPod] = Heap()
        self._failed: Heap[QueuedPod] = Heap()
        self._unschedulable = UnschedulablePods()
        self._unschedulable_number = 0  # how many times a pod became unschedulable
        self._openings = Openings()
        self._work: deque[Iterator[None]] = deque()
        self._log = ChangeLog()
        self._gated: dict[str, QueuedPod] = {}
        self._in_flight: dict[str, QueuedPod] = {}
        self._held: dict[str, QueuedPod] = {}
        self._lent: dict[str, QueuedPod] = {}  # have left to wait on Permit, and may come back unschedulable
        self._open = True
        self._signal = asyncio.Event()
        self.counters = QueueCounters()

    # --- pods of the queue ---------------------------------------------------------------------------------------

    def add(self, pod: Pod) -> None:
        """Add a pod that wants a node, or update it."""
        item = self._items.get(pod.uid)
        if item is None:
            self._admit(QueuedPod(pod, next(self._sequence), self._clock.now()))
        else:
            self._update(item, pod)

    def remove(self, uid: str) -> None:
        """Remove a pod from whatever part it is in; an attempt that is running ends without effect."""
        item = self._items.pop(uid, None)
        if item is not None:
            self._leave(item)
            self._blame(item, ())

    def part_of(self, uid: str) -> Part | None:
        """The part of the queue that the pod is in; None if it is not queued."""
        item = self._items.get(uid)
        return item.part if item else None

    def item(self, uid: str) -> QueuedPod | None:
        """The pod in the queue, in whatever part; None if it is not queued."""
        return self._items.get(uid)

    def place_of(self, item: QueuedPod) -> int | None:
        """The place of an active pod, from 1; None if it is not active, or if too many are to count them."""
        heaps = (self._active, self._returning)
        if item.part is not Part.ACTIVE or sum(map(len, heaps)) > MOST_COUNTED:
            return None
        turn = self._turn(item)
        return 1 + sum(heap.count_before(turn) for heap in heaps)

    def is_next(self, item: QueuedPod) -> bool:
        """Whether an event that may help the pod is still being handled, so that the pod will be checked again."""
        group = self._unschedulable.group(item.group)
        if group is None:
            return False
        hopes = (opening.hopes.get(group) for opening in self._openings)
        return any(hope is not None and item.unschedulable_number <= hope.mark for hope in hopes)

    def waiting(self) -> list[Pod]:
        """Every pod of the queue except the gated ones."""
        return [item.pod for item in self._items.values() if item.part is not Part.GATED]

    def items(self) -> list[QueuedPod]:
        """Every pod of the queue, for dumps and metrics."""
        return list(self._items.values())

    def statistics(self) -> dict[str, int]:
        return {
            Part.ACTIVE.value: len(self._active) + len(self._returning),
            Part.BACKOFF.value: len(self._backoff) + len(self._failed),
            Part.UNSCHEDULABLE.value: len(self._unschedulable),
            Part.GATED.value: len(self._gated),
            Part.IN_FLIGHT.value: len(self._in_flight),
            Part.HELD.value: len(self._held),
        }

    def parts_with(self, uid: str) -> list[Part]:
        """Every part that has the pod: the one that `part_of` returns, and no other."""
        parts: tuple[tuple[Part, Container[str]], ...] = (
            (Part.ACTIVE, self._active),
            (Part.ACTIVE, self._returning),
            (Part.BACKOFF, self._backoff),
            (Part.BACKOFF, self._failed),
            (Part.UNSCHEDULABLE, self._unschedulable),
            (Part.GATED, self._gated),
            (Part.IN_FLIGHT, self._in_flight),
            (Part.HELD, self._held),
        )
        return [part for part, pods in parts if uid in pods]

    def sizes(self) -> dict[str, int]:
        """The number of entries in each table. All are 0 once every pod is gone."""
        return {
            "pods": len(self._items),
            "openings": len(self._openings),
            "work for later": len(self._work),
            "changes in flight": len(self._log),
            "lent": len(self._lent),
            **self._unschedulable.sizes(),
        }

    # --- attempts ------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether `pop` returns pods."""
        return self._open

    def open(self) -> None:
        """Let `pop` return pods."""
        self._open = True
        self._signal.set()

    def close(self) -> None:
        """Make `pop` wait until `open` is called."""
        self._open = False

    async def pop(self) -> QueuedPod:
        """The next pod to try, in flight from now on; waits until there is one."""
        while True:
            self._signal.clear()
            self._go_on()
            item = self._take() if self._open else None
            if item is not None:
                return item
            if self._work or self._openings.are_due:
                await self._clock.sleep(0)
            else:
                await wait_for_signal(self._signal, self._clock, self._seconds_until_due())

    def done(self, uid: str) -> None:
        """The attempt found a node, or the pod has no policy any more: it leaves the queue."""
        self.remove(uid)

    def lend(self, item: QueuedPod) -> None:
        """The attempt found a node, but Permit may still reject the pod: it leaves, and events are logged for it."""
        self._lent[item.uid] = item
        self.remove(item.uid)

    def write_off(self, uid: str) -> None:
        """A pod that was lent gets its node, or is queued by other means: stop logging events for it."""
        if self._lent.pop(uid, None) is not None:
            self._keep_changes()

    def recall(self, item: QueuedPod, retry_events: frozenset[Event]) -> None:
        """A pod that was lent is rejected: evaluate the events up to now, except those that it causes itself."""
        if self._lent.get(item.uid) is item:
            item.retry_events, item.plugins = retry_events, ()
            missed = self._log.since(item.began)
            item.changed |= missed is None or any(
                self._helps(change, item) for change in missed if not _is_of(change, item)
            )
        self.write_off(item.uid)

    def put_back_unschedulable(
        self,
        item: QueuedPod,
        pod: Pod,
        retry_events: frozenset[Event],
        backoff: BackoffSettings,
        blamed: Iterable[str] = (),
    ) -> None:
        """Make a recalled pod unschedulable until one of these events; try it at once if one has already happened."""
        if item.uid in self._items:
            return
        item.changed |= not asks_the_same(item.pod, pod)
        item.pod, item.began = pod, self._log.mark
        self._items[item.uid] = item
        self._enter(item, Part.IN_FLIGHT)
        self.add_unschedulable(item, retry_events, backoff, blamed=blamed)

    def is_in_flight(self, item: QueuedPod) -> bool:
        """Whether this attempt is still current: the pod has neither left nor been queued again."""
        return self._in_flight.get(item.uid) is item

    def add_unschedulable(
        self,
        item: QueuedPod,
        retry_events: frozenset[Event],
        backoff: BackoffSettings | None = None,
        plugins: Sequence[FilterPlugin] = (),
        blamed: Iterable[str] = (),
    ) -> None:
        """The attempt found no node: the pod is unschedulable until one of these events. Events during the attempt
        count.

        `backoff` is that of the attempt's policy, by default the pod's own. `plugins` rejected the pod, and their
        queueing hints are used; if it is empty, each of the events moves the pod back. `blamed` are the names of all
        plugins that rejected it, for metrics.
        """
        missed = self._log.since(item.began)
        asked, profile, group = self._group_of(
            item.pod, retry_events, plugins
        )  # before the attempt ends: calls plugins
        if not self._land(item, retry_events, backoff):
            return
        item.plugins, item.profile, item.group = asked, profile, group
        self._blame(item, blamed)
        if item.outdated:
            self._enter(item, Part.ACTIVE, causes.POLICY)
        elif item.changed or missed is None or any(self._brings_back(item, change) for change in missed):
            self._resume(item, causes.ATTEMPT_FAILED)
        else:
            self._enter(item, Part.UNSCHEDULABLE, causes.ATTEMPT_FAILED)

    def fail(self, item: QueuedPod, backoff: BackoffSettings | None = None) -> None:
        """The attempt ended with an error: try again after the backoff."""
        if self._land(item, NOTHING, backoff):
            item.failed = not item.outdated
            self._enter(item, Part.ACTIVE if item.outdated else Part.BACKOFF, causes.ATTEMPT_FAILED)

    def abandon(self, item: QueuedPod) -> None:
        """The attempt ended without a result that concerns the pod: try again in the normal order, without backoff."""
        if self.is_in_flight(item):
            self._leave(item)
            item.attempts -= 1
            self._enter(item, Part.GATED if item.pod.gates else Part.ACTIVE, causes.FORCED)

    def hold(self, item: QueuedPod) -> None:
        """The attempt has to wait before it reads anything: the pod costs nothing until `resume`."""
        if self.is_in_flight(item):
            self._leave(item)
            self._enter(item, Part.HELD)

    def resume(self, item: QueuedPod) -> bool:
        """Restart a held attempt; False if the pod is not held any more."""
        if self._held.get(item.uid) is not item:
            return False
        self._leave(item)
        self._enter(item, Part.IN_FLIGHT)
        item.began, item.tried = self._log.mark, self._clock.now()
        item.outdated = False
        return True

    def retry(
        self,
        pod: Pod,
        attempts: int,
        backoff: BackoffSettings = DEFAULT_BACKOFF,
        queued: float | None = None,
        decider: object = None,
    ) -> None:
        """Queue a pod again that had left with a node and did not get it: after the backoff of this many attempts.

        `queued`: when it first entered the active queue; `decider`: the policy that decides for it.
        """
        if pod.uid in self._items:
            return
        now = self._clock.now()
        item = QueuedPod(
            pod, next(self._sequence), now, attempts=attempts, backoff=backoff, queued=queued, decider=decider
        )
        self._items[pod.uid] = item
        self._count_backoff(item)
        item.failed = True
        self._enter(item, Part.GATED if pod.gates else Part.BACKOFF, causes.ATTEMPT_FAILED)

    # --- events and policies -------------------------------------------------------------------------------------

    def wake(self, changes: Iterable[Change | Event]) -> None:
        """Handle events: move the pods that they may help back to the active queue or to backoff. A policy event may
        help every pod; an event without details may help every pod that listens to it.
        """
        for change in _as_changes(changes):
            if self._in_flight or self._lent:
                self._log.note(change)
            if Event.POLICY in change.events:
                self.outdate(lambda item: True)
                self.do_later(self._start_over_each(self.items(), lambda pod: True, causes.POLICY))
                continue
            self._open_for(change)
            nominated = map(self._items.get, self._nominated(change))
            for item in [item for item in nominated if _listens(item, change)]:
                self._wake(item, causes.cause_of(change))

    def outdate(self, concerns: Callable[[QueuedPod], bool]) -> None:
        """Mark running and lent attempts as outdated whose pod another policy decides for now."""
        for item in chain(self._in_flight.values(), self._lent.values()):
            item.outdated |= concerns(item)

    def do_later(self, work: Iterator[None]) -> None:
        """Run this work between attempts, in bounded steps; at once if it is short."""
        if next(islice(work, STEPS_AT_ONCE, None), self) is not self:
            self._work.append(work)
            self._signal.set()

    def wake_pod(self, uid: str) -> None:
        """Try this pod again, whatever events it listens to."""
        item = self._items.get(uid)
        if item is not None and item.part is Part.IN_FLIGHT:
            item.changed = True
        elif item is not None and item.part is Part.UNSCHEDULABLE:
            self._wake(item, causes.FORCED)

    def start_over(self, uid: str) -> None:
        """Another policy decides for the pod now: if it waits, it is tried at once."""
        item = self._items.get(uid)
        if item is not None and item.part is Part.IN_FLIGHT:
            item.outdated = True
        elif item is not None and item.part in (Part.BACKOFF, Part.UNSCHEDULABLE):
            self._start_over(item, causes.POD_LABELS)

    def follow_decider(self, uid: str, decider: object) -> None:
        """If the pod waits because of another decider than this, try it again, behind new pods."""
        item = self._items.get(uid)
        if item is not None and item.part in (Part.BACKOFF, Part.UNSCHEDULABLE) and item.decider != decider:
            item.returning = True
            self._start_over(item, causes.POLICY)

    def wake_in(self, namespace: str, concerns: Callable[[Pod], bool]) -> None:
        """The namespace has changed: try those of its pods again for which another policy decides now."""
        self.outdate(lambda item: item.pod.namespace == namespace and concerns(item.pod))
        waiting = [*self._unschedulable.in_namespace(namespace), *self._backoff, *self._failed]
        mine = [item for item in waiting if item.pod.namespace == namespace]
        self.do_later(self._start_over_each(mine, concerns, causes.NAMESPACE))

    # --- parts of the queue --------------------------------------------------------------------------------------

    def _admit(self, item: QueuedPod) -> None:
        self._items[item.uid] = item
        self._enter(item, Part.GATED if item.pod.gates else Part.ACTIVE, causes.POD_ADD)

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
            self._enter(item, Part.GATED, "" if part is Part.GATED else causes.POD_UPDATE)
        elif part is Part.UNSCHEDULABLE:
            self._resume(item, causes.POD_UPDATE)  # a toleration added to the pod itself, for example (#127427)
        elif part is Part.BACKOFF:
            self._enter(item, Part.BACKOFF)
        else:
            self._enter(item, Part.ACTIVE, causes.GATES_GONE if part is Part.GATED else "")

    def _take(self) -> QueuedPod | None:
        now = self._clock.now()
        self._bring_back_due(now)
        item = self._pop_active()
        if item is None:
            # With an empty active queue a backoff is cut short, as in kube-scheduler; not the one of an error.
            item = self._backoff.pop()
            if item is not None:
                self.counters.active[causes.BACKOFF_CUT] += 1
        if item is not None:
            self._end_opening(item)
            self._enter(item, Part.IN_FLIGHT)
            self._blame(item, ())
            item.attempts += 1
            item.began, item.tried = self._log.mark, now
            item.changed = item.outdated = item.failed = item.returning = False
        return item

    def _pop_active(self) -> QueuedPod | None:
        new, returning = self._active.first(), self._returning.first()
        if new is None or returning is None:
            return self._returning.pop() if new is None else self._active.pop()
        if returning[0] > new[0]:
            return self._active.pop()
        item = returning[1]
        if self._sort.key(item.pod, math.inf, item.sequence) < new[0]:  # a higher priority, whatever either has waited
            return self._returning.pop()
        self._is_turn_of_returning = not self._is_turn_of_returning
        return self._active.pop() if self._is_turn_of_returning else self._returning.pop()

    def _bring_back_due(self, now: float) -> None:
        for heap in (self._backoff, self._failed):
            for _ in range(BROUGHT_AT_ONCE):
                first = heap.first()
                if first is None or first[1].ready > now:
                    break
                self._leave(first[1])
                self._enter(first[1], Part.ACTIVE, causes.BACKOFF_OVER)
        for _ in range(BROUGHT_AT_ONCE):
            first = self._unschedulable.first()
            if first is None or first[0][0] > now:
                break
            first[1].returning = True
            self._wake(first[1], causes.TIMEOUT)

    def _seconds_until_due(self) -> float | None:
        """Seconds until the backoff of a failed pod or the first flush. Other pods in backoff are not waited for: `pop`
        has taken them already.
        """
        if not self._open:
            return None
        firsts = filter(None, (self._failed.first(), self._unschedulable.first()))
        moment = min((order[0] for order, _ in firsts), default=None)
        return None if moment is None else moment - self._clock.now()

    def _land(self, item: QueuedPod, retry_events: frozenset[Event], backoff: BackoffSettings | None) -> bool:
        """End the attempt; False if the pod has left or was gated meanwhile."""
        if not self.is_in_flight(item):
            return False
        self._leave(item)
        item.backoff = backoff or item.backoff
        self._count_backoff(item)
        item.retry_events, item.plugins = retry_events, ()
        if item.pod.gates:
            self._enter(item, Part.GATED, causes.POD_UPDATE)
        return not item.pod.gates

    def _group_of(
        self, pod: Pod, retry_events: frozenset[Event], plugins: Sequence[FilterPlugin]
    ) -> tuple[tuple[FilterPlugin, ...], Profile, Hashable]:
        """The plugins whose hints are used, what they say about the pod, and the key of its group.

        No plugins are returned if one of them fails.
        """
        try:
            profile = Profile() if self.hints is None else profile_of(pod, retry_events, plugins, self.hints.state)
            group = pod.priority, retry_events, tuple((plugin, plugin.hint_key(pod)) for plugin in plugins), profile
            hash(group)
        except Exception:
            return (), Profile(), (pod.priority, retry_events, ())
        return tuple(plugins), profile, group

    def _count_backoff(self, item: QueuedPod) -> None:
        item.since = self._clock.now()
        doublings = min(max(item.attempts - 1, 0), MOST_DOUBLINGS)
        backoff = item.backoff
        item.ready = item.since + min(backoff.first_backoff_seconds * 2**doublings, backoff.longest_backoff_seconds)

    def _helps(self, change: Change, item: QueuedPod) -> bool:
        if Event.POLICY in change.events:
            return True
        if item.retry_events.isdisjoint(change.events):
            return False
        if self.hints is None or not item.plugins or not change.known:
            return True
        return self.hints.may_help(item.pod, item.plugins, change)

    def _start_over(self, item: QueuedPod, cause: str) -> None:
        """Another policy may decide for the pod: make it active without backoff."""
        self._leave(item)
        self._enter(item, Part.ACTIVE, cause)

    def _start_over_each(
        self, items: Sequence[QueuedPod], concerns: Callable[[Pod], bool], cause: str
    ) -> Iterator[None]:
        """Start over those pods that it `concerns` and that have not been tried since."""
        attempts = [item.attempts for item in items]
        for item, before in zip(items, attempts, strict=True):
            if item.part in (Part.BACKOFF, Part.UNSCHEDULABLE) and item.attempts == before and concerns(item.pod):
                item.returning = True
                self._start_over(item, cause)
            yield

    # --- pods that an event may help -----------------------------------------------------------------------------

    def _open_for(self, change: Change) -> None:
        """Find the groups that the change may help, and move their first pods back."""
        anywhere, here = self._concerned(change)
        for node, groups in (("", anywhere), (change.node, here)):
            if groups:
                self._look(self._openings.open(node, change, groups, self._unschedulable_number), ASKED_AT_ONCE)
        if self._openings.are_due:  # `pop` goes on with the rest
            self._signal.set()

    def _concerned(self, change: Change) -> tuple[list[Group], list[Group]]:
        if self.hints is None or not change.known:
            return self._unschedulable.listening(change.events), []
        return self._unschedulable.concerned(change, self.hints.state)

    def _go_on(self) -> None:
        """Do a bounded part of the work that is left from earlier events."""
        left = ASKED_AT_ONCE
        for opening in self._openings.take_due():
            if left > 0:
                left -= max(1, self._look(opening, left))
            else:
                self._openings.settle(opening)
        if self._work and next(islice(self._work[0], STEPS_A_TURN, None), self) is self:
            self._work.popleft()

    def _look(self, opening: Opening, most: int) -> int:
        """Move back the pods that the opening has room for. Returns the number of hints that were evaluated, at most
        `most` apart from the last group.
        """
        asked = slow = 0
        if self.hints is not None:
            self.hints.forget()
        for group, hope in self._openings.in_order(opening):
            if not _is_untried(group, hope):
                del opening.hopes[group]
                continue
            if asked >= most:
                break
            asked += len(hope.changes)
            first = group.first
            helpful = [change for change in hope.changes if self._helps(change, first)]
            if not helpful:
                del opening.hopes[group]
                continue
            room = self._room_in(opening, group) - len(opening.out) - slow
            if room <= 0:
                break
            for item in list(islice(group.members.values(), room)):
                if item.unschedulable_number <= hope.mark:
                    slow += self._bring_back(item, opening, causes.cause_of(helpful[0]))
            if not _is_untried(group, hope):
                del opening.hopes[group]
        self._openings.settle(opening)
        return asked

    def _bring_back(self, item: QueuedPod, opening: Opening, cause: str) -> bool:
        """Move the pod back; True if it goes to backoff, so that the opening does not wait for it."""
        self._wake(item, cause)
        if item.part is not Part.ACTIVE:
            return True
        item.opening = opening
        opening.out.add(item.uid)
        return False

    def _room_in(self, opening: Opening, group: Group) -> int:
        """How many pods of the group may be active at once for the opening."""
        if not opening.node or self.hints is None:
            return BROUGHT_AT_ONCE
        return min(BROUGHT_AT_ONCE, self._unschedulable.places(group, self.hints.state, opening.node))

    def _end_opening(self, item: QueuedPod) -> None:
        """The pod is not active any more: if it was the last one of its opening, the opening continues."""
        opening, item.opening = item.opening, None
        if opening is not None and self._openings.tried(opening, item.uid):
            self._signal.set()

    def _brings_back(self, item: QueuedPod, change: Change) -> bool:
        listens = not item.retry_events.isdisjoint(change.events)
        return self._helps(change, item) or (listens and item.uid in self._nominated(change))

    def _nominated(self, change: Change) -> Collection[str]:
        """The UIDs of the pods that are nominated to the node of the change: it always concerns them."""
        return self.hints.nominated_to(change.node) if self.hints is not None else ()

    def _wake(self, item: QueuedPod, cause: str) -> None:
        self._leave(item)
        self._resume(item, cause)

    def _resume(self, item: QueuedPod, cause: str) -> None:
        self._enter(item, Part.ACTIVE if item.ready <= self._clock.now() else Part.BACKOFF, cause)

    def _blame(self, item: QueuedPod, plugins: Iterable[str]) -> None:
        if item.blamed or plugins:
            item.blamed = self.counters.blame(item.pod.scheduler_name, item.blamed, plugins)

    def _enter(self, item: QueuedPod, part: Part, cause: str = "") -> None:
        """`cause`: why the pod enters this part, for metrics; empty if it was in it before, or if it is not counted."""
        item.part = part
        if part is Part.ACTIVE:
            if cause:
                self.counters.active[cause] += 1
            if item.queued is None:
                item.queued = self._clock.now()
            heap = self._returning if item.returning else self._active
            heap.push(item.uid, self._turn(item), item)
        elif part is Part.BACKOFF:
            if cause:
                self.counters.backoff[cause] += 1
            heap = self._failed if item.failed else self._backoff
            heap.push(item.uid, (item.ready, *self._turn(item)), item)
        elif part is Part.UNSCHEDULABLE:
            self.counters.unschedulable[cause] += 1
            self._unschedulable_number += 1
            item.unschedulable_number, item.returning = self._unschedulable_number, False
            flush = item.since + item.backoff.flush_seconds
            self._unschedulable.add(item, (flush, *self._turn(item)))
        elif part is Part.GATED:
            if cause:
                self.counters.unschedulable[cause] += 1
            self._gated[item.uid] = item
            self._blame(item, (GATES,))
        elif part is Part.HELD:
            self._held[item.uid] = item
        else:
            self._in_flight[item.uid] = item
        if part is not Part.GATED:
            self._signal.set()

    def _leave(self, item: QueuedPod) -> None:
        item.part = None
        self._end_opening(item)
        for container in (self._active, self._returning, self._backoff, self._failed):
            container.discard(item.uid)
        if self._gated.pop(item.uid, None) is not None:
            self._blame(item, ())
        if self._in_flight.pop(item.uid, None) is not None:
            self._keep_changes()
        self._held.pop(item.uid, None)
        self._unschedulable.discard(item)

    def _keep_changes(self) -> None:
        """Clear the log of events if no attempt may need it."""
        if not self._in_flight and not self._lent:
            self._log.clear()

    def _turn(self, item: QueuedPod) -> Order:
        return self._sort.key(item.pod, item.since, item.sequence)


def _listens(item: QueuedPod | None, change: Change) -> TypeGuard[QueuedPod]:
    """Whether this is an unschedulable pod that listens to one of the events."""
    return item is not None and item.part is Part.UNSCHEDULABLE and not item.retry_events.isdisjoint(change.events)


def _is_untried(group: Group, hope: Hope) -> bool:
    """Whether a pod of the group has not been tried since; a group without pods is never used again."""
    return bool(group.members) and group.first.unschedulable_number <= hope.mark


def _is_of(change: Change, item: QueuedPod) -> bool:
    """Whether the change is about the pod itself: its own resources were taken or freed."""
    return getattr(change.new or change.old, "uid", None) == item.uid


def _as_changes(happened: Iterable[Change | Event]) -> list[Change]:
    """Each change, and all events without details as one change."""
    given = list(happened)
    events = frozenset(one for one in given if isinstance(one, Event))
    changes = [one for one in given if isinstance(one, Change)]
    return [*changes, Change(events)] if events else changes
