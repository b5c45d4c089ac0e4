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

An attempt that has to wait for its turn with somebody outside is held, and goes on as if it had just begun. A pod that
found a node which it may yet be refused has left, but is lent: what happens is kept for it as if it were in flight.

The times are those of kube-scheduler, and the policy that made the attempt may have others (`Pace`).

Invariants:

1. A UID is in exactly one part, and the part's container holds it; everything that has left is in none.
2. No change is lost: what comes while a pod is in flight is kept in a log and judged when it is parked (#72122). The
   log is bounded; where it did not suffice, the pod comes back.
3. What woke a pod is what rejected it last: each attempt replaces the set (#120334).
4. An attempt that failed, rather than found no node, always comes back after its backoff, and not earlier unless
   policies change: how long it waits, which may be days, was said by one that may be mended by then.
5. Time is the injected clock's: there is no ticker, `pop` computes the next moment at which anything is due.

The order is that of the queue-sort plugin (`sorting`). A waking touches only those whom it may wake: parked pods are
indexed by event, and those that are alike to the plugins that turned them away are judged once, by these plugins'
hints (`hints`). Without hints every pod that listens to an event is woken by it, and so are the groups beyond the first
MOST_JUDGED. A gated pod costs nothing at all.

What it does not do: know nodes, policies or the API server. Whom it serves is decided by whoever calls `add` and
`remove`.
"""

import asyncio
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import chain
from typing import TypeGuard

from berth.engine.events import Change, Event
from berth.engine.plugin import Plugin
from berth.model import Pod
from berth.policy.records import Pace
from berth.scheduler import causes
from berth.scheduler.change_log import ChangeLog
from berth.scheduler.changes import NOTHING, asks_the_same
from berth.scheduler.heap import Heap, Order
from berth.scheduler.hints import Hints
from berth.scheduler.parked import Parked
from berth.scheduler.ports import Clock
from berth.scheduler.queued import PACE, Part, QueuedPod
from berth.scheduler.sorting import PrioritySort, QueueSort
from berth.scheduler.tally import GATES, Tally
from berth.scheduler.waiting import wait_for_signal

__all__ = ["Part", "Queue", "QueuedPod"]

MOST_DOUBLINGS = 32
MOST_JUDGED = 128  # groups of parked pods, for one change


class Queue:
    """The waiting pods of all scheduler names that somebody serves."""

    def __init__(self, clock: Clock, sort: QueueSort | None = None) -> None:
        self._clock = clock
        self._sort: QueueSort = sort or PrioritySort()
        self.hints: Hints | None = None  # set by whoever knows the cluster
        self._sequence = itertools.count()
        self._items: dict[str, QueuedPod] = {}
        self._active: Heap[QueuedPod] = Heap()
        self._backoff: Heap[QueuedPod] = Heap()
        self._failed: Heap[QueuedPod] = Heap()
        self._unschedulable = Parked()
        self._log = ChangeLog()
        self._gated: dict[str, QueuedPod] = {}
        self._in_flight: dict[str, QueuedPod] = {}
        self._held: dict[str, QueuedPod] = {}
        self._lent: dict[str, QueuedPod] = {}  # have left, and may come back to be parked
        self._open = True
        self._signal = asyncio.Event()
        self.tally = Tally()

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
            self._blame(item, ())

    def part_of(self, uid: str) -> Part | None:
        """Where the pod is."""
        item = self._items.get(uid)
        return item.part if item else None

    def waiting(self) -> list[Pod]:
        """Every pod that waits for nothing but a node: all of them but the gated ones."""
        return [item.pod for item in self._items.values() if item.part is not Part.GATED]

    def items(self) -> list[QueuedPod]:
        """Every pod with where it is and why, for whoever wants to look."""
        return list(self._items.values())

    def statistics(self) -> dict[str, int]:
        return {
            Part.ACTIVE.value: len(self._active),
            Part.BACKOFF.value: len(self._backoff) + len(self._failed),
            Part.UNSCHEDULABLE.value: len(self._unschedulable),
            Part.GATED.value: len(self._gated),
            Part.IN_FLIGHT.value: len(self._in_flight),
            Part.HELD.value: len(self._held),
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

    def lend(self, item: QueuedPod) -> None:
        """The attempt found a node that somebody may still refuse: the pod leaves, and what happens is kept for it."""
        self._lent[item.uid] = item
        self.remove(item.uid)

    def write_off(self, uid: str) -> None:
        """A pod that was lent has its node, or comes back otherwise: what happens is not kept for it any more."""
        if self._lent.pop(uid, None) is not None:
            self._keep_changes()

    def recall(self, item: QueuedPod, wakes_on: frozenset[Event]) -> None:
        """A pod that was lent is refused its node: what happened up to now counts, what its leaving causes does not."""
        if self._lent.get(item.uid) is item:
            item.wakes_on, item.plugins = wakes_on, ()
            missed = self._log.since(item.began)
            item.changed |= missed is None or any(
                self._helps(change, item) for change in missed if not _is_of(change, item)
            )
        self.write_off(item.uid)

    def park_again(
        self, item: QueuedPod, pod: Pod, wakes_on: frozenset[Event], pace: Pace, blamed: Iterable[str] = ()
    ) -> None:
        """A pod that was recalled waits for one of these events, and for nothing if one has happened before that."""
        if item.uid in self._items:
            return
        item.changed |= not asks_the_same(item.pod, pod)
        item.pod, item.began = pod, self._log.mark
        self._items[item.uid] = item
        self._enter(item, Part.IN_FLIGHT)
        self.park(item, wakes_on, pace, blamed=blamed)

    def is_in_flight(self, item: QueuedPod) -> bool:
        """Whether the attempt that this was given out for is still the pod's: it neither left nor was queued anew."""
        return self._in_flight.get(item.uid) is item

    def park(
        self,
        item: QueuedPod,
        wakes_on: frozenset[Event],
        pace: Pace | None = None,
        plugins: Sequence[Plugin] = (),
        blamed: Iterable[str] = (),
    ) -> None:
        """The attempt found no node: wait for one of these events, of which some may have happened already.

        At the pace of the attempt's policy; without one, at the pace that the pod had. `plugins` turned the pod away
        and are asked whether a change helps; where none are named, each of the events does. `blamed` are the names
        of those that turned it away, asked or not.
        """
        missed = self._log.since(item.began)
        asked, group = _group_of(item.pod, wakes_on, plugins)  # before the attempt ends: it asks plugins
        if not self._land(item, wakes_on, pace):
            return
        item.plugins, item.group = asked, group
        self._blame(item, blamed)
        if item.outdated:
            self._enter(item, Part.ACTIVE, causes.POLICY)
        elif item.changed or missed is None or any(self._brings_back(item, change) for change in missed):
            self._resume(item, causes.ATTEMPT_FAILED)
        else:
            self._enter(item, Part.UNSCHEDULABLE, causes.ATTEMPT_FAILED)

    def fail(self, item: QueuedPod, pace: Pace | None = None) -> None:
        """The attempt ended in an error: again after the backoff."""
        if self._land(item, NOTHING, pace):
            item.failed = not item.outdated
            self._enter(item, Part.ACTIVE if item.outdated else Part.BACKOFF, causes.ATTEMPT_FAILED)

    def abandon(self, item: QueuedPod) -> None:
        """The attempt ended without an answer, by no fault of the pod's: it is tried anew in its turn."""
        if self.is_in_flight(item):
            self._leave(item)
            item.attempts -= 1
            self._enter(item, Part.GATED if item.pod.gates else Part.ACTIVE, causes.FORCED)

    def hold(self, item: QueuedPod) -> None:
        """The attempt has to wait before it looks at anything: the pod costs nothing until it is resumed."""
        if self.is_in_flight(item):
            self._leave(item)
            self._enter(item, Part.HELD)

    def resume(self, item: QueuedPod) -> bool:
        """The attempt that was held goes on, from its beginning; False when the pod is not held any more."""
        if self._held.get(item.uid) is not item:
            return False
        self._leave(item)
        self._enter(item, Part.IN_FLIGHT)
        item.began, item.tried = self._log.mark, self._clock.now()
        item.outdated = False
        return True

    def retry(self, pod: Pod, attempts: int, pace: Pace = PACE, queued: float | None = None) -> None:
        """A pod that had left with a node comes back without one: again after the backoff of this many attempts;
        `queued`: when it was first to be tried.
        """
        if pod.uid in self._items:
            return
        now = self._clock.now()
        item = QueuedPod(pod, next(self._sequence), now, attempts=attempts, pace=pace, queued=queued)
        self._items[pod.uid] = item
        self._count_backoff(item)
        item.failed = True
        self._enter(item, Part.GATED if pod.gates else Part.BACKOFF, causes.ATTEMPT_FAILED)

    # --- what brings pods back -----------------------------------------------------------------------------------

    def wake(self, news: Iterable[Change | Event]) -> None:
        """This happened: bring back whom it may help. A change of policy may help everybody, and so may an event of
        which nothing more is known help everybody who listens to it.
        """
        for change in _as_changes(news):
            if self._in_flight or self._lent:
                self._log.note(change)
            if Event.POLICY in change.events:
                for item in chain(self._in_flight.values(), self._lent.values()):
                    item.outdated = True
                self._start_over(chain(self._unschedulable, self._backoff, self._failed), causes.POLICY)
                continue
            groups = self._unschedulable.listening(change.events)
            for members in groups[:MOST_JUDGED]:
                if self._helps(change, next(iter(members.values()))):
                    self._wake_each(members.values(), change)
            self._wake_each(chain.from_iterable(members.values() for members in groups[MOST_JUDGED:]), change)
            nominated = map(self._items.get, self._nominated(change))
            self._wake_each((item for item in nominated if _listens(item, change)), change)

    def wake_pod(self, uid: str) -> None:
        """Something happened for this pod that no event tells of: it is tried again, whatever it waits for."""
        item = self._items.get(uid)
        if item is not None and item.part is Part.IN_FLIGHT:
            item.changed = True
        elif item is not None and item.part is Part.UNSCHEDULABLE:
            self._wake(item, causes.FORCED)

    def start_over(self, uid: str) -> None:
        """The pod is another policy's now: if it waits, it is tried at once."""
        item = self._items.get(uid)
        if item is not None and item.part is Part.IN_FLIGHT:
            item.outdated = True
        elif item is not None and item.part in (Part.BACKOFF, Part.UNSCHEDULABLE):
            self._start_over([item], causes.POD_LABELS)

    def wake_in(self, namespace: str, concerns: Callable[[Pod], bool]) -> None:
        """The namespace has changed: bring back those of its pods that it gives to another policy."""
        for item in chain(self._in_flight.values(), self._lent.values()):
            item.outdated |= item.pod.namespace == namespace and concerns(item.pod)
        waiting = chain(self._unschedulable.in_namespace(namespace), self._backoff, self._failed)
        mine = (item for item in waiting if item.pod.namespace == namespace and concerns(item.pod))
        self._start_over(mine, causes.NAMESPACE)

    # --- inside --------------------------------------------------------------------------------------------------

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
        item = self._active.pop()
        if item is None:
            # With nothing else to do, waiting out a backoff helps nobody; but an error is given its time.
            item = self._backoff.pop()
            if item is not None:
                self.tally.active[causes.BACKOFF_CUT] += 1
        if item is not None:
            self._enter(item, Part.IN_FLIGHT)
            self._blame(item, ())
            item.attempts += 1
            item.began, item.tried = self._log.mark, now
            item.changed = item.outdated = item.failed = False
        return item

    def _bring_back_due(self, now: float) -> None:
        for heap in (self._backoff, self._failed):
            while (first := heap.first()) is not None and first[1].ready <= now:
                self._leave(first[1])
                self._enter(first[1], Part.ACTIVE, causes.BACKOFF_OVER)
        while (first := self._unschedulable.first()) is not None and first[0][0] <= now:
            self._wake(first[1], causes.TIMEOUT)

    def _seconds_until_due(self) -> float | None:
        """Until a failed pod's backoff or the first flush; the rest of backoff has been taken when this is asked."""
        if not self._open:
            return None
        firsts = filter(None, (self._failed.first(), self._unschedulable.first()))
        moment = min((order[0] for order, _ in firsts), default=None)
        return None if moment is None else moment - self._clock.now()

    def _land(self, item: QueuedPod, wakes_on: frozenset[Event], pace: Pace | None) -> bool:
        """End the attempt; False when the pod left, or was gated, during it."""
        if not self.is_in_flight(item):
            return False
        self._leave(item)
        item.pace = pace or item.pace
        self._count_backoff(item)
        item.wakes_on, item.plugins = wakes_on, ()
        if item.pod.gates:
            self._enter(item, Part.GATED, causes.POD_UPDATE)
        return not item.pod.gates

    def _count_backoff(self, item: QueuedPod) -> None:
        item.since = self._clock.now()
        doublings = min(max(item.attempts - 1, 0), MOST_DOUBLINGS)
        pace = item.pace
        item.ready = item.since + min(pace.first_backoff_seconds * 2**doublings, pace.longest_backoff_seconds)

    def _helps(self, change: Change, item: QueuedPod) -> bool:
        if Event.POLICY in change.events:
            return True
        if item.wakes_on.isdisjoint(change.events):
            return False
        if self.hints is None or not item.plugins or not change.known:
            return True
        return self.hints.may_help(item.pod, item.plugins, change)

    def _start_over(self, items: Iterable[QueuedPod], cause: str) -> None:
        """Another policy may decide for these: nothing that an earlier one said counts any more."""
        for item in list(items):
            self._leave(item)
            self._enter(item, Part.ACTIVE, cause)

    def _brings_back(self, item: QueuedPod, change: Change) -> bool:
        listens = not item.wakes_on.isdisjoint(change.events)
        return self._helps(change, item) or (listens and item.uid in self._nominated(change))

    def _nominated(self, change: Change) -> Collection[str]:
        """The UIDs of the pods that wait for the node where this happened: for them it is never the same as before."""
        return self.hints.nominated_to(change.node) if self.hints is not None else ()

    def _wake_each(self, items: Iterable[QueuedPod], change: Change) -> None:
        for item in list(items):
            self._wake(item, causes.cause_of(change))

    def _wake(self, item: QueuedPod, cause: str) -> None:
        self._leave(item)
        self._resume(item, cause)

    def _resume(self, item: QueuedPod, cause: str) -> None:
        self._enter(item, Part.ACTIVE if item.ready <= self._clock.now() else Part.BACKOFF, cause)

    def _blame(self, item: QueuedPod, plugins: Iterable[str]) -> None:
        if item.blamed or plugins:
            item.blamed = self.tally.blame(item.pod.scheduler_name, item.blamed, plugins)

    def _enter(self, item: QueuedPod, part: Part, cause: str = "") -> None:
        """`cause`: why it comes into this part; none where it was in it before, or where nobody counts that."""
        item.part = part
        if part is Part.ACTIVE:
            if cause:
                self.tally.active[cause] += 1
            if item.queued is None:
                item.queued = self._clock.now()
            self._active.push(item.uid, self._turn(item), item)
        elif part is Part.BACKOFF:
            if cause:
                self.tally.backoff[cause] += 1
            heap = self._failed if item.failed else self._backoff
            heap.push(item.uid, (item.ready, *self._turn(item)), item)
        elif part is Part.UNSCHEDULABLE:
            self.tally.unschedulable[cause] += 1
            flush = item.since + item.pace.flush_seconds
            self._unschedulable.add(item, (flush, *self._turn(item)))
        elif part is Part.GATED:
            if cause:
                self.tally.unschedulable[cause] += 1
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
        for container in (self._active, self._backoff, self._failed):
            container.discard(item.uid)
        if self._gated.pop(item.uid, None) is not None:
            self._blame(item, ())
        if self._in_flight.pop(item.uid, None) is not None:
            self._keep_changes()
        self._held.pop(item.uid, None)
        self._unschedulable.discard(item)

    def _keep_changes(self) -> None:
        """As long as somebody may ask for them."""
        if not self._in_flight and not self._lent:
            self._log.clear()

    def _turn(self, item: QueuedPod) -> Order:
        return self._sort.key(item.pod, item.since, item.sequence)


def _listens(item: QueuedPod | None, change: Change) -> TypeGuard[QueuedPod]:
    """Whether it is a parked pod that waits for such events."""
    return item is not None and item.part is Part.UNSCHEDULABLE and not item.wakes_on.isdisjoint(change.events)


def _is_of(change: Change, item: QueuedPod) -> bool:
    """Whether it is the room of the pod itself that was taken or given back."""
    return getattr(change.new or change.old, "uid", None) == item.uid


def _group_of(pod: Pod, wakes_on: frozenset[Event], plugins: Sequence[Plugin]) -> tuple[tuple[Plugin, ...], Hashable]:
    """The plugins to ask for hints, none where one of them cannot tell pods apart; and what the pod's like have."""
    try:
        group = wakes_on, tuple((plugin, plugin.hint_key(pod)) for plugin in plugins)
        hash(group)
    except Exception:
        return (), (wakes_on, ())
    return tuple(plugins), group


def _as_changes(news: Iterable[Change | Event]) -> list[Change]:
    """Each change, and all events of which nothing more is known as one."""
    told = list(news)
    events = frozenset(one for one in told if isinstance(one, Event))
    changes = [one for one in told if isinstance(one, Change)]
    return [*changes, Change(events)] if events else changes
