"""The pipeline: filters, scores, weights and the tie-break of one policy, applied to one pod.

    pre-filters  ->  filters, as columns  ->  feasible rows  ->  scores x weights  ->  the best  ->  tie-break

A decision is a function of (state, pod, random stream): nothing is awaited, nothing outside is asked. What somebody
outside has said of the nodes already is given with the pod (outside.py). A single feasible node is taken without
scoring. Where none is feasible the diagnosis counts each node under the first plugin that turned
it away, in the pipeline's order, and says it in the words that users of kube-scheduler know.

What plugins said that hangs only on a part of the pod and on nodes' labels, taints, images and spec is kept until one
of those changes, and shared by all pods that are alike in that part. For pods that are alike altogether the whole
answer is kept and brought up to date (panel.py).
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.engine.answer_cache.cache import SUCCESS, CachedAnswers, Lap
from berth.engine.answer_cache.entries import Scorer
from berth.engine.events import ANY, Event
from berth.engine.extender_result import EXTENDERS, ExtenderResult, points_of, verdicts_of
from berth.engine.plugin import Plugin, Query
from berth.engine.plugins.node_resources_fit import NodeResourcesFit
from berth.engine.state.node_table import NodeTable
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.verdict import (
    PROCEED,
    SKIP,
    BoolColumn,
    Code,
    Int64Column,
    PreFilter,
    Rows,
    Verdicts,
    row_count,
    row_numbers,
)
from berth.model import Pod

T = TypeVar("T")

NO_NODES = "no nodes available to schedule pods"
_FEWEST_FOUND, _LEAST_PERCENTAGE = 100, 5  # nodes that are looked for at least, where not all are
_KEPT_ANSWERS = 128
_KEPT_PANELS = 64
_UNKNOWN: Any = object()


class TieBreak(StrEnum):
    """Which of the nodes that share the highest total is taken; nodes are in the order of their names."""

    RANDOM = "Random"
    ROUND_ROBIN = "RoundRobin"
    FIRST = "First"


_FIRST, _RANDOM = TieBreak.FIRST, TieBreak.RANDOM  # looked up once: for a member of an enum that takes long


class Placement(NamedTuple):
    node: str
    evaluated: int
    feasible: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why no node takes the pod. `plugins` turned it away; `wakes_on` are the events that may change their minds.

    `survey` and `query` are what it was read from, for whoever looks for pods to push out in the same step; they are
    large, and true at that moment only.
    """

    message: str
    nodes: int
    plugins: frozenset[str]
    wakes_on: frozenset[Event]
    error: bool = False
    survey: "Survey | None" = field(default=None, compare=False, repr=False)
    query: Query | None = field(default=None, compare=False, repr=False)

    def in_words(self) -> "Diagnosis":
        """Without what it was read from: to be kept."""
        return replace(self, survey=None, query=None)


class Opinion(NamedTuple):
    """What one filter says of a pod: before any node is looked at, and of each node (None: it was not asked)."""

    plugin: Plugin
    pre_filter: PreFilter
    verdicts: Verdicts | None


class Survey(NamedTuple):
    """What the filters left. `fits` is bool[rows asked]; `opinions` are in the pipeline's order, of those that the pod
    concerns.

    `with_nominated`: nominated pods count. Of nodes that do not fit with them, opinions are what the filters say then;
    `without` is what they say without these pods, where that is not the same.
    `flawed`: a filter failed on a node. `failed`: on one that none before it had refused, and nothing is decided.
    """

    rows: Rows
    fits: BoolColumn
    opinions: tuple[Opinion, ...]
    stopped_by: Opinion | None
    with_nominated: bool = False
    without: tuple[Opinion, ...] | None = None
    flawed: bool = False
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
        *,
        node_percentage: int = 100,
        check_all: bool = False,
    ) -> None:
        """`node_percentage`: the search for nodes that fit ends with so many of all, 0: fewer the larger the cluster.

        `check_all`: a diagnosis counts what every filter says of every node, not only what the first one says.
        """
        self.filters = tuple(filters)
        self.scores = tuple(scores)
        self.tie_break = tie_break
        self.node_percentage = node_percentage
        self.check_all = check_all
        self._turn = 0
        self._search_from = 0
        self._scorers = [Scorer.of(plugin, weight) for plugin, weight in scores]
        self._kept: OrderedDict[tuple[str, int, Hashable], Any] = OrderedDict()
        self._kept_of: NodeTable | None = None
        self._kept_at = 0  # the version of its nodes
        self._panels: OrderedDict[Hashable, CachedAnswers] = OrderedDict()
        self._judged_lately: OrderedDict[Hashable, Pod] = OrderedDict()

    def decide(
        self, pod: Pod, state: State, random: Random, outside: ExtenderResult | None = None, lap: Lap | None = None
    ) -> Placement | Diagnosis:
        """`lap` is told of the end of each part, for whoever has a clock."""
        table = state.table
        nodes = len(table)
        if not nodes:
            return Diagnosis(NO_NODES, 0, frozenset(), ANY)
        enough = nodes if outside is not None or self.node_percentage == 100 else self._enough(nodes)
        whole = outside is None and enough == nodes
        if whole and not (pod.nominated_node_name or (state.nominated and state.guests.matter_to(pod))):
            panel = self._panel(pod, state, lap)
            if panel is not None:
                places = panel.best_places()
                place = places[self._choose(len(places), random)]
                return Placement(table.sorted_names[place], nodes, panel.feasible)
        self._note_judged(pod.signature, pod)
        query = Query(pod, table)
        if pod.nominated_node_name and (outside is None or pod.nominated_node_name in outside.allowed):
            kept = self._at_nominated(query, state)
            if kept is not None:
                return kept
        survey = self.survey(query, state, outside, lap)
        if survey.failed is not None:
            return survey.failed
        feasible = int(np.count_nonzero(survey.fits))
        if not feasible:
            return replace(self.diagnose(survey, nodes), survey=survey, query=query)
        if feasible == 1:
            only = int(row_numbers(survey.rows)[survey.fits.argmax()])
            return Placement(table.name(only), len(survey.fits), 1)
        if whole and survey.rows is table.rows and not survey.with_nominated:
            best = self._new_panel(query, state, survey).best
        else:
            found = self._found(survey, table, enough)
            feasible = len(found)
            ranking = self.rank(query, state, found)
            if outside is not None:
                ranking = replace(ranking, totals=ranking.totals + points_of(outside, table)[found])
            best = self.best(ranking, table)
        if lap is not None:
            lap("Score", SUCCESS)
        row = best.item(self._choose(len(best), random))
        return Placement(table.name(row), len(survey.fits), feasible)

    def feasible(self, pod: Pod, state: State) -> list[str] | Diagnosis:
        """The names of the nodes that would be scored; or why there are none."""
        table = state.table
        if not len(table):
            return Diagnosis(NO_NODES, 0, frozenset(), ANY)
        survey = self.survey(Query(pod, table), state)
        if survey.failed is not None:
            return survey.failed
        if not survey.fits.any():
            return self.diagnose(survey, len(table))
        return [table.name(int(row)) for row in self._found(survey, table, self._enough(len(table)))]

    def choices(self, query: Query, state: State) -> list[str] | Diagnosis:
        """The nodes that the tie-break would choose from, by name; or why there are none. Every node is looked at."""
        table = state.table
        if not len(table):
            return Diagnosis(NO_NODES, 0, frozenset(), ANY)
        self._note_judged(query.pod.signature, query.pod)
        survey = self.survey(query, state)
        if survey.failed is not None:
            return survey.failed
        rows = row_numbers(survey.rows)[survey.fits]
        if not len(rows):
            return self.diagnose(survey, len(table))
        best = rows if len(rows) == 1 else self.best(self.rank(query, state, rows), table)
        return [table.name(int(row)) for row in best]

    def take_judged(self) -> list[Pod]:
        """Pods that were decided on since this was last asked, the latest of each signature, and not of very many.

        A plugin is not asked while answers are kept; so this is how it can be told whom its answers still concern.
        """
        taken = dict(self._judged_lately)
        self._judged_lately.clear()
        for panel in self._panels.values():
            if panel.refreshed_for is not None:
                taken[panel.signature], panel.refreshed_for = panel.refreshed_for, None
        return list(taken.values())

    def _note_judged(self, signature: Hashable, pod: Pod) -> None:
        self._judged_lately[signature] = pod
        if len(self._judged_lately) > _KEPT_PANELS:
            self._judged_lately.popitem(last=False)

    def diagnose(self, survey: Survey, nodes: int) -> Diagnosis:
        return diagnose(survey, nodes, check_all=self.check_all)

    def _enough(self, nodes: int) -> int:
        """How many nodes that fit end the search."""
        percentage = self.node_percentage or max(50 - nodes // 125, _LEAST_PERCENTAGE)
        return min(nodes, max(nodes * percentage // 100, _FEWEST_FOUND))

    def _found(self, survey: Survey, table: NodeTable, enough: int) -> NDArray[np.intp]:
        """The rows that fit; where there are more than enough, as many, each search going on where the last ended."""
        rows = row_numbers(survey.rows)
        if np.count_nonzero(survey.fits) <= enough:
            return rows[survey.fits]
        start = self._search_from % len(rows)
        turned = np.roll(survey.fits, -start)
        last = int(turned.nonzero()[0][enough - 1])
        self._search_from = (start + last + 1) % len(rows)
        searched = (np.arange(len(rows)) - start) % len(rows) <= last
        return rows[survey.fits & searched]

    def _at_nominated(self, query: Query, state: State) -> Placement | None:
        """The node that was made free for the pod, if it fits there: no other is looked at then."""
        name = query.pod.nominated_node_name
        return Placement(name, 1, 1) if self._takes(query, state, name) else None

    def fits_without(self, pod: Pod, state: State, node_name: str, gone: Sequence[Pod]) -> bool:
        """Whether the node would take the pod if these pods, which are on it, were not.

        A filter that has something to say because of them is asked all the same: of pods that are nominated there, too.
        """
        query = Query(pod, state.table)
        talking = {plugin for plugin in self.filters if not _screened(plugin, query, state).skip}
        with moved(query, state.table, remove=[(other, node_name) for other in gone]):
            return self._takes(query, state, node_name, talking)

    def _takes(self, query: Query, state: State, node_name: str, talking: Collection[Plugin] = ()) -> bool:
        """`talking` are filters that have something to say of the pod, even if they say otherwise now."""
        row = state.table.row(node_name)
        screened = [(plugin, _screened(plugin, query, state)) for plugin in self.filters]
        opinions = [
            Opinion(plugin, PROCEED if answer.skip and plugin in talking else answer, None)
            for plugin, answer in screened
        ]
        if row is None or any(opinion.pre_filter.code is not Code.FITS for opinion in opinions):
            return False
        return self.refusal(query, state, row, opinions) is None

    # --- what is kept ------------------------------------------------------------------------------------------------

    def _keep(self, point: str, plugin: Plugin, key: Hashable, state: State, ask: Callable[[], T]) -> T:
        """What was answered for this key while the nodes were as they are now, or else what `ask` answers."""
        table = state.table
        if table is not self._kept_of or table.static_version != self._kept_at:
            self._kept.clear()
            self._kept_of, self._kept_at = table, table.static_version
        question = (point, id(plugin), key)
        kept: T = self._kept.get(question, _UNKNOWN)
        if kept is not _UNKNOWN:
            self._kept.move_to_end(question)
            return kept
        said = self._kept[question] = ask()
        if len(self._kept) > _KEPT_ANSWERS:
            self._kept.popitem(last=False)
        return said

    def _panel(self, pod: Pod, state: State, lap: Lap | None) -> CachedAnswers | None:
        """The panel of the pod's signature, if there is one and it knows a choice of nodes."""
        panel = self._panels.pop(pod.signature, None)
        if panel is None or not panel.refresh(pod, state, lap):
            return None
        self._panels[panel.signature] = panel  # at the end again; nor is it kept where a plugin fails half-way
        return panel

    def _new_panel(self, query: Query, state: State, survey: Survey) -> CachedAnswers:
        """Kept unless a filter failed on some node: that ends an attempt once no filter before it refuses the node."""
        panel = CachedAnswers(self._scorers, self._judged, self._scored, self._constant)
        panel.build(query, state, survey.fits, survey.opinions)
        if not survey.flawed:
            self._panels[panel.signature] = panel
            if len(self._panels) > _KEPT_PANELS:
                self._panels.popitem(last=False)
        return panel

    # --- filters -----------------------------------------------------------------------------------------------------

    def survey(
        self, query: Query, state: State, outside: ExtenderResult | None = None, lap: Lap | None = None
    ) -> Survey:
        pod = query.pod
        screened = [(plugin, plugin.pre_filter(query, state)) for plugin in self.filters if plugin.concerns(pod)]
        special = [pair for pair in screened if pair[1] is not PROCEED and pair[1] is not SKIP]
        refusals = [Opinion(plugin, answer, None) for plugin, answer in special if answer.code is not Code.FITS]
        if refusals:
            return _stopped(screened, refusals, state.table, lap)
        if lap is not None:
            lap("PreFilter", SUCCESS)
        rows = _narrowed(state.table, special)
        nodes = row_count(rows)
        fits = np.ones(nodes, dtype=np.bool_)
        opinions = []
        flawed, failed = False, None
        for plugin, answer in screened:
            verdicts = None
            if nodes and not answer.skip:
                verdicts = self._judged(plugin, query, state, rows)
                if not verdicts.all_fit:
                    flawed |= verdicts.failed is not None
                    failed = failed or _failure(plugin, verdicts, fits)
                    fits &= verdicts.fits
            opinions.append(Opinion(plugin, answer, verdicts))
        if outside is not None:
            said = verdicts_of(outside, state.table, rows, fits)
            fits &= said.fits
            opinions.append(Opinion(EXTENDERS, SKIP, said))  # skipped where pods are moved: they cannot be asked again
        survey = Survey(rows, fits, tuple(opinions), None, flawed=flawed, failed=failed)
        if state.nominated:
            survey = self._with_nominated(query, state, survey)
        if lap is not None:
            lap("Filter", SUCCESS if failed is None else Code.ERROR.kubernetes_name)
        return survey

    def _judged(self, plugin: Plugin, query: Query, state: State, rows: Rows) -> Verdicts:
        key = plugin.static_key(query.pod)
        if key is None or rows is not state.table.rows:
            return plugin.filter(query, state, rows)
        return self._keep("filter", plugin, key, state, lambda: plugin.filter(query, state, rows))

    # Pods that are nominated to a node, of at least this pod's priority, count as if they were there; as they may never
    # come, a node must fit with them and without. Where it does not fit with them, what the filters say then is what
    # they are taken to say.

    def _with_nominated(self, query: Query, state: State, survey: Survey) -> Survey:
        rows = row_numbers(survey.rows)
        nominated = state.guests.beside(query.pod, rows)
        if nominated is None:
            return survey
        positions = np.searchsorted(rows, nominated.rows)
        seen = [self._seen_with(nominated, opinion, query, state, positions) for opinion in survey.opinions]
        refused = np.zeros(len(positions), dtype=np.bool_)
        for verdicts in seen:
            if verdicts is not None:
                refused |= ~verdicts.fits
        opinions = survey.opinions
        if refused.any():
            survey.fits[positions[refused]] = False
            opinions = tuple(
                _laid_over(opinion, positions, verdicts, refused)
                for opinion, verdicts in zip(survey.opinions, seen, strict=True)
            )
        return survey._replace(opinions=opinions, with_nominated=True, without=survey.opinions)

    def _seen_with(
        self, nominated: NominatedRows, opinion: Opinion, query: Query, state: State, positions: NDArray[np.intp]
    ) -> Verdicts | None:
        """What a filter says of the rows with their nominated pods there; None where it has nothing to say."""
        if opinion.verdicts is None or opinion.pre_filter.skip:
            return None
        without = opinion.verdicts.at(positions)
        if not opinion.plugin.reads_pods:
            return without
        seen = opinion.plugin.filter_with_nominated(query, state, nominated)
        return self._tried_with(nominated, opinion.plugin, query, state, without) if seen is None else seen

    def _tried_with(
        self, nominated: NominatedRows, plugin: Plugin, query: Query, state: State, without: Verdicts
    ) -> Verdicts:
        """The same for a filter that has no columns for it: the pods are moved, where it minds them."""
        minded = np.flatnonzero(plugin.minds_nominated(query, nominated))
        said: list[Verdicts] = []
        for row in nominated.rows[minded].tolist():
            with moved(query, state.table, add=_nominated_to(row, query.pod, state)):
                said.append(plugin.filter(query, state, np.array([row], dtype=np.intp)))
        codes = without.codes.copy()
        codes[minded] = [verdicts.codes[0] for verdicts in said]

        def causes() -> Int64Column:
            """From the last place on, those of the rows that were tried; before, those of the others."""
            found = len(said) + without.causes
            found[minded] = np.arange(len(said))
            return found

        def describe(cause: int) -> tuple[str, ...]:
            return said[cause].reasons(0) if cause < len(said) else without.describe(cause - len(said))

        return Verdicts(codes, causes, describe) if said else without

    def _crowded(self, query: Query, state: State, row: int, opinions: Sequence[Opinion]) -> Opinion | None:
        """The filter that refuses the row once the pods nominated to it are there, if there are such and one does."""
        nominated = _nominated_to(row, query.pod, state)
        if not nominated:
            return None
        with moved(query, state.table, add=nominated):
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
        for plugin, weight in self.scores:
            column = None
            if plugin.concerns(query.pod) and plugin.pre_score(query, state):
                rows = state.table.rows if whole else feasible
                column = plugin.normalize(self._scored(plugin, query, state, rows))
                totals += column * weight
            columns.append(column)
        return Ranking(feasible, tuple(columns), totals)

    def _scored(self, plugin: Plugin, query: Query, state: State, rows: Rows) -> Int64Column:
        key = plugin.static_key(query.pod)
        if key is None:
            return plugin.score(query, state, rows)
        everywhere = slice(0, state.table.span)
        return self._keep("score", plugin, key, state, lambda: plugin.score(query, state, everywhere))[rows]

    def _constant(self, plugin: Plugin, query: Query, state: State) -> int | None:
        """What a static plugin that knows its bounds gives to every node alike, None where it does not."""

        def ask() -> int | None:
            if not plugin.pre_score(query, state):
                return 0
            scores = plugin.score(query, state, state.table.rows)
            alike = scores.min() == scores.max()
            return int(plugin.normalize(scores[:1])[0]) if alike else None

        return self._keep("constant", plugin, plugin.static_key(query.pod), state, ask)

    def best(self, ranking: Ranking, table: NodeTable) -> NDArray[np.intp]:
        """The rows that share the highest total, in the order of their names."""
        among = np.zeros(table.capacity, dtype=np.bool_)
        among[ranking.rows[ranking.totals == ranking.totals.max()]] = True
        return table.rows_by_name[among[table.rows_by_name]]

    def _choose(self, tied: int, random: Random) -> int:
        """Which of so many that share the highest total, in the order of their nodes' names."""
        if tied == 1 or self.tie_break is _FIRST:
            return 0
        if self.tie_break is _RANDOM:
            return int(random.random() * tied)  # faster than randrange, and as fair for so few
        self._turn += 1
        return (self._turn - 1) % tied


def reads_resources(opinion: Opinion) -> bool:
    """Of the pods on a node the filter reads what they use, and nothing else."""
    return isinstance(opinion.plugin, NodeResourcesFit)


def _nominated_to(row: int, pod: Pod, state: State) -> list[tuple[Pod, str]]:
    """The pods that are nominated to the row's node and that the pod has to yield to."""
    name = state.table.name(row)
    others = state.nominated.get(name, {}).values()
    return [(other, name) for other in others if other.priority >= pod.priority and other.uid != pod.uid]


def _laid_over(opinion: Opinion, positions: NDArray[np.intp], seen: Verdicts | None, refused: BoolColumn) -> Opinion:
    """The opinion with what the filter says with nominated pods there, at those of the positions that are refused."""
    if seen is None or opinion.verdicts is None or not opinion.plugin.reads_pods:
        return opinion
    return opinion._replace(verdicts=opinion.verdicts.laid_over(positions[refused], seen.at(refused)))


def _screened(plugin: Plugin, query: Query, state: State) -> PreFilter:
    return plugin.pre_filter(query, state) if plugin.concerns(query.pod) else SKIP


def _stopped(
    screened: Sequence[tuple[Plugin, PreFilter]], refusals: Sequence[Opinion], table: NodeTable, lap: Lap | None
) -> Survey:
    """No node takes the pod. What nothing can mend is said first; of what pods that leave may mend, the last."""
    hopeless = (opinion for opinion in refusals if opinion.pre_filter.code is not Code.UNSCHEDULABLE)
    stopped_by = next(hopeless, refusals[-1])
    opinions = tuple(Opinion(plugin, answer, None) for plugin, answer in screened)
    if lap is not None:
        lap("PreFilter", stopped_by.pre_filter.code.kubernetes_name)
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


def diagnose(survey: Survey, nodes: int, *, check_all: bool = False) -> Diagnosis:
    """Why a survey without a feasible node has none; `check_all`: with what every filter says of every node."""
    head = f"0/{nodes} nodes are available:"
    if survey.stopped_by is not None:
        stop = survey.stopped_by
        message = f"{head} {', '.join(stop.pre_filter.reasons)}."
        error = stop.pre_filter.code is Code.ERROR
        return Diagnosis(message, nodes, frozenset([stop.plugin.name]), stop.plugin.wakes_on, error)
    counts, plugins = refusals(survey, every=check_all)
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


def refusals(survey: Survey, *, every: bool = False) -> tuple[Counter[str], list[Plugin]]:
    """How often each reason refused a node, and the plugins that gave them.

    A node counts under the first plugin that refuses it, or, with `every`, under each that does.
    """
    counts: Counter[str] = Counter()
    plugins: list[Plugin] = []
    left = np.ones(len(survey.fits), dtype=np.bool_)
    for opinion in survey.opinions:
        if opinion.verdicts is None:
            continue
        refused = left & (opinion.verdicts.codes != Code.FITS)
        if not refused.any():
            continue
        if not every:
            left &= ~refused
        plugins.append(opinion.plugin)
        for cause, times in zip(*np.unique(opinion.verdicts.causes[refused], return_counts=True), strict=True):
            for reason in opinion.verdicts.describe(int(cause)):
                counts[reason] += int(times)
    return counts, plugins
