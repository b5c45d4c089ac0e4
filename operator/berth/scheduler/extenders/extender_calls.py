"""Extender calls of an attempt: between popping a pod and deciding on it, without delaying other pods.

    start --- no node fits ------------------------------------------------------------------------> conclude
      |------ too many calls to the same extenders: held, until one of them has ended
      +------ nodes that fit --> filter, one extender after the other --> prioritize, concurrently --> conclude
                                    |--- an ignorable extender failed: skipped
                                    +--- another failed ---------------------------------------------> fail

Everything before and after the calls is synchronous. Meanwhile the cluster changes. An answer about a node holds for
the node of that UID only. A node that was deleted and created again under its name was not part of the call, nor was a
node that was added or became feasible later. Whether the other nodes still fit is decided again, in the same step that
assumes the pod on one of them.

An extender that hangs delays only the pods that need it. Pods that need the same extenders share a limited number of
places. Further pods are held outside the active queue and wait for a place, ordered by priority. Calls are cancelled
when the pod is gone, has changed, or belongs to another policy.

What it does not do: order the calls (`ExtenderRound`), decide (`Cycle`), speak HTTP (`Asker`), keep objects (`Bodies`).
"""

import asyncio
import heapq
import logging
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from berth.engine.diagnosis import Diagnosis
from berth.engine.extender_result import ExtenderResult
from berth.engine.preemption.victims import Candidate
from berth.model import Node, Pod
from berth.policy.compile import ActivePolicy
from berth.policy.policy_store import PolicyStore
from berth.policy.records import Extender, Policy
from berth.scheduler.cache.cache import Cache
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.extenders.extender_preemption import ExtenderPreemption
from berth.scheduler.extenders.extender_protocol import (
    Asker,
    Bodies,
    ExtenderFailed,
    about_binding,
    interested,
    read_bound,
)
from berth.scheduler.extenders.extender_round import NOBODY, ExtenderRound
from berth.scheduler.log_fields import about
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.ports import (
    Attempts,
    Clock,
    Declined,
    DelegatedBind,
    NotNarrowed,
    OutcomeUnknown,
    Unavailable,
)
from berth.scheduler.queue.queue import Queue, QueuedPod

PLACES = 64  # concurrent attempts that call the same extenders

logger = logging.getLogger(__name__)

Lane = tuple[str, ...]
"""The URLs of the extenders that a pod needs."""

HeldPod = tuple[int, float, int, QueuedPod, Attempts]
"""A pod that waits for a place, with what it is ordered by, and who continues its attempt."""


@dataclass(slots=True, eq=False)
class _Call:
    """One attempt that waits for answers. `nodes` are those that fit when it began."""

    item: QueuedPod
    pod: Pod
    active: ActivePolicy
    attempts: Attempts  # gets the result
    extenders: tuple[Extender, ...]
    nodes: Mapping[str, Node]
    lane: Lane
    task: asyncio.Task[None] | None = None
    is_over: bool = False


class ExtenderCalls:
    """Implements `berth.scheduler.ports.ExtenderPort`."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        policies: PolicyStore,
        asker: Asker,
        bodies: Bodies,
        clock: Clock,
        errors: ErrorLog,
        places: int = PLACES,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._policies = policies
        self._asker = asker
        self._bodies = bodies
        self._clock = clock
        self._errors = errors
        self._places = places
        self._calls: dict[str, _Call] = {}
        self._busy: Counter[Lane] = Counter()
        self._held: dict[Lane, list[HeldPod]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order of their start
        self._refilling: set[Lane] = set()
        self._last_logged: dict[str, str] = {}  # by extender URL: the last message
        self._preemption = ExtenderPreemption(cache.state, asker, bodies, self._note)

    def __len__(self) -> int:
        return len(self._calls)

    # --- attempts ----------------------------------------------------------------------------------------------------

    def concerns(self, policy: Policy, pod: Pod) -> bool:
        return any(extender.filter_verb or extender.prioritize_verb for extender in interested(policy, pod))

    def start(self, item: QueuedPod, pod: Pod, active: ActivePolicy, attempts: Attempts) -> None:
        extenders = interested(active.policy, pod)
        lane = tuple(extender.url_prefix for extender in extenders)
        if self._busy[lane] >= self._places:
            self._queue.hold(item)
            held = -pod.priority, item.since, item.sequence, item, attempts
            heapq.heappush(self._held.setdefault(lane, []), held)
            return
        nodes = self._nodes(pod, active)
        if not nodes:
            attempts.conclude(item, pod, active, NOBODY)
            return
        call = self._calls[item.uid] = _Call(item, pod, active, attempts, extenders, nodes, lane)
        self._busy[lane] += 1
        call.task = self._spawn(self._run(call))

    def on_event(self, event: ObjectEvent) -> None:
        """Cancel the calls about a pod that has changed or is gone."""
        call = self._calls.get(event.identity.uid)
        if call is not None and (call.item.changed or not self._queue.is_in_flight(call.item)):
            self._abort(call)

    def follow_policies(self) -> None:
        """The policies have changed: restart attempts whose policy is no longer in force for the pod."""
        for call in list(self._calls.values()):
            labels = self._cache.namespace_labels(call.pod.namespace)
            if self._policies.for_pod(call.pod, labels) is not call.active:
                self._abort(call)
        for lane in list(self._held):
            self._release(lane)

    async def stop(self) -> None:
        self._held.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._calls), "held": sum(map(len, self._held.values()))}

    def _nodes(self, pod: Pod, active: ActivePolicy) -> Mapping[str, Node]:
        """The nodes that fit; empty if a plugin fails, because the decision will fail in the same way."""
        table = self._cache.state.table
        try:
            found = active.pipeline.feasible(pod, self._cache.state)
        except Exception:
            return {}
        if isinstance(found, Diagnosis):
            return {}
        return {name: node for name in found if (node := table.node(name)) is not None}

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    # --- one attempt -------------------------------------------------------------------------------------------------

    async def _run(self, call: _Call) -> None:
        said, problem = None, ""
        try:
            round_ = ExtenderRound(
                call.active, call.pod, call.extenders, call.nodes, self._asker, self._bodies, self._note
            )
            said = await round_.ask()
        except (ExtenderFailed, Unavailable) as error:
            problem = str(error)
        except Exception as error:
            self._errors.note("asking extenders about", call.pod, error)
            problem = f"the scheduler failed: {type(error).__name__}: {error}"
        finally:
            self._end(call)
        if said is None:
            call.attempts.fail(call.item, call.pod, call.active, problem)
        else:
            call.attempts.conclude(call.item, call.pod, call.active, self._as_of_now(call, said))

    def _as_of_now(self, call: _Call, said: ExtenderResult) -> ExtenderResult:
        """The answers about nodes that still exist."""
        table = self._cache.state.table
        same = {name for name, asked in call.nodes.items() if (now := table.node(name)) and now.uid == asked.uid}
        refused = {name: why for name, why in said.refused.items() if name in same}
        return ExtenderResult(said.allowed & same, refused, said.points)

    # --- places ------------------------------------------------------------------------------------------------------

    def _abort(self, call: _Call) -> None:
        self._end(call)  # here too: a task that is cancelled before its first step runs no `finally`
        if call.task is not None:
            call.task.cancel()
        self._queue.abandon(call.item)

    def _end(self, call: _Call) -> None:
        """Free the place for the first of the held pods."""
        if call.is_over:
            return
        call.is_over = True
        if self._calls.get(call.item.uid) is call:
            del self._calls[call.item.uid]
        self._busy[call.lane] -= 1
        if not self._busy[call.lane]:
            del self._busy[call.lane]
        if call.lane in self._held and call.lane not in self._refilling:
            self._refilling.add(call.lane)
            self._spawn(self._refill(call.lane))

    async def _refill(self, lane: Lane) -> None:
        try:
            while self._held.get(lane) and self._busy[lane] < self._places:
                if not self._queue.is_open:
                    self._release(lane)
                    return
                *_, item, attempts = heapq.heappop(self._held[lane])
                if self._queue.resume(item):
                    attempts.attempt(item)
                    await self._clock.sleep(0)
            if not self._held.get(lane):
                self._held.pop(lane, None)
        finally:
            self._refilling.discard(lane)

    def _release(self, lane: Lane) -> None:
        """Put all held pods back into the queue, where they are sorted again."""
        for *_, item, _ in self._held.pop(lane, ()):
            if self._queue.resume(item):
                self._queue.abandon(item)

    # --- binding and preempting --------------------------------------------------------------------------------------

    def binder(self, active: ActivePolicy, pod: Pod) -> DelegatedBind | None:
        for extender in interested(active.policy, pod):
            if extender.bind_verb:
                return DelegatedBind(extender.url_prefix, partial(self._bind, active, extender))
        return None

    async def _bind(self, active: ActivePolicy, extender: Extender, pod: Pod, node_name: str) -> None:
        try:
            read_bound(await self._asker.ask(extender, extender.bind_verb, about_binding(pod, node_name)))
        except ExtenderFailed as error:
            self._note(active, extender, error)
            raise (Declined if extender.ignorable else OutcomeUnknown)(str(error)) from error

    def narrows(self, policy: Policy, pod: Pod) -> bool:
        return any(extender.preempt_verb for extender in interested(policy, pod))

    async def narrow(self, active: ActivePolicy, pod: Pod, candidates: Sequence[Candidate]) -> list[Candidate]:
        try:
            return await self._preemption.narrow(active, interested(active.policy, pod), pod, candidates)
        except (ExtenderFailed, Unavailable) as error:
            raise NotNarrowed(str(error)) from error

    def _note(self, active: ActivePolicy, extender: Extender, error: ExtenderFailed) -> None:
        """Count every failure, and log it if the message differs from the last one of the extender."""
        message = str(error)
        self._policies.usage.failed(active, f"extender {extender.url_prefix}", message)
        if self._last_logged.get(extender.url_prefix) != message:
            self._last_logged[extender.url_prefix] = message
            ignored = " It is ignored, as the policy says." if extender.ignorable else ""
            logger.warning(
                "SchedulingPolicy %s: extender %s: %s.%s",
                *(active.policy.name, extender.url_prefix, message, ignored),
                extra=about(policy=active.policy.name),
            )
