"""The PodScheduled condition of pods that found no node, written as kube-scheduler writes it.

Type PodScheduled, status False, reason Unschedulable or SchedulerError, and the message. A strategic merge patch of
the status subresource replaces this one condition and leaves the others alone; the patch carries the pod's UID, so
that a namesake is not touched. `lastTransitionTime` moves only when the status does: it is sent when the pod had no
such condition, or a True one, and kept otherwise. `observedGeneration` is the pod's, where its API server counts
generations. A condition that the pod already carries is not written again.

Only the latest report about a pod counts (`outbox`). A pod that is about to be bound is settled first: what waits is
withdrawn and what is on its way is awaited, so that no late "False" overwrites the API server's "True".
"""

from collections import OrderedDict
from dataclasses import dataclass

from berth.cluster.api import STRATEGIC_MERGE_PATCH, Api
from berth.cluster.binder import pod_path
from berth.cluster.outbox import Outbox
from berth.model import Pod
from berth.scheduler.faults import Faults
from berth.scheduler.ports import Clock

REMEMBERED = 16384
WORKERS = 16


@dataclass(frozen=True, slots=True)
class Report:
    """What is to be written about one pod."""

    pod: Pod
    reason: str
    message: str


class Conditions:
    """Writes PodScheduled=False in the background."""

    def __init__(self, api: Api, clock: Clock, faults: Faults) -> None:
        self._api = api
        self._clock = clock
        self._outbox: Outbox[Report] = Outbox("pod condition", self._write, clock, faults, workers=WORKERS)
        self._written: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def start(self) -> None:
        self._outbox.start()

    async def stop(self) -> None:
        await self._outbox.stop()

    def report(self, pod: Pod, reason: str, message: str) -> None:
        """Have the condition written, unless the pod carries it already; returns at once."""
        if not self._is_there(pod, reason, message):
            self._outbox.put(pod.uid, Report(pod, reason, message))

    async def settle(self, uid: str) -> None:
        """Returns when nothing about the pod is going to be written any more."""
        self._written.pop(uid, None)
        await self._outbox.settle(uid)

    def forget(self, uid: str) -> None:
        """The pod is bound or gone: what waits to be written about it is no longer true."""
        self._written.pop(uid, None)
        self._outbox.withdraw(uid)

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._outbox), **self._outbox.counts}

    def _is_there(self, pod: Pod, reason: str, message: str) -> bool:
        """Both views must agree: the pod as the watch showed it may be older than what we wrote last."""
        ours = self._written.get(pod.uid, (reason, message))
        return pod.scheduled_condition == ("False", reason, message) and ours == (reason, message)

    async def _write(self, uid: str, report: Report) -> None:
        pod = report.pod
        condition: dict[str, object] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": report.reason,
            "message": report.message,
            "lastProbeTime": None,
        }
        if pod.generation:
            condition["observedGeneration"] = pod.generation
        known = pod.scheduled_condition
        if uid not in self._written and (known is None or known[0] != "False"):
            condition["lastTransitionTime"] = self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        await self._api.request(
            "PATCH",
            pod_path(pod.namespace, pod.name, "status"),
            body={"metadata": {"uid": uid}, "status": {"conditions": [condition]}},
            content_type=STRATEGIC_MERGE_PATCH,
        )
        self._written[uid] = (report.reason, report.message)
        if len(self._written) > REMEMBERED:
            self._written.popitem(last=False)
