"""Binding in the background: many at once, and every one to its end.

    bind --- success -------------------------------------------------------------> acknowledged
      |----- refused: no such pod ------------------> room freed, pod back through backoff
      |----- refused: anything but a conflict ------> room freed, pod back through backoff
      +----- unknown, or a conflict --> read, until it can be read
                   |-- bound to our node ------------------------------------------> acknowledged
                   |-- bound to another node -------> room moved there
                   |-- no such pod -----------------> room freed, pod back through backoff
                   +-- unbound ---------------------> room freed, pod back through backoff

"No such pod" may come from a proxy or a server that is behind, so only the watch's word ends a pod: until then it is
tried again, which costs a 404 each time. Nothing is reported of it.

A conflict is read as well because the bind in the way may be our own: one that was given up and landed late (#96579).

Meanwhile the watch may be faster: it may show the pod bound, bound elsewhere, or gone. All that a binding does at its
end is therefore a step that does nothing when the pod is not assumed any more (see `pods`, invariant 4).

An exception of the port that is not in its contract says nothing about what was written: it is an unknown outcome.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from berth.model import Pod
from berth.scheduler.cache import Cache
from berth.scheduler.echoes import Echoes, node_of
from berth.scheduler.faults import Faults
from berth.scheduler.intake import Intake
from berth.scheduler.ports import BindRefused, Clock, Cluster, OutcomeUnknown, Unavailable
from berth.scheduler.queue import QueuedPod
from berth.scheduler.reporting import Reporter
from berth.scheduler.waiting import wait_for_tasks

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0

logger = logging.getLogger(__name__)


class Binder:
    """The binds that are under way."""

    def __init__(
        self,
        *,
        cache: Cache,
        intake: Intake,
        echoes: Echoes,
        cluster: Cluster,
        clock: Clock,
        reporter: Reporter,
        faults: Faults,
        limit: int,
    ) -> None:
        self._cache = cache
        self._intake = intake
        self._echoes = echoes
        self._cluster = cluster
        self._clock = clock
        self._reporter = reporter
        self._faults = faults
        self._limit = limit
        self._tasks: dict[asyncio.Task[None], str] = {}
        self.outcomes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tasks)

    async def wait_slot(self) -> None:
        """Wait until fewer binds are under way than may be."""
        while len(self._tasks) >= self._limit:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    def start(self, item: QueuedPod, node_name: str) -> None:
        """Bind an assumed pod; returns at once."""
        pod = item.pod
        self._echoes.expect(pod.uid)
        task = asyncio.get_running_loop().create_task(self._bind(item, pod, node_name))
        self._tasks[task] = f"Pod {pod.namespace}/{pod.name} to node {node_name}"
        task.add_done_callback(self._ended)

    async def drain(self, seconds: float) -> None:
        """Let the running binds end; those that have not after so many seconds are cancelled and named in the log."""
        await wait_for_tasks(list(self._tasks), self._clock, seconds)
        left = dict(self._tasks)
        for task, what in left.items():
            logger.warning("binding %s was cut off after %g s; whether it is bound is not known", what, seconds)
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        what = self._tasks.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._faults.note("binding", what, error)

    async def _bind(self, item: QueuedPod, pod: Pod, node_name: str) -> None:
        try:
            await self._cluster.bind(pod, node_name)
        except BindRefused as refusal:
            await self._refused(item, pod, node_name, refusal)
        except OutcomeUnknown as unknown:
            await self._unknown(item, pod, node_name, unknown.reason)
        except Exception as error:
            self._faults.note("binding", f"Pod {pod.namespace}/{pod.name}", error)
            await self._unknown(item, pod, node_name, f"{type(error).__name__}: {error}")
        else:
            self._bound(pod, node_name, "bound")

    def _bound(self, pod: Pod, node_name: str, outcome: str) -> None:
        self.outcomes[outcome] += 1
        self._cache.confirm(pod.uid)
        self._echoes.expect(pod.uid)
        self._reporter.scheduled(pod, node_name)

    async def _refused(self, item: QueuedPod, pod: Pod, node_name: str, refusal: BindRefused) -> None:
        note = f"binding rejected: {refusal.message}"
        if refusal.pod_is_gone:
            self.outcomes["gone"] += 1
            self._intake.give_back(pod.uid, item.attempts)
        elif refusal.pod_moved_on:
            self.outcomes["conflict"] += 1
            await self._find_out(item, pod, node_name, note, pod_moved_on=True)
        else:
            self.outcomes["refused"] += 1
            self._intake.give_back(pod.uid, item.attempts)
            self._reporter.not_bound(pod, note, pod_moved_on=False)

    async def _unknown(self, item: QueuedPod, pod: Pod, node_name: str, reason: str) -> None:
        self.outcomes["unknown"] += 1
        await self._find_out(item, pod, node_name, f"binding did not take place: {reason}", pod_moved_on=False)

    async def _find_out(self, item: QueuedPod, pod: Pod, node_name: str, note: str, *, pod_moved_on: bool) -> None:
        body = await self._read(pod)
        if body is None:
            self.outcomes["gone"] += 1
            self._intake.give_back(pod.uid, item.attempts)
        elif node_of(body) == node_name:
            self._bound(pod, node_name, "found_bound")
        elif node_of(body):
            self.outcomes["bound_elsewhere"] += 1
            self._intake.correct(pod.uid, body)
        else:
            self.outcomes["found_unbound"] += 1
            self._intake.give_back(pod.uid, item.attempts)
            self._reporter.not_bound(pod, note, pod_moved_on=pod_moved_on)

    async def _read(self, pod: Pod) -> Mapping[str, Any] | None:
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._cluster.read_pod(pod)
            except Unavailable as unavailable:
                logger.debug("Pod %s/%s cannot be read: %s", pod.namespace, pod.name, unavailable)
            except Exception as error:
                self._faults.note("reading", f"Pod {pod.namespace}/{pod.name}", error)
            await self._clock.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
