"""Pods placed one after another, by the engine and the policies that the scheduler uses.

    queue, by priority and age --> decide --- a node: the pod takes its room, its volumes are reserved
                                     |------- victims: the pod is nominated, and waits until they have left
                                     +------- none: pending, until something happens that may help it

Binds take no time, and there is no backoff. Victims leave when the queue is empty, all at once: in a cluster they need
seconds to terminate, in which the other pods are tried. Then those are tried again that waited for them, and those
pending pods whose plugins listen to something that has happened since. That goes on until nothing changes any more.

A decision is a function of cluster, policy, pod and random stream. The random stream is read as the scheduler reads
it, so with the same seed the same nodes are chosen.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, Protocol

from berth.engine.diagnosis import Diagnosis
from berth.engine.events import Event
from berth.engine.pipeline import Placement
from berth.engine.plugin import PluginFailed
from berth.engine.preemption.preemption import NoNomination
from berth.engine.preemption.victims import Nomination
from berth.model import Pod
from berth.policy import ActivePolicy
from berth.scheduler.binding.volumes import volume_plan
from berth.scheduler.cache.cache import Cache
from berth.whatif.entries import Entry, Origin
from berth.whatif.workloads import Workload

GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"

Decide = Callable[[Pod], ActivePolicy | str]
Tell = Callable[[int, int], None]


class Evictions(Protocol):
    """What happens to victims."""

    def choose(self, victim: Pod) -> None:
        """The pod has to leave, and counts against disruption budgets from now on."""

    def evict(self, victim: Pod, node: str, preemptor: Entry) -> None:
        """The pod leaves its node."""


class DrawnRandom(Random):
    """A random stream that remembers what was drawn, so that a repeated failure can draw the same again."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.ranges: list[int] = []

    def randrange(self, *arguments: int) -> int:  # type: ignore[override]
        self.ranges.append(arguments[0])
        return super().randrange(*arguments)

    def repeat(self, ranges: Iterable[int]) -> None:
        for size in ranges:
            super().randrange(size)


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a pod was not placed; it holds for all pods like it until the number of changes moves."""

    changes: int
    message: str
    retry_events: frozenset[Event]
    ranges: tuple[int, ...]


class Placer:
    """See the module's text. `decide` returns the policy for a pod, or why there is none."""

    def __init__(self, cache: Cache, decide: Decide, evictions: Evictions, seed: int) -> None:
        self._cache = cache
        self._state = cache.state
        self._decide = decide
        self._evictions = evictions
        self._random = DrawnRandom(seed)
        self._queue: list[tuple[int, int, Entry]] = []
        self._pending: dict[str, Entry] = {}  # tried without success, by UID
        self._entries: dict[str, Entry] = {}
        self._leaving: dict[str, tuple[Pod, str, Entry]] = {}  # victims with their nodes and preemptors, by UID
        self._failures: dict[Any, _Failure] = {}
        self._changes = 0
        self._latest: dict[Event, int] = {}  # the number of the last change with the event

    # --- the pods -----------------------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        self._entries[entry.pod.uid] = entry
        self._push(entry)

    def entry(self, uid: str) -> Entry | None:
        return self._entries.get(uid)

    def drop(self, uid: str) -> None:
        """The pod is not needed any more, and has no node."""
        self._entries.pop(uid, None)
        self._pending.pop(uid, None)
        self._state.withdraw(uid)

    @property
    def entries(self) -> list[Entry]:
        return list(self._entries.values())

    def note(self, event: Event) -> None:
        """Something happened that may help pending pods."""
        self._changes += 1
        self._latest[event] = self._changes

    def _push(self, entry: Entry) -> None:
        heapq.heappush(self._queue, (-entry.pod.priority, entry.sequence, entry))

    # --- placing ------------------------------------------------------------------------------------------------------

    def run(self, tell: Tell = lambda done, total: None) -> None:
        """Tries every pod of the queue, and pending ones again as long as that may help. `tell`: how far it is."""
        done = 0
        while self._queue:
            while self._queue:
                entry = heapq.heappop(self._queue)[2]
                if entry.pod.uid in self._entries:
                    self._attempt(entry)
                done += 1
                tell(done, done + len(self._queue))
            self._end_victims()
            for entry in [entry for entry in self._pending.values() if self._may_be_helped(entry)]:
                del self._pending[entry.pod.uid]
                self._push(entry)

    def _may_be_helped(self, entry: Entry) -> bool:
        return any(self._latest.get(event, -1) > entry.tried for event in entry.retry_events)

    def _attempt(self, entry: Entry) -> None:
        """Places the pod, or leaves it pending and says why."""
        if entry.pod.node_name:  # spec.nodeName: no scheduler is asked
            self._occupy(entry, entry.pod.node_name)
            return
        active = None if entry.pod.gates else self._decide(entry.pod)
        if not isinstance(active, ActivePolicy):
            self._leave_pending(entry, GATED if active is None else active, frozenset())
            return
        alike = active, entry.pod.signature, entry.pod.priority, entry.pod.preemption_policy
        known = None if entry.pod.nominated_node_name else self._failures.get(alike)
        if known is not None and known.changes == self._changes:
            self._random.repeat(known.ranges)
            self._leave_pending(entry, known.message, known.retry_events)
            return
        self._random.ranges.clear()
        nomination = self._try(entry, active)
        if nomination is not None:
            self._preempt(entry, nomination)
        elif not entry.node and not entry.pod.nominated_node_name:
            ranges = tuple(self._random.ranges)
            self._failures[alike] = _Failure(self._changes, entry.message, entry.retry_events, ranges)

    def _try(self, entry: Entry, active: ActivePolicy) -> Nomination | None:
        """Places the pod or leaves it pending; returns a node and victims if these have to leave for it."""
        try:
            verdict = active.pipeline.decide(entry.pod, self._state, self._random)
        except PluginFailed as failure:
            self._leave_pending(entry, f"{failure} (SchedulingPolicy {active.policy.name})", frozenset())
            return None
        if isinstance(verdict, Placement):
            self._place(entry, active, verdict.node)
            return None
        found = self._victims(entry.pod, active, verdict)
        if isinstance(found, Nomination):
            self._leave_pending(entry, verdict.message, verdict.retry_events)
            return found
        self._leave_pending(entry, f"{verdict.message} {found.message}".rstrip(), verdict.retry_events)
        if found.withdraws:
            self._withdraw(entry)
        return None

    def _victims(self, pod: Pod, active: ActivePolicy, verdict: Diagnosis) -> Nomination | NoNomination:
        if active.preemption is None or verdict.error or verdict.survey is None or verdict.query is None:
            return NoNomination("", withdraws=not verdict.error)
        try:
            return active.preemption.preempt(active.pipeline, verdict.query, verdict.survey, self._state, self._random)
        except PluginFailed as failure:
            return NoNomination(f"preemption: {failure}", error=True)

    def _place(self, entry: Entry, active: ActivePolicy, node: str) -> None:
        planned = volume_plan(entry.pod, node, active.pipeline.filters, self._cache)
        self._occupy(entry, node)
        if planned is not None:
            self._state.volumes.reservations.reserve(entry.pod.uid, planned[0])

    def _occupy(self, entry: Entry, node: str) -> None:
        self._state.withdraw(entry.pod.uid)
        self._state.table.add_pod(entry.pod, node)
        entry.node, entry.message = node, ""
        self.note(Event.POD_ASSIGNED)

    def _leave_pending(self, entry: Entry, message: str, retry_events: frozenset[Event]) -> None:
        entry.message, entry.retry_events, entry.tried = message, retry_events, self._changes
        self._pending[entry.pod.uid] = entry

    # --- preemption ---------------------------------------------------------------------------------------------------

    def _preempt(self, entry: Entry, nomination: Nomination) -> None:
        """The victims have to leave, and the pod is nominated: nobody of its priority or below takes the room."""
        self._take_over(entry.pod, nomination.node)
        self._nominate(entry, nomination.node)
        for victim in nomination.victims:
            self._leaving.setdefault(victim.uid, (victim, nomination.node, entry))
            self._evictions.choose(victim)
        self._changes += 1  # others have to yield to the nominated pod

    def _end_victims(self) -> None:
        """The victims have terminated, and those who waited for it are tried again."""
        leaving, self._leaving = self._leaving, {}
        for victim, node, preemptor in leaving.values():
            self._evictions.evict(victim, node, preemptor)
            if self._pending.pop(preemptor.pod.uid, None) is not None:
                self._push(preemptor)

    def _take_over(self, pod: Pod, node: str) -> None:
        """Pods of lower priority that are nominated to the node lose it, and are tried again."""
        for other in list(self._state.nominated.get(node, {}).values()):
            entry = self._entries.get(other.uid)
            if entry is not None and other.priority < pod.priority:
                self._withdraw(entry)
                if self._pending.pop(other.uid, None) is not None:
                    self._push(entry)

    def _nominate(self, entry: Entry, node: str) -> None:
        entry.pod = replace(entry.pod, nominated_node_name=node)
        self._state.nominate(entry.pod, node)

    def _withdraw(self, entry: Entry) -> None:
        if entry.pod.nominated_node_name:
            entry.pod = replace(entry.pod, nominated_node_name="")
            self._state.withdraw(entry.pod.uid)
            self.note(Event.POD_REMOVED)

    # --- filling ------------------------------------------------------------------------------------------------------

    def fill(self, pods: Iterator[Pod], most: int, tell: Tell = lambda done, total: None) -> tuple[list[str], str]:
        """Places pods until one does not fit, without preemption.

        Returns the nodes of those that were placed, and why the next one has none; "" if `most` were placed.
        """
        nodes: list[str] = []
        alone: dict[ActivePolicy, ActivePolicy] = {}
        while len(nodes) < most:
            pod = next(pods)
            active = GATED if pod.gates else self._decide(pod)
            if isinstance(active, str):
                return nodes, active
            if active not in alone:
                alone[active] = replace(active, preemption=None)
            entry = Entry(pod, Workload("Pod", pod.namespace, pod.name), Origin.NEW, 0)
            self._try(entry, alone[active])
            if not entry.node:
                self.drop(pod.uid)
                return nodes, entry.message
            nodes.append(entry.node)
            tell(len(nodes), 0)
        return nodes, ""
