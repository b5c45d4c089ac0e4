"""What is done under each policy, counted by policy object: the proof of use in its status.

The scheduling loop counts here, at the price of a dictionary look-up; nothing is written. `counts` returns the numbers
of one policy at this moment. A policy may start with the counts at which an earlier process stopped.

The number of stored failures and of a shadow's examples is bounded. Counts for a deleted policy are dropped: a decision
may end after its policy was deleted.
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
    """What a policy in Shadow mode would have done with a pod, compared with what was done."""

    SAME = "same"  # the same node, or none as well
    DIFFERENT = "different"  # another node
    UNPLACED = "unplaced"  # none, where the active policy found one
    GAINED = "gained"  # one, where the active policy found none
    SKIPPED = "skipped"  # not evaluated: there was no time for it, or the pod was bound or deleted meanwhile


@dataclass(frozen=True, slots=True)
class ShadowExample:
    """One pod that a shadow would have treated differently; nodes are "" where there is none."""

    pod: str
    active: str
    shadow: str
    time: datetime
    message: str = ""


@dataclass(frozen=True, slots=True)
class RecordedFailure:
    """What failed, how often, and the last message."""

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
    failures: tuple[RecordedFailure, ...] = ()
    outcomes: Mapping[ShadowOutcome, int] = field(default_factory=dict)
    examples: tuple[ShadowExample, ...] = ()


NO_COUNTS = Counts()


class _UsageCounter:
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
    """Counts by policy; every call names the policy that took the decision, even if it is no longer in force."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._records: dict[Key, _UsageCounter] = {(BUILT_IN.name, BUILT_IN.uid): _UsageCounter(NO_COUNTS)}

    # --- the scheduling loop counts

    def decided(self, active: ActivePolicy, now: datetime) -> None:
        """Counts an attempt, whatever its result."""
        record = self._record(active)
        if record is not None:
            record.last_decision = now

    def placed(self, active: ActivePolicy, now: datetime) -> None:
        """Counts a pod that was bound to the node that the policy chose."""
        record = self._record(active)
        if record is not None:
            record.placed += 1
            record.last_decision = now

    def preempted(self, active: ActivePolicy, victims: int) -> None:
        """Counts pods that were preempted."""
        record = self._record(active)
        if record is not None:
            record.preempted += victims

    def pending_is(self, pending: Mapping[str, int]) -> None:
        """Sets the number of pending pods of each policy, by name; 0 for a policy that is not mentioned."""
        for (name, _), record in self._records.items():
            record.pending = pending.get(name, 0)

    def failed(self, active: ActivePolicy, source: str, message: str, count: int = 1) -> None:
        """Counts a failure of something that the policy uses: "extender https://…", "plugin Name", "predicate x"."""
        record = self._record(active)
        if record is None or count < 1:
            return
        source, failures = source[:SOURCE_MAX_LENGTH], record.failures
        before = failures.pop(source, None)  # put back at the end: the order is that of the last failures
        if before is not None:
            count += before.count
        failures[source] = RecordedFailure(source, count, message[:MESSAGE_MAX_LENGTH], self._now())
        if len(failures) > FAILURES_MAX:
            del failures[next(iter(failures))]

    def shadowed(self, active: ActivePolicy, outcome: ShadowOutcome, example: ShadowExample | None = None) -> None:
        """Counts a pod that a policy in Shadow mode evaluated or skipped."""
        record = self._record(active)
        if record is None:
            return
        record.outcomes[outcome] = record.outcomes.get(outcome, 0) + 1
        if example is not None:
            record.examples.append(replace(example, message=example.message[:MESSAGE_MAX_LENGTH]))
            del record.examples[:-EXAMPLES_MAX]

    def _record(self, active: ActivePolicy) -> _UsageCounter | None:
        policy = active.policy
        return self._records.get((policy.name, policy.uid))

    # --- the policy store asks

    def begin(self, name: str, uid: str, start: Counts = NO_COUNTS) -> None:
        """Starts to count for a policy, from these counts on."""
        self._records[name, uid] = _UsageCounter(start)

    def end(self, name: str, uid: str) -> None:
        """Drops the counts of a deleted policy."""
        self._records.pop((name, uid), None)

    def poll(self, active: ActivePolicy) -> None:
        """Counts the failures of the policy's plugins since the last call.

        A failure that is part of a cached answer counts once for each call, as long as pods are decided by that answer.
        """
        judged = active.pipeline.take_judged()
        for source, plugin in _plugins(active):
            count, message = _take_failures(plugin, judged)
            self.failed(active, source, message, count)

    def counts(self, name: str, uid: str) -> Counts:
        record = self._records.get((name, uid))
        return NO_COUNTS if record is None else record.frozen()

    def statistics(self) -> dict[str, dict[str, int]]:
        """Returns the counts by policy name, the built-in one included."""
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
    """Yields each plugin with the name under which its failures are counted; of an expression that of its entry."""
    policy, pipeline = active.policy, active.pipeline
    predicates = {entry.name for entry in policy.predicates if entry.expression}
    priorities = {entry.name for entry in policy.priorities if entry.expression}
    for plugin in pipeline.filters:
        yield f"{'predicate' if plugin.name in predicates else 'plugin'} {plugin.name}", plugin
    for scorer, _ in pipeline.scores:
        yield f"{'priority' if scorer.name in priorities else 'plugin'} {scorer.name}", scorer
