"""What is done under each policy, counted by policy object: the proof of use in its status.

The scheduling loop counts here, at the price of a dictionary look-up; nothing is written and nobody is told. `counts`
is what there is to say of one policy at this moment; a policy may begin with counts, where an earlier process stopped.

What is kept of failures and of a shadow's examples is bounded, whatever happens how often. What concerns a policy that
is gone is dropped: a decision may end after its policy did.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from berth.engine.plugin import Plugin, PluginFailed
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.defaults import BUILT_IN
from berth.policy.expressions import Expression

FAILURES_MAX = 16
EXAMPLES_MAX = 5
SOURCE_MAX_LENGTH = 256
MESSAGE_MAX_LENGTH = 512

Key = tuple[str, str]  # name and UID of the policy object


class ShadowOutcome(StrEnum):
    """What a policy in Shadow mode would have done with a pod, against what was done."""

    SAME = "same"  # the same node, or none as well
    DIFFERENT = "different"  # another node
    UNPLACED = "unplaced"  # none, where the active policy found one
    GAINED = "gained"  # one, where the active policy found none
    SKIPPED = "skipped"  # not judged after all: there was no time for it, or the pod has gone its way


@dataclass(frozen=True, slots=True)
class ShadowExample:
    """One pod that a shadow would have treated differently; nodes are "" where there is none."""

    pod: str
    active: str
    shadow: str
    time: datetime
    message: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed, how often, and what was wrong the last time."""

    source: str
    count: int
    message: str
    last: datetime


@dataclass(frozen=True, slots=True)
class Counts:
    """What was done under one policy; examples and failures are the latest, oldest first."""

    placed: int = 0
    pending: int = 0
    preempted: int = 0
    last_decision: datetime | None = None
    failures: tuple[Failure, ...] = ()
    outcomes: Mapping[ShadowOutcome, int] = field(default_factory=dict)
    examples: tuple[ShadowExample, ...] = ()


NO_COUNTS = Counts()


class _Record:
    """The counts of one policy, while they grow."""

    __slots__ = ("examples", "failures", "last_decision", "outcomes", "pending", "placed", "preempted")

    def __init__(self, start: Counts) -> None:
        self.placed = start.placed
        self.pending = start.pending
        self.preempted = start.preempted
        self.last_decision = start.last_decision
        self.failures = {failure.source: failure for failure in start.failures}
        self.outcomes = dict(start.outcomes)
        self.examples = list(start.examples)

    def frozen(self) -> Counts:
        return Counts(
            self.placed,
            self.pending,
            self.preempted,
            self.last_decision,
            tuple(self.failures.values()),
            dict(self.outcomes),
            tuple(self.examples),
        )


class Usage:
    """Counts by policy; every call is for the policy that took the decision, in force or not by now."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._records: dict[Key, _Record] = {(BUILT_IN.name, BUILT_IN.uid): _Record(NO_COUNTS)}

    # --- the scheduling loop counts

    def decided(self, active: ActivePolicy, now: datetime) -> None:
        """A pod was judged, whatever came of it."""
        record = self._record(active)
        if record is not None:
            record.last_decision = now

    def placed(self, active: ActivePolicy, now: datetime) -> None:
        """A pod was bound to the node that the policy chose."""
        record = self._record(active)
        if record is not None:
            record.placed += 1
            record.last_decision = now

    def preempted(self, active: ActivePolicy, victims: int) -> None:
        """So many pods were evicted to make room."""
        record = self._record(active)
        if record is not None:
            record.preempted += victims

    def pending_is(self, pending: Mapping[str, int]) -> None:
        """So many pods wait under each policy, by its name; none under one that is not mentioned."""
        for (name, _), record in self._records.items():
            record.pending = pending.get(name, 0)

    def failed(self, active: ActivePolicy, source: str, message: str, count: int = 1) -> None:
        """Something that the policy relies on failed: "extender https://…", "plugin Name", "predicate its-name"."""
        record = self._record(active)
        if record is None or count < 1:
            return
        source, failures = source[:SOURCE_MAX_LENGTH], record.failures
        before = failures.pop(source, None)  # put back at the end: the order is that of the last failures
        if before is not None:
            count += before.count
        failures[source] = Failure(source, count, message[:MESSAGE_MAX_LENGTH], self._now())
        if len(failures) > FAILURES_MAX:
            del failures[next(iter(failures))]

    def shadowed(self, active: ActivePolicy, outcome: ShadowOutcome, example: ShadowExample | None = None) -> None:
        """A policy in Shadow mode has judged a pod, or left it out."""
        record = self._record(active)
        if record is None:
            return
        record.outcomes[outcome] = record.outcomes.get(outcome, 0) + 1
        if example is not None:
            record.examples.append(replace(example, message=example.message[:MESSAGE_MAX_LENGTH]))
            del record.examples[:-EXAMPLES_MAX]

    def _record(self, active: ActivePolicy) -> _Record | None:
        policy = active.policy
        return self._records.get((policy.name, policy.uid))

    # --- the book asks

    def begin(self, name: str, uid: str, start: Counts = NO_COUNTS) -> None:
        """The policy exists from now on, with these counts."""
        self._records[name, uid] = _Record(start)

    def end(self, name: str, uid: str) -> None:
        """The policy is gone."""
        self._records.pop((name, uid), None)

    def poll(self, active: ActivePolicy) -> None:
        """Count what the policy's plugins could not judge since they were last asked.

        A failure lasts as long as pods are decided on by it, asked for anew or kept: one that is kept counts once here.
        """
        judged = active.pipeline.take_judged()
        for source, plugin in _plugins(active):
            count, message = _take_failures(plugin, judged)
            self.failed(active, source, message, count)

    def counts(self, name: str, uid: str) -> Counts:
        record = self._records.get((name, uid))
        return NO_COUNTS if record is None else record.frozen()

    def statistics(self) -> dict[str, dict[str, int]]:
        """By policy name, the built-in one included."""
        return {
            name: {
                "placed": record.placed,
                "pending": record.pending,
                "preempted": record.preempted,
                "failures": sum(failure.count for failure in record.failures.values()),
                **{f"shadow_{outcome.value}": record.outcomes.get(outcome, 0) for outcome in ShadowOutcome},
            }
            for (name, _), record in self._records.items()
        }


def _take_failures(plugin: Plugin, judged: Sequence[Pod]) -> tuple[int, str]:
    try:
        count, message = plugin.take_failures()
    except PluginFailed as failure:
        return 1, failure.problem
    if not count and isinstance(plugin, Expression):
        return plugin.take_kept_failures(judged)
    return count, message


def _plugins(active: ActivePolicy) -> Iterator[tuple[str, Plugin]]:
    """With the name under which its failures are counted: that of the rule where it is an expression."""
    policy, pipeline = active.policy, active.pipeline
    predicates = {entry.name for entry in policy.predicates if entry.expression}
    priorities = {entry.name for entry in policy.priorities if entry.expression}
    for plugin in pipeline.filters:
        yield f"{'predicate' if plugin.name in predicates else 'plugin'} {plugin.name}", plugin
    for plugin, _ in pipeline.scores:
        yield f"{'priority' if plugin.name in priorities else 'plugin'} {plugin.name}", plugin
