"""Evicts a pod for one of higher priority, as kube-scheduler does it.

First the condition DisruptionTarget says why the pod ends, then it is deleted with the grace that it asks for itself.
Both requests name its UID, so that a namesake is left alone, and both may be sent again: an answer that did not come,
or that says that the server had no time, a conflict, or an error of the server's, is followed by another attempt, a few
times, with growing pauses. A pod that is gone is as good as one that was deleted here. Disruption budgets are not
read here: the caller has weighed them when it chose the pod.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from berth.cluster.api import STRATEGIC_MERGE_PATCH, Api
from berth.cluster.binder import pod_path
from berth.cluster.delays import pause_seconds
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.fence import Fence
from berth.model import Pod
from berth.scheduler.ports import Clock, NotEvicted, NotLeading

REASON = "PreemptionByScheduler"
ATTEMPTS = 5  # of each of the two requests
LIMIT_SECONDS = 15.0
OTHER_UID = "UID in the precondition"  # a delete is refused in other words than a patch


class Evictions:
    """Marks and deletes pods."""

    def __init__(self, api: Api, clock: Clock, fence: Fence, *, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._api = api
        self._clock = clock
        self._fence = fence
        self._limit_seconds = limit_seconds

    async def evict(self, victim: Pod, preemptor: Pod, go_on: Callable[[], bool]) -> bool:
        """Whether the pod was deleted here, rather than gone already; raises NotEvicted.

        Before each request `go_on` says whether the pod has still to go.
        """
        if not victim.preempted and not await self._insist(lambda: self._mark(victim, preemptor), go_on):
            return False
        return await self._insist(lambda: self._delete(victim), go_on)

    async def _insist(self, send: Callable[[], Awaitable[Any]], go_on: Callable[[], bool]) -> bool:
        """Whether the request was carried out; it was not where the pod is gone."""
        for attempt in range(1, ATTEMPTS + 1):
            if not go_on():
                raise NotEvicted("it has not to go any more")
            try:
                await send()
            except ApiError as error:
                if error.object_is_gone or (error.status == 409 and OTHER_UID in error.message):
                    return False
                if attempt == ATTEMPTS or not (error.is_transient or error.status == 409):
                    raise NotEvicted(str(error)) from error
                seconds = pause_seconds(attempt, error.retry_after_seconds)
            except NotLeading as error:
                raise NotEvicted(str(error)) from error
            except Unreachable as error:
                if attempt == ATTEMPTS:
                    raise NotEvicted(error.reason) from error
                seconds = pause_seconds(attempt)
            else:
                break
            await self._clock.sleep(seconds)
        return True

    async def _mark(self, victim: Pod, preemptor: Pod) -> None:
        condition: dict[str, object] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": REASON,
            "message": f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod",
            "lastProbeTime": None,
            "lastTransitionTime": self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if victim.generation:
            condition["observedGeneration"] = victim.generation
        await self._api.request(
            "PATCH",
            pod_path(victim.namespace, victim.name, "status"),
            body={"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}},
            content_type=STRATEGIC_MERGE_PATCH,
            timeout_seconds=self._limit_seconds,
            fence=self._fence,
        )

    async def _delete(self, victim: Pod) -> None:
        await self._api.request(
            "DELETE",
            pod_path(victim.namespace, victim.name),
            body={"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": victim.uid}},
            timeout_seconds=self._limit_seconds,
            fence=self._fence,
        )
