"""The pipeline: filters, scores, weights and the tie-break of one policy, applied to one pod.

    pre-filters  ->  filters, as columns  ->  feasible rows  ->  scores x weights  ->  the best  ->  tie-break

A decision is a function of (state, pod, random stream): nothing is awaited, nothing outside is asked. A single feasible
node is taken without scoring. Where none is feasible the diagnosis counts each node under the first plugin that turned
it away, in the pipeline's order, and says it in the words that users of kube-scheduler know.

What plugins said that hangs only on a part of the pod and on nodes' labels, taints, images and spec is kept until one
of those changes, and shared by all pods that are alike in that part.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.engine.events import ANY, Event
from berth.engine.plugin import Plugin, Query
from berth.engine.state import State
from berth.engine.table import NodeTable
from berth.engine.verdict import BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts
from berth.model import Pod

T = TypeVar("T")

NO_NODES = "no nodes available to schedule pods"
_KEPT_ANSWERS = 512


class TieBreak(StrEnum):
    """Which of the nodes that share the highest total is taken; nodes are in the order of their names."""

    RANDOM = "Random"
    ROUND_ROBIN = "RoundRobin"
    FIRST = "First"


@dataclass(frozen=True, slots=True)
class Placement:
    node: str
    evaluated: int
    feasible: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why no node takes the pod. `plugins` turned it away; `wakes_on` are the events that may change their minds."""

    message: str
    nodes: int
    plugins: frozenset[str]
    wakes_on: frozenset[Event]
    error: bool = False


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one filter says of a pod: before any node is looked at, and of each node (None: it was not asked)."""

    plugin: Plugin
    pre_filter: PreFilter
    verdicts: Verdicts | None


@dataclass(frozen=True, slots=True)
class Survey:
    """What the filters left. `fits` is bool[rows asked]; `opinions` are in the pipeline's order."""

    rows: Rows
    fits: BoolColumn
    opinions: tuple[Opinion, ...]
    stopped_by: Opinion | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """Scores of the feasible rows: each plugin's normalised column (None: it skipped), and the weighted totals."""

    rows: NDArray[np.intp]
    scores: tuple[Int64Column | None, ...]
    totals: Int64Column


class Pipeline:
    def __init__(
        self,
        filters: Sequence[Plugin],
        scores: Sequence[tuple[Plugin, int]],
        tie_break: TieBreak = TieBreak.RANDOM,
    ) -> None:
        self.filters = tuple(filters)
        self.scores = tuple(scores)
        self.tie_break = tie_break
        self._turn = 0
        self._kept: OrderedDict[tuple[str, int, Hashable], Any] = OrderedDict()
        self._kept_of: tuple[NodeTable | None, int] = (None, 0)

    def decide(self, pod: Pod, state: State, random: Random) -> Placement | Diagnosis:
        table = state.table
        if not len(table):
            return Diagnosis(NO_NODES, 0, frozenset(), ANY)
        query = Query(pod, table)
        survey = self.survey(query, state)
        if survey.stopped_by is not None or not survey.fits.any():
            return diagnose(survey, len(table))
        feasible = row_numbers(survey.rows)[survey.fits]
        if len(feasible) == 1:
            return Placement(table.name(int(feasible[0])), len(survey.fits), 1)
        best = self.best(self.rank(query, state, feasible), table)
        return Placement(table.name(self._choose(best, random)), len(survey.fits), len(feasible))

    def _keep(self, point: str, index: int, key: Hashable, state: State, ask: Callable[[], T]) -> T:
        """What was answered for this key while the nodes were as they are now, or else what `ask` answers."""
        table, version = self._kept_of
        if table is not state.table or version != state.table.static_version:
            self._kept.clear()
            self._kept_of = (state.table, state.table.static_version)
        if (point, index, key) in self._kept:
            self._kept.move_to_end((point, index, key))
        else:
            self._kept[point, index, key] = ask()
            if len(self._kept) > _KEPT_ANSWERS:
                self._kept.popitem(last=False)
        kept: T = self._kept[point, index, key]
        return kept

    # --- filters -----------------------------------------------------------------------------------------------------

    def survey(self, query: Query, state: State) -> Survey:
        screened = [(plugin, plugin.pre_filter(query, state)) for plugin in self.filters]
        for plugin, answer in screened:
            if answer.code is not Code.FITS:
                opinion = Opinion(plugin, answer, None)
                return Survey(state.table.rows, np.zeros(len(state.table), np.bool_), (opinion,), opinion)
        rows = _narrowed(state.table, screened)
        fits = np.ones(row_count(rows), dtype=np.bool_)
        opinions = []
        for index, (plugin, answer) in enumerate(screened):
            verdicts = None
            if not answer.skip and len(fits):
                verdicts = self._judged(index, plugin, query, state, rows)
                fits &= verdicts.codes == Code.FITS
            opinions.append(Opinion(plugin, answer, verdicts))
        return Survey(rows, fits, tuple(opinions), None)

    def _judged(self, index: int, plugin: Plugin, query: Query, state: State, rows: Rows) -> Verdicts:
        key = plugin.static_key(query.pod)
        if key is None or rows is not state.table.rows:
            return plugin.filter(query, state, rows)
        return self._keep("filter", index, key, state, lambda: plugin.filter(query, state, rows))

    # --- scores ------------------------------------------------------------------------------------------------------

    def rank(self, query: Query, state: State, feasible: NDArray[np.intp]) -> Ranking:
        totals = np.zeros(len(feasible), dtype=np.int64)
        columns: list[Int64Column | None] = []
        whole = len(feasible) == len(state.table)
        for index, (plugin, weight) in enumerate(self.scores):
            column = None
            if plugin.pre_score(query, state):
                rows = state.table.rows if whole else feasible
                column = plugin.normalize(self._scored(index, plugin, query, state, rows))
                totals += column * weight
            columns.append(column)
        return Ranking(feasible, tuple(columns), totals)

    def _scored(self, index: int, plugin: Plugin, query: Query, state: State, rows: Rows) -> Int64Column:
        key = plugin.static_key(query.pod)
        if key is None:
            return plugin.score(query, state, rows)
        everywhere = slice(0, state.table.capacity)
        return self._keep("score", index, key, state, lambda: plugin.score(query, state, everywhere))[rows]

    def best(self, ranking: Ranking, table: NodeTable) -> NDArray[np.intp]:
        """The rows that share the highest total, in the order of their names."""
        winners: NDArray[np.intp] = ranking.rows[ranking.totals == ranking.totals.max()]
        if len(winners) == 1:
            return winners
        is_best = np.zeros(table.capacity, dtype=np.bool_)
        is_best[winners] = True
        by_name = table.rows_by_name
        return by_name[is_best[by_name]]

    def _choose(self, best: NDArray[np.intp], random: Random) -> int:
        if self.tie_break is TieBreak.FIRST or len(best) == 1:
            return int(best[0])
        if self.tie_break is TieBreak.RANDOM:
            return int(best[random.randrange(len(best))])
        self._turn += 1
        return int(best[(self._turn - 1) % len(best)])


def row_numbers(rows: Rows) -> NDArray[np.intp]:
    return np.arange(rows.start, rows.stop, dtype=np.intp) if isinstance(rows, slice) else rows


def row_count(rows: Rows) -> int:
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


def _narrowed(table: NodeTable, screened: Sequence[tuple[Plugin, PreFilter]]) -> Rows:
    """All rows, or those of the nodes that every narrowing pre-filter leaves."""
    names: frozenset[str] | None = None
    for _, answer in screened:
        if answer.nodes is not None:
            names = answer.nodes if names is None else names & answer.nodes
    if names is None:
        return table.rows
    found = sorted(row for row in map(table.row, names) if row is not None)
    return np.array(found, dtype=np.intp)


# --- diagnosis -------------------------------------------------------------------------------------------------------


def diagnose(survey: Survey, nodes: int) -> Diagnosis:
    """Why a survey without a feasible node has none."""
    head = f"0/{nodes} nodes are available:"
    if survey.stopped_by is not None:
        stop = survey.stopped_by
        message = f"{head} {', '.join(stop.pre_filter.reasons)}."
        error = stop.pre_filter.code is Code.ERROR
        return Diagnosis(message, nodes, frozenset([stop.plugin.name]), stop.plugin.wakes_on, error)
    counts, plugins = first_refusals(survey)
    narrowing = [o.plugin for o in survey.opinions if o.pre_filter.nodes is not None]
    left_out = nodes - len(survey.fits)
    if left_out:
        counts[f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(p.name for p in narrowing))}]"] += left_out
        plugins += narrowing
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return Diagnosis(
        f"{head} {reasons}." if reasons else head,
        nodes,
        frozenset(plugin.name for plugin in plugins),
        frozenset[Event]().union(*(plugin.wakes_on for plugin in plugins)),
    )


def first_refusals(survey: Survey) -> tuple[Counter[str], list[Plugin]]:
    """How often each reason refused a node that no earlier plugin had refused, and the plugins that gave them."""
    counts: Counter[str] = Counter()
    plugins: list[Plugin] = []
    left = np.ones(len(survey.fits), dtype=np.bool_)
    for opinion in survey.opinions:
        if opinion.verdicts is None:
            continue
        refused = left & (opinion.verdicts.codes != Code.FITS)
        if not refused.any():
            continue
        left &= ~refused
        plugins.append(opinion.plugin)
        for cause, times in zip(*np.unique(opinion.verdicts.causes[refused], return_counts=True), strict=True):
            for reason in opinion.verdicts.describe(int(cause)):
                counts[reason] += int(times)
    return counts, plugins
