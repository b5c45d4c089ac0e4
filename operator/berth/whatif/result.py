"""What a simulation found, grouped by workload."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from berth.explain.records import Explanation
from berth.whatif.entries import Departure, Entry, Origin
from berth.whatif.usage import Usage
from berth.whatif.workloads import NO_ZONE, Workload


@dataclass(frozen=True, slots=True)
class Reason:
    """Why pods of a workload stay pending, their names, and the explanation of the first one."""

    message: str
    pods: Sequence[str]
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """Where the pods of a workload are: how many on each node, and in each zone that has nodes."""

    nodes: Counter[str]
    zones: Counter[str]

    @property
    def skew(self) -> int:
        """The difference between the zones with most and with fewest pods."""
        counts = [count for zone, count in self.zones.items() if zone != NO_ZONE]
        return max(counts) - min(counts) if counts else 0


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """`entries` needed a node, `departures` left theirs. `before` and `after` have all pods of the workload."""

    workload: Workload
    entries: Sequence[Entry]
    departures: Sequence[Departure]
    before: Spread
    after: Spread
    reasons: Sequence[Reason]

    @property
    def placed(self) -> int:
        return sum(bool(entry.node) for entry in self.entries)

    @property
    def pending(self) -> int:
        return sum(entry.is_pending for entry in self.entries)

    @property
    def lost(self) -> int:
        """How many pods left, and have no successor."""
        return sum(departure.is_loss for departure in self.departures)


@dataclass(frozen=True, slots=True)
class Blocked:
    """A pod that a drain does not evict."""

    pod: str
    node: str
    message: str


@dataclass(frozen=True, slots=True)
class Filled:
    """How many pods --fill placed, and why no more; without a message there was room for more."""

    workload: Workload
    spread: Spread
    message: str

    @property
    def count(self) -> int:
        return self.spread.nodes.total()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`asked`: whether an option adds or moves pods; if none does, the question is about those that are pending."""

    source: str
    seed: int
    steps: Sequence[str]
    asked: bool
    workloads: Sequence[WorkloadResult]
    blocked: Sequence[Blocked]
    filled: Filled | None
    before: Usage
    after: Usage
    notes: Sequence[str]

    @property
    def entries(self) -> list[Entry]:
        return [entry for each in self.workloads for entry in each.entries]

    @property
    def departures(self) -> list[Departure]:
        return [departure for each in self.workloads for departure in each.departures]

    @property
    def everything_fits(self) -> bool:
        """Whether nothing that the question is about stays pending, is blocked or does not fit once."""
        concerned = (entry for entry in self.entries if not self.asked or entry.origin is not Origin.PENDING)
        fits = not any(entry.is_pending for entry in concerned)
        return fits and not self.blocked and (self.filled is None or self.filled.count > 0)
