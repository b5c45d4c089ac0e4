"""LiveKnowledge: what a running scheduler knows of a pod, for explanations."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Protocol

from berth.explain.ports import Waiting
from berth.explain.records import Choice, PodState
from berth.model import Pod
from berth.scheduler.binding.binding_cycle import Stage
from berth.scheduler.queue.queued_pod import Part
from berth.scheduler.standing import Standing

PARTS: Final = {
    Part.ACTIVE: PodState.PENDING,
    Part.BACKOFF: PodState.BACKOFF,
    Part.UNSCHEDULABLE: PodState.UNSCHEDULABLE,
    Part.GATED: PodState.GATED,
    Part.IN_FLIGHT: PodState.PENDING,
    Part.HELD: PodState.PENDING,
}
_STAGES: Final = {
    Stage.PERMIT: PodState.WAITING_FOR_PERMIT,
    Stage.VOLUMES: PodState.WAITING_FOR_VOLUMES,
    Stage.PRE_BIND: PodState.BINDING,
    Stage.PLACE: PodState.BINDING,
}


class StandingSource(Protocol):
    """`berth.scheduler.Scheduler` is one."""

    def standing(self, uid: str) -> Standing | None: ...


class LiveKnowledge:
    """`wall` is the time of day in UTC; `recorded` returns the decision that the memory has of a pod."""

    def __init__(
        self,
        scheduler: StandingSource,
        wall: Callable[[], datetime],
        recorded: Callable[[str], Choice | None] = lambda uid: None,
    ) -> None:
        self._scheduler = scheduler
        self._wall = wall
        self._recorded = recorded

    def waiting(self, pod: Pod) -> Waiting | None:
        standing = self._scheduler.standing(pod.uid)
        if standing is None:
            return None
        return Waiting(
            state=_state(standing),
            since=self._moment(standing.waited_seconds, -1),
            attempts=standing.attempts,
            place=standing.place,
            next_try=self._moment(standing.due_seconds, 1),
            retried_on=tuple(event.value for event in sorted(standing.retried_on)),
            waits_for=standing.waits_for,
            node=standing.node,
        )

    def choice(self, pod: Pod) -> Choice | None:
        return self._recorded(pod.uid)

    def _moment(self, seconds: float | None, sign: int) -> str:
        """Returns the moment so many seconds from now, or ago, in the API's format; "" for None."""
        if seconds is None:
            return ""
        moment = self._wall() + timedelta(seconds=sign * seconds)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _state(standing: Standing) -> PodState:
    if standing.part is not None:
        return PARTS[standing.part]
    return PodState.BINDING if standing.stage is None else _STAGES[standing.stage]
