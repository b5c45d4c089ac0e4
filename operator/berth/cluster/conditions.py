"""The PodScheduled condition of pods that found no node, written as kube-scheduler writes it.

Type PodScheduled, status False, reason Unschedulable or SchedulerError, and the message. A strategic merge patch of
the status subresource replaces this one condition and leaves the others alone; the patch carries the pod's UID, so
that a namesake is not touched. `lastTransitionTime` moves only when the status does: it is sent when the pod had no
such condition, or a True one, and kept otherwise. `observedGeneration` is the pod's, where its API server counts
generations. A condition that the pod already carries, or that was written last and that the watch has not shown yet, is
not written again: what was written counts until the watch shows a version of the pod that is as new.

The node that a pod is nominated to, `status.nominatedNodeName`, is written here as well, in the same request where both
are to be said. What is decided later counts; it is kept until it is written, or the pod is bound or gone. For a pod
that was bound meanwhile the API server refuses it (Kubernetes 1.35 and later): nothing is left to be said then.

A nomination is urgent: pods make room for it. Conditions alone give way to binds (`gate`).

Only the latest report about a pod counts (`outbox`). A pod that is about to be bound is settled first: what waits is
withdrawn and what is on its way is awaited, so that no late "False" overwrites the API server's "True".
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from berth.cluster.api import STRATEGIC_MERGE_PATCH, Api
from berth.cluster.binder import pod_path
from berth.cluster.errors import ApiError
from berth.cluster.fence import Fence
from berth.cluster.gate import WriteGate
from berth.cluster.outbox import Outbox
from berth.model import Pod
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import Clock

IS_BOUND = "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound"
REMEMBERED = 16384


@dataclass(frozen=True, slots=True)
class Report:
    """What is to be written about one pod; without a reason, no condition."""

    pod: Pod
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Nomination:
    """To this node, or to none; `written` is called with the version of the pod that says so."""

    node_name: str
    written: Callable[[str], None]


class _Written(NamedTuple):
    """The condition that was written last, and the version of the pod that has it."""

    reason: str
    message: str
    version: str


class Conditions:
    """Writes PodScheduled=False in the background."""

    def __init__(self, api: Api, clock: Clock, errors: ErrorLog, gate: WriteGate, fence: Fence) -> None:
        self._api = api
        self._clock = clock
        self._fence = fence
        self._outbox: Outbox[Report] = Outbox("pod condition", self._write, clock, errors, gate)
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._on_its_way: dict[str, Report] = {}
        self._nominations: dict[str, _Nomination] = {}  # to be written

    def start(self) -> None:
        self._outbox.start()

    async def stop(self) -> None:
        await self._outbox.stop()

    def report(self, pod: Pod, reason: str, message: str) -> None:
        """Have the condition written, unless the pod carries it already; returns at once."""
        if pod.uid in self._nominations or not self._is_there(pod, reason, message):
            self._outbox.put(pod.uid, Report(pod, reason, message))

    def nominate(self, pod: Pod, node_name: str, written: Callable[[str], None]) -> None:
        """Have the nomination written, with the condition that waits or comes before it is written."""
        self._nominations[pod.uid] = _Nomination(node_name, written)
        self._outbox.put(pod.uid, self._outbox.waiting(pod.uid) or Report(pod), urgent=True)

    def nominates(self, uid: str) -> bool:
        """Whether a nomination of the pod has yet to be written."""
        return uid in self._nominations

    async def settle(self, uid: str) -> None:
        """Returns when nothing about the pod is going to be written any more."""
        self._written.pop(uid, None)
        await self._outbox.settle(uid)

    def forget(self, uid: str) -> None:
        """The pod is bound or gone: what waits to be written about it is no longer true."""
        self._written.pop(uid, None)
        self._nominations.pop(uid, None)
        self._outbox.withdraw(uid)

    def withdraw_all(self) -> None:
        """Another replica reports from now on."""
        self._nominations.clear()
        self._written.clear()
        self._outbox.withdraw_all()

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._outbox), **self._outbox.counts}

    def _is_there(self, pod: Pod, reason: str, message: str) -> bool:
        """What waits to be written counts first, then what is on its way, then what was written last if the watch has
        not shown it yet, and else what the pod carries.
        """
        said = self._outbox.waiting(pod.uid) or self._on_its_way.get(pod.uid)
        if said is not None:
            return (said.reason, said.message) == (reason, message)
        ours, carried = self._written.get(pod.uid), pod.scheduled_condition == ("False", reason, message)
        if ours is None:
            return carried
        is_ours = (ours.reason, ours.message) == (reason, message)
        if not (pod.resource_version.isdecimal() and ours.version.isdecimal()):
            return carried and is_ours  # which of the two is newer is not known
        return is_ours if int(pod.resource_version) < int(ours.version) else carried

    async def _write(self, uid: str, report: Report) -> None:
        self._on_its_way[uid] = report
        try:
            await self._send(uid, report)
        finally:
            del self._on_its_way[uid]

    async def _send(self, uid: str, report: Report) -> None:
        pod, nomination = report.pod, self._nominations.get(uid)
        status: dict[str, Any] = {}
        if report.reason:
            status["conditions"] = [self._condition(uid, report)]
        if nomination is not None:
            status["nominatedNodeName"] = nomination.node_name or None
        if not status:
            return
        try:
            _, body = await self._api.request(
                "PATCH",
                pod_path(pod.namespace, pod.name, "status"),
                body={"metadata": {"uid": uid}, "status": status},
                content_type=STRATEGIC_MERGE_PATCH,
                fence=self._fence,
            )
        except ApiError as error:
            if error.status != 422 or IS_BOUND not in error.message:
                raise
            self._nominations.pop(uid, None)  # the watch will show who has bound it; all of this is outdated
            return
        version = str((body.get("metadata") or {}).get("resourceVersion") or "")
        if nomination is not None:
            if self._nominations.get(uid) is nomination:
                del self._nominations[uid]
            nomination.written(version)
        if report.reason:
            self._written[uid] = _Written(report.reason, report.message, version)
            if len(self._written) > REMEMBERED:
                self._written.popitem(last=False)

    def _condition(self, uid: str, report: Report) -> dict[str, object]:
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
        return condition
