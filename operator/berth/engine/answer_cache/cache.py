"""Panel: what the plugins of a pipeline say of one kind of pod, on all nodes, kept up to date rather than asked anew.

Pods of one signature get the same answers. Between two of them usually one node has changed: the one that took the
first. So a panel keeps, by position in `table.rows`,

    fits        bool[nodes]   every filter lets the pod onto the node
    standings   the weighted sums of the scores, but for what every node gets alike, and the highest of them
                (standings.py); below zero by far where the pod does not fit

and asks each plugin again only for what its answers hang on (plugin.py has the words):

    static       not at all
    node-local   for the nodes that changed; altogether when the basis moved
    by groups    once for all nodes that score alike, when the basis moved (groups.py)
    the rest     altogether, unless the basis is as it was

A score that is normalised over the feasible nodes is asked for again when these change, too.
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

MOST_CHANGES: Final = 24  # beyond, asking about all nodes at once is faster than about each that changed

Judge = Callable[[Plugin, Query, State, Rows], Verdicts]
Score = Callable[[Plugin, Query, State, Rows], Int64Column]
Constant = Callable[[Plugin, Query, State], int | None]
Said = tuple[Plugin, PreFilter, Verdicts | None]
Located = dict[int, int]  # the positions of nodes, by row
Lap = Callable[
    [str, str], None
]  # told which extension point is through, and with which status (kube-scheduler's words)

SUCCESS = "Success"


class CachedAnswers:
    def __init__(self, scorers: Sequence[Scorer], judge: Judge, score: Score, constant: Constant) -> None:
        """`judge` and `score` ask a plugin about rows; they know what may be shared between pods.

        `constant` is what a plugin that knows its bounds gives to every node alike, None where it does not.
        """
        self.fits: BoolColumn
        self.feasible = 0
        self.refreshed_for: Pod | None = None  # the last pod, until somebody takes it
        self._scorers = scorers
        self._judge, self._score, self._constant = judge, score, constant

    # --- building ----------------------------------------------------------------------------------------------------

    def build(self, query: Query, state: State, fits: BoolColumn, opinions: Sequence[Said]) -> None:
        """From a survey of all rows: where the pod fits, and what the filters said that it concerns."""
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
        self._fixed: Int64Column | None = None
        self._grouped: RelativeScoreEntry | None = None
        self._local: list[LocalScoreEntry] = []
        self._relative: list[RelativeScoreEntry] = []
        for scorer in self._scorers:
            if scorer.plugin.concerns(query.pod):
                self._take_in(scorer, query, state)
        self._settle(query, state)
        self._add_up()
        self._sort_out()

    def _sort_out(self) -> None:
        """Whom to ask again while nothing changes but pods and nodes."""
        self._open_filters = [judged for judged in self._filters if not judged.is_settled]
        self._open_locals = [local for local in self._local if local.basis is not NOTHING_ELSE]
        self._open_relatives = [relative for relative in self._relative if not relative.is_settled]

    def _take_in(self, scorer: Scorer, query: Query, state: State) -> None:
        plugin, weight, bounded, normalises = scorer
        static = plugin.static_key(query.pod) is not None
        if normalises or not (static or plugin.node_local):
            if static and bounded and self._constant(plugin, query, state) is not None:
                return
            basis = () if static else plugin.score_basis(query, state)
            relative = RelativeScoreEntry(plugin, weight, bounded, static, basis)
            self._relate(relative, query, state)
            if not static or relative.speaks:
                self._relative.append(relative)
        elif not static:
            self._local.append(LocalScoreEntry(plugin, weight, plugin.score_basis(query, state)))
        elif plugin.pre_score(query, state):
            said = weighted(self._score(plugin, query, state, self._rows), weight)
            self._fixed = said if self._fixed is None else self._fixed + said

    def _settle(self, query: Query, state: State) -> None:
        """int64[nodes]: the weighted sum of the scores that hang on nothing but their node."""
        parts = [] if self._fixed is None else [self._fixed]
        for local in self._local:
            local.speaks = local.plugin.pre_score(query, state)
            if local.speaks:
                said = self._score(local.plugin, query, state, self._rows)
                parts.append(weighted(said, local.weight))
        self._settled = sum_of(parts, len(self.fits))
        if self.feasible < len(self.fits):
            np.putmask(self._settled, ~self.fits, NOT_FEASIBLE)

    def _relate(self, relative: RelativeScoreEntry, query: Query, state: State) -> None:
        """Asks the plugin for all its scores."""
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

    def _add_up(self) -> None:
        """Ranks all nodes anew: by the groups of one score, and by what every node has of the others."""
        levels, self._grouped = self._settled, None
        self._beside: list[RelativeScoreEntry] = []  # the others that speak
        for relative in self._relative:
            if relative.groups is not None and self._grouped is None:
                self._grouped = relative
            elif (points := relative.by_position()) is not None:
                self._beside.append(relative)
                levels = levels + points
        groups = None if self._grouped is None else self._grouped.groups
        self._standings = NodeRanking(levels, groups, self._table.name_order[1])

    @property
    def best(self) -> NDArray[np.intp]:
        """The rows that share the highest total, in the order of their names."""
        return self._table.rows_by_name.take(self.best_places())

    def best_places(self) -> Places | Leaders:
        """The same as places in that order."""
        grouped = self._grouped
        return self._standings.best() if grouped is None else self._standings.best(grouped.by_group, grouped.weight)

    # --- keeping up --------------------------------------------------------------------------------------------------

    def refresh(self, pod: Pod, state: State, lap: Lap | None = None) -> bool:
        """Brings the answers up to date for another pod of the signature; False: they have to be built anew.

        `lap` is told when the filters and when the scores are through.
        """
        query, table = self._query, state.table
        query.pod = self.refreshed_for = pod
        query.memo.clear()
        if table is not self._table or table.static_version != self._static_version:
            return False
        rows = table.changes_since(self._mark)
        if rows is None or len(rows) > MOST_CHANGES:
            return False
        epoch = _epoch(state)
        still, self._epoch = epoch == self._epoch, epoch
        changed = self._located(rows)
        touched = dict(changed)
        turned: list[int] = []
        anew = False
        for judged in self._open_filters if still else self._filters:
            said = self._judge_again(judged, query, state, changed, touched, turned, still)
            if said is None:
                return False
            anew |= said
        if anew:
            before, self.fits = self.fits, self._all_let()
            self.feasible = int(np.count_nonzero(self.fits))
            flipped: Collection[int] | None = None if not np.array_equal(before, self.fits) else ()
        else:
            flipped = self._fit_again(turned) if turned else ()
        if self.feasible < 2:
            return False  # nothing to choose from: a single node is taken without scoring
        if lap is not None:
            lap("Filter", SUCCESS)
        self._score_again(query, state, changed, touched, flipped, still)
        if not still:
            self._sort_out()
        if lap is not None:
            lap("Score", SUCCESS)
        self._mark = table.mark
        return True

    def _judge_again(
        self,
        judged: FilterEntry,
        query: Query,
        state: State,
        changed: Located,
        touched: Located,
        turned: list[int],
        still: bool,
    ) -> bool | None:
        """Whether the filter was asked about all nodes, not only about those touched; None: no node is left to it.

        `turned` gets the positions on which it has another opinion than before.
        """
        plugin, before = judged.plugin, judged.basis
        rows: Located | None = changed if plugin.node_local else {}
        if not still or before is not NOTHING_ELSE:
            judged.basis = plugin.filter_basis(query, state)
            if judged.basis is None or judged.basis != before:
                rows = self._reached(judged, before, query, state, changed)
        if rows is not None:
            lets = judged.lets
            if lets is not None:
                for row, position in rows.items():
                    touched[row] = position
                    fits = plugin.fits_row(query, state, row)
                    if fits != lets.item(position):
                        lets[position] = fits
                        turned.append(position)
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

    def _reached(
        self, judged: FilterEntry, before: Hashable | None, query: Query, state: State, changed: Located
    ) -> Located | None:
        """The nodes whose verdicts the change of the basis reaches; None: all."""
        if judged.lets is None or before is None or judged.basis is None:
            return None
        rows = judged.plugin.reach(query, state, before, judged.basis, list(changed))
        return None if rows is None or len(rows) > MOST_CHANGES else self._located(rows)

    def _located(self, rows: Sequence[int]) -> Located:
        """The rows of known nodes among these, with their positions."""
        if isinstance(self._rows, slice):
            if len(rows) == 1 and rows[0] < self._rows.stop:
                return {rows[0]: rows[0]}  # the node that the last pod of the kind was given
            return {row: row for row in rows if row < self._rows.stop}
        found = {row: int(np.searchsorted(self._rows, row)) for row in rows}
        return {row: at for row, at in found.items() if at < len(self._rows) and self._rows[at] == row}

    def _all_let(self) -> BoolColumn:
        fits = np.ones(len(self.fits), dtype=np.bool_) if self._static_fits is None else self._static_fits.copy()
        for judged in self._filters:
            if judged.lets is not None:
                fits &= judged.lets
        return fits

    def _fit_again(self, turned: Sequence[int]) -> Collection[int]:
        """The positions at which the pod fits and did not, or did and does not, of those where a filter has turned."""
        flipped = []
        for position in turned:
            fits = self._let(position)
            if fits != self.fits.item(position):
                self.fits[position] = fits
                self.feasible += 1 if fits else -1
                flipped.append(position)
        return flipped

    def _let(self, position: int) -> bool:
        for judged in self._filters:
            if judged.lets is not None and not judged.lets.item(position):
                return False
        return self._static_fits is None or self._static_fits.item(position)

    def _score_again(
        self,
        query: Query,
        state: State,
        changed: Located,
        touched: Located,
        flipped: Collection[int] | None,
        still: bool,
    ) -> None:
        """`flipped` are the positions that fit and did not, or did and do not; None: they may be many."""
        whole = flipped is None
        for local in self._open_locals if still else self._local:
            basis, local.basis = local.basis, local.plugin.score_basis(query, state)
            whole |= local.basis is None or local.basis != basis
        was: dict[int, Standing] = {}
        if whole:
            self._settle(query, state)
        else:
            for row, position in touched.items():
                was[position] = self._standings.of(position)
                self._settled[position] = self._sum_of(row, position, query, state)
        regrouped = False
        for relative in self._open_relatives if still else self._relative:
            groups = relative.groups
            moved = self._relate_again(relative, query, state, changed, touched, flipped, still)
            regrouped |= relative.groups is not groups
            whole |= moved and (relative is not self._grouped or regrouped)
        if whole:
            self._add_up()
            if regrouped:
                self._standings.find_peaks()
            return
        for position, before in was.items():
            level = self._settled.item(position)
            for relative in self._beside:
                level += relative.at(position)
            self._standings.set(position, level, before)

    def _sum_of(self, row: int, position: int, query: Query, state: State) -> int:
        if not self.fits.item(position):
            return NOT_FEASIBLE
        total = 0 if self._fixed is None else self._fixed.item(position)
        for local in self._local:
            if local.speaks:
                total += local.plugin.score_row(query, state, row) * local.weight
        return total

    def _relate_again(
        self,
        relative: RelativeScoreEntry,
        query: Query,
        state: State,
        changed: Located,
        touched: Located,
        flipped: Collection[int] | None,
        still: bool,
    ) -> bool:
        """Whether scores changed on other rows than those touched."""
        plugin, before = relative.plugin, relative.basis
        if not relative.static and not (still and before is NOTHING_ELSE):
            relative.basis = plugin.score_basis(query, state)
        same = relative.basis is not None and relative.basis == before
        rows = changed if not relative.static and plugin.node_local else {}
        if same and not rows and (not relative.speaks or (flipped is not None and not flipped)):
            return False
        if relative.groups is not None and flipped is not None:
            return self._regroup(relative, relative.groups, query, state, touched, flipped)
        had = relative.speaks
        if relative.raw is None or not same:
            self._relate(relative, query, state)
            return had or relative.speaks
        for row, position in rows.items():
            relative.raw[position] = plugin.score_row(query, state, row)
        bounds, relative.bounds = relative.bounds, self._bounds(relative)
        if bounds == relative.bounds and not rows:
            return False
        relative.points = weighted(plugin.scale(relative.raw, relative.bounds), relative.weight)
        return True

    def _regroup(
        self,
        relative: RelativeScoreEntry,
        groups: EquivalenceGroups,
        query: Query,
        state: State,
        touched: Located,
        flipped: Collection[int],
    ) -> bool:
        """The same for a score by groups, where few nodes may be in another group or count no more."""
        plugin, before, settlement = relative.plugin, relative.by_group, groups.settlement
        known = plugin.axes(query, state) is groups.axes
        for row, position in touched.items():
            fits = self.fits.item(position)
            known = known and groups.move(row, position, fits != (position in flipped), fits)
        if not known:
            self._relate(relative, query, state)
            return True
        if groups.by_counts and groups.settlement == settlement and not flipped:
            return False
        relative.by_group = group_scores(groups, plugin, query, state)
        return relative is not self._grouped and before != relative.by_group


def _epoch(state: State) -> int:
    """Moves whenever an object other than a pod or a node, or the terms that pods carry, change."""
    return state.changes + state.table.terms.version
