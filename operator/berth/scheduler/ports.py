"""Ports: the interfaces between the scheduling loop and time, randomness, the cluster and the extenders.

The loop reads time and writes to the cluster through these protocols only. So the same loop runs on virtual time
against an in-memory cluster in tests, and against a real API server in the operator.

A bind has three outcomes: it returns (bound), it raises `BindRefused` (this call has bound nothing), or it raises
`OutcomeUnknown` (the pod has to be read before anything else is done with it). With several replicas there is a fourth:
`NotLeading` (nothing was sent, nothing is reported). A write to a volume or claim has two: it returns (written), or
raises `NotWritten` (rejected or unknown; the watch will show which). An extender that binds has three: it returns
(bound, by its own answer), it raises `Declined` (it failed and is ignorable: the API server is called instead), or it
raises anything else (the pod is read). An eviction returns (evicted, or already gone) or raises `NotEvicted` (still
there, or unknown).

Reading objects is not part of the ports: events arrive through `Scheduler.on_event`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from berth.scheduler.object_events import EventListener

if TYPE_CHECKING:  # types only: a client of the API server needs no engine
    from berth.engine.extender_result import ExtenderResult
    from berth.engine.preemption.victims import Candidate
    from berth.model import Claim, Pod, Volume
    from berth.policy.compile import ActivePolicy
    from berth.policy.records import Policy
    from berth.scheduler.queue.queue import QueuedPod

Random = random.Random


@dataclass(frozen=True, slots=True)
class DelegatedBind:
    """A bind by an extender. Binds with the same `where` share a limit on concurrent requests."""

    where: str
    bind: Callable[[Pod, str], Awaitable[None]]


class Clock(Protocol):
    """The clock of the loop."""

    def now(self) -> float:
        """Monotonic seconds; only differences are meaningful."""
        ...

    def wall(self) -> datetime:
        """The time of day in UTC, for users."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after this many seconds; 0 lets every other ready task run once."""
        ...


@dataclass(frozen=True, slots=True)
class PodEvent:
    """A Kubernetes Event about a pod, as `kubectl describe pod` shows it.

    `related` is the pod that caused the event, such as the preemptor; its scheduler is the reporting controller then.
    `controller` reports if it is not the pod's own scheduler.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    related: Pod | None = None
    controller: str = ""


class Cluster(Protocol):
    """What the loop needs from an API server."""

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None) -> None:
        """Bind the pod of this UID. Raises BindRefused (rejected), OutcomeUnknown (timeout, lost connection, 5xx) or
        NotLeading.

        The annotations are set on the pod by the bind.
        """
        ...

    async def settle(self, pod: Pod) -> None:
        """Return when no further condition will be written about failures of the pod: an extender or plugin is about to
        bind it.

        Raises NotLeading if this replica may not have the pod bound.
        """
        ...

    async def read_pod(self, pod: Pod) -> Mapping[str, Any] | None:
        """The pod in the API server; None if it is gone or its name has another UID. Raises Unavailable."""
        ...

    async def keep_volume(self, volume: Volume, claim: Claim) -> None:
        """Set the claimRef of this version of the volume to the claim; raises NotWritten."""
        ...

    async def select_node(self, claim: Claim, node_name: str) -> None:
        """Set the selected-node annotation on this version of the claim; raises NotWritten."""
        ...

    async def evict(self, victim: Pod, preemptor: Pod, go_on: Callable[[], bool]) -> bool:
        """Set the DisruptionTarget condition and delete the pod with its grace period; raises NotEvicted.

        Returns False if the pod was already gone. `go_on` is called before each request: False means that the eviction
        is no longer needed.
        """
        ...

    def nominate(self, pod: Pod, node_name: str, written: Callable[[str], None]) -> None:
        """Write `status.nominatedNodeName`, or clear it (""). Returns at once; the latest call for a UID wins.

        A condition that is reported before the write is sent goes into the same request. `written` is called with the
        resourceVersion of the written pod.
        """
        ...

    def report_condition(self, pod: Pod, reason: str, message: str) -> None:
        """Write PodScheduled=False. Returns at once; the latest report for a UID wins."""
        ...

    def record_event(self, pod: Pod, event: PodEvent) -> None:
        """Write an Event. Returns at once."""
        ...


class BindRefused(Exception):
    """The API server rejected the bind with an HTTP status code of 4xx: this call has bound nothing."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message

    @property
    def pod_is_gone(self) -> bool:
        """Whether no pod of our UID exists: not found, or the name belongs to another UID."""
        return self.code == 404 or (self.code == 409 and "UID in precondition" in self.message)

    @property
    def pod_moved_on(self) -> bool:
        """Whether the pod itself prevents the bind: it is bound, being deleted or gated."""
        return self.code == 409


class OutcomeUnknown(Exception):
    """The request may or may not have been carried out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Declined(Exception):
    """An extender failed to bind the pod, as far as is known, and is ignorable."""


class NotLeading(Exception):
    """Nothing was sent: another replica leads, or may lead before the request would have ended."""


class NotWritten(Exception):
    """A volume or claim may be unchanged; the message is for users."""


class NotEvicted(Exception):
    """A victim may be unchanged; the message is for users."""


class Unavailable(Exception):
    """The API server cannot be reached at the moment."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotNarrowed(Exception):
    """An extender gave no usable answer about the victims, so nothing is evicted; the message is for users."""


class Attempts(Protocol):
    """Callbacks of the extender calls: each attempt that they start ends with `conclude` or `fail`.

    None of these ever raises.
    """

    def attempt(self, item: QueuedPod) -> None:
        """Begin the attempt again, with the current pod and policy."""
        ...

    def conclude(self, item: QueuedPod, pod: Pod, active: ActivePolicy, outside: ExtenderResult | None) -> None:
        """Decide on the current cluster with the answers about this version of the pod."""
        ...

    def fail(self, item: QueuedPod, pod: Pod, active: ActivePolicy, message: str) -> None:
        """End the attempt without an answer: the error is reported and the pod is tried again."""
        ...


class ExtenderPort(EventListener, Protocol):
    """Extenders, called over the network between popping a pod and deciding on it.

    Events tell it which attempts are no longer needed.
    """

    def concerns(self, policy: Policy, pod: Pod) -> bool:
        """Whether an extender has to be called for this pod."""
        ...

    def start(self, item: QueuedPod, pod: Pod, active: ActivePolicy, attempts: Attempts) -> None:
        """Call the extenders; returns at once. The pod is in flight until `attempts` gets the result."""
        ...

    def binder(self, active: ActivePolicy, pod: Pod) -> DelegatedBind | None:
        """The extender that binds this pod instead of the API server, if there is one."""
        ...

    def narrows(self, policy: Policy, pod: Pod) -> bool:
        """Whether an extender takes part in preemption for this pod."""
        ...

    async def narrow(self, active: ActivePolicy, pod: Pod, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates that the extenders leave, with the victims that they want; raises NotNarrowed.

        `candidates` reflect the cluster at the call, the result reflects it at the return.
        """
        ...

    async def stop(self) -> None:
        """Cancel all calls and report no more results."""
        ...

    def statistics(self) -> Mapping[str, int]:
        """`waiting`: pods that wait for answers; `held`: pods that wait until a call is allowed."""
        ...
