"""The scheduling cycle of one policy: its filters, scores, weights and tie-break, applied to one pod.

    PreFilter  ->  Filter, on columns  ->  feasible rows  ->  Score x weight  ->  highest totals  ->  tie-break

A decision is a function of (state, pod, random stream). It awaits nothing and calls nothing outside the engine. The
answers of extenders are collected beforehand and are passed in (extender_result.py). A single feasible node is taken
without scoring, as in kube-scheduler. If no node is feasible, the diagnosis counts each node under the first plugin
that rejected it, in the pipeline's order, and its message is the one that kube-scheduler writes.

Two caches save work between pods:

    StaticAnswers    answers of one plugin that depend on a part of the pod and on what is static of nodes: shared by
                     all pods that are equal in that part (answer_cache/static_answers.py)
    CachedAnswers    all answers for one pod signature: refreshed for the next pod of that signature
                     (answer_cache/cache.py)
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.engine.answer_cache.cache import SUCCESS, CachedAnswers, Lap
from berth.engine.answer_cache.entries import Scorer
from berth.engine.answer_cache.static_answers import StaticAnswers
from berth.engine.diagnosis import NO_NODES, Diagnosis, Opinion, Survey, diagnose, failure
from berth.engine.events import ANY
from berth.engine.extender_result import EXTENDERS, ExtenderResult, points_of, verdicts_of
from berth.engine.plugin import FilterPlugin, Plugin, Query, ScorePlugin
from berth.engine.state.node_table import NodeTable
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.trial import moved
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

_FEWEST_FOUND, _LEAST_PERCENTAGE = 100, 5  # kube-scheduler's minFeasibleNodesToFind and its lowest adaptive percentage
_MAX_CACHED_SIGNATURES = 64


class TieBreak(StrEnum):
    """How one of the nodes with the highest total is chosen; the nodes are sorted by name."""

    RANDOM = "Random"
    ROUND_ROBIN = "RoundRobin"
    FIRST = "First"


_FIRST, _RANDOM = TieBreak.FIRST, TieBreak.RANDOM  # looked up once: attribute access on an enum class is slow


class Placement(NamedTuple):
    node: str
    evaluated: int
    feasible: int


class Margin(NamedTuple):
    """How far ahead a chosen node was: its total, and the node with the next highest. Totals may be equal."""

    total: int
    runner_up: str
    runner_up_total: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """Scores of the feasible rows: each plugin's normalised column (None: PreScore skipped), and weighted totals."""

    rows: NDArray[np.intp]
    scores: tuple[Int64Column | None, ...]
    totals: Int64Column


class Pipeline:
    def __init__(
        self,
        filters: Sequence[FilterPlugin],
        scores: Sequence[tuple[ScorePlugin, int]],
        tie_break: TieBreak = TieBreak.RANDOM,
        *,
        node_percentage: int = 100,
        check_all: bool = False,
    ) -> None:
        """`node_percentage` is percentageOfNodesToScore; 0: adaptive, lower the larger the cluster is.

        `check_all`: a diagnosis counts the verdict of every filter on every node, not only the first rejection.
        """
        self.filters = tuple(filters)
        self.scores = tuple(scores)
        self.tie_break = tie_break
        self.node_percentage = node_percentage
        self.check_all = check_all
        self._turn = 0
        self._search_from = 0
        self._scorers = [Scorer.of(plugin, weight) for plugin, weight in scores]
        self._static_answers = StaticAnswers()
        self._answers: OrderedDict[Hashable, CachedAnswers] = OrderedDict()  # by signature, least recently used first
        self._judged_lately: OrderedDict[Hashable, Pod] = OrderedDict()
        self._ranked: CachedAnswers | Ranking | None = None  # of the last decision, if nodes were scored

    def decide(
        self, pod: Pod, state: State, random: Random, outside: ExtenderResult | None = None, lap: Lap | None = None
    ) -> Placement | Diagnosis:
        """Returns the node for the pod, or why there is none.

        `lap` is called at the end of each extension point: the engine has no clock, but its caller measures durations.
        """
        table = state.table
        nodes = len(table)
        self._ranked = None
        if not nodes:
            return Diagnosis(NO_NODES, 0, frozenset(), ANY)
        enough = nodes if outside is not None or self.node_percentage == 100 else self._enough(nodes)
        # Cached answers hold for all nodes and without nominated pods and extenders; otherwise the filters run.
        whole = outside is None and enough == nodes
        if whole and not (pod.nominated_node_name or (state.nominated and state.nominated_pods.matter_to(pod))):
            answers = self._refreshed_answers(pod, state, lap)
            if answers is not None:
                self._ranked = answers
                places = answers.best_places()
                place = places[self._choose(len(places), random)]
                return Placement(table.sorted_names[place], nodes, answers.feasible)
        self._note_judged(pod.signature, pod)
        query = Query(pod, table)
        if pod.nominated_node_name and (outside is None or pod.nominated_node_name in outside.allowed):
            placement = self._at_nominated(query, state)
            if placement is not None:
                return placement
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
            self._ranked = answers = self._new_answers(query, state, survey)
            best = answers.best
        else:
            found = self._found(survey, table, enough)
            feasible = len(found)
            ranking = self.rank(query, state, found)
            if outside is not None:
                ranking = replace(ranking, totals=ranking.totals + points_of(outside, table)[found])
            self._ranked = ranking
            best = self.best(ranking, table)
        if lap is not None:
            lap("Score", SUCCESS)
        row = best.item(self._choose(len(best), random))
        return Placement(table.name(row), len(survey.fits), feasible)

    def margin(self, state: State, chosen: str) -> Margin | None:
        """Returns how far ahead the node was that the last decision has chosen; None if no nodes were scored.

        To be called before anything changes. It is not part of `decide`: it looks at the scores of all nodes again.
        """
        ranked, table = self._ranked, state.table
        if ranked is None:
            return None
        if isinstance(ranked, CachedAnswers):
            total, next_total, place = ranked.top_two(state)
            other = table.sorted_names[place]
        else:
            first, second = np.argsort(-ranked.totals, kind="stable")[:2].tolist()
            total, next_total = ranked.totals.item(first), ranked.totals.item(second)
            other = table.name(int(ranked.rows[second]))
        if other == chosen:  # it has the same total as others, and each of them is as good a runner-up
            other = self._another(ranked, table, chosen)
        return Margin(total, other, next_total)

    def _another(self, ranked: "CachedAnswers | Ranking", table: NodeTable, chosen: str) -> str:
        best = ranked.best if isinstance(ranked, CachedAnswers) else self.best(ranked, table)
        return next(name for row in best.tolist() if (name := table.name(row)) != chosen)

    def feasible(self, pod: Pod, state: State) -> list[str] | Diagnosis:
        """Returns the names of the nodes that would be scored, or why there are none."""
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
        """Returns the names of the nodes that the tie-break chooses from, or why there are none.

        Filters every node, whatever `node_percentage` is.
        """
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
        """Returns the pods that were decided on since the last call: the latest of each signature, up to a limit.

        Plugins are not called while their answers are cached. With these pods, the caller can tell a plugin which pods
        still use its answers.
        """
        taken = dict(self._judged_lately)
        self._judged_lately.clear()
        for answers in self._answers.values():
            if answers.refreshed_for is not None:
                taken[answers.signature], answers.refreshed_for = answers.refreshed_for, None
        return list(taken.values())

    def _note_judged(self, signature: Hashable, pod: Pod) -> None:
        self._judged_lately[signature] = pod
        if len(self._judged_lately) > _MAX_CACHED_SIGNATURES:
            self._judged_lately.popitem(last=False)

    def diagnose(self, survey: Survey, nodes: int) -> Diagnosis:
        return diagnose(survey, nodes, check_all=self.check_all)

    def _enough(self, nodes: int) -> int:
        """Returns how many feasible nodes end the search (kube-scheduler's numFeasibleNodesToFind)."""
        percentage = self.node_percentage or max(50 - nodes // 125, _LEAST_PERCENTAGE)
        return min(nodes, max(nodes * percentage // 100, _FEWEST_FOUND))

    def _found(self, survey: Survey, table: NodeTable, enough: int) -> NDArray[np.intp]:
        """Returns the rows that fit, at most `enough`. Each search starts where the last one ended, round robin."""
        rows = row_numbers(survey.rows)
        if np.count_nonzero(survey.fits) <= enough:
            return rows[survey.fits]
        start = self._search_from % len(rows)
        rotated = np.roll(survey.fits, -start)
        last = int(rotated.nonzero()[0][enough - 1])
        self._search_from = (start + last + 1) % len(rows)
        searched = (np.arange(len(rows)) - start) % len(rows) <= last
        return rows[survey.fits & searched]

    def _at_nominated(self, query: Query, state: State) -> Placement | None:
        """Returns the nominated node if the pod fits there. As in kube-scheduler, no other node is evaluated then."""
        name = query.pod.nominated_node_name
        return Placement(name, 1, 1) if self._takes(query, state, name) else None

    def fits_without(self, pod: Pod, state: State, node_name: str, gone: Sequence[Pod]) -> bool:
        """Whether the pod would fit on the node if the `gone` pods, which are on it, were not there.

        A filter that PreFilter does not skip while they are there is called anyway: pods nominated to the node may
        matter to it, too.
        """
        query = Query(pod, state.table)
        not_skipping = {plugin for plugin in self.filters if not _screened(plugin, query, state).skip}
        with moved(query, state.table, remove=[(other, node_name) for other in gone]):
            return self._takes(query, state, node_name, not_skipping)

    def _takes(self, query: Query, state: State, node_name: str, not_skipping: Collection[Plugin] = ()) -> bool:
        """Whether the pod fits on the node. Filters in `not_skipping` are called even if PreFilter skips them now."""
        row = state.table.row(node_name)
        screened = [(plugin, _screened(plugin, query, state)) for plugin in self.filters]
        opinions = [
            Opinion(plugin, PROCEED if answer.skip and plugin in not_skipping else answer, None)
            for plugin, answer in screened
        ]
        if row is None or any(opinion.pre_filter.code is not Code.FITS for opinion in opinions):
            return False
        return self.refusal(query, state, row, opinions) is None

    # --- cached answers ----------------------------------------------------------------------------------------------

    def _refreshed_answers(self, pod: Pod, state: State, lap: Lap | None) -> CachedAnswers | None:
        """Returns the refreshed answers for the pod's signature. None: not cached, invalid, or fewer than two fit.

        The entry is popped first: a plugin that raises in `refresh` leaves it half refreshed, and it must not be used.
        """
        answers = self._answers.pop(pod.signature, None)
        if answers is None or not answers.refresh(pod, state, lap):
            return None
        self._answers[answers.signature] = answers  # at the end again: the most recently used
        return answers

    def _new_answers(self, query: Query, state: State, survey: Survey) -> CachedAnswers:
        """Builds answers for the pod's signature, and caches them unless a filter failed on some node.

        Such a failure ends an attempt as soon as no filter before it rejects that node, which a cache would hide.
        """
        answers = CachedAnswers(query, state, survey.fits, survey.opinions, self._scorers, self._static_answers)
        if not survey.flawed:
            self._answers[answers.signature] = answers
            if len(self._answers) > _MAX_CACHED_SIGNATURES:
                self._answers.popitem(last=False)
        return answers

    # --- filters -----------------------------------------------------------------------------------------------------

    def survey(
        self, query: Query, state: State, outside: ExtenderResult | None = None, lap: Lap | None = None
    ) -> Survey:
        """Runs PreFilter and Filter for the pod on all nodes that PreFilter leaves."""
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
                verdicts = self._static_answers.verdicts(plugin, query, state, rows)
                if not verdicts.all_fit:
                    flawed |= verdicts.failed is not None
                    failed = failed or failure(plugin, verdicts, fits)
                    fits &= verdicts.fits
            opinions.append(Opinion(plugin, answer, verdicts))
        if outside is not None:
            said = verdicts_of(outside, state.table, rows, fits)
            fits &= said.fits
            # SKIP: where pods are moved tentatively, filters run again, but extenders cannot be called again.
            opinions.append(Opinion(EXTENDERS, SKIP, said))
        survey = Survey(rows, fits, tuple(opinions), None, flawed=flawed, failed=failed)
        if state.nominated:
            survey = self._with_nominated(query, state, survey)
        if lap is not None:
            lap("Filter", SUCCESS if failed is None else Code.ERROR.kubernetes_name)
        return survey

    # Pods of equal or higher priority that are nominated to a node count as if they were there. As they may never get
    # there, a node must fit both with them and without them (kube-scheduler's RunFilterPluginsWithNominatedPods). If it
    # does not fit with them, the verdicts with them are the ones that are reported.

    def _with_nominated(self, query: Query, state: State, survey: Survey) -> Survey:
        rows = row_numbers(survey.rows)
        nominated = state.nominated_pods.beside(query.pod, rows)
        if nominated is None:
            return survey
        positions = np.searchsorted(rows, nominated.rows)
        seen = [
            self._verdicts_with_nominated(nominated, opinion, query, state, positions) for opinion in survey.opinions
        ]
        refused = np.zeros(len(positions), dtype=np.bool_)
        for verdicts in seen:
            if verdicts is not None:
                refused |= ~verdicts.fits
        opinions = survey.opinions
        if refused.any():
            survey.fits[positions[refused]] = False
            opinions = tuple(
                _overlaid(opinion, positions, verdicts, refused)
                for opinion, verdicts in zip(survey.opinions, seen, strict=True)
            )
        return survey._replace(opinions=opinions, with_nominated=True, without=survey.opinions)

    def _verdicts_with_nominated(
        self, nominated: NominatedRows, opinion: Opinion, query: Query, state: State, positions: NDArray[np.intp]
    ) -> Verdicts | None:
        """Returns the filter's verdicts on the rows with their nominated pods there; None if it skips the pod."""
        if opinion.verdicts is None or opinion.pre_filter.skip:
            return None
        without = opinion.verdicts.at(positions)
        if not opinion.plugin.dependencies.reads_pods:
            return without
        seen = opinion.plugin.filter_with_nominated(query, state, nominated)
        return self._moved_verdicts(nominated, opinion.plugin, query, state, without) if seen is None else seen

    def _moved_verdicts(
        self, nominated: NominatedRows, plugin: FilterPlugin, query: Query, state: State, without: Verdicts
    ) -> Verdicts:
        """The same for a filter that cannot answer for all rows at once.

        Where nominated pods may change its verdict, they are added to the table, row by row, and the filter is called.
        """
        may_change = np.flatnonzero(plugin.affected_by_nominated(query, nominated))
        said: list[Verdicts] = []
        for row in nominated.rows[may_change].tolist():
            with moved(query, state.table, add=_nominated_to(row, query.pod, state)):
                said.append(plugin.filter(query, state, np.array([row], dtype=np.intp)))
        codes = without.codes.copy()
        codes[may_change] = [verdicts.codes[0] for verdicts in said]

        def causes() -> Int64Column:
            """0 to len(said) - 1 are the rows that were tried; the causes of the other rows follow."""
            found = len(said) + without.causes
            found[may_change] = np.arange(len(said))
            return found

        def describe(cause: int) -> tuple[str, ...]:
            return said[cause].reasons(0) if cause < len(said) else without.describe(cause - len(said))

        return Verdicts(codes, causes, describe) if said else without

    def _refusal_with_nominated(
        self, query: Query, state: State, row: int, opinions: Sequence[Opinion]
    ) -> Opinion | None:
        """Returns the first filter that rejects the row with its nominated pods there; None: no such pod or filter."""
        nominated = _nominated_to(row, query.pod, state)
        if not nominated:
            return None
        with moved(query, state.table, add=nominated):
            return self._refusal(query, state, row, opinions)

    def refusal(self, query: Query, state: State, row: int, opinions: Sequence[Opinion]) -> Opinion | None:
        """Returns the first filter that rejects this row as the table is now; None if the pod fits there.

        PreFilter is not run again: its results are those in `opinions`. Nominated pods count.
        """
        return self._refusal_with_nominated(query, state, row, opinions) or self._refusal(query, state, row, opinions)

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
                column = plugin.normalize(self._static_answers.scores(plugin, query, state, rows))
                totals += column * weight
            columns.append(column)
        return Ranking(feasible, tuple(columns), totals)

    def best(self, ranking: Ranking, table: NodeTable) -> NDArray[np.intp]:
        """Returns the rows with the highest total, sorted by node name."""
        among = np.zeros(table.capacity, dtype=np.bool_)
        among[ranking.rows[ranking.totals == ranking.totals.max()]] = True
        return table.rows_by_name[among[table.rows_by_name]]

    def _choose(self, tied: int, random: Random) -> int:
        """Returns the index of the node to take, among `tied` nodes with the highest total, sorted by name."""
        if tied == 1 or self.tie_break is _FIRST:
            return 0
        if self.tie_break is _RANDOM:
            return int(random.random() * tied)  # faster than randrange, and its bias is negligible for so few
        self._turn += 1
        return (self._turn - 1) % tied


def _nominated_to(row: int, pod: Pod, state: State) -> list[tuple[Pod, str]]:
    """Returns the other pods that are nominated to the row's node and have at least the pod's priority."""
    name = state.table.name(row)
    others = state.nominated.get(name, {}).values()
    return [(other, name) for other in others if other.priority >= pod.priority and other.uid != pod.uid]


def _overlaid(opinion: Opinion, positions: NDArray[np.intp], seen: Verdicts | None, refused: BoolColumn) -> Opinion:
    """Returns the opinion with the verdicts with nominated pods (`seen`) at the positions that are rejected then."""
    if seen is None or opinion.verdicts is None or not opinion.plugin.dependencies.reads_pods:
        return opinion
    return opinion._replace(verdicts=opinion.verdicts.laid_over(positions[refused], seen.at(refused)))


def _screened(plugin: FilterPlugin, query: Query, state: State) -> PreFilter:
    return plugin.pre_filter(query, state) if plugin.concerns(query.pod) else SKIP


def _stopped(
    screened: Sequence[tuple[FilterPlugin, PreFilter]], refusals: Sequence[Opinion], table: NodeTable, lap: Lap | None
) -> Survey:
    """Returns the survey of a pod that PreFilter rejects.

    It reports the first rejection that preemption cannot resolve, else the last one that it can.
    """
    hopeless = (opinion for opinion in refusals if opinion.pre_filter.code is not Code.UNSCHEDULABLE)
    stopped_by = next(hopeless, refusals[-1])
    opinions = tuple(Opinion(plugin, answer, None) for plugin, answer in screened)
    if lap is not None:
        lap("PreFilter", stopped_by.pre_filter.code.kubernetes_name)
    return Survey(table.rows, np.zeros(len(table), np.bool_), opinions, stopped_by)


def _narrowed(table: NodeTable, screened: Sequence[tuple[FilterPlugin, PreFilter]]) -> Rows:
    """Returns all rows, or those of the nodes that are in every PreFilter result that names nodes."""
    names: frozenset[str] | None = None
    for _, answer in screened:
        if answer.nodes is not None:
            names = answer.nodes if names is None else names & answer.nodes
    if names is None:
        return table.rows
    found = sorted(row for row in map(table.row, names) if row is not None)
    return np.array(found, dtype=np.intp)
