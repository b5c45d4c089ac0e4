"""Evictions: the victims of one preemption are evicted in the background; the preemptor waits for their end.

    start --> each victim gets a condition and is deleted --> the watch shows them terminating --> the end:
                 |                                                                      unschedulable, or try again
                 +--- an eviction failed: the nomination is withdrawn, backoff

The attempt of the preemptor lasts as long as its evictions, so the pod is not tried and does not preempt again. The
queue logs the events that happen meanwhile. The evictions are over when the watch has shown that the victims are
terminating (or, if it is late, a read from the API server). From then on the engine itself sees that the pod only has
to wait (#134249). Before each request it is checked whether the eviction is still needed. No request is sent if the
preemptor is gone, has lost its nomination, or may not preempt under its policy any more, nor if the queue is closed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from functools import partial

from berth.engine.diagnosis import Diagnosis
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.usage import Usage
from berth.scheduler.cache.cache import Cache
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.event_intake import EventIntake
from berth.scheduler.log_fields import about
from berth.scheduler.object_events import ObjectEvent, observed
from berth.scheduler.ports import Clock, Cluster, NotEvicted, Unavailable
from berth.scheduler.preemption.disruptions import Disruptions
from berth.scheduler.preemption.nominating import Nominator
from berth.scheduler.queue.queue import Queue, QueuedPod
from berth.scheduler.queue.queueing_hints import rejecting
from berth.scheduler.reporting import Reporter
from berth.scheduler.waiting import wait_for_signal, wait_for_tasks

PLACES = 64  # concurrent evictions
SHOWN_SECONDS = 10.0  # after a deletion, within which the watch should show it

logger = logging.getLogger(__name__)

GiveUp = Callable[[str], bool]


@dataclass(slots=True, eq=False)
class Push:
    """A preemption: the preemptor, the node that is freed for it, and the victims."""

    item: QueuedPod
    pod: Pod
    active: ActivePolicy
    node: str
    victims: Sequence[Pod]
    diagnosis: Diagnosis
    problem: str = ""
    is_done: bool = False  # all victims were evicted, or were gone
    signal: asyncio.Event = field(default_factory=asyncio.Event)  # the watch reported the preemptor or a victim


@dataclass(slots=True, eq=False)
class _Leaver:
    """A victim and the preemptions that evict it; several may, but it is evicted once."""

    pushes: dict[Push, None] = field(default_factory=dict)  # in the order of their start
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_done: bool = False


class Evicting:
    """The running preemptions; `give_up` ends the binding cycle of a victim whose bind has not started."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        intake: EventIntake,
        nominator: Nominator,
        disruptions: Disruptions,
        cluster: Cluster,
        clock: Clock,
        reporter: Reporter,
        usage: Usage,
        errors: ErrorLog,
        give_up: GiveUp,
        places: int = PLACES,
    ) -> None:
        self._state = cache.state
        self._queue = queue
        self._intake = intake
        self._nominator = nominator
        self._disruptions = disruptions
        self._cluster = cluster
        self._clock = clock
        self._reporter = reporter
        self._usage = usage
        self._errors = errors
        self._give_up = give_up
        self._places = asyncio.Semaphore(places)
        self._running: dict[str, Push] = {}  # by UID of the preemptor
        self._leaving: dict[str, _Leaver] = {}  # by UID of the victim
        self._tasks: dict[asyncio.Task[None], None] = {}
        self.outcomes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._running)

    @property
    def victims(self) -> Set[str]:
        """The UIDs of the pods that are being evicted."""
        return self._leaving.keys()

    def start(self, push: Push) -> None:
        """Evict the victims; returns at once. The preemptor is in flight until that is over."""
        self._running[push.pod.uid] = push
        for victim in push.victims:
            self._leaving.setdefault(victim.uid, _Leaver()).pushes[push] = None
            self._disruptions.begin(victim, push.node)
        task = asyncio.get_running_loop().create_task(self._carry_out(push))
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def wait(self, item: QueuedPod, active: ActivePolicy, diagnosis: Diagnosis) -> None:
        """Make the pod unschedulable until an event that may help it."""
        plugins = rejecting(active.pipeline, diagnosis)
        self._queue.add_unschedulable(
            item, diagnosis.retry_events, active.policy.backoff, plugins, blamed=diagnosis.plugins
        )

    def on_event(self, event: ObjectEvent) -> None:
        """A pod has changed: a preemptor, a victim, or neither."""
        if event.kind != "Pod":
            return
        uid = event.identity.uid
        leaver = self._leaving.get(uid)
        if leaver is not None:
            for push in leaver.pushes:
                there = self._state.table.pods_on(push.node).get(uid)
                if there is not None and not there.deleting and not leaver.is_done:
                    self._disruptions.begin(there, push.node)  # again, if it was gone and has come back
                push.signal.set()
        if uid in self._running:
            self._running[uid].signal.set()

    async def drain(self, seconds: float) -> None:
        """Wait for running evictions; none begins any more, because the queue is closed."""
        for push in self._running.values():
            push.signal.set()
        await wait_for_tasks(list(self._tasks), self._clock, seconds)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._errors.note("evicting", "pods", error)

    async def _carry_out(self, push: Push) -> None:
        try:
            await asyncio.gather(*(self._evict(push, victim) for victim in push.victims))
            push.is_done = all(self._leaving[victim.uid].is_done for victim in push.victims)
            if push.is_done:
                await self._see_them_leave(push)
        finally:
            self._end(push)

    async def _evict(self, push: Push, victim: Pod) -> None:
        leaver, go_on = self._leaving[victim.uid], partial(self._goes_on, push)
        try:
            async with leaver.lock, self._places:
                if leaver.is_done:
                    return
                if not go_on():
                    raise NotEvicted("the eviction is no longer needed")
                if victim.uid not in self._state.table.pods_on(push.node):
                    self.outcomes["gone"] += 1
                elif self._give_up(victim.uid):
                    self._disruptions.end(victim.uid)  # it never ran, so no budget counts it
                    self._evicted(push, victim, in_memory=True)
                elif await self._cluster.evict(victim, push.pod, go_on):
                    self._evicted(push, victim)
                else:
                    self.outcomes["gone"] += 1
                leaver.is_done = True
        except NotEvicted as problem:
            self._not_evicted(push, victim, str(problem))
        except Exception as error:
            self._errors.note("evicting", victim, error)
            self._not_evicted(push, victim, f"{type(error).__name__}: {error}")

    def _goes_on(self, push: Push) -> bool:
        """Whether the victims still have to be evicted."""
        if push.problem or not self._queue.is_open or not self._queue.is_in_flight(push.item):
            return False
        pod = self._intake.wanted(push.pod.uid)
        if pod is None or pod.nominated_node_name != push.node:
            return False
        active = self._intake.policy_for(pod)
        return active is not None and active.preemption is not None

    def _evicted(self, push: Push, victim: Pod, *, in_memory: bool = False) -> None:
        self.outcomes["evicted"] += 1
        self._usage.preempted(push.active, 1)
        self._reporter.preempted(victim, push.pod, push.node, in_memory=in_memory)

    def _not_evicted(self, push: Push, victim: Pod, problem: str) -> None:
        if self._goes_on(push):  # else the eviction was cancelled, which is no failure
            self.outcomes["failed"] += 1
            push.problem = problem
            text, extra = "Pod %s cannot be evicted for Pod %s: %s", about(victim, node=push.node)
            logger.warning(text, victim.key, push.pod.key, problem, extra=extra)

    async def _see_them_leave(self, push: Push) -> None:
        """Wait until the watch has shown every victim terminating; if it is late, read them from the API server."""
        late = self._clock.now() + SHOWN_SECONDS
        while self._goes_on(push) and (staying := self._staying(push)):
            seconds = late - self._clock.now()
            if seconds <= 0:
                await asyncio.gather(*map(self._read, staying))
                return
            push.signal.clear()
            await wait_for_signal(push.signal, self._clock, seconds)

    def _staying(self, push: Push) -> list[Pod]:
        there = self._state.table.pods_on(push.node)
        return [victim for victim in push.victims if victim.uid in there and not there[victim.uid].deleting]

    async def _read(self, victim: Pod) -> None:
        try:
            body = await self._cluster.read_pod(victim)
            if body is not None:
                self._intake.observe_pod(observed("Pod", body))
        except Unavailable:
            return
        except Exception as error:
            self._errors.note("reading", victim, error)

    def _end(self, push: Push) -> None:
        """End the attempt of the preemptor."""
        item = push.item
        if self._running.get(item.uid) is push:  # else the pod was queued again meanwhile
            del self._running[item.uid]
        for victim in push.victims:
            leaver = self._leaving[victim.uid]
            del leaver.pushes[push]
            if not leaver.pushes:
                del self._leaving[victim.uid]
                if not leaver.is_done:
                    self._disruptions.end(victim.uid)
        pod = self._intake.wanted(item.uid)
        if not self._queue.is_in_flight(item):
            return
        if pod is None:
            self._queue.done(item.uid)
        elif push.problem:
            if pod.nominated_node_name == push.node:
                self._nominator.withdraw(pod)
            self._queue.fail(item, push.active.policy.backoff)
        elif push.is_done:
            there = self._state.table.pods_on(push.node)
            if not any(victim.uid in there and there[victim.uid].deleting for victim in push.victims):
                self._queue.wake_pod(item.uid)  # nobody is left whose deletion would be reported (#141694)
            self.wait(item, push.active, push.diagnosis)
        else:  # the queue is closed, the nomination is lost, or the policy forbids preemption
            if self._queue.is_open and pod.nominated_node_name == push.node:
                self._nominator.withdraw(pod)
            self._queue.abandon(item)
