"""What a policy makes of a pod: the nodes that it may be put on, or why there is none and who would have to go."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from berth.engine.diagnosis import NO_NODES, Survey
from berth.engine.pipeline import Ranking, TieBreak
from berth.engine.plugin import PluginFailed, Query
from berth.engine.preemption.preemption import cheapest
from berth.engine.state.node_table import NodeTable
from berth.engine.state.state import State
from berth.engine.verdict import row_numbers
from berth.model import Pod
from berth.policy import ActivePolicy

TOP = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """A pod to ask about. `node`: where it is; it is asked about as if it were not there yet."""

    name: str
    pod: Pod
    state: State
    node: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`nodes`: those that the choice may fall on, by name; none: the pod waits, and `message` says why.

    `top`: the best nodes with their totals, as far as they were scored. `room`: for a pod that waits, the nodes that
    preemption may make room on, with the pods that would have to go.
    """

    nodes: tuple[str, ...] = ()
    top: tuple[tuple[str, int], ...] = ()
    message: str = ""
    room: tuple[tuple[str, tuple[str, ...]], ...] = ()


def outcomes(subject: Subject, policies: tuple[ActivePolicy, ActivePolicy]) -> tuple[Outcome, Outcome]:
    with _lifted(subject) as pod:
        first, second = (outcome_of(active, pod, subject.state) for active in policies)
        return first, second


@contextmanager
def _lifted(subject: Subject) -> Iterator[Pod]:
    """The pod as it was before it had a node, and the state without it."""
    if not subject.node:
        yield subject.pod
        return
    table = subject.state.table
    table.remove_pod(subject.pod.uid)
    try:
        yield replace(subject.pod, node_name="", nominated_node_name="")
    finally:
        table.add_pod(subject.pod, subject.node)


def outcome_of(active: ActivePolicy, pod: Pod, state: State) -> Outcome:
    """Returns what the policy makes of a pod that has no node."""
    if not len(state.table):
        return Outcome(message=NO_NODES)
    query = Query(pod, state.table)
    try:
        survey = active.pipeline.survey(query, state)
        if survey.failed is not None:
            return Outcome(message=survey.failed.message)
        if survey.fits.any():
            return _placed(active, query, survey, state)
        return _waiting(active, query, survey, state)
    except PluginFailed as failure:
        return Outcome(message=str(failure))


def _placed(active: ActivePolicy, query: Query, survey: Survey, state: State) -> Outcome:
    table, pipeline = state.table, active.pipeline
    rows = row_numbers(survey.rows)[survey.fits]
    nominated = query.pod.nominated_node_name
    if nominated and table.row(nominated) in rows:  # it was made free for the pod: no other is looked at then
        return Outcome((nominated,))
    if len(rows) == 1:
        return Outcome((table.name(int(rows[0])),))
    ranking = pipeline.rank(query, state, rows)
    best = pipeline.best(ranking, table)
    chosen = best[:1] if pipeline.tie_break is TieBreak.FIRST else best
    return Outcome(tuple(table.name(int(row)) for row in chosen), _top(ranking, table))


def _top(ranking: Ranking, table: NodeTable) -> tuple[tuple[str, int], ...]:
    place = np.empty(table.capacity, dtype=np.intp)  # among the names
    place[table.rows_by_name] = np.arange(len(table))
    order = np.lexsort((place[ranking.rows], -ranking.totals))[:TOP]
    return tuple((table.name(int(ranking.rows[at])), int(ranking.totals[at])) for at in order)


def _waiting(active: ActivePolicy, query: Query, survey: Survey, state: State) -> Outcome:
    message = active.pipeline.diagnose(survey, len(state.table)).message
    found = active.preemption.candidates(active.pipeline, query, survey, state) if active.preemption else []
    chosen = cheapest(found) if found else []
    room = tuple((nomination.node, tuple(pod.key for pod in nomination.victims)) for nomination in chosen)
    return Outcome(message=message, room=room)
