"""Preemption (PostFilter): a pod that fits on no node has pods of lower priority evicted, and waits until they are
gone.

    reject --- no preemption, or no victims help: unschedulable, report
       |------ extenders take part: call them, then continue with the candidates that they leave
       +------ a node: nominated at once (`nominating`) --> victims evicted in the background (`evicting`)

The decision is made in the same step as the attempt. The nomination counts from that step on: for other decisions the
pod takes its room on the node. Pods of lower priority that are nominated to the same node lose their nomination, and
are tried again.

What it does not do: choose victims (`berth.engine.preemption.preemption`), count evictions that budgets do not include
yet (`disruptions`).
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from berth.engine.diagnosis import Diagnosis
from berth.engine.plugin import PluginFailed
from berth.engine.preemption.preemption import NoNomination, choose
from berth.engine.preemption.victims import Candidate, Nomination
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.usage import Usage
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.changes import asks_the_same
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.event_intake import EventIntake
from berth.scheduler.measures import ERROR, SUCCESS, UNSCHEDULABLE
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.ports import ExtenderPort, NotNarrowed, Random
from berth.scheduler.preemption.disruptions import Disruptions
from berth.scheduler.preemption.evicting import Evicting, Push
from berth.scheduler.preemption.nominating import Nominator
from berth.scheduler.queue.queue import Queue, QueuedPod
from berth.scheduler.reporting import Reporter

NOBODY_LEFT = NoNomination("preemption: no candidate node for preemption")
BUCKETS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(slots=True, eq=False)
class _Asking:
    """A preemptor about whose victims extenders are being called."""

    item: QueuedPod
    task: asyncio.Task[None]


class Preempting:
    """Preempts for rejected pods; extenders take part if there are any."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        intake: EventIntake,
        nominator: Nominator,
        evicting: Evicting,
        disruptions: Disruptions,
        extenders: ExtenderPort | None,
        usage: Usage,
        random: Random,
        reporter: Reporter,
        errors: ErrorLog,
    ) -> None:
        self._state = cache.state
        self._queue = queue
        self._intake = intake
        self._nominator = nominator
        self._evicting = evicting
        self._disruptions = disruptions
        self._extenders = extenders
        self._usage = usage
        self._random = random
        self._reporter = reporter
        self._errors = errors
        self._asking: dict[str, _Asking] = {}
        self.attempts = 0
        self.victims: Counter[int] = Counter()  # preemptions by number of victims

    def reject(self, item: QueuedPod, pod: Pod, active: ActivePolicy, diagnosis: Diagnosis) -> None:
        """End an attempt that found no node, on the state on which it was made."""
        survey, query, kept = diagnosis.survey, diagnosis.query, diagnosis.in_words()
        if active.preemption is None or survey is None or query is None:
            self._nominator.withdraw(pod)  # its nominated node does not fit, and no other is freed for it
            self._park(item, pod, active, kept, kept.message)
            return
        self.attempts += 1
        self._disruptions.end_included()
        if item.stopwatch is not None:
            item.stopwatch.skip()
        try:
            found = active.preemption.find(active.pipeline, query, survey, self._state, self._random)
        except PluginFailed as failure:
            self._usage.failed(active, f"plugin {failure.plugin}", failure.problem)
            found = NoNomination(f"preemption: {failure}", error=True)
        if item.stopwatch is not None:
            item.stopwatch("PostFilter", _status(found))
        if isinstance(found, NoNomination):
            self._refuse(item, pod, active, kept, found)
        elif self._extenders is not None and self._extenders.narrows(active.policy, pod):
            fixed = [Candidate(candidate.cost, partial(_same, candidate.nominate())) for candidate in found]
            asking = self._ask(self._extenders, item, pod, active, kept, fixed)
            self._asking[item.uid] = _Asking(item, asyncio.get_running_loop().create_task(asking))
        else:
            self._preempt(item, pod, active, kept, choose(found, self._random))

    def _park(self, item: QueuedPod, pod: Pod, active: ActivePolicy, diagnosis: Diagnosis, message: str) -> None:
        self._evicting.wait(item, active, diagnosis)
        self._reporter.rejected(pod, message, error=False)

    def _refuse(
        self, item: QueuedPod, pod: Pod, active: ActivePolicy, diagnosis: Diagnosis, refusal: NoNomination
    ) -> None:
        if refusal.withdraws:
            self._nominator.withdraw(pod)
        self._park(item, pod, active, diagnosis, f"{diagnosis.message} {refusal.message}")

    async def _ask(
        self,
        extenders: ExtenderPort,
        item: QueuedPod,
        asked: Pod,
        active: ActivePolicy,
        diagnosis: Diagnosis,
        candidates: Sequence[Candidate],
    ) -> None:
        """Call the extenders, then continue with what they leave, if pod and policy have not changed."""
        refusal, left = NOBODY_LEFT, list[Candidate]()
        try:
            left = await extenders.narrow(active, asked, candidates)
        except NotNarrowed as problem:
            refusal = NoNomination(f"preemption: {problem}", error=True)
        except Exception as error:
            self._errors.note("asking extenders about the victims of", asked, error)
            refusal = NoNomination(f"preemption: the scheduler failed: {type(error).__name__}: {error}", error=True)
        finally:
            asking = self._asking.get(item.uid)
            if asking is not None and asking.task is asyncio.current_task():  # else a new attempt has its own call
                del self._asking[item.uid]
        try:
            self._go_on(item, asked, active, diagnosis, candidates, left, refusal)
        except Exception as error:
            self._errors.note("preempting for", asked, error)
            self._queue.fail(item, active.policy.backoff)

    def _go_on(
        self,
        item: QueuedPod,
        asked: Pod,
        active: ActivePolicy,
        diagnosis: Diagnosis,
        offered: Sequence[Candidate],
        left: Sequence[Candidate],
        refusal: NoNomination,
    ) -> None:
        """Preempt with one of the candidates that are left, on the current cluster; reject the pod if none is possible.

        If one of the offered victims need not be evicted any more, the whole attempt is repeated.
        """
        if not self._queue.is_in_flight(item):
            return
        pod = self._intake.wanted(item.uid)
        if pod is None:
            self._queue.done(item.uid)
            return
        if not self._queue.is_open or not asks_the_same(asked, pod) or self._intake.policy_for(pod) is not active:
            self._queue.abandon(item)
            return
        chosen = None
        try:
            possible = [candidate for candidate in left if self._is_possible(pod, active, candidate.nominate())]
            if possible:
                chosen = choose(possible, self._random)
                if self._spares_one(pod, active, chosen, offered):
                    self._queue.abandon(item)
                    return
        except PluginFailed as failure:
            self._usage.failed(active, f"plugin {failure.plugin}", failure.problem)
            chosen, refusal = None, NoNomination(f"preemption: {failure}", error=True)
        if chosen is None:
            self._refuse(item, pod, active, diagnosis, refusal)
        else:
            self._preempt(item, pod, active, diagnosis, chosen)

    def _is_possible(self, pod: Pod, active: ActivePolicy, nomination: Nomination) -> bool:
        """Whether the extenders' victims still suffice on the current cluster and all have a lower priority."""
        if any(victim.priority >= pod.priority for victim in nomination.victims):
            return False
        return active.pipeline.fits_without(pod, self._state, nomination.node, nomination.victims)

    def _spares_one(self, pod: Pod, active: ActivePolicy, chosen: Nomination, offered: Sequence[Candidate]) -> bool:
        """Whether one of the victims that we chose need not be evicted; those that extenders add are not checked."""
        nominations = (candidate.nominate() for candidate in offered)
        ours = {victim.uid for said in nominations if said.node == chosen.node for victim in said.victims}
        victims = [victim for victim in chosen.victims if victim.uid in ours]

        def fits_with(spared: Pod) -> bool:
            gone = [victim for victim in victims if victim is not spared]
            return active.pipeline.fits_without(pod, self._state, chosen.node, gone)

        return any(map(fits_with, victims))

    def _preempt(
        self, item: QueuedPod, pod: Pod, active: ActivePolicy, diagnosis: Diagnosis, nomination: Nomination
    ) -> None:
        self._nominator.take_over(pod, nomination.node)
        self._nominator.nominate(pod, nomination.node)
        self._reporter.rejected(pod, diagnosis.message, error=False)
        victims = [victim for victim in nomination.victims if not victim.deleting]
        if not victims:  # all victims are terminating; their deletion is an event
            self._evicting.wait(item, active, diagnosis)
            return
        self.victims[len(nomination.victims)] += 1
        self._evicting.start(Push(item, pod, active, nomination.node, victims, diagnosis))

    # --- events of the cluster ---------------------------------------------------------------------------------------

    def on_event(self, event: ObjectEvent) -> None:
        """Cancel the call to extenders about a pod that has changed or is gone."""
        asking = self._asking.get(event.identity.uid)
        if asking is not None and (asking.item.changed or not self._queue.is_in_flight(asking.item)):
            del self._asking[event.identity.uid]
            asking.task.cancel()
            self._queue.abandon(asking.item)

    # --- shutdown and statistics -------------------------------------------------------------------------------------

    async def drain(self, seconds: float) -> None:
        """Cancel calls to extenders and wait for running evictions; none begins, because the queue is closed."""
        tasks = [asking.task for asking in self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._evicting.drain(seconds)

    def statistics(self) -> dict[str, Any]:
        """`victims`: how often this many were chosen, by the bounds of kube-scheduler's histogram; sum and count."""
        counts = self.victims
        return {
            "attempts": self.attempts,
            "running": len(self._evicting),
            "outcomes": dict(self._evicting.outcomes),
            "victims": {
                "buckets": {bound: sum(times for n, times in counts.items() if n <= bound) for bound in BUCKETS},
                "count": counts.total(),
                "sum": sum(n * times for n, times in counts.items()),
            },
        }


def _status(found: Sequence[Candidate] | NoNomination) -> str:
    if not isinstance(found, NoNomination):
        return SUCCESS
    return ERROR if found.error else UNSCHEDULABLE


def _same(nomination: Nomination) -> Nomination:
    return nomination
