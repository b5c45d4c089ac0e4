"""Binds in the background: many at once, each followed until its outcome is known.

    bind --- success -------------------------------------------------------------> acknowledged
      |----- not sent: another replica leads -------> forgotten, pod to backoff; nothing is reported
      |----- rejected: no such pod -----------------> forgotten, pod to backoff; nothing is reported
      |----- rejected: anything but a conflict -----> forgotten, pod to backoff
      +----- unknown, or a conflict --> read the pod, with retries
                   |-- bound to our node ------------------------------------------> acknowledged
                   |-- bound to another node -------> moved to that node in the cache
                   |-- no such pod -----------------> forgotten, pod to backoff; nothing is reported
                   +-- unbound ---------------------> forgotten, pod to backoff

"No such pod" may come from a proxy or from a server that lags behind. So only the watch ends a pod: until then the pod
is tried again, at the cost of a 404 each time.

After a conflict the pod is read as well: the conflicting bind may be our own, one that timed out and succeeded late
(#96579).

If the policy has an extender that binds, the extender is called instead of the API server. Otherwise Bind plugins are
called first. An error of either does not prove that nothing was bound, so the outcome is unknown.

The number of concurrent binds is limited: `bind_limit` for the API server, and OTHERS_LIMIT for each extender and each
set of Bind plugins. So an extender that hangs delays only the pods that it binds. If it declines, the pod also needs
one of the places of the API server. The caller takes a place before the bind (`take_place`, `wait_place`); until then
the pod belongs to `BindingCycle`.

At its end, once, the plugins of the policy learn whether the pod is bound (`BindingPlugins.end`).

The watch may be faster: it may show the pod bound, bound elsewhere, or gone before the bind returns. So every final
step does nothing if the pod is no longer assumed (see `pod_states`, invariant 4).

A pod that was removed because a list lacked it, and is then reported again, may be decided on a second time while its
first bind is still running. The second bind waits for the end of the first, and then reads the pod.

An exception of the port that is not in its contract says nothing about what was written: the outcome is unknown.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.records import Policy
from berth.policy.usage import Usage
from berth.scheduler.binding.bind_confirmations import node_of
from berth.scheduler.binding.binding_plugins import BindingPlugins
from berth.scheduler.binding.places import Places
from berth.scheduler.binding.unconfirmed_binds import UnconfirmedBinds
from berth.scheduler.cache.cache import Cache
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.event_intake import EventIntake
from berth.scheduler.log_fields import about
from berth.scheduler.measures import Measures, timed
from berth.scheduler.ports import (
    BindRefused,
    Clock,
    Cluster,
    Declined,
    DelegatedBind,
    NotLeading,
    OutcomeUnknown,
    Unavailable,
)
from berth.scheduler.preemption.nominating import Nominator
from berth.scheduler.queue.queue import QueuedPod
from berth.scheduler.reporting import Reporter
from berth.scheduler.waiting import wait_for_tasks

OTHERS_LIMIT: Final = 64  # concurrent binds of one extender, or of one set of Bind plugins
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
POLICY_ANNOTATION = "berth.dev/policy"
GENERATION_ANNOTATION = "berth.dev/policy-generation"

logger = logging.getLogger(__name__)

Others = tuple[str, ...]
"""The extender, or the Bind plugins, that are called to bind a pod; empty for the API server."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """A pod with its chosen node: the policy, the extender that binds it if there is one, and the binding plugins."""

    item: QueuedPod
    pod: Pod
    node_name: str
    active: ActivePolicy
    bind: DelegatedBind | None = None
    plugins: BindingPlugins | None = None

    @property
    def others(self) -> Others:
        """The extender or plugins that are called to bind the pod before the API server."""
        if self.bind is not None:
            return (self.bind.where,)
        return () if self.plugins is None else self.plugins.binders


class BackgroundBinder:
    """The running binds."""

    def __init__(
        self,
        *,
        cache: Cache,
        intake: EventIntake,
        unconfirmed: UnconfirmedBinds,
        nominator: Nominator,
        cluster: Cluster,
        clock: Clock,
        reporter: Reporter,
        usage: Usage,
        errors: ErrorLog,
        measures: Measures,
        limit: int,
    ) -> None:
        self._cache = cache
        self._intake = intake
        self._unconfirmed = unconfirmed
        self._nominator = nominator
        self._cluster = cluster
        self._clock = clock
        self._reporter = reporter
        self._usage = usage
        self._errors = errors
        self._measures = measures
        self._ours = Places(limit)
        self._others: dict[Others, Places] = {}
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._latest: dict[str, asyncio.Task[None]] = {}  # by UID
        self._declined: set[asyncio.Task[Any]] = set()  # binds that also hold a place of the API server
        self.waiting = 0  # for a place
        self.outcomes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def limit(self) -> int:
        """How many binds may be with the API server at once."""
        return self._ours.limit

    # --- places ------------------------------------------------------------------------------------------------------

    async def wait_slot(self) -> None:
        """Wait until another bind may be sent to the API server; earlier callers come first."""
        if self._ours.is_full:
            await self._ours.wait()
            self._ours.give_back()

    def take_place(self, assignment: Assignment) -> bool:
        """Take the place that the bind needs, if one is free; either call `start` then, or give it back."""
        return self._places(assignment).take()

    async def wait_place(self, assignment: Assignment) -> None:
        """Take the place that the bind needs; waits in order until one is free."""
        await self._wait(self._places(assignment))

    def give_place_back(self, assignment: Assignment) -> None:
        """Give the place of a bind back."""
        places = self._places(assignment)
        places.give_back()
        if places is not self._ours and places.is_idle:
            del self._others[assignment.others]

    async def _wait(self, places: Places) -> None:
        self.waiting += 1
        try:
            await places.wait()
        finally:
            self.waiting -= 1

    def _places(self, assignment: Assignment) -> Places:
        others = assignment.others
        return self._others.setdefault(others, Places(OTHERS_LIMIT)) if others else self._ours

    # --- binds -------------------------------------------------------------------------------------------------------

    def start(self, assignment: Assignment) -> None:
        """Bind an assumed pod for which a place was taken; returns at once."""
        pod = assignment.pod
        self._unconfirmed.expect(pod.uid)
        task = asyncio.get_running_loop().create_task(self._bind(assignment, self._latest.get(pod.uid)))
        self._latest[pod.uid] = task
        self._tasks[task] = f"Pod {pod.namespace}/{pod.name} to node {assignment.node_name}"
        task.add_done_callback(partial(self._ended, assignment))

    async def drain(self, seconds: float) -> None:
        """Wait for the running binds; those that run longer than this are cancelled and logged."""
        await wait_for_tasks(list(self._tasks), self._clock, seconds)
        left = dict(self._tasks)
        for task, what in left.items():
            logger.warning("binding %s was cut off after %g s; whether it is bound is not known", what, seconds)
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _ended(self, assignment: Assignment, task: asyncio.Task[None]) -> None:
        what = self._tasks.pop(task)
        if self._latest[assignment.pod.uid] is task:
            del self._latest[assignment.pod.uid]
        self.give_place_back(assignment)
        if task in self._declined:
            self._declined.remove(task)
            self._ours.give_back()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._errors.note("binding", what, error)

    async def _bind(self, assignment: Assignment, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
            await self._unknown(assignment, "an earlier bind of the pod was under way")
            return
        try:
            if assignment.item.stopwatch is None:
                await self._ask(assignment)
            else:
                with timed(assignment.item.stopwatch, "Bind"):
                    await self._ask(assignment)
        except NotLeading:
            self.outcomes["fenced"] += 1
            self._give_back(assignment)
        except BindRefused as refusal:
            await self._refused(assignment, refusal)
        except OutcomeUnknown as unknown:
            await self._unknown(assignment, unknown.reason)
        except Exception as error:
            self._errors.note("binding", assignment.pod, error)
            await self._unknown(assignment, f"{type(error).__name__}: {error}")
        else:
            self._bound(assignment, "bound")

    async def _ask(self, assignment: Assignment) -> None:
        pod, node_name = assignment.pod, assignment.node_name
        if assignment.others:
            await self._cluster.settle(pod)
            if await self._ask_others(assignment):
                return
            await self._take_our_place()
        try:
            await self._cluster.bind(pod, node_name, annotations_of(assignment.active.policy))
        except BindRefused as refusal:
            if assignment.bind is None:
                raise
            # The extender has failed; that does not prove that it has not bound the pod.
            raise OutcomeUnknown(refusal.message) from refusal

    async def _take_our_place(self) -> None:
        await self._wait(self._ours)
        task = asyncio.current_task()
        if task is not None:
            self._declined.add(task)

    async def _ask_others(self, assignment: Assignment) -> bool:
        """Whether the extender, or else a plugin, has bound the pod."""
        if assignment.bind is None:
            return assignment.plugins is not None and await assignment.plugins.bind()
        try:
            await assignment.bind.bind(assignment.pod, assignment.node_name)
        except Declined:
            return False
        except BindRefused as refusal:
            raise OutcomeUnknown(refusal.message) from refusal
        return True

    def _bound(self, assignment: Assignment, outcome: str) -> None:
        pod = assignment.pod
        self.outcomes[outcome] += 1
        self._usage.placed(assignment.active, self._clock.wall())
        item = assignment.item
        queued = item.tried if item.queued is None else item.queued
        self._measures.scheduled(pod.scheduler_name, item.tried, item.attempts, queued)
        self._cache.confirm(pod.uid)
        self._unconfirmed.expect(pod.uid)
        self._reporter.scheduled(pod, assignment.node_name)
        if logger.isEnabledFor(logging.DEBUG):
            extra = about(pod, node=assignment.node_name, policy=assignment.active.policy.name)
            logger.debug("Pod %s is bound to node %s", pod.key, assignment.node_name, extra=extra)
        _end(assignment, bound=True)

    async def _refused(self, assignment: Assignment, refusal: BindRefused) -> None:
        note = f"binding rejected: {refusal.message}"
        if refusal.pod_is_gone:
            self.outcomes["gone"] += 1
            self._give_back(assignment)
        elif refusal.pod_moved_on:
            self.outcomes["conflict"] += 1
            await self._find_out(assignment, note, pod_moved_on=True)
        else:
            self.outcomes["refused"] += 1
            self._give_back(assignment)
            self._report(assignment.pod, note, pod_moved_on=False)

    async def _unknown(self, assignment: Assignment, reason: str) -> None:
        self.outcomes["unknown"] += 1
        await self._find_out(assignment, f"binding did not take place: {reason}", pod_moved_on=False)

    async def _find_out(self, assignment: Assignment, note: str, *, pod_moved_on: bool) -> None:
        pod = assignment.pod
        body = await self._read(pod)
        if body is None:
            self.outcomes["gone"] += 1
            self._give_back(assignment)
        elif node_of(body) == assignment.node_name:
            self._bound(assignment, "found_bound")
        elif node_of(body):
            self.outcomes["bound_elsewhere"] += 1
            self._measures.ended(pod.scheduler_name, "error", assignment.item.tried)
            _end(assignment, bound=False)
            self._intake.correct(pod.uid, body)
        else:
            self.outcomes["found_unbound"] += 1
            self._give_back(assignment)
            self._report(pod, note, pod_moved_on=pod_moved_on)

    def _give_back(self, assignment: Assignment) -> None:
        pod, item = assignment.pod, assignment.item
        self._measures.ended(pod.scheduler_name, "error", item.tried)
        _end(assignment, bound=False)
        self._intake.give_back(pod.uid, item.attempts, item.queued)

    def _report(self, pod: Pod, note: str, *, pod_moved_on: bool) -> None:
        """Report the failed bind, and withdraw the nomination of the pod."""
        self._reporter.not_bound(pod, note, pod_moved_on=pod_moved_on)
        again = self._intake.wanted(pod.uid)
        if again is not None:
            self._nominator.drop(again)

    async def _read(self, pod: Pod) -> Mapping[str, Any] | None:
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._cluster.read_pod(pod)
            except Unavailable as unavailable:
                logger.debug("Pod %s cannot be read: %s", pod.key, unavailable, extra=about(pod))
            except Exception as error:
                self._errors.note("reading", pod, error)
            await self._clock.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)


def _end(assignment: Assignment, *, bound: bool) -> None:
    if assignment.plugins is not None:
        assignment.plugins.end(bound=bound)


def annotations_of(policy: Policy) -> Mapping[str, str] | None:
    if not policy.annotates:
        return None
    return {POLICY_ANNOTATION: policy.name, GENERATION_ANNOTATION: str(policy.generation)}
