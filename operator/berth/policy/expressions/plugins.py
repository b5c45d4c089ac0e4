"""Expressions as plugins: a predicate that refuses nodes with its own message, a priority that gives points.

filter: false refuses a node; so does an evaluation that fails, with the error after the message. The refusal is
unresolvable, except for an expression that reads what is used or free: preemption may help there.
score: the integer, cut to 0..100, or with `normalize` the highest as 100 and the others as their share of it. Below
zero, and an evaluation that fails, is 0.

Answers depend on what the expression reads of the pod and of nodes (reads.py), and are cached accordingly.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from berth.engine.events import ANY
from berth.engine.plugin import (
    MAX_SCORE,
    NOTHING_ELSE,
    Dependencies,
    FilterPlugin,
    Plugin,
    PodsRead,
    Query,
    ScorePlugin,
    refuse_unknown,
    scale_to_highest,
)
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.verdict import Code, Int64Column, Rows, Verdicts
from berth.model import Pod
from berth.policy.expressions.evaluation import Evaluation
from berth.policy.expressions.fields import BEYOND_SIGNATURE, FREE, USED, read_pod
from berth.policy.expressions.language import Program
from berth.policy.records import Predicate, Priority

HIGHEST_POINTS: Final = 2**53
"""Points of a normalised priority are cut to this."""


def make_predicate(entry: Predicate, parameters: Mapping[str, Any]) -> FilterPlugin:
    """The predicate that an entry's expression is. Raises BadArgument."""
    refuse_unknown(entry.args)
    program = Program(entry.expression, bool, parameters)
    reads_pods = not program.reads.fields.isdisjoint((USED, FREE))
    message = entry.message or f"node(s) didn't satisfy predicate {entry.name}"
    made = PodReadingPredicate if reads_pods else ExpressionPredicate
    return made(entry.name, program, message)


def make_priority(entry: Priority, parameters: Mapping[str, Any]) -> ScorePlugin:
    """The priority that an entry's expression is. Raises BadArgument."""
    refuse_unknown(entry.args)
    program = Program(entry.expression, int, parameters)
    return (NormalizedPriority if entry.normalized else ExpressionPriority)(entry.name, program)


class Expression(Plugin):
    """What predicates and priorities share: what their answers depend on.

    Every event may help a pod that an expression refused. All nodes share its budget, so a deleted node may let another
    one be evaluated.
    """

    highest: int
    retry_events = ANY

    def __init__(self, name: str, program: Program) -> None:
        self.name = name
        self._evaluation = Evaluation(program, self.highest)
        self._beyond = sorted(BEYOND_SIGNATURE & program.reads.fields)
        self.dependencies = self._find_dependencies()

    def _find_dependencies(self) -> Dependencies:
        if self._evaluation.by_row or self._beyond:
            return Dependencies(node_local=True, pods=PodsRead.NONE, version=self._version)
        return Dependencies(static_key=self._evaluation.pod_key)

    def _version(self, query: Query, state: State) -> Hashable:
        return self._of_pod(query.pod) if self._beyond else NOTHING_ELSE

    def _of_pod(self, pod: Pod) -> Hashable:
        """What it reads of a pod that is not part of the signature."""
        return tuple(read_pod(pod, field) for field in self._beyond)

    def take_failures(self) -> tuple[int, str]:
        return self._evaluation.take_failures()

    def take_kept_failures(self, pods: Iterable[Pod]) -> tuple[int, str]:
        """Returns on how many nodes cached answers are failures for these pods, and the message of one."""
        return self._evaluation.take_kept_failures(pods)


class ExpressionPredicate(Expression, FilterPlugin):
    highest = 1
    refuses_with = Code.UNRESOLVABLE

    def __init__(self, name: str, program: Program, message: str) -> None:
        super().__init__(name, program)
        self._message = message

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        return self._verdicts(self._evaluation.answers(query.pod, state.table, rows))

    def _verdicts(self, said: Int64Column) -> Verdicts:
        codes = np.where(said == 1, np.int8(Code.FITS), np.int8(self.refuses_with))
        return Verdicts(codes, lambda: 1 - said, self._describe)  # 0 fits, 1 is refused, from 2 on failures

    def fits_row(self, query: Query, state: State, row: int) -> bool:
        return self._evaluation.answer(query.pod, state.table, row) == 1

    def _describe(self, cause: int) -> tuple[str, ...]:
        failures = self._evaluation.failures
        return (self._message if cause < 2 else f"{self._message} ({failures[cause - 2]})",)


class PodReadingPredicate(ExpressionPredicate):
    """It reads what is used or free. Pods that leave may make it refuse a node as well, so it is not node_local."""

    refuses_with = Code.UNSCHEDULABLE

    def filter_with_nominated(self, query: Query, state: State, nominated: NominatedRows) -> Verdicts:
        return self._verdicts(self._evaluation.answers_with(query.pod, state.table, nominated))

    def _find_dependencies(self) -> Dependencies:
        return Dependencies(version=self._version, affected_rows=self._affected_rows)

    def _version(self, query: Query, state: State) -> Hashable:
        return self._of_pod(query.pod), state.table.mark

    def _affected_rows(
        self, query: Query, state: State, before: Hashable, now: Hashable, rows: Sequence[int]
    ) -> Sequence[int] | None:
        same_pod = isinstance(before, tuple) and isinstance(now, tuple) and before[0] == now[0]
        return rows if same_pod else None


class ExpressionPriority(Expression, ScorePlugin):
    highest = MAX_SCORE

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        return np.maximum(self._evaluation.answers(query.pod, state.table, rows), 0)

    def score_row(self, query: Query, state: State, row: int) -> int:
        return max(self._evaluation.answer(query.pod, state.table, row), 0)


class NormalizedPriority(ExpressionPriority):
    highest = HIGHEST_POINTS

    def bounds(self, scores: Int64Column) -> int:
        return int(scores.max(initial=0))

    def scale(self, scores: Int64Column, bounds: int) -> Int64Column:
        return scale_to_highest(scores, bounds)
