"""The memory of the latest decisions: which node a pod was given, and what it was chosen from.

It is bounded: the oldest decisions are forgotten. Recording is part of every placement, so it does as little as it can:
one record, and one look at the scores for the runner-up. Everything else is made when it is read.
"""

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from berth.engine.pipeline import Margin, Placement
from berth.model import Pod
from berth.policy.compile import ActivePolicy

MOST_DECISIONS = 1000


class Decision(NamedTuple):
    """A placement that was decided. `margin` is None if a single node was feasible, so that none was scored.

    `seconds` is the moment on the scheduler's clock, `waited_seconds` the time since the pod was first queued.
    """

    number: int
    time: datetime
    seconds: float
    pod: Pod
    node: str
    policy: str
    generation: int
    evaluated: int
    feasible: int
    margin: Margin | None
    waited_seconds: float
    attempts: int

    @property
    def name(self) -> str:
        """Unique among the decisions of a process; the pod's name comes first, as in the name of an Event."""
        return f"{self.pod.name}.{self.number:x}"


class DecisionMemory:
    """The latest decisions, oldest first; `most` of 0 remembers none."""

    def __init__(self, most: int = MOST_DECISIONS) -> None:
        self._latest: deque[Decision] = deque(maxlen=most)
        self._by_pod: dict[str, Decision] = {}
        self._most = most
        self.total = 0

    def __len__(self) -> int:
        return len(self._latest)

    def __iter__(self) -> Iterator[Decision]:
        """Yields a copy's decisions: more may be made while they are read."""
        return iter(list(self._latest))

    @property
    def is_on(self) -> bool:
        return self._most > 0

    def record(
        self,
        pod: Pod,
        placement: Placement,
        active: ActivePolicy,
        margin: Margin | None,
        *,
        time: datetime,
        seconds: float,
        waited_seconds: float,
        attempts: int,
    ) -> None:
        """Remember a placement; the oldest one is forgotten if the memory is full."""
        self.total += 1
        latest, policy = self._latest, active.policy
        if len(latest) == self._most:
            oldest = latest[0]
            if self._by_pod.get(oldest.pod.uid) is oldest:
                del self._by_pod[oldest.pod.uid]
        node, evaluated, feasible = placement
        decision = Decision(
            self.total,
            time,
            seconds,
            pod,
            node,
            policy.name,
            policy.generation,
            evaluated,
            feasible,
            margin,
            waited_seconds,
            attempts,
        )
        latest.append(decision)
        self._by_pod[pod.uid] = decision

    def of_pod(self, uid: str) -> Decision | None:
        """Returns the latest decision about the pod; None if it is forgotten, or was never made here."""
        return self._by_pod.get(uid)

    def find(self, name: str) -> Decision | None:
        """Returns the decision of this name."""
        try:
            number = int(name.rpartition(".")[2], 16)
        except ValueError:
            return None
        at = number - self._latest[0].number if self._latest else -1
        decision = self._latest[at] if 0 <= at < len(self._latest) else None
        return decision if decision is not None and decision.name == name else None

    def since(self, seconds: float) -> list[Decision]:
        """Returns the decisions since this moment on the scheduler's clock, latest first."""
        found = []
        for decision in reversed(self._latest):
            if decision.seconds < seconds:
                break
            found.append(decision)
        return found

    def statistics(self) -> dict[str, int]:
        return {"remembered": len(self._latest), "total": self.total}
