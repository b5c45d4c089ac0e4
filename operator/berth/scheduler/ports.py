"""The doors between the scheduling loop and the world: time, randomness and the cluster.

Everything the loop learns about time and everything it writes goes through these protocols, so that the whole loop
runs on virtual time against an in-memory cluster in tests, and against a real API server in the operator, unchanged.

A bind has three outcomes and never a fourth: it returned (bound), `BindRefused` (definitely not bound by this call),
or `OutcomeUnknown` (nobody can say: the pod has to be read before anything else is done with it). What is written about
volumes has two: it returned (written), or `NotWritten` (refused, or nobody can say: the watch will show which).

Reading objects is not here: what the cluster says arrives through `Scheduler.observe` and `Scheduler.remove`.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from berth.model import Claim, Pod, Volume

Random = random.Random


class Clock(Protocol):
    """Time as the loop knows it."""

    def now(self) -> float:
        """Monotonic seconds; only differences mean something."""
        ...

    def wall(self) -> datetime:
        """The time of day in UTC, for what people read."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds; 0 lets everything else that is ready run once."""
        ...


@dataclass(frozen=True, slots=True)
class PodEvent:
    """A Kubernetes Event about a pod, as `kubectl describe pod` shows it."""

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


class Cluster(Protocol):
    """What the loop asks of an API server."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind the pod of this UID; raises BindRefused (a definite no) or OutcomeUnknown (a timeout, a cut, a 5xx)."""
        ...

    async def read_pod(self, pod: Pod) -> Mapping[str, Any] | None:
        """The pod as the API server has it; None when it is gone or its name has another UID; raises Unavailable."""
        ...

    async def keep_volume(self, volume: Volume, claim: Claim) -> None:
        """Write into this version of the volume that it is kept for the claim; raises NotWritten."""
        ...

    async def select_node(self, claim: Claim, node_name: str) -> None:
        """Write into this version of the claim that its volume is to be made for the node; raises NotWritten."""
        ...

    def report_condition(self, pod: Pod, reason: str, message: str) -> None:
        """Have PodScheduled=False written; returns at once, the latest report for a UID wins."""
        ...

    def record_event(self, pod: Pod, event: PodEvent) -> None:
        """Have an Event written; returns at once."""
        ...


class BindRefused(Exception):
    """The API server said no, with an HTTP status code of 4xx: this call has bound nothing."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message

    @property
    def pod_is_gone(self) -> bool:
        """Whether the answer says that no pod of our UID exists: not found, or the name belongs to another UID."""
        return self.code == 404 or (self.code == 409 and "UID in precondition" in self.message)

    @property
    def pod_moved_on(self) -> bool:
        """Whether the pod itself is in the way: it is bound, being deleted or gated."""
        return self.code == 409


class OutcomeUnknown(Exception):
    """The request may or may not have been carried out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotWritten(Exception):
    """A volume or claim may be as it was; the message is for people."""


class Unavailable(Exception):
    """The API server cannot be asked at the moment."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
