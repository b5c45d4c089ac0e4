"""The pipeline: filters, scores, weights and the tie-break of one policy, applied to one pod.

    pre-filters  ->  filters, as columns  ->  feasible rows  ->  scores x weights  ->  the best  ->  tie-break

A decision is a function of (state, pod, random stream): nothing is awaited, nothing outside is asked. A single feasible
node is taken without scoring. Where none is feasible the diagnosis counts each node under the first plugin that turned
it away, in the pipeline's order, and says it in the words that users of kube-scheduler know.

What plugins said that hangs only on a part of the pod and on nodes' labels, taints, images and spec is kept until one
of those changes, and shared by all pods that are alike in that part. For pods that are alike altogether the whole
answer is kept and brought up to date (panel.py).
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.engine.events import ANY, Event
from berth.engine.panel import Panel, knows_bounds
from berth.engine.plugin import Plugin, Query
from berth.engine.state import State
from berth.engine.table import NodeTable
from berth.engine.verdict import SKIP, BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts, row_count, row_numbers
from berth.model import Pod

T = TypeVar("T")

NO_NODES = "no nodes available to schedule pods"
_KEPT_ANSWERS = 128
_KEPT_PANELS = 64


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
    """What the filters left. `fits` is bool[rows asked]; `opinions` are in the pipeline's order.

    `crowded` are the nodes that fit as they are, but not with the pods that are nominated to them: by position in
    `rows`, the opinion of the filter that says so. `failed`: a filter failed on a node that none before it had refused,
    and nothing is decided.
    """

    rows: Rows
    fits: BoolColumn
    opinions: tuple[Opinion, ...]
    stopped_by: Opinion | None
    crowded: Mapping[int, Opinion] = field(default_factory=dict)
    failed: Diagnosis | None = None


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
        self._panels: OrderedDict[Hashable, Panel] = OrderedDict()

    def decide(self, pod: Pod, state: State, random: Random) -> Placement | Diagnosis:
        table = state.table
        if not len(table):
            return Diagnosis(NO_NODES, 0, frozenset(), ANY)
        panel = None if state.nominated or pod.nominated_node_name else self._panel(pod, state)
        if panel is not None:
            return self._place(panel.totals, table.rows_by_name, len(table), panel.feasible, table, random)
        query = Query(pod, table)
        if pod.nominated_node_name and (kept := self._at_nominated(query, state)) is not None:
            return kept
        survey = self.survey(query, state)
        if survey.failed is not None:
            return survey.failed
        feasible = int(np.count_nonzero(survey.fits))
        if not feasible:
            return diagnose(survey, len(table))
        if feasible == 1:
            only = int(row_numbers(survey.rows)[survey.fits.argmax()])
            return Placement(table.name(only), len(survey.fits), 1)
        if survey.rows is table.rows and not survey.crowded:
            totals, rows = self._new_panel(query, state, survey).totals, table.rows_by_name
        else:
            ranking = self.rank(query, state, row_numbers(survey.rows)[survey.fits])
            order = _by_name(ranking.rows, table)
            totals, rows = ranking.totals[order], ranking.rows[order]
        return self._place(totals, rows, len(survey.fits), feasible, table, random)

    def _at_nominated(self, query: Query, state: State) -> Placement | None:
        """The node that was made free for the pod, if it fits there: no other is looked at then."""
        name = query.pod.nominated_node_name
        row = state.table.row(name)
        opinions = [Opinion(plugin, _screened(plugin, query, state), None) for plugin in self.filters]
        if row is None or any(opinion.pre_filter.code is not Code.FITS for opinion in opinions):
            return None
        return Placement(name, 1, 1) if self.refusal(query, state, row, opinions) is None else None

    def _place(
        self,
        totals: Int64Column,
        rows: NDArray[np.intp],
        evaluated: int,
        feasible: int,
        table: NodeTable,
        random: Random,
    ) -> Placement:
        """On one of the rows that share the highest total; they are in the order of their nodes' names."""
        best = rows[(totals == totals.max()).nonzero()[0]]
        return Placement(table.name(self._choose(best, random)), evaluated, feasible)

    # --- what is kept ------------------------------------------------------------------------------------------------

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

    def _panel(self, pod: Pod, state: State) -> Panel | None:
        """The panel of the pod's signature, if there is one and it knows a choice of nodes."""
        signature = pod.signature
        panel = self._panels.get(signature)
        if panel is None:
            return None
        if not panel.refresh(state):
            del self._panels[signature]
            return None
        self._panels.move_to_end(signature)
        return panel

    def _new_panel(self, query: Query, state: State, survey: Survey) -> Panel:
        """Kept unless a filter failed on some node: that ends an attempt once no filter before it refuses the node."""
        panel = Panel(self.filters, self.scores, self._judged, self._scored, self._constant)
        verdicts = [opinion.verdicts for opinion in survey.opinions]
        panel.build(query, state, verdicts)
        if all(said is None or said.failed is None for said in verdicts):
            self._panels[query.pod.signature] = panel
            if len(self._panels) > _KEPT_PANELS:
                self._panels.popitem(last=False)
        return panel

    # --- filters -----------------------------------------------------------------------------------------------------

    def survey(self, query: Query, state: State) -> Survey:
        screened = [(plugin, _screened(plugin, query, state)) for plugin in self.filters]
        refusals = [Opinion(plugin, answer, None) for plugin, answer in screened if answer.code is not Code.FITS]
        if refusals:
            return _stopped(screened, refusals, state.table)
        rows = _narrowed(state.table, screened)
        fits = np.ones(row_count(rows), dtype=np.bool_)
        opinions = []
        failed: Diagnosis | None = None
        for index, (plugin, answer) in enumerate(screened):
            verdicts = None
            if not answer.skip and len(fits):
                verdicts = self._judged(index, plugin, query, state, rows)
                failed = failed or _failure(plugin, verdicts, fits)
                if not verdicts.all_fit:
                    fits &= verdicts.fits
            opinions.append(Opinion(plugin, answer, verdicts))
        survey = Survey(rows, fits, tuple(opinions), None, failed=failed)
        return self._with_nominated(query, state, survey) if state.nominated else survey

    def _judged(self, index: int, plugin: Plugin, query: Query, state: State, rows: Rows) -> Verdicts:
        key = plugin.static_key(query.pod)
        if key is None or rows is not state.table.rows:
            return plugin.filter(query, state, rows)
        return self._keep("filter", index, key, state, lambda: plugin.filter(query, state, rows))

    # Pods that are nominated to a node, of at least this pod's priority, count as if they were there; as they may never
    # come, a node must fit with them and without.

    def _with_nominated(self, query: Query, state: State, survey: Survey) -> Survey:
        crowded: dict[int, Opinion] = {}
        rows = row_numbers(survey.rows)
        for name in state.nominated:
            row = state.table.row(name)
            position = int(np.searchsorted(rows, row)) if row is not None else len(rows)
            if position < len(rows) and rows[position] == row:
                refusal = self._crowded(query, state, int(rows[position]), survey.opinions)
                if refusal is not None:
                    crowded[position] = refusal
        if crowded:
            survey.fits[list(crowded)] = False
        return replace(survey, crowded=crowded)

    def _crowded(self, query: Query, state: State, row: int, opinions: Sequence[Opinion]) -> Opinion | None:
        """The filter that refuses the row once the pods nominated to it are there, if there are such and one does."""
        pod, name = query.pod, state.table.name(row)
        guests = [p for p in state.nominated.get(name, {}).values() if p.priority >= pod.priority and p.uid != pod.uid]
        if not guests:
            return None
        with moved(query, state.table, add=[(guest, name) for guest in guests]):
            return self._refusal(query, state, row, opinions)

    def refusal(self, query: Query, state: State, row: int, opinions: Sequence[Opinion]) -> Opinion | None:
        """The first filter that refuses this row as the table is now, None if the pod fits there.

        What the filters answered before any node was looked at stands as it does in `opinions`; nominated pods count.
        """
        return self._crowded(query, state, row, opinions) or self._refusal(query, state, row, opinions)

    def _refusal(self, query: Query, state: State, row: int, opinions: Sequence[Opinion]) -> Opinion | None:
        rows = np.array([row], dtype=np.intp)
        for opinion in opinions:
            if not opinion.pre_filter.skip:
                verdicts = opinion.plugin.filter(query, state, rows)
                if verdicts.codes[0] != Code.FITS:
                    return Opinion(opinion.plugin, opinion.pre_filter, verdicts)
        return None

    # --- scores ------------------------------------------------------------------------------------------------------

    def rank(self, query: Query, state: State, feasible: NDArray[np.intp]) -> Ranking:
        totals = np.zeros(len(feasible), dtype=np.int64)
        columns: list[Int64Column | None] = []
        whole = len(feasible) == len(state.table)
        for index, (plugin, weight) in enumerate(self.scores):
            column = None
            if plugin.concerns(query.pod) and plugin.pre_score(query, state):
                rows = state.table.rows if whole else feasible
                column = plugin.normalize(self._scored(index, plugin, query, state, rows))
                totals += column * weight
            columns.append(column)
        return Ranking(feasible, tuple(columns), totals)

    def _scored(self, index: int, plugin: Plugin, query: Query, state: State, rows: Rows) -> Int64Column:
        key = plugin.static_key(query.pod)
        if key is None:
            return plugin.score(query, state, rows)
        everywhere = slice(0, state.table.span)
        return self._keep("score", index, key, state, lambda: plugin.score(query, state, everywhere))[rows]

    def _constant(self, index: int, plugin: Plugin, query: Query, state: State) -> int | None:
        """What a static plugin gives to every node alike, None where it does not or cannot be known."""
        if not knows_bounds(plugin):
            return None

        def ask() -> int | None:
            if not plugin.pre_score(query, state):
                return 0
            scores = plugin.score(query, state, state.table.rows)
            alike = scores.min() == scores.max()
            return int(plugin.normalize(scores[:1])[0]) if alike else None

        return self._keep("constant", index, plugin.static_key(query.pod), state, ask)

    def best(self, ranking: Ranking, table: NodeTable) -> NDArray[np.intp]:
        """The rows that share the highest total, in the order of their names."""
        rows: NDArray[np.intp] = ranking.rows[ranking.totals == ranking.totals.max()]
        return rows[_by_name(rows, table)]

    def _choose(self, best: NDArray[np.intp], random: Random) -> int:
        if self.tie_break is TieBreak.FIRST or len(best) == 1:
            return int(best[0])
        if self.tie_break is TieBreak.RANDOM:
            return int(best[random.randrange(len(best))])
        self._turn += 1
        return int(best[(self._turn - 1) % len(best)])


def _by_name(rows: NDArray[np.intp], table: NodeTable) -> NDArray[np.intp]:
    """The order that puts these rows of known nodes into the order of their names."""
    ranks = np.zeros(table.capacity, dtype=np.intp)
    ranks[table.rows_by_name] = np.arange(len(table))
    return np.argsort(ranks[rows])


def _screened(plugin: Plugin, query: Query, state: State) -> PreFilter:
    return plugin.pre_filter(query, state) if plugin.concerns(query.pod) else SKIP


def _stopped(screened: Sequence[tuple[Plugin, PreFilter]], refusals: Sequence[Opinion], table: NodeTable) -> Survey:
    """No node takes the pod. What nothing can mend is said first; of what pods that leave may mend, the last."""
    hopeless = (opinion for opinion in refusals if opinion.pre_filter.code is not Code.UNSCHEDULABLE)
    stopped_by = next(hopeless, refusals[-1])
    opinions = tuple(Opinion(plugin, answer, None) for plugin, answer in screened)
    return Survey(table.rows, np.zeros(len(table), np.bool_), opinions, stopped_by)


@contextmanager
def moved(
    query: Query, table: NodeTable, add: Sequence[tuple[Pod, str]] = (), remove: Sequence[tuple[Pod, str]] = ()
) -> Iterator[None]:
    """The table as if these pods had come to these nodes and those had left; as it was, when the block ends."""
    query.memo.clear()
    gone: list[tuple[Pod, str]] = []
    came: list[Pod] = []
    with table.trying():
        try:
            for pod, node_name in remove:
                table.remove_pod(pod.uid)
                gone.append((pod, node_name))
            for pod, node_name in add:
                table.add_pod(pod, node_name)
                came.append(pod)
            yield
        finally:
            for pod in came:
                table.remove_pod(pod.uid)
            for pod, node_name in gone:
                table.add_pod(pod, node_name)
            query.memo.clear()


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


def _failure(plugin: Plugin, verdicts: Verdicts, left: BoolColumn) -> Diagnosis | None:
    """What is said if the filter failed on one of the nodes that are left."""
    failed = verdicts.failed
    if failed is None or not (failed & left).any():
        return None
    message = ", ".join(verdicts.reasons(int((failed & left).argmax())))
    return Diagnosis(message, len(left), frozenset([plugin.name]), plugin.wakes_on, error=True)


def first_refusals(survey: Survey) -> tuple[Counter[str], list[Plugin]]:
    """How often each reason refused a node that no earlier plugin had refused, and the plugins that gave them."""
    counts: Counter[str] = Counter()
    plugins: list[Plugin] = []
    left = np.ones(len(survey.fits), dtype=np.bool_)
    for position, opinion in survey.crowded.items():
        left[position] = False
        plugins.append(opinion.plugin)
        if opinion.verdicts is not None:
            counts.update(opinion.verdicts.reasons(0))
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
