"""The scheduling cycle: one attempt to place one pod, synchronous from reading the pod to assuming it.

    attempt --- no extenders ---------------------------------------> decide --- no node: preempt, or unschedulable
       |                                                                ^  |---- a plugin failed: backoff, report
       +------- extenders are called (asynchronous) --> conclude, fail  |  +---- a node: assume, binding cycle
                                                           |            |
                                                           +------------+

Nothing can change between the decision and the assumption, because nothing else runs. So neither a snapshot nor locks
are needed. Everything that waits (for Permit, for volumes, for the bind) starts afterwards, in the background.

An attempt uses the policy that is in force for the pod when it begins, and keeps it to the end. If extenders were
called meanwhile, pod and policy are compared again at the end. If one of them changed, the extenders' answers are
outdated and the attempt is repeated. So each pod is decided by one generation of a policy: the one in force at the
decision.
"""

import logging
from collections.abc import Callable

from berth.engine.diagnosis import Diagnosis
from berth.engine.extender_result import ExtenderResult
from berth.engine.pipeline import Placement
from berth.engine.plugin import PluginFailed
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.policy_store import PolicyStore
from berth.policy.records import BackoffSettings
from berth.scheduler.binding.binding import Assignment
from berth.scheduler.binding.binding_cycle import BindingCycle
from berth.scheduler.binding.volumes import volume_plan
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.changes import NOTHING, asks_the_same
from berth.scheduler.decision_memory import DecisionMemory
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.event_intake import EventIntake
from berth.scheduler.log_fields import about
from berth.scheduler.measures import Measures
from berth.scheduler.ports import Clock, ExtenderPort, Random
from berth.scheduler.preemption.nominating import Nominator
from berth.scheduler.preemption.preempting import Preempting
from berth.scheduler.queue.queue import Queue, QueuedPod
from berth.scheduler.reporting import Reporter
from berth.scheduler.shadow import Shadows

logger = logging.getLogger(__name__)


class Cycle:
    """The scheduling cycle, one attempt at a time."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        policies: PolicyStore,
        intake: EventIntake,
        binding_cycle: BindingCycle,
        preempting: Preempting,
        nominator: Nominator,
        extenders: ExtenderPort | None,
        shadows: Shadows,
        reporter: Reporter,
        errors: ErrorLog,
        measures: Measures,
        decision_memory: DecisionMemory,
        clock: Clock,
        random: Random,
    ) -> None:
        self._decision_memory = decision_memory
        self._cache = cache
        self._queue = queue
        self._policies = policies
        self._usage = policies.usage
        self._intake = intake
        self._binding_cycle = binding_cycle
        self._preempting = preempting
        self._nominator = nominator
        self._extenders = extenders
        self._shadows = shadows
        self._reporter = reporter
        self._errors = errors
        self._measures = measures
        self._clock = clock
        self._random = random

    def attempt(self, item: QueuedPod) -> None:
        """Try to place the pod. Whatever happens, it ends up in a place from which it is handled again."""
        self._guard(item, lambda pod: self._begin(item, pod))

    def conclude(self, item: QueuedPod, pod: Pod, active: ActivePolicy, outside: ExtenderResult | None) -> None:
        """Continue the attempt with the results of the extenders for this version of the pod."""
        self._guard(item, lambda now: self._resume(item, pod, now, active, outside))

    def fail(self, item: QueuedPod, pod: Pod, active: ActivePolicy, message: str) -> None:
        """End the attempt with an error: the extenders gave no usable answer."""
        self._guard(item, lambda _: self._reject_with_error(item, pod, message, active.policy.backoff))

    def _guard(self, item: QueuedPod, step: Callable[[Pod], None]) -> None:
        """Run the step with the current version of the pod, if it still needs a node; catch every error."""
        if not self._queue.is_in_flight(item):
            return  # it left the queue during the attempt, and may have been queued again as another item
        pod = self._intake.wanted(item.uid)
        if pod is None:
            self._queue.done(item.uid)
            return
        if pod.gates:  # added since it was popped; the queue moves it to the gated pods
            self._queue.add_unschedulable(item, NOTHING)
            return
        try:
            step(pod)
        except Exception as error:
            self._errors.note("deciding on", pod, error)
            # Forget the pod if it was assumed before the error.
            self._intake.give_back(item.uid, item.attempts, item.queued)
            self._reject_with_error(item, pod, f"the scheduler failed: {type(error).__name__}: {error}")

    def _begin(self, item: QueuedPod, pod: Pod) -> None:
        active = item.decider = self._intake.policy_for(pod)
        if active is None:
            self._leave_unserved(item, pod)
        elif self._extenders is not None and self._extenders.concerns(active.policy, pod):
            self._extenders.start(item, pod, active, self)
        else:
            self._decide(item, pod, active, None)

    def _resume(
        self, item: QueuedPod, asked: Pod, pod: Pod, active: ActivePolicy, outside: ExtenderResult | None
    ) -> None:
        if self._queue.is_open and asks_the_same(asked, pod) and self._intake.policy_for(pod) is active:
            self._decide(item, pod, active, outside)
        else:
            self._queue.abandon(item)

    def _leave_unserved(self, item: QueuedPod, pod: Pod) -> None:
        """No policy decides for the pod: it waits until the policies, its labels or those of its namespace change. It
        keeps no nomination meanwhile.
        """
        item.decider = why = self._policies.unserved(pod, self._cache.namespace_labels(pod.namespace))
        self._measures.ended(pod.scheduler_name, "unschedulable", item.tried)
        self._queue.add_unschedulable(item, NOTHING, BackoffSettings())
        self._nominator.withdraw(pod)
        self._reporter.rejected(pod, why, error=False)

    def _decide(self, item: QueuedPod, pod: Pod, active: ActivePolicy, outside: ExtenderResult | None) -> None:
        self._usage.decided(active, self._clock.wall())
        item.stopwatch = stopwatch = self._measures.stopwatch(pod.scheduler_name)
        try:
            verdict = active.pipeline.decide(pod, self._cache.state, self._random, outside, stopwatch)
        except PluginFailed as failure:
            self._note_plugin(pod, active, failure)
            message = f"{failure} (SchedulingPolicy {active.policy.name})"
            self._reject_with_error(item, pod, message, active.policy.backoff)
            return
        if isinstance(verdict, Diagnosis):
            self._reject(item, pod, active, verdict)
            verdict = verdict.in_words()
        else:
            if self._decision_memory.is_on:
                self._record(item, pod, active, verdict)
            self._place(item, pod, active, verdict.node)
        self._show(pod, verdict)

    def _record(self, item: QueuedPod, pod: Pod, active: ActivePolicy, placement: Placement) -> None:
        """Remember the decision. Before the pod is assumed: the scores are valid until the state changes."""
        now = self._clock.now()
        self._decision_memory.record(
            pod,
            placement,
            active,
            active.pipeline.margin(self._cache.state, placement.node),
            time=self._clock.wall(),
            seconds=now,
            waited_seconds=now - (item.since if item.queued is None else item.queued),
            attempts=item.attempts,
        )

    def _show(self, pod: Pod, verdict: Placement | Diagnosis) -> None:
        """Hand the decision to the policies in Shadow mode; an error there does not affect the pod."""
        try:
            self._shadows.saw(pod, verdict)
        except Exception as error:
            self._errors.note("shadowing", pod, error)

    def _note_plugin(self, pod: Pod, active: ActivePolicy, failure: PluginFailed) -> None:
        self._usage.failed(active, f"plugin {failure.plugin}", failure.problem)
        subject = f"plugin {failure.plugin} about Pod {pod.namespace}/{pod.name}"
        fields = about(pod, policy=active.policy.name)
        self._errors.note("asking", subject, failure.__cause__ or failure, **fields)

    def _place(self, item: QueuedPod, pod: Pod, active: ActivePolicy, node_name: str) -> None:
        planned = volume_plan(pod, node_name, active.pipeline.filters, self._cache)
        bind = None if self._extenders is None else self._extenders.binder(active, pod)
        result = self._binding_cycle.start(Assignment(item, pod, node_name, active, bind), planned)
        if result is not None:
            self._measures.ended(pod.scheduler_name, result, item.tried)

    def _reject(self, item: QueuedPod, pod: Pod, active: ActivePolicy, diagnosis: Diagnosis) -> None:
        if logger.isEnabledFor(logging.DEBUG):
            extra = about(pod, policy=active.policy.name)
            logger.debug("Pod %s finds no node: %s", pod.key, diagnosis.message, extra=extra)
        if diagnosis.error:
            self._reject_with_error(item, pod, diagnosis.message, active.policy.backoff)
            return
        self._preempting.reject(item, pod, active, diagnosis)
        self._measures.ended(pod.scheduler_name, "unschedulable", item.tried)

    def _reject_with_error(
        self, item: QueuedPod, pod: Pod, message: str, backoff: BackoffSettings | None = None
    ) -> None:
        self._measures.ended(pod.scheduler_name, "error", item.tried)
        self._queue.fail(item, backoff)
        self._reporter.rejected(pod, message, error=True)
