"""What is a difference between two outcomes, and what a comparison found.

Chance is no difference: where two policies may choose the same node, they are taken to do so.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from berth.comparing.outcomes import Outcome, Subject, outcomes
from berth.policy import ActivePolicy
from berth.whatif.workloads import Workload


class DecisionChange(StrEnum):
    LOST = "no longer placed"
    GAINED = "now placed"
    MOVED = "other node"
    PREEMPTION = "other preemption"
    MESSAGE = "other message"


@dataclass(frozen=True, slots=True)
class Difference:
    name: str
    change: DecisionChange
    first: Outcome
    second: Outcome
    workload: Workload | None = None  # that the pod belongs to, where pods are those of a cluster


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that could not be asked about, and why."""

    name: str
    message: str


@dataclass(slots=True)
class Comparison:
    compared: int = 0
    differences: list[Difference] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def counts(self) -> Counter[DecisionChange]:
        return Counter(difference.change for difference in self.differences)


def compare(subjects: Iterable[Subject | Skipped], first: ActivePolicy, second: ActivePolicy) -> Comparison:
    comparison = Comparison()
    for subject in subjects:
        if isinstance(subject, Skipped):
            comparison.skipped.append(subject)
            continue
        comparison.compared += 1
        before, after = outcomes(subject, (first, second))
        change = change_between(before, after)
        if change is not None:
            comparison.differences.append(Difference(subject.name, change, before, after))
    return comparison


def change_between(before: Outcome, after: Outcome) -> DecisionChange | None:
    if before.nodes or after.nodes:
        if not after.nodes:
            return DecisionChange.LOST
        if not before.nodes:
            return DecisionChange.GAINED
        return DecisionChange.MOVED if set(before.nodes).isdisjoint(after.nodes) else None
    rooms = {node for node, _ in before.room}, {node for node, _ in after.room}
    if any(rooms) and rooms[0].isdisjoint(rooms[1]):
        return DecisionChange.PREEMPTION
    return DecisionChange.MESSAGE if before.message != after.message else None
