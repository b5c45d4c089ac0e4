"""One attempt to place one pod: synchronous from the look at the pod to the room held for it.

Nothing can change between the verdict and the assumption, because nothing else runs: this is what makes a snapshot and
locks superfluous. Everything that waits (for volumes, for the bind) starts afterwards, in the background.

An attempt takes the policy that is in force now, once, and stays with it.
"""

from collections import Counter

from berth.engine.pipeline import Diagnosis
from berth.model import Pod
from berth.policy.book import PolicyBook
from berth.scheduler.binding import Binder
from berth.scheduler.cache import Cache
from berth.scheduler.changes import NOTHING
from berth.scheduler.faults import Faults
from berth.scheduler.intake import Intake
from berth.scheduler.ports import Random
from berth.scheduler.queue import Queue, QueuedPod
from berth.scheduler.reporting import Reporter
from berth.scheduler.volumes import VolumeBinder, volume_plan


class Cycle:
    """Attempts, one at a time."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        policies: PolicyBook,
        intake: Intake,
        binder: Binder,
        volumes: VolumeBinder,
        reporter: Reporter,
        faults: Faults,
        random: Random,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._policies = policies
        self._intake = intake
        self._binder = binder
        self._volumes = volumes
        self._reporter = reporter
        self._faults = faults
        self._random = random
        self.results: Counter[str] = Counter()

    def attempt(self, item: QueuedPod) -> None:
        """Try the pod; whatever happens, it is somewhere afterwards where it will be seen again."""
        pod = self._intake.wanted(item.uid)
        if pod is None:
            self._queue.done(item.uid)
            return
        if pod.gates:  # since it was popped; the queue knows what to do with it
            self._queue.park(item, NOTHING)
            return
        try:
            self._decide(item, pod)
        except Exception as error:
            self._faults.note("deciding on", f"Pod {pod.namespace}/{pod.name}", error)
            self._intake.give_back(item.uid, item.attempts)  # the room, if it was taken before this went wrong
            self._reject_with_error(item, pod, f"the scheduler failed: {type(error).__name__}: {error}")

    def _decide(self, item: QueuedPod, pod: Pod) -> None:
        active = self._policies.for_scheduler(pod.scheduler_name)
        if active is None:
            self._queue.done(item.uid)
            return
        verdict = active.pipeline.decide(pod, self._cache.state, self._random)
        if isinstance(verdict, Diagnosis):
            self._reject(item, pod, verdict)
            return
        planned = volume_plan(pod, verdict.node, active.pipeline.filters, self._cache)
        self._intake.assume(pod, verdict.node)
        if planned is None:
            self._binder.start(item, verdict.node)
        else:
            self._volumes.start(item, *planned)
        self.results["scheduled"] += 1

    def _reject(self, item: QueuedPod, pod: Pod, diagnosis: Diagnosis) -> None:
        if diagnosis.error:
            self._reject_with_error(item, pod, diagnosis.message)
            return
        self.results["unschedulable"] += 1
        self._queue.park(item, diagnosis.wakes_on)
        self._reporter.rejected(pod, diagnosis.message, error=False)

    def _reject_with_error(self, item: QueuedPod, pod: Pod, message: str) -> None:
        self.results["error"] += 1
        self._queue.fail(item)
        self._reporter.rejected(pod, message, error=True)
