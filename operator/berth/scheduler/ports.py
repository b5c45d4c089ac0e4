"""The doors between the scheduling loop and the world: time, randomness, the cluster and the extenders.

Everything the loop learns about time and everything it writes goes through these protocols, so that the whole loop
runs on virtual time against an in-memory cluster in tests, and against a real API server in the operator, unchanged.

A bind has three outcomes: it returned (bound), `BindRefused` (definitely not bound by this call),
or `OutcomeUnknown` (nobody can say: the pod has to be read before anything else is done with it). Where several
replicas run, it has one more: `NotLeading`, nothing was sent and nobody is told. What is written about volumes has two:
it returned (written), or `NotWritten` (refused, or nobody can say: the watch will show which). An extender that binds
has three: it returned (bound, as it says), `Declined` (it failed, and may be ignored: the API server is asked instead),
or it raised, whatever: then the pod is read. A pod is evicted, or gone, or `NotEvicted` (it is there, or nobody can
say).

Reading objects is not here: what the cluster says arrives through `Scheduler.observe` and `Scheduler.remove`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:  # types alone: a client of the API server needs no engine
    from berth.engine.extender_result import ExtenderResult
    from berth.engine.preemption.victims import Candidate
    from berth.model import Claim, Pod, Volume
    from berth.policy.compile import ActivePolicy
    from berth.policy.records import Policy
    from berth.scheduler.queue.queue import QueuedPod

Random = random.Random


@dataclass(frozen=True, slots=True)
class DelegatedBind:
    """How an extender binds a pod; those with the same `where` share a limit on how many are asked at once."""

    where: str
    bind: Callable[[Pod, str], Awaitable[None]]


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
    """A Kubernetes Event about a pod, as `kubectl describe pod` shows it.

    `related` is the pod on whose account it happened, whose scheduler reports it then.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    related: Pod | None = None


class Cluster(Protocol):
    """What the loop asks of an API server."""

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None) -> None:
        """Bind the pod of this UID; raises BindRefused (a definite no), OutcomeUnknown (a timeout, a cut, a 5xx) or
        NotLeading.

        The annotations are on the pod when it is bound.
        """
        ...

    async def settle(self, pod: Pod) -> None:
        """Somebody else is about to bind the pod: returns when nothing about its failures will be written any more.

        Raises NotLeading where nobody may bind it on our account.
        """
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

    async def evict(self, victim: Pod, preemptor: Pod, go_on: Callable[[], bool]) -> bool:
        """Have the pod end, with a condition that says why and the grace that it asks for; raises NotEvicted.

        Returns whether it was this that ended it: False where the pod was gone. Before each request `go_on` is asked
        whether it has still to go.
        """
        ...

    def nominate(self, pod: Pod, node_name: str, written: Callable[[str], None]) -> None:
        """Have written that the pod waits for this node, or for none (""); returns at once, the latest for a UID wins.

        A condition that is reported before anything was written goes into the same request. `written` is told the
        version of the pod that has it.
        """
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


class Declined(Exception):
    """An extender has not bound the pod, as far as anybody can say, and may be ignored."""


class NotLeading(Exception):
    """Nothing was sent: another replica leads, or may do so before the request would have ended."""


class NotWritten(Exception):
    """A volume or claim may be as it was; the message is for people."""


class NotEvicted(Exception):
    """A pod that was to go may be as it was; the message is for people."""


class Unavailable(Exception):
    """The API server cannot be asked at the moment."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotNarrowed(Exception):
    """An extender gave no answer about the pods to push out, and without it nobody is; the message is for people."""


class Attempts(Protocol):
    """Where extenders say what came of asking: each attempt that they start ends with `conclude` or `fail`.

    None of these ever raises.
    """

    def attempt(self, item: QueuedPod) -> None:
        """Begin the attempt anew, with the pod and the policy as they are now."""
        ...

    def conclude(self, item: QueuedPod, pod: Pod, active: ActivePolicy, outside: ExtenderResult | None) -> None:
        """The answers about this version of the pod are here: decide, on the cluster as it is now."""
        ...

    def fail(self, item: QueuedPod, pod: Pod, active: ActivePolicy, message: str) -> None:
        """There is no answer, and without it nothing is decided: the pod says so and is tried again."""
        ...


class ExtenderPort(Protocol):
    """Who is asked over the network, between the look at a pod and the decision on it."""

    def concerns(self, policy: Policy, pod: Pod) -> bool:
        """Whether anybody has to be asked about this pod."""
        ...

    def start(self, item: QueuedPod, pod: Pod, active: ActivePolicy) -> None:
        """Ask; returns at once. The pod is in flight until `Attempts` is told what came of it."""
        ...

    def look(self, uid: str) -> None:
        """The cluster spoke of the pod: an attempt that nobody needs any more may end."""
        ...

    def binder(self, active: ActivePolicy, pod: Pod) -> DelegatedBind | None:
        """The extender that binds this pod instead of us, if there is one."""
        ...

    def narrows(self, policy: Policy, pod: Pod) -> bool:
        """Whether anybody has a say in who is pushed out for this pod."""
        ...

    async def narrow(self, active: ActivePolicy, pod: Pod, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates that are left, with the victims that are wanted; raises NotNarrowed.

        The candidates are as of now, and those that come back are as of then.
        """
        ...

    async def stop(self) -> None:
        """Ask nobody any more and tell nothing more."""
        ...

    def statistics(self) -> Mapping[str, int]:
        """`waiting`: how many pods wait for answers; `held`: how many for their turn to ask."""
        ...
