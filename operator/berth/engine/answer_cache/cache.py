"""CachedAnswers: the filter verdicts and scores of all plugins for one pod signature, on all nodes.

Pods with equal signatures get equal answers. Between two such pods usually one node has changed: the one that the
first pod was placed on. So the answers are cached, and `refresh` recomputes only what may have changed. All columns
are by position in `table.rows`. The terms in the table (static, node_local, basis, groups) are those of plugin.py.

    cached                         depends on                             recomputed when
    -----------------------------  -------------------------------------  ------------------------------------------
    verdicts of static filters     part of the pod; labels, taints,       never: if `table.static_version` moves, all
    (`_static_fits`)               images, spec of nodes                  answers are invalid
    verdicts of other filters      node and its pods, if node_local;      changed rows: pods or allocatable changed;
    (FilterEntry)                  `filter_basis`                         reached rows or all rows: the basis moved
    `fits`, `feasible`             the verdicts of all filters            a verdict changed: that row, or all rows
    static scores (`_static_sums`) as static filters                      never
    node-local scores              node and its pods; `score_basis`       changed rows; all rows: the basis moved
    (LocalScoreEntry)
    relative scores                the above, other nodes, and, if        the basis moved or `fits` changed; with known
    (RelativeScoreEntry)           normalised, which nodes are feasible   bounds: only if the bounds moved
    scores by groups               group of the node; counts by group     the basis moved; a node changed its group
    ranking (`_standings`)         the weighted sums of all scores        rows whose sum changed; all rows if many did

`refresh` returns False, and the caller builds new answers, if `static_version` moved, if more than MOST_CHANGES rows
changed, if a PreFilter rejects the pod or names nodes, if a filter fails, or if fewer than two nodes are feasible.

The ranking leaves out scores that are equal on all nodes, so it holds differences, not totals. The sum of a node that
is not feasible is so far below zero that no score makes up for it.

The epoch counts changes of objects that are neither pods nor nodes, and of the affinity terms of placed pods. While it
stands still, entries whose basis is NOTHING_ELSE are not even asked for their basis.
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
from berth.engine.plugin import NOTHING_ELSE, Plugin, Query
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts, row_numbers
from berth.model import Pod

MOST_CHANGES: Final = 24  # with more changed rows, one call for all nodes is faster than one call per row

Judge = Callable[[Plugin, Query, State, Rows], Verdicts]
Score = Callable[[Plugin, Query, State, Rows], Int64Column]
Constant = Callable[[Plugin, Query, State], int | None]
Said = tuple[Plugin, PreFilter, Verdicts | None]
Located = dict[int, int]  # row -> position in `table.rows`
Lap = Callable[[str, str], None]  # called with the extension point that is done, and kube-scheduler's status code

SUCCESS = "Success"


class CachedAnswers:
    def __init__(self, scorers: Sequence[Scorer], judge: Judge, score: Score, constant: Constant) -> None:
        """`judge` and `score` call a plugin for rows, or return the pipeline's cached answers of a static plugin.

        `constant` returns the score that a static plugin gives to every node, or None if nodes get different scores.
        """
        self.fits: BoolColumn
        self.feasible = 0
        self.refreshed_for: Pod | None = None  # the last pod, until `Pipeline.take_judged` takes it
        self._scorers = scorers
        self._judge, self._score, self._constant = judge, score, constant

    # --- building ----------------------------------------------------------------------------------------------------

    def build(self, query: Query, state: State, fits: BoolColumn, opinions: Sequence[Said]) -> None:
        """Fills the cache from a survey of all rows: `fits`, and the opinions of the filters that concern the pod."""
        self._query, self.signature = query, query.pod.signature
        self._table, self._rows = state.table, state.table.rows
        self._static_version, self._mark = state.table.static_version, state.table.mark
        self._epoch = _epoch(state)
        self._static_fits: BoolColumn | None = None
        self._filters: list[FilterEntry] = []
        for plugin, _, said in opinions:
            if plugin.static_key(query.pod) is None:
                lets = None if said is None else said.fits.copy()
                self._filters.append(FilterEntry(plugin, plugin.filter_basis(query, state), lets))
            elif said is not None and not said.all_fit:
                self._static_fits = said.fits if self._static_fits is None else self._static_fits & said.fits
        self.fits = fits.copy()
        self.feasible = int(np.count_nonzero(fits))
        self._static_sums: Int64Column | None = None
        self._grouped: RelativeScoreEntry | None = None
        self._local: list[LocalScoreEntry] = []
        self._relative: list[RelativeScoreEntry] = []
        for scorer in self._scorers:
            if scorer.plugin.concerns(query.pod):
                self._add_scorer(scorer, query, state)
        self._sum_local_scores(query, state)
        self._rank_all()
        self._list_unsettled()

    def _list_unsettled(self) -> None:
        """Lists the entries that may change while the epoch stands still. The others are skipped then."""
        self._unsettled_filters = [judged for judged in self._filters if not judged.is_settled]
        self._unsettled_locals = [local for local in self._local if local.basis is not NOTHING_ELSE]
        self._unsettled_relatives = [relative for relative in self._relative if not relative.is_settled]

    def _add_scorer(self, scorer: Scorer, query: Query, state: State) -> None:
        """Computes the scores of one plugin, and files them by what they depend on."""
        plugin, weight, bounded, normalises = scorer
        static = plugin.static_key(query.pod) is not None
        if normalises or not (static or plugin.node_local):
            if static and bounded and self._constant(plugin, query, state) is not None:
                return  # equal on all nodes: it cannot change the ranking
            basis = () if static else plugin.score_basis(query, state)
            relative = RelativeScoreEntry(plugin, weight, bounded, static, basis)
            self._compute_relative(relative, query, state)
            if not static or relative.speaks:
                self._relative.append(relative)
        elif not static:
            self._local.append(LocalScoreEntry(plugin, weight, plugin.score_basis(query, state)))
        elif plugin.pre_score(query, state):
            said = weighted(self._score(plugin, query, state, self._rows), weight)
            self._static_sums = said if self._static_sums is None else self._static_sums + said

    def _sum_local_scores(self, query: Query, state: State) -> None:
        """Computes int64[nodes]: the weighted sums of the scores that depend on nothing but their node."""
        parts = [] if self._static_sums is None else [self._static_sums]
        for local in self._local:
            local.speaks = local.plugin.pre_score(query, state)
            if local.speaks:
                said = self._score(local.plugin, query, state, self._rows)
                parts.append(weighted(said, local.weight))
        self._local_sums = sum_of(parts, len(self.fits))
        if self.feasible < len(self.fits):
            np.putmask(self._local_sums, ~self.fits, NOT_FEASIBLE)

    def _compute_relative(self, relative: RelativeScoreEntry, query: Query, state: State) -> None:
        """Computes all scores of a plugin whose scores are normalised or depend on other nodes."""
        plugin, weight = relative.plugin, relative.weight
        relative.groups = relative.by_group = relative.points = relative.raw = None
        axes = None if relative.static else plugin.axes(query, state)
        if axes is not None:
            relative.groups = EquivalenceGroups.by(axes, self._rows, self.fits)
        if relative.groups is not None:
            relative.by_group = group_scores(relative.groups, plugin, query, state)
        elif not plugin.pre_score(query, state):
            return
        elif relative.knows_bounds:
            relative.raw = self._score(plugin, query, state, self._rows)
            relative.bounds = self._bounds(relative)
            relative.points = weighted(plugin.scale(relative.raw, relative.bounds), weight)
        elif self.feasible == len(self.fits):
            relative.points = weighted(plugin.normalize(self._score(plugin, query, state, self._rows)), weight)
        else:
            relative.points = np.zeros(len(self.fits), dtype=np.int64)
            feasible = self.fits.nonzero()[0]
            said = self._score(plugin, query, state, row_numbers(self._rows)[feasible])
            relative.points[feasible] = weighted(plugin.normalize(said), weight)

    def _bounds(self, relative: RelativeScoreEntry) -> Hashable | None:
        assert relative.raw is not None
        feasible = relative.raw if self.feasible == len(self.fits) else relative.raw[self.fits]
        return relative.plugin.bounds(feasible)

    def _rank_all(self) -> None:
        """Ranks all nodes anew.

        The scores of one plugin by groups stay out of the nodes' sums: when they change, the ranking adds them by
        group instead of node by node. Only one plugin can have that; the group scores of others are spread to nodes.
        """
        levels, self._grouped = self._local_sums, None
        self._summed_relatives: list[RelativeScoreEntry] = []  # those in the nodes' sums
        for relative in self._relative:
            if relative.groups is not None and self._grouped is None:
                self._grouped = relative
            elif (points := relative.by_position()) is not None:
                self._summed_relatives.append(relative)
                levels = levels + points
        groups = None if self._grouped is None else self._grouped.groups
        self._standings = NodeRanking(levels, groups, self._table.name_order[1])

    @property
    def best(self) -> NDArray[np.intp]:
        """The rows with the highest total, sorted by node name."""
        return self._table.rows_by_name.take(self.best_places())

    def best_places(self) -> Places | Leaders:
        """Returns the same nodes as indices into the node names, sorted."""
        grouped = self._grouped
        return self._standings.best() if grouped is None else self._standings.best(grouped.by_group, grouped.weight)

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
        plugin, before = judged.plugin, judged.basis
        rows: Located | None = changed if plugin.node_local else {}
        if not same_epoch or before is not NOTHING_ELSE:
            judged.basis = plugin.filter_basis(query, state)
            if judged.basis is None or judged.basis != before:
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
            said = self._judge(plugin, query, state, self._rows)
            if said.failed is not None:
                return None
            judged.lets = said.fits.copy()
        return True

    def _affected_rows(
        self, judged: FilterEntry, before: Hashable | None, query: Query, state: State, changed: Located
    ) -> Located | None:
        """Returns the rows whose verdicts may have changed because the basis moved; None: all rows."""
        if judged.lets is None or before is None or judged.basis is None:
            return None
        rows = judged.plugin.reach(query, state, before, judged.basis, list(changed))
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
            basis, local.basis = local.basis, local.plugin.score_basis(query, state)
            whole |= local.basis is None or local.basis != basis
        was: dict[int, Standing] = {}
        if whole:
            self._sum_local_scores(query, state)
        else:
            for row, position in touched.items():
                was[position] = self._standings.of(position)
                self._local_sums[position] = self._sum_of(row, position, query, state)
        regrouped = False
        for relative in self._unsettled_relatives if same_epoch else self._relative:
            groups = relative.groups
            moved = self._refresh_relative(relative, query, state, changed, touched, flipped, same_epoch)
            regrouped |= relative.groups is not groups
            whole |= moved and (relative is not self._grouped or regrouped)
        if whole:
            self._rank_all()
            if regrouped:
                self._standings.find_peaks()
            return
        for position, before in was.items():
            level = self._local_sums.item(position)
            for relative in self._summed_relatives:
                level += relative.at(position)
            self._standings.set(position, level, before)

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
        plugin, before = relative.plugin, relative.basis
        if not relative.static and not (same_epoch and before is NOTHING_ELSE):
            relative.basis = plugin.score_basis(query, state)
        same = relative.basis is not None and relative.basis == before
        rows = changed if not relative.static and plugin.node_local else {}
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
        known = plugin.axes(query, state) is groups.axes
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
