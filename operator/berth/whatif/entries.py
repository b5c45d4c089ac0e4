"""What a simulation is about: pods that need a node, and pods that left theirs."""

from dataclasses import dataclass, field
from enum import StrEnum

from berth.engine.events import Event
from berth.model import Pod
from berth.whatif.workloads import Workload, is_bound_to_its_node


class Origin(StrEnum):
    """Why a pod needs a node."""

    PENDING = "pending"  # it was pending before
    NEW = "new"  # -f, --scale
    MOVED = "moved"  # its controller created it in place of one that left its node


class Cause(StrEnum):
    """Why a pod left its node."""

    PREEMPTED = "preempted"
    DRAINED = "drained"
    NODE_FAILED = "node failed"
    SCALED_DOWN = "scaled down"
    REPLACED = "replaced"  # -f has another version of its workload

    def in_words(self, pods: int) -> str:
        """`3 drained`, `1 lost its node`"""
        if self is Cause.NODE_FAILED:
            return f"{pods:,} lost {'its' if pods == 1 else 'their'} node"
        return f"{pods:,} {self}"


@dataclass(slots=True, eq=False)
class Departure:
    """A pod that left its node. `by`: the preemptor. `successor`: the pod that its controller created instead.

    `simulated`: the simulation had placed it.
    """

    pod: Pod
    workload: Workload
    node: str
    cause: Cause
    by: str = ""
    simulated: bool = False
    successor: "Entry | None" = None

    @property
    def is_loss(self) -> bool:
        """Whether nothing takes the pod's place, although nobody wanted it to end."""
        if self.cause in (Cause.SCALED_DOWN, Cause.REPLACED) or self.successor is not None:
            return False
        return not self.pod.deleting and not is_bound_to_its_node(self.pod)


@dataclass(slots=True, eq=False)
class Entry:
    """A pod that needs a node. With a `node` it is placed; without one it is pending, and `message` says why.

    `departure`: it had a node, and had to leave it again. `retry_events`: the events that may help it; `tried`: the
    number of the last change before its last attempt.
    """

    pod: Pod
    workload: Workload
    origin: Origin
    sequence: int
    predecessor: Departure | None = None
    node: str = ""
    message: str = ""
    departure: Departure | None = None
    retry_events: frozenset[Event] = field(default_factory=frozenset)
    tried: int = -1

    @property
    def is_pending(self) -> bool:
        return not self.node and self.departure is None
