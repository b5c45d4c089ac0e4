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
   another policy decides for the pod: how long it waits, which may be days, was said by a policy that may be fixed by
   then.
5. Time is the injected clock's: there is no ticker, `pop` computes the next moment at which anything is due.
6. Nothing that happens holds the loop for long: no more than ASKED_AT_ONCE hints are asked, BROUGHT_AT_ONCE pods
   brought back and STEPS_AT_ONCE steps of other work done at once. The rest follows between attempts.

The order is that of the queue-sort plugin (`sorting`). A change touches only the pods that it may help: unschedulable
pods that are alike to the plugins that rejected them are one group, the groups that a change may help are found by
columns (`parked`) and judged by these plugins' hints (`hints`), and of a group as many pods are brought back at once as
there is room for where the change happened (`openings`). Without hints every pod that listens to an event is brought
back by it. A gated pod costs nothing at all.

Pods that come back because of no change in the cluster, but because another policy decides for them, or because they
have waited for minutes, come back behind new pods: of two pods of equal priority the new one is tried first, and in a
queue that never ends they take turns. Where their priorities differ, the higher goes first as always.

What it does not do: know nodes, policies or the API server. Whom it serves is decided by whoever calls `add` and
`remove`.
"""

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, TypeGuard

from berth.engine.events import Change, Event
from berth.engine.plugin import Plugin
from berth.model import Pod
from berth.policy.records import BackoffSettings as Pace
from berth.scheduler.cache.changes import NOTHING, asks_the_same
from berth.scheduler.ports import Clock
from berth.scheduler.queue import queue_reasons as causes
from berth.scheduler.queue.change_log import ChangeLog
from berth.scheduler.queue.heap import Heap, Order
from berth.scheduler.queue.openings import Hope, Opening, Openings
from berth.scheduler.queue.queue_counters import GATES, QueueCounters
from berth.scheduler.queue.queued_pod import PACE, Part, QueuedPod
from berth.scheduler.queue.queueing_hints import QueueingHints
from berth.scheduler.queue.sorting import PrioritySort, QueueSort
from berth.scheduler.queue.unschedulable import Group, Profile, UnschedulablePods, profile_of
from berth.scheduler.waiting import wait_for_signal

__all__ = ["Part", "Queue", "QueuedPod"]

MOST_DOUBLINGS: Final = 32
ASKED_AT_ONCE: Final = 16  # changes that groups are judged by, when one happens and between two attempts
BROUGHT_AT_ONCE: Final = 64  # pods that one opening, or one turn, makes active
STEPS_AT_ONCE: Final = 256  # of work that is done later, when it is handed over
STEPS_A_TURN: Final = 64  # of it, between two attempts


class Queue:
    """The waiting pods of all scheduler names that somebody serves."""

    def __init__(self, clock: Clock, sort: QueueSort | None = None) -> None:
        self._clock = clock
        self._sort: QueueSort = sort or PrioritySort()
        self.hints: QueueingHints | None = None  # set by whoever knows the cluster
        self._sequence = itertools.count()
        self._items: dict[str, QueuedPod] = {}
        self._active: Heap[QueuedPod] = Heap()
        self._returning: Heap[QueuedPod] = Heap()  # active too, behind the new ones
        self._is_turn_of_returning = False
        self._backoff: Heap[QueuedPod] = Heap()
        self._failed: Heap[QueuedPod] = Heap()
        self._unschedulable = UnschedulablePods()
        self._parked = 0  # how many times a pod became unschedulable
        self._openings = Openings()
        self._work: deque[Iterator[None]] = deque()
        self._log = ChangeLog()
        self._gated: dict[str, QueuedPod] = {}
        self._in_flight: dict[str, QueuedPod] = {}
        self._held: dict[str, QueuedPod] = {}
        self._lent: dict[str, QueuedPod] = {}  # have left, and may come back to be parked
        self._open = True
        self._signal = asyncio.Event()
        self.tally = QueueCounters()

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

    def is_next(self, item: QueuedPod) -> bool:
        """Whether the pod is to be looked at again when others have been tried for what happened."""
        group = self._unschedulable.group(item.group)
        if group is None:
            return False
        hopes = (opening.hopes.get(group) for opening in self._openings)
        return any(hope is not None and item.parked <= hope.mark for hope in hopes)

    def waiting(self) -> list[Pod]:
        """Every pod that waits for nothing but a node: all of them but the gated ones."""
        return [item.pod for item in self._items.values() if item.part is not Part.GATED]

    def items(self) -> list[QueuedPod]:
        """Every pod with where it is and why, for whoever wants to look."""
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
            self._go_on()
            item = self._take() if self._open else None
            if item is not None:
                return item
            if self._work or self._openings.are_due:
                await self._clock.sleep(0)
            else:
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
        asked, profile, group = self._group_of(item.pod, wakes_on, plugins)  # before the attempt ends: asks plugins
        if not self._land(item, wakes_on, pace):
            return
        item.plugins, item.profile, item.group = asked, profile, group
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

    def retry(
        self, pod: Pod, attempts: int, pace: Pace = PACE, queued: float | None = None, decider: object = None
    ) -> None:
        """A pod that had left with a node comes back without one: again after the backoff of this many attempts;
        `queued`: when it was first to be tried; `decider`: who decides for it.
        """
        if pod.uid in self._items:
            return
        now = self._clock.now()
        item = QueuedPod(pod, next(self._sequence), now, attempts=attempts, pace=pace, queued=queued, decider=decider)
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
                self.outdate(lambda item: True)
                self.do_later(self._start_over_each(self.items(), lambda pod: True, causes.POLICY))
                continue
            self._open_for(change)
            nominated = map(self._items.get, self._nominated(change))
            for item in [item for item in nominated if _listens(item, change)]:
                self._wake(item, causes.cause_of(change))

    def outdate(self, concerns: Callable[[QueuedPod], bool]) -> None:
        """Another policy decides for these of the pods that are in flight or lent: their attempts count for nothing."""
        for item in chain(self._in_flight.values(), self._lent.values()):
            item.outdated |= concerns(item)

    def do_later(self, work: Iterator[None]) -> None:
        """Do this between attempts, so many steps at a time; if it is little, at once."""
        if next(islice(work, STEPS_AT_ONCE, None), self) is not self:
            self._work.append(work)
            self._signal.set()

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
            self._start_over(item, causes.POD_LABELS)

    def follow_decider(self, uid: str, decider: object) -> None:
        """This decides for the pod now: if it waits because of another, it is tried again, behind new pods."""
        item = self._items.get(uid)
        if item is not None and item.part in (Part.BACKOFF, Part.UNSCHEDULABLE) and item.decider != decider:
            item.returning = True
            self._start_over(item, causes.POLICY)

    def wake_in(self, namespace: str, concerns: Callable[[Pod], bool]) -> None:
        """The namespace has changed: bring back those of its pods that it gives to another policy."""
        self.outdate(lambda item: item.pod.namespace == namespace and concerns(item.pod))
        waiting = [*self._unschedulable.in_namespace(namespace), *self._backoff, *self._failed]
        mine = [item for item in waiting if item.pod.namespace == namespace]
        self.do_later(self._start_over_each(mine, concerns, causes.NAMESPACE))

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
        item = self._pop_active()
        if item is None:
            # With nothing else to do, waiting out a backoff helps nobody; but an error is given its time.
            item = self._backoff.pop()
            if item is not None:
                self.tally.active[causes.BACKOFF_CUT] += 1
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
        if self._sort.key(item.pod, math.inf, item.sequence) < new[0]:  # before it, however long either has waited
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

    def _group_of(
        self, pod: Pod, wakes_on: frozenset[Event], plugins: Sequence[Plugin]
    ) -> tuple[tuple[Plugin, ...], Profile, Hashable]:
        """The plugins to ask for hints, none where one of them cannot tell pods apart; what they say of the pod; and
        what pods of its group share.
        """
        try:
            profile = Profile() if self.hints is None else profile_of(pod, wakes_on, plugins, self.hints.state)
            group = pod.priority, wakes_on, tuple((plugin, plugin.hint_key(pod)) for plugin in plugins), profile
            hash(group)
        except Exception:
            return (), Profile(), (pod.priority, wakes_on, ())
        return tuple(plugins), profile, group

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

    def _start_over(self, item: QueuedPod, cause: str) -> None:
        """Another policy may decide for the pod: nothing that an earlier one said counts any more."""
        self._leave(item)
        self._enter(item, Part.ACTIVE, cause)

    def _start_over_each(
        self, items: Sequence[QueuedPod], concerns: Callable[[Pod], bool], cause: str
    ) -> Iterator[None]:
        """Those that it concerns and that have not been tried since."""
        attempts = [item.attempts for item in items]
        for item, before in zip(items, attempts, strict=True):
            if item.part in (Part.BACKOFF, Part.UNSCHEDULABLE) and item.attempts == before and concerns(item.pod):
                item.returning = True
                self._start_over(item, cause)
            yield

    # --- what changes bring back ---------------------------------------------------------------------------------

    def _open_for(self, change: Change) -> None:
        """Find the groups that the change may help, and bring back the first pods of these."""
        anywhere, here = self._concerned(change)
        for node, groups in (("", anywhere), (change.node, here)):
            if groups:
                self._look(self._openings.open(node, change, groups, self._parked), ASKED_AT_ONCE)
        if self._openings.are_due:  # `pop` goes on with the rest
            self._signal.set()

    def _concerned(self, change: Change) -> tuple[list[Group], list[Group]]:
        if self.hints is None or not change.known:
            return self._unschedulable.listening(change.events), []
        return self._unschedulable.concerned(change, self.hints.state)

    def _go_on(self) -> None:
        """A part of what is left to do of what happened."""
        left = ASKED_AT_ONCE
        for opening in self._openings.take_due():
            if left > 0:
                left -= max(1, self._look(opening, left))
            else:
                self._openings.settle(opening)
        if self._work and next(islice(self._work[0], STEPS_A_TURN, None), self) is self:
            self._work.popleft()

    def _look(self, opening: Opening, most: int) -> int:
        """Bring back the pods that the opening has room for; returns by how many changes groups were judged, which is
        no more than so many, but for the last group.
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
                if item.parked <= hope.mark:
                    slow += self._bring_back(item, opening, causes.cause_of(helpful[0]))
            if not _is_untried(group, hope):
                del opening.hopes[group]
        self._openings.settle(opening)
        return asked

    def _bring_back(self, item: QueuedPod, opening: Opening, cause: str) -> bool:
        """Whether the pod has to wait for its backoff first; then the opening does not wait for it."""
        self._wake(item, cause)
        if item.part is not Part.ACTIVE:
            return True
        item.opening = opening
        opening.out.add(item.uid)
        return False

    def _room_in(self, opening: Opening, group: Group) -> int:
        """How many of the group's pods may be active at once for the opening."""
        if not opening.node or self.hints is None:
            return BROUGHT_AT_ONCE
        return min(BROUGHT_AT_ONCE, self._unschedulable.places(group, self.hints.state, opening.node))

    def _end_opening(self, item: QueuedPod) -> None:
        """The pod is not active any more: if it was the last that was brought back, the opening goes on."""
        opening, item.opening = item.opening, None
        if opening is not None and self._openings.tried(opening, item.uid):
            self._signal.set()

    def _brings_back(self, item: QueuedPod, change: Change) -> bool:
        listens = not item.wakes_on.isdisjoint(change.events)
        return self._helps(change, item) or (listens and item.uid in self._nominated(change))

    def _nominated(self, change: Change) -> Collection[str]:
        """The UIDs of the pods that wait for the node where this happened: for them it is never the same as before."""
        return self.hints.nominated_to(change.node) if self.hints is not None else ()

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
            heap = self._returning if item.returning else self._active
            heap.push(item.uid, self._turn(item), item)
        elif part is Part.BACKOFF:
            if cause:
                self.tally.backoff[cause] += 1
            heap = self._failed if item.failed else self._backoff
            heap.push(item.uid, (item.ready, *self._turn(item)), item)
        elif part is Part.UNSCHEDULABLE:
            self.tally.unschedulable[cause] += 1
            self._parked += 1
            item.parked, item.returning = self._parked, False
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
        """As long as somebody may ask for them."""
        if not self._in_flight and not self._lent:
            self._log.clear()

    def _turn(self, item: QueuedPod) -> Order:
        return self._sort.key(item.pod, item.since, item.sequence)


def _listens(item: QueuedPod | None, change: Change) -> TypeGuard[QueuedPod]:
    """Whether it is a parked pod that waits for such events."""
    return item is not None and item.part is Part.UNSCHEDULABLE and not item.wakes_on.isdisjoint(change.events)


def _is_untried(group: Group, hope: Hope) -> bool:
    """Whether a pod of the group has not been tried since; one whose pods have all left is not used again."""
    return bool(group.members) and group.first.parked <= hope.mark


def _is_of(change: Change, item: QueuedPod) -> bool:
    """Whether it is the room of the pod itself that was taken or given back."""
    return getattr(change.new or change.old, "uid", None) == item.uid


def _as_changes(news: Iterable[Change | Event]) -> list[Change]:
    """Each change, and all events of which nothing more is known as one."""
    told = list(news)
    events = frozenset(one for one in told if isinstance(one, Event))
    changes = [one for one in told if isinstance(one, Change)]
    return [*changes, Change(events)] if events else changes
