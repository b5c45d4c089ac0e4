"""The pipeline: filters, scores, weights and the tie-break of one policy, applied to one pod.

    pre-filters  ->  filters, as columns  ->  feasible rows  ->  scores x weights  ->  the best  ->  tie-break

A decision is a function of (state, pod, random stream): nothing is awaited, nothing outside is asked. A single feasible
node is taken without scoring. Where none is feasible the diagnosis counts each node under the first plugin that turned
it away, in the pipeline's order, and says it in the words that users of kube-scheduler know.

Pods of one signature share a Query; what `static` plugins said of it is kept until a node's labels, taints, images or
spec change.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

import numpy as np
from numpy.typing import NDArray

from berth.engine.events import ANY, Event
from berth.engine.plugin import Plugin, Query
from berth.engine.state import State
from berth.engine.table import NodeTable
from berth.engine.verdict import BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts
from berth.model import Pod

NO_NODES = "no nodes available to schedule pods"
_KEPT_QUERIES = 2048


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
        self._queries: OrderedDict[object, Query] = OrderedDict()

    def decide(self, pod: Pod, state: State, random: Random) -> Placement | Diagnosis:
        table = state.table
        if not len(table):
            return Diagnosis(NO_NODES, 0, frozenset(), ANY)
        query = self.query(pod, table)
        survey = self.survey(query, state)
        if survey.stopped_by is not None or not survey.fits.any():
            return diagnose(survey, len(table))
        feasible = row_numbers(survey.rows)[survey.fits]
        if len(feasible) == 1:
            return Placement(table.name(int(feasible[0])), len(survey.fits), 1)
        best = self.best(self.rank(query, state, feasible), table)
        return Placement(table.name(self._choose(best, random)), len(survey.fits), len(feasible))

    def query(self, pod: Pod, table: NodeTable) -> Query:
        """The query that pods of this signature share, with nothing kept in it that has aged."""
        query = self._queries.get(pod.signature)
        if query is None:
            query = self._queries[pod.signature] = Query(pod, table)
            if len(self._queries) > _KEPT_QUERIES:
                self._queries.popitem(last=False)
        else:
            self._queries.move_to_end(pod.signature)
        if query.static_version != table.static_version:
            query.kept.clear()
            query.static_version = table.static_version
        return query

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
        if not plugin.static or rows is not state.table.rows:
            return plugin.filter(query, state, rows)
        kept: Verdicts | None = query.kept.get(("filter", index))
        if kept is None:
            kept = query.kept["filter", index] = plugin.filter(query, state, rows)
        return kept

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
        if not plugin.static:
            return plugin.score(query, state, rows)
        kept: Int64Column | None = query.kept.get(("score", index))
        if kept is None:
            everywhere = slice(0, state.table.capacity)
            kept = query.kept["score", index] = plugin.score(query, state, everywhere)
        return kept[rows]

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
