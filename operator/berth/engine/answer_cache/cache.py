"""CachedAnswers: the filter verdicts and scores of all plugins for one pod signature, on all nodes.

Pods with equal signatures get equal answers. Between two such pods usually one node has changed: the one that the
first pod was placed on. So the answers are cached, and `refresh` recomputes only what may have changed. All columns
are by position in `table.rows`. The terms in the table (static, node_local, version) are those of dependencies.py.

    cached                         depends on                             recomputed when
    -----------------------------  -------------------------------------  ------------------------------------------
    verdicts of static filters     part of the pod; labels, taints,       never: if `table.static_version` moves, all
    (`_static_fits`)               images, spec of nodes                  answers are invalid
    verdicts of other filters      node and its pods, if node_local;      changed rows: pods or allocatable changed;
    (FilterEntry)                  `filter_version`                       affected rows or all rows: the version moved
    `fits`, `feasible`             the verdicts of all filters            a verdict changed: that row, or all rows
    static scores (`_static_sums`) as static filters                      never
    node-local scores              node and its pods; `score_version`     changed rows; all rows: the version moved
    (LocalScoreEntry)
    relative scores                the above, other nodes, and, if        the version moved or `fits` changed; if bounds
    (RelativeScoreEntry)           normalised, which nodes are feasible   are known: only if these moved
    scores by groups               group of the node; counts by group     the version moved; a node changed its group
    ranking (`_ranking`  )         the weighted sums of all scores        rows whose sum changed; all rows if many did

`refresh` returns False, and the caller builds new answers, if `static_version` moved, if more than MOST_CHANGES rows
changed, if a PreFilter rejects the pod or names nodes, if a filter fails, or if fewer than two nodes are feasible.

The ranking leaves out scores that are equal on all nodes, so it holds differences, not totals. The sum of a node that
is not feasible is so far below zero that no score makes up for it.

The epoch counts changes of objects that are neither pods nor nodes, and of the affinity terms of placed pods. While it
stands still, entries whose version is NOTHING_ELSE are not even asked for their version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.engine.answer_cache.entries import (
    FilterEntry,
    LocalScoreEntry,
    RelativeScoreEntry,
    Scorer,
    group_scores,
    sum_of,
    weighted,
)
from berth.engine.answer_cache.equivalence import EquivalenceGroups
from berth.engine.answer_cache.ranking import NOT_FEASIBLE, Leaders, NodeRanking, Places, Standing
from berth.engine.answer_cache.static_answers import StaticAnswers
from berth.engine.plugin import NOTHING_ELSE, FilterPlugin, Query
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Code, Int64Column, PreFilter, Verdicts, row_numbers
from berth.model import Pod

MOST_CHANGES: Final = 24  # with more changed rows, one call for all nodes is faster than one call per row

Said = tuple[FilterPlugin, PreFilter, Verdicts | None]
Located = dict[int, int]  # row -> position in `table.rows`
Lap = Callable[[str, str], None]  # called with the extension point that is done, and kube-scheduler's status code

SUCCESS = "Success"


class CachedAnswers:
    """The answers for one signature. `fits` is bool[nodes], `feasible` how many nodes fit."""

    def __init__(
        self,
        query: Query,
        state: State,
        fits: BoolColumn,
        opinions: Sequence[Said],
        scorers: Sequence[Scorer],
        static_answers: StaticAnswers,
    ) -> None:
        """`fits` and `opinions` are the answers of the filters that concern the pod, on all nodes."""
        self.signature = query.pod.signature
        self.refreshed_for: Pod | None = None  # the last pod, until `Pipeline.take_judged` takes it
        self.fits = fits.copy()
        self.feasible = int(np.count_nonzero(fits))
        self._static_answers = static_answers
        # What the answers were computed from, and when.
        self._query = query
        self._table, self._rows = state.table, state.table.rows
        self._static_version, self._mark = state.table.static_version, state.table.mark
        self._epoch = _epoch(state)
        # Verdicts.
        self._static_fits: BoolColumn | None = None
        self._filters: list[FilterEntry] = []
        # Scores: sums of static ones, node-local ones and relative ones; one of the latter may be by groups.
        self._static_sums: Int64Column | None = None
        self._constant_sum = 0
        self._local: list[LocalScoreEntry] = []
        self._relative: list[RelativeScoreEntry] = []
        for plugin, _, said in opinions:
            self._add_filter(plugin, said, query, state)
        for scorer in scorers:
            if scorer.plugin.concerns(query.pod):
                self._add_scorer(scorer, query, state)
        self._local_sums = self._sum_local_scores(query, state)
        # The ranking: of the nodes' sums, and of the one score by groups that stays out of them.
        self._grouped: RelativeScoreEntry | None = None
        self._summed_relatives: list[RelativeScoreEntry] = []
        self._ranking = self._rank_all()
        # The entries that may change while the epoch stands still. The others are skipped then.
        self._unsettled_filters: list[FilterEntry] = []
        self._unsettled_locals: list[LocalScoreEntry] = []
        self._unsettled_relatives: list[RelativeScoreEntry] = []
        self._list_unsettled()

    # --- building ----------------------------------------------------------------------------------------------------

    def _add_filter(self, plugin: FilterPlugin, said: Verdicts | None, query: Query, state: State) -> None:
        """Files the verdicts of one filter by what they depend on."""
        if plugin.dependencies.static_key is None:
            lets = None if said is None else said.fits.copy()
            self._filters.append(FilterEntry(plugin, plugin.dependencies.filter_version(query, state), lets))
        elif said is not None and not said.all_fit:
            self._static_fits = said.fits if self._static_fits is None else self._static_fits & said.fits

    def _list_unsettled(self) -> None:
        self._unsettled_filters = [judged for judged in self._filters if not judged.is_settled]
        self._unsettled_locals = [local for local in self._local if local.version is not NOTHING_ELSE]
        self._unsettled_relatives = [relative for relative in self._relative if not relative.is_settled]

    def _add_scorer(self, scorer: Scorer, query: Query, state: State) -> None:
        """Computes the scores of one plugin, and files them by what they depend on."""
        plugin, weight, bounded, normalises = scorer
        dependencies = plugin.dependencies
        static = dependencies.static_key is not None
        if normalises or not (static or dependencies.node_local):
            constant = self._static_answers.constant_score(plugin, query, state) if static and bounded else None
            if constant is not None:
                self._constant_sum += weight * constant  # equal on all nodes: it cannot change the ranking
                return
            version = () if static else dependencies.score_version(query, state)
            relative = RelativeScoreEntry(plugin, weight, bounded, static, version)
            self._compute_relative(relative, query, state)
            if not static or relative.speaks:
                self._relative.append(relative)
        elif not static:
            self._local.append(LocalScoreEntry(plugin, weight, dependencies.score_version(query, state)))
        elif plugin.pre_score(query, state):
            said = weighted(self._static_answers.scores(plugin, query, state, self._rows), weight)
            self._static_sums = said if self._static_sums is None else self._static_sums + said

    def _sum_local_scores(self, query: Query, state: State) -> Int64Column:
        """Returns int64[nodes]: the weighted sums of the scores that depend on nothing but their node."""
        parts = [] if self._static_sums is None else [self._static_sums]
        for local in self._local:
            local.speaks = local.plugin.pre_score(query, state)
            if local.speaks:
                said = self._static_answers.scores(local.plugin, query, state, self._rows)
                parts.append(weighted(said, local.weight))
        total = sum_of(parts, len(self.fits))
        if self.feasible < len(self.fits):
            np.putmask(total, ~self.fits, NOT_FEASIBLE)
        return total

    def _compute_relative(self, relative: RelativeScoreEntry, query: Query, state: State) -> None:
        """Computes all scores of a plugin whose scores are normalised or depend on other nodes."""
        plugin, weight = relative.plugin, relative.weight
        relative.groups = relative.by_group = relative.points = relative.raw = None
        axes_of = None if relative.static else plugin.dependencies.score_axes
        axes = None if axes_of is None else axes_of(query, state)
        if axes is not None:
            relative.groups = EquivalenceGroups.by(axes, self._rows, self.fits)
        if relative.groups is not None:
            relative.by_group = group_scores(relative.groups, plugin, query, state)
        elif not plugin.pre_score(query, state):
            return
        elif relative.knows_bounds:
            relative.raw = self._static_answers.scores(plugin, query, state, self._rows)
            relative.bounds = self._bounds(relative)
            relative.points = weighted(plugin.scale(relative.raw, relative.bounds), weight)
        elif self.feasible == len(self.fits):
            relative.points = weighted(
                plugin.normalize(self._static_answers.scores(plugin, query, state, self._rows)), weight
            )
        else:
            relative.points = np.zeros(len(self.fits), dtype=np.int64)
            feasible = self.fits.nonzero()[0]
            said = self._static_answers.scores(plugin, query, state, row_numbers(self._rows)[feasible])
            relative.points[feasible] = weighted(plugin.normalize(said), weight)

    def _bounds(self, relative: RelativeScoreEntry) -> Hashable | None:
        assert relative.raw is not None
        feasible = relative.raw if self.feasible == len(self.fits) else relative.raw[self.fits]
        return relative.plugin.bounds(feasible)

    def _rank_all(self) -> NodeRanking:
        """Returns a new ranking of all nodes.

        The scores of one plugin by groups stay out of the nodes' sums: when they change, the ranking adds them by
        group instead of node by node. Only one plugin can have that; the group scores of others are spread to nodes.
        """
        levels, self._grouped, self._summed_relatives = self._local_sums, None, []
        for relative in self._relative:
            if relative.groups is not None and self._grouped is None:
                self._grouped = relative
            elif (points := relative.by_position()) is not None:
                self._summed_relatives.append(relative)
                levels = levels + points
        groups = None if self._grouped is None else self._grouped.groups
        return NodeRanking(levels, groups, self._table.name_order[1])

    @property
    def best(self) -> NDArray[np.intp]:
        """The rows with the highest total, sorted by node name."""
        return self._table.rows_by_name.take(self.best_places())

    def best_places(self) -> Places | Leaders:
        """Returns the same nodes as indices into the node names, sorted."""
        grouped = self._grouped
        return self._ranking.best() if grouped is None else self._ranking.best(grouped.by_group, grouped.weight)

    def top_two(self, state: State) -> tuple[int, int, int]:
        """Returns the highest total, the next one, and the place that has the latter, as the plugins score them."""
        grouped, ranking = self._grouped, self._ranking
        found = ranking.top_two() if grouped is None else ranking.top_two(grouped.by_group, grouped.weight)
        left_out = self._constant_sum + sum(self._score_of_all(relative, state) for relative in self._relative)
        highest, next_highest, place = found
        return highest + left_out, next_highest + left_out, place

    def _score_of_all(self, relative: RelativeScoreEntry, state: State) -> int:
        """Returns the weighted score of all feasible nodes if they are in one group, which the ranking leaves out."""
        groups = relative.groups
        if groups is None or len(groups.inhabited) != 1:
            return 0
        return relative.weight * int(relative.plugin.normalized_groups(self._query, state, groups)[0])

    # --- refreshing --------------------------------------------------------------------------------------------------

    def refresh(self, pod: Pod, state: State, lap: Lap | None = None) -> bool:
        """Refreshes the answers for another pod of the signature; False: the caller has to build new ones.

        `lap` is called after the filters and after the scores.
        """
        query, table = self._query, state.table
        query.pod = self.refreshed_for = pod
        query.memo.clear()
        if table is not self._table or table.static_version != self._static_version:
            return False
        rows = table.changes_since(self._mark)
        if rows is None or len(rows) > MOST_CHANGES:
            return False
        # `changed`: pods or allocatable resources changed there. `touched`: those, and rows that a filter reaches from
        # them. `changed_verdicts`: positions where a filter's verdict changed, which may change `fits`.
        epoch = _epoch(state)
        same_epoch, self._epoch = epoch == self._epoch, epoch
        changed = self._positions_of(rows)
        touched = dict(changed)
        changed_verdicts: list[int] = []
        all_recomputed = False
        for judged in self._unsettled_filters if same_epoch else self._filters:
            said = self._refresh_filter(judged, query, state, changed, touched, changed_verdicts, same_epoch)
            if said is None:
                return False
            all_recomputed |= said
        if all_recomputed:
            before, self.fits = self.fits, self._all_accept()
            self.feasible = int(np.count_nonzero(self.fits))
            flipped: Collection[int] | None = None if not np.array_equal(before, self.fits) else ()
        else:
            flipped = self._refresh_fits(changed_verdicts) if changed_verdicts else ()
        if self.feasible < 2:
            return False  # a single feasible node is taken without scoring, and none needs a diagnosis
        if lap is not None:
            lap("Filter", SUCCESS)
        self._refresh_scores(query, state, changed, touched, flipped, same_epoch)
        if not same_epoch:
            self._list_unsettled()
        if lap is not None:
            lap("Score", SUCCESS)
        self._mark = table.mark
        return True

    def _refresh_filter(
        self,
        judged: FilterEntry,
        query: Query,
        state: State,
        changed: Located,
        touched: Located,
        changed_verdicts: list[int],
        same_epoch: bool,
    ) -> bool | None:
        """Refreshes one filter. Returns whether all its verdicts were recomputed; None: the answers are invalid.

        Adds to `touched` the rows that it recomputed, and to `changed_verdicts` the positions whose verdict changed.
        """
        plugin, before = judged.plugin, judged.version
        rows: Located | None = changed if plugin.dependencies.node_local else {}
        if not same_epoch or before is not NOTHING_ELSE:
            judged.version = plugin.dependencies.filter_version(query, state)
            if judged.version is None or judged.version != before:
                rows = self._affected_rows(judged, before, query, state, changed)
        if rows is not None:
            lets = judged.lets
            if lets is not None:
                for row, position in rows.items():
                    touched[row] = position
                    fits = plugin.fits_row(query, state, row)
                    if fits != lets.item(position):
                        lets[position] = fits
                        changed_verdicts.append(position)
            return False
        answer = plugin.pre_filter(query, state)
        if answer.code is not Code.FITS or answer.nodes is not None:
            return None
        judged.lets = None
        if not answer.skip:
            said = self._static_answers.verdicts(plugin, query, state, self._rows)
            if said.failed is not None:
                return None
            judged.lets = said.fits.copy()
        return True

    def _affected_rows(
        self, judged: FilterEntry, before: Hashable | None, query: Query, state: State, changed: Located
    ) -> Located | None:
        """Returns the rows whose verdicts may have changed because the version moved; None: all rows."""
        affected = judged.plugin.dependencies.affected_rows
        if affected is None or judged.lets is None or before is None or judged.version is None:
            return None
        rows = affected(query, state, before, judged.version, list(changed))
        return None if rows is None or len(rows) > MOST_CHANGES else self._positions_of(rows)

    def _positions_of(self, rows: Sequence[int]) -> Located:
        """Returns the positions of those of the rows that have a known node."""
        if isinstance(self._rows, slice):
            if len(rows) == 1 and rows[0] < self._rows.stop:
                return {rows[0]: rows[0]}  # the common case: the node of the last pod
            return {row: row for row in rows if row < self._rows.stop}
        found = {row: int(np.searchsorted(self._rows, row)) for row in rows}
        return {row: at for row, at in found.items() if at < len(self._rows) and self._rows[at] == row}

    def _all_accept(self) -> BoolColumn:
        """Returns bool[nodes]: where all filters accept the pod."""
        fits = np.ones(len(self.fits), dtype=np.bool_) if self._static_fits is None else self._static_fits.copy()
        for judged in self._filters:
            if judged.lets is not None:
                fits &= judged.lets
        return fits

    def _refresh_fits(self, changed_verdicts: Sequence[int]) -> Collection[int]:
        """Recomputes `fits` at these positions, and returns those where it changed.

        One verdict that changes need not change `fits`: another filter may reject the node, before and after.
        """
        flipped = []
        for position in changed_verdicts:
            fits = self._accepted(position)
            if fits != self.fits.item(position):
                self.fits[position] = fits
                self.feasible += 1 if fits else -1
                flipped.append(position)
        return flipped

    def _accepted(self, position: int) -> bool:
        """Whether all filters accept the pod on the node at this position."""
        for judged in self._filters:
            if judged.lets is not None and not judged.lets.item(position):
                return False
        return self._static_fits is None or self._static_fits.item(position)

    def _refresh_scores(
        self,
        query: Query,
        state: State,
        changed: Located,
        touched: Located,
        flipped: Collection[int] | None,
        same_epoch: bool,
    ) -> None:
        """Refreshes the scores and the ranking. `flipped` are the positions where `fits` changed; None: any."""
        whole = flipped is None
        for local in self._unsettled_locals if same_epoch else self._local:
            before, local.version = local.version, local.plugin.dependencies.score_version(query, state)
            whole |= local.version is None or local.version != before
        was: dict[int, Standing] = {}
        if whole:
            self._local_sums = self._sum_local_scores(query, state)
        else:
            for row, position in touched.items():
                was[position] = self._ranking.of(position)
                self._local_sums[position] = self._sum_of(row, position, query, state)
        regrouped = False
        for relative in self._unsettled_relatives if same_epoch else self._relative:
            groups = relative.groups
            moved = self._refresh_relative(relative, query, state, changed, touched, flipped, same_epoch)
            regrouped |= relative.groups is not groups
            whole |= moved and (relative is not self._grouped or regrouped)
        if whole:
            self._ranking = self._rank_all()
            if regrouped:
                self._ranking.find_peaks()
            return
        for position, standing in was.items():
            level = self._local_sums.item(position)
            for relative in self._summed_relatives:
                level += relative.at(position)
            self._ranking.set(position, level, standing)

    def _sum_of(self, row: int, position: int, query: Query, state: State) -> int:
        """Returns the weighted sum of one node's scores that depend on nothing but the node."""
        if not self.fits.item(position):
            return NOT_FEASIBLE
        total = 0 if self._static_sums is None else self._static_sums.item(position)
        for local in self._local:
            if local.speaks:
                total += local.plugin.score_row(query, state, row) * local.weight
        return total

    def _refresh_relative(
        self,
        relative: RelativeScoreEntry,
        query: Query,
        state: State,
        changed: Located,
        touched: Located,
        flipped: Collection[int] | None,
        same_epoch: bool,
    ) -> bool:
        """Refreshes one relative score. Returns whether scores may have changed on rows other than `touched`."""
        plugin, before = relative.plugin, relative.version
        if not relative.static and not (same_epoch and before is NOTHING_ELSE):
            relative.version = plugin.dependencies.score_version(query, state)
        same = relative.version is not None and relative.version == before
        rows = changed if not relative.static and plugin.dependencies.node_local else {}
        if same and not rows and (not relative.speaks or (flipped is not None and not flipped)):
            return False
        if relative.groups is not None and flipped is not None:
            return self._refresh_groups(relative, relative.groups, query, state, touched, flipped)
        had = relative.speaks
        if relative.raw is None or not same:
            self._compute_relative(relative, query, state)
            return had or relative.speaks
        # Raw scores of unchanged rows are still valid. Only if the bounds moved do all normalised scores change.
        for row, position in rows.items():
            relative.raw[position] = plugin.score_row(query, state, row)
        bounds, relative.bounds = relative.bounds, self._bounds(relative)
        if bounds == relative.bounds and not rows:
            return False
        relative.points = weighted(plugin.scale(relative.raw, relative.bounds), relative.weight)
        return True

    def _refresh_groups(
        self,
        relative: RelativeScoreEntry,
        groups: EquivalenceGroups,
        query: Query,
        state: State,
        touched: Located,
        flipped: Collection[int],
    ) -> bool:
        """The same for scores by groups: touched nodes may be in another group now, or no longer be feasible."""
        plugin, before, settlement = relative.plugin, relative.by_group, groups.settlement
        axes_of = plugin.dependencies.score_axes
        known = axes_of is not None and axes_of(query, state) is groups.axes
        for row, position in touched.items():
            fits = self.fits.item(position)
            known = known and groups.move(row, position, fits != (position in flipped), fits)
        if not known:
            self._compute_relative(relative, query, state)
            return True
        if groups.by_counts and groups.settlement == settlement and not flipped:
            return False
        relative.by_group = group_scores(groups, plugin, query, state)
        return relative is not self._grouped and before != relative.by_group


def _epoch(state: State) -> int:
    """Returns a number that moves when an object that is neither pod nor node changes, or affinity terms do."""
    return state.changes + state.table.terms.version
