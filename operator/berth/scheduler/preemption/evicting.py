"""Evictions: the victims of one preemption are pushed out in the background, and the preemptor waits for the end of it.

    start --> each victim is marked and deleted, some at a time --> the watch shows that they leave --> the end:
                 |                                                                                 park, or try again
                 +--- one could not be pushed out: the nomination is withdrawn, again after the backoff

An attempt is not over while its evictions run, so the pod is not tried and does not preempt again; what happens
meanwhile is kept with it by the queue. They are over when the watch has shown that the victims leave (or, where it is
late, a look at the API server): from then on the engine sees for itself that the pod has nothing to do but wait
(#134249). Before each request it is asked whether the pod still wants it: none is sent for a pod that is gone, that has
lost its nomination, whose policy lets it preempt no more, or once the scheduler is closed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from berth.engine.pipeline import Diagnosis
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.usage import Usage
from berth.scheduler.cache.cache import Cache
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.event_intake import EventIntake
from berth.scheduler.log_fields import about
from berth.scheduler.ports import Clock, Cluster, NotEvicted, Unavailable
from berth.scheduler.preemption.disruptions import Disruptions
from berth.scheduler.preemption.nominating import Nominator
from berth.scheduler.queue.queue import Queue, QueuedPod
from berth.scheduler.queue.queueing_hints import rejecting
from berth.scheduler.reporting import Reporter
from berth.scheduler.waiting import wait_for_signal, wait_for_tasks

PLACES = 64  # for evictions that run at the same time
SHOWN_SECONDS = 10.0  # within which the watch shows what was deleted

logger = logging.getLogger(__name__)

GiveUp = Callable[[str], bool]


@dataclass(slots=True, eq=False)
class Push:
    """A preemption: one pod, the node that is made free for it, and who has to go."""

    item: QueuedPod
    pod: Pod
    active: ActivePolicy
    node: str
    victims: Sequence[Pod]
    diagnosis: Diagnosis
    problem: str = ""
    is_done: bool = False  # all were pushed out, or were gone
    signal: asyncio.Event = field(default_factory=asyncio.Event)  # the watch spoke of it, or of a victim


@dataclass(slots=True, eq=False)
class _Leaver:
    """A pod that has to go, and for whom; several may want it, and it is pushed out once."""

    pushes: dict[Push, None] = field(default_factory=dict)  # in the order in which they came
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_done: bool = False


class Evicting:
    """The preemptions that are under way; `give_up` ends the assignment of a pod that is not bound yet."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        intake: EventIntake,
        nominator: Nominator,
        cluster: Cluster,
        clock: Clock,
        reporter: Reporter,
        usage: Usage,
        faults: ErrorLog,
        give_up: GiveUp,
        places: int = PLACES,
    ) -> None:
        self._state = cache.state
        self._queue = queue
        self._intake = intake
        self._nominator = nominator
        self._cluster = cluster
        self._clock = clock
        self._reporter = reporter
        self._usage = usage
        self._faults = faults
        self._give_up = give_up
        self._places = asyncio.Semaphore(places)
        self._running: dict[str, Push] = {}  # by UID of the preemptor
        self._leaving: dict[str, _Leaver] = {}  # by UID of the victim
        self._tasks: dict[asyncio.Task[None], None] = {}
        self.disruptions = Disruptions(cache.state, clock)
        self.outcomes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._running)

    def start(self, push: Push) -> None:
        """Push the victims out; returns at once. The pod is in flight until that is over."""
        self._running[push.pod.uid] = push
        for victim in push.victims:
            self._leaving.setdefault(victim.uid, _Leaver()).pushes[push] = None
            self.disruptions.begin(victim, push.node)
        task = asyncio.get_running_loop().create_task(self._carry_out(push))
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def wait(self, item: QueuedPod, active: ActivePolicy, diagnosis: Diagnosis) -> None:
        """Park the pod, until something happens that may let it onto a node."""
        plugins = rejecting(active.pipeline, diagnosis)
        self._queue.park(item, diagnosis.wakes_on, active.policy.pace, plugins, blamed=diagnosis.plugins)

    def look(self, uid: str) -> None:
        """The cluster spoke of the pod: a preemptor, a victim, or one that is neither."""
        self.disruptions.heard_of_pod(uid)
        leaver = self._leaving.get(uid)
        if leaver is not None:
            for push in leaver.pushes:
                there = self._state.table.pods_on(push.node).get(uid)
                if there is not None and not there.deleting and not leaver.is_done:
                    self.disruptions.begin(there, push.node)  # again, if it had left and came back
                push.signal.set()
        if uid in self._running:
            self._running[uid].signal.set()

    async def drain(self, seconds: float) -> None:
        """Let the evictions that run end; none begins any more, since the queue is closed."""
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
            self._faults.note("evicting", "pods", error)

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
                    raise NotEvicted("it has not to go any more")
                if victim.uid not in self._state.table.pods_on(push.node):
                    self.outcomes["gone"] += 1
                elif self._give_up(victim.uid):
                    self.disruptions.end(victim.uid)  # no budget has ever counted it
                    self._evicted(push, victim, in_memory=True)
                elif await self._cluster.evict(victim, push.pod, go_on):
                    self._evicted(push, victim)
                else:
                    self.outcomes["gone"] += 1
                leaver.is_done = True
        except NotEvicted as problem:
            self._not_evicted(push, victim, str(problem))
        except Exception as error:
            self._faults.note("evicting", victim, error)
            self._not_evicted(push, victim, f"{type(error).__name__}: {error}")

    def _goes_on(self, push: Push) -> bool:
        """Whether the victims have still to go."""
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
        if self._goes_on(push):  # else it was not for want of trying
            self.outcomes["failed"] += 1
            push.problem = problem
            text, extra = "Pod %s cannot be pushed out for Pod %s: %s", about(victim, node=push.node)
            logger.warning(text, victim.key, push.pod.key, problem, extra=extra)

    async def _see_them_leave(self, push: Push) -> None:
        """Until the watch has shown it of every victim; where it is late, the API server is asked."""
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
                self._intake.observe_pod(body)
        except Unavailable:
            return
        except Exception as error:
            self._faults.note("reading", victim, error)

    def _end(self, push: Push) -> None:
        """The attempt is over."""
        item = push.item
        if self._running.get(item.uid) is push:  # else the pod was queued anew meanwhile
            del self._running[item.uid]
        for victim in push.victims:
            leaver = self._leaving[victim.uid]
            del leaver.pushes[push]
            if not leaver.pushes:
                del self._leaving[victim.uid]
                if not leaver.is_done:
                    self.disruptions.end(victim.uid)
        pod = self._intake.wanted(item.uid)
        if not self._queue.is_in_flight(item):
            return
        if pod is None:
            self._queue.done(item.uid)
        elif push.problem:
            if pod.nominated_node_name == push.node:
                self._nominator.withdraw(pod)
            self._queue.fail(item, push.active.policy.pace)
        elif push.is_done:
            there = self._state.table.pods_on(push.node)
            if not any(victim.uid in there and there[victim.uid].deleting for victim in push.victims):
                self._queue.wake_pod(item.uid)  # nobody is left whose end would be told (#141694)
            self.wait(item, push.active, push.diagnosis)
        else:  # the scheduler was closed, somebody else has the node, or the policy is against it
            if self._queue.is_open and pod.nominated_node_name == push.node:
                self._nominator.withdraw(pod)
            self._queue.abandon(item)
