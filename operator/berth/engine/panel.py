"""Panel: what the plugins of a pipeline say of one kind of pod, on all nodes, kept up to date rather than asked anew.

Pods of one signature get the same answers. Between two of them usually one node has changed: the one that took the
first. So a panel keeps

    fits      bool[nodes]    every filter lets the pod onto the node; by position in `table.rows`
    totals    int64[nodes]   the weighted sum of the scores, NOT_FEASIBLE where it does not fit; by the nodes' names

and asks each plugin again only for what its answers hang on (plugin.py has the words):

    static       not at all
    node-local   for the nodes that changed; altogether when the basis moved
    the rest     altogether, unless the basis is as it was

A score that is normalised over the feasible nodes is asked for again when these change, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from berth.engine.plugin import Plugin, Query
from berth.engine.state import State
from berth.engine.verdict import BoolColumn, Code, Int64Column, Rows, Verdicts, row_numbers

NOT_FEASIBLE: Final = np.iinfo(np.int64).min
MOST_CHANGES: Final = 24  # beyond, asking about all nodes at once is faster than about each that changed

Judge = Callable[[int, Plugin, Query, State, Rows], Verdicts]
Score = Callable[[int, Plugin, Query, State, Rows], Int64Column]
Constant = Callable[[int, Plugin, Query, State], int | None]
Changed = list[tuple[int, int]]  # row and position of nodes that changed


@dataclass(slots=True)
class _Filter:
    """A filter that is not static: which nodes it lets the pod onto, None where it has nothing to say of the pod."""

    index: int
    plugin: Plugin
    basis: Hashable | None
    lets: BoolColumn | None


@dataclass(slots=True)
class _Local:
    """A score of nothing but its node: added to the sum as it comes."""

    index: int
    plugin: Plugin
    weight: int
    basis: Hashable | None


@dataclass(slots=True)
class _Relative:
    """A score that is normalised over the feasible nodes or hangs on others; None: it has nothing to say of the pod."""

    index: int
    plugin: Plugin
    weight: int
    static: bool
    basis: Hashable | None
    normalised: Int64Column | None
    raw: Int64Column | None = None  # kept where the plugin knows its bounds
    bounds: Hashable | None = None


class Panel:
    def __init__(
        self,
        filters: Sequence[Plugin],
        scores: Sequence[tuple[Plugin, int]],
        judge: Judge,
        score: Score,
        constant: Constant,
    ) -> None:
        """`judge` and `score` ask a plugin, by its number, about rows; they know what may be shared between pods.

        `constant` is what a plugin that knows its bounds gives to every node alike, None where it does not.
        """
        self._constant = constant
        self.fits: BoolColumn
        self.totals: Int64Column
        self.feasible = 0
        self._all_filters, self._all_scores = filters, scores
        self._judge, self._score = judge, score

    # --- building ----------------------------------------------------------------------------------------------------

    def build(self, query: Query, state: State, verdicts: Sequence[Verdicts | None]) -> None:
        """From a survey of all rows: each filter's verdicts, None where it was not asked."""
        self._query = query
        self._table, self._rows = state.table, state.table.rows
        self._static_version, self._mark = state.table.static_version, state.table.mark
        self._order, self._place = state.table.name_order
        self._static_fits = np.ones(len(state.table), dtype=np.bool_)
        self._filters: list[_Filter] = []
        for index, (plugin, said) in enumerate(zip(self._all_filters, verdicts, strict=True)):
            if plugin.static_key(query.pod) is not None:
                if said is not None and not said.all_fit:
                    self._static_fits &= said.fits
            elif plugin.concerns(query.pod):
                lets = None if said is None else said.fits.copy()
                self._filters.append(_Filter(index, plugin, plugin.filter_basis(query, state), lets))
        self.fits = self._all_let()
        self.feasible = int(np.count_nonzero(self.fits))
        self._fixed = np.zeros(len(self.fits), dtype=np.int64)
        self._local: list[_Local] = []
        self._relative: list[_Relative] = []
        for index, (plugin, weight) in enumerate(self._all_scores):
            if plugin.concerns(query.pod):
                self._take_in(index, plugin, weight, query, state)
        self._settled = self._settle(query, state)
        self._add_up()

    def _take_in(self, index: int, plugin: Plugin, weight: int, query: Query, state: State) -> None:
        static = plugin.static_key(query.pod) is not None
        if not _is_relative(plugin, static):
            if not static:
                self._local.append(_Local(index, plugin, weight, plugin.score_basis(query, state)))
            elif plugin.pre_score(query, state):
                said = self._score(index, plugin, query, state, self._rows)
                self._fixed += said if weight == 1 else said * weight
            return
        basis = () if static else plugin.score_basis(query, state)
        constant = self._constant(index, plugin, query, state) if static else None
        if constant is not None:
            self._fixed += constant * weight
            return
        relative = _Relative(index, plugin, weight, static, basis, None)
        self._normalise(relative, query, state)
        if not static or relative.normalised is not None:
            self._relative.append(relative)

    def _settle(self, query: Query, state: State) -> Int64Column:
        """int64[nodes]: the weighted sum of the scores that hang on nothing but their node."""
        settled = self._fixed.copy()
        for local in self._local:
            if local.plugin.pre_score(query, state):
                said = self._score(local.index, local.plugin, query, state, self._rows)
                settled += said if local.weight == 1 else said * local.weight
        return settled

    def _normalise(self, relative: _Relative, query: Query, state: State) -> None:
        """Asks the plugin for all its scores."""
        index, plugin = relative.index, relative.plugin
        relative.normalised = relative.raw = None
        if not plugin.pre_score(query, state):
            return
        if knows_bounds(plugin):
            relative.raw = self._score(index, plugin, query, state, self._rows)
            relative.bounds = self._bounds(relative)
            relative.normalised = plugin.scale(relative.raw, relative.bounds)
        elif self.feasible == len(self.fits):
            relative.normalised = plugin.normalize(self._score(index, plugin, query, state, self._rows))
        else:
            relative.normalised = np.zeros(len(self.fits), dtype=np.int64)
            feasible = np.flatnonzero(self.fits)
            rows = row_numbers(self._rows)[feasible]
            relative.normalised[feasible] = plugin.normalize(self._score(index, plugin, query, state, rows))

    def _bounds(self, relative: _Relative) -> Hashable | None:
        assert relative.raw is not None
        feasible = relative.raw if self.feasible == len(self.fits) else relative.raw[self.fits]
        return relative.plugin.bounds(feasible)

    def _all_let(self) -> BoolColumn:
        fits = self._static_fits.copy()
        for judged in self._filters:
            if judged.lets is not None:
                fits &= judged.lets
        return fits

    def _add_up(self) -> None:
        totals = self._settled.copy()
        for relative in self._relative:
            if relative.normalised is not None:
                totals += relative.normalised if relative.weight == 1 else relative.normalised * relative.weight
        if self.feasible < len(totals):
            totals[~self.fits] = NOT_FEASIBLE
        self.totals = totals[self._order]

    # --- keeping up --------------------------------------------------------------------------------------------------

    def refresh(self, state: State) -> bool:
        """Brings the answers up to date for another pod of the signature; False: they have to be built anew."""
        query, table = self._query, state.table
        query.memo.clear()
        if table is not self._table or table.static_version != self._static_version:
            return False
        rows = table.changes_since(self._mark)
        if rows is None or len(rows) > MOST_CHANGES:
            return False
        changed = self._located(rows)
        touched = dict(changed)
        anew = False
        for judged in self._filters:
            basis = judged.plugin.filter_basis(query, state)
            moved = basis is None or basis != judged.basis
            if moved and not self._judge_again(judged, basis, query, state, changed, touched):
                answer = judged.plugin.pre_filter(query, state)
                if answer.code is not Code.FITS or answer.nodes is not None:
                    return False
                judged.lets, anew = None, True
                if not answer.skip:
                    said = self._judge(judged.index, judged.plugin, query, state, self._rows)
                    if said.failed is not None:
                        return False
                    judged.lets = said.fits.copy()
            elif not moved and judged.lets is not None and judged.plugin.node_local:
                for row, position in changed:
                    judged.lets[position] = judged.plugin.fits_row(query, state, row)
            judged.basis = basis
        other_nodes_fit = self._fit_anew() if anew else self._fit_again(touched.values())
        if self.feasible < 2:
            return False  # nothing to choose from: a single node is taken without scoring
        self._score_again(query, state, changed, touched, other_nodes_fit, whole=anew and other_nodes_fit)
        self._mark = table.mark
        return True

    def _judge_again(
        self,
        judged: _Filter,
        basis: Hashable | None,
        query: Query,
        state: State,
        changed: Changed,
        touched: dict[int, int],
    ) -> bool:
        """Asks a filter about the rows that a change reaches; False: about all of them, then."""
        rows = self._reached(judged.plugin, judged.basis, basis, query, state, changed)
        if judged.lets is None or rows is None:
            return False
        for row, position in rows:
            touched[row] = position
            judged.lets[position] = judged.plugin.fits_row(query, state, row)
        return True

    def _reached(
        self,
        plugin: Plugin,
        before: Hashable | None,
        now: Hashable | None,
        query: Query,
        state: State,
        changed: Changed,
    ) -> Changed | None:
        if before is None or now is None:
            return None
        rows = plugin.reach(query, state, before, now, [row for row, _ in changed])
        return None if rows is None or len(rows) > MOST_CHANGES else self._located(rows)

    def _located(self, rows: Sequence[int]) -> Changed:
        """The rows of known nodes among these, each once, with their positions."""
        if isinstance(self._rows, slice):
            return [(row, row) for row in set(rows) if row < self._rows.stop]
        found = [(row, int(np.searchsorted(self._rows, row))) for row in set(rows)]
        return [(row, at) for row, at in found if at < len(self._rows) and self._rows[at] == row]

    def _fit_anew(self) -> bool:
        """Whether other nodes fit than before, after some filter was asked about all of them."""
        before, self.fits = self.fits, self._all_let()
        self.feasible = int(np.count_nonzero(self.fits))
        return not np.array_equal(before, self.fits)

    def _fit_again(self, positions: Iterable[int]) -> bool:
        """Whether other nodes fit than before, after filters were asked about these."""
        other_nodes_fit = False
        for position in positions:
            fits = bool(self._static_fits[position])
            for judged in self._filters:
                if judged.lets is not None and not judged.lets[position]:
                    fits = False
            if fits != self.fits[position]:
                self.fits[position] = fits
                self.feasible += 1 if fits else -1
                other_nodes_fit = True
        return other_nodes_fit

    def _score_again(
        self,
        query: Query,
        state: State,
        changed: Changed,
        touched: dict[int, int],
        other_nodes_fit: bool,
        whole: bool,
    ) -> None:
        """`whole`: other totals than those of the rows touched have to be added up again."""
        moved = False
        for local in self._local:
            basis = local.plugin.score_basis(query, state)
            moved |= basis is None or basis != local.basis
            local.basis = basis
        if moved:
            self._settled, whole = self._settle(query, state), True
        else:
            for row, position in changed:
                self._settled[position] = self._sum_of(row, position, query, state)
        for relative in self._relative:
            whole |= self._relate_again(relative, query, state, changed, touched, other_nodes_fit)
        if whole:
            self._add_up()
            return
        for position in touched.values():
            total = self._settled.item(position)
            for relative in self._relative:
                if relative.normalised is not None:
                    total += relative.normalised.item(position) * relative.weight
            self.totals[self._place[position]] = total if self.fits[position] else NOT_FEASIBLE

    def _sum_of(self, row: int, position: int, query: Query, state: State) -> int:
        total: int = self._fixed.item(position)
        for local in self._local:
            if local.plugin.pre_score(query, state):
                total += local.plugin.score_row(query, state, row) * local.weight
        return total

    def _relate_again(
        self,
        relative: _Relative,
        query: Query,
        state: State,
        changed: Changed,
        touched: dict[int, int],
        other_nodes_fit: bool,
    ) -> bool:
        """Whether scores changed on other rows than those touched, or the plugin was asked for all of them."""
        plugin, before = relative.plugin, relative.basis
        relative.basis = () if relative.static else plugin.score_basis(query, state)
        same = relative.basis is not None and relative.basis == before
        rows: Changed | None = []
        if not relative.static and plugin.node_local:
            rows = changed if same else None
        elif not same:
            rows = self._reached(plugin, before, relative.basis, query, state, changed)
        if same and not rows and not other_nodes_fit:
            return False
        if relative.raw is None or rows is None:
            had = relative.normalised is not None
            self._normalise(relative, query, state)
            return had or relative.normalised is not None
        for row, position in rows:
            touched[row] = position
            relative.raw[position] = plugin.score_row(query, state, row)
        bounds, relative.bounds = relative.bounds, self._bounds(relative)
        if bounds != relative.bounds:
            relative.normalised = plugin.scale(relative.raw, relative.bounds)
            return True
        assert relative.normalised is not None
        for _, position in rows:
            relative.normalised[position] = plugin.scale(relative.raw[position : position + 1], bounds)[0]
        return False


def knows_bounds(plugin: Plugin) -> bool:
    return type(plugin).bounds is not Plugin.bounds


def _is_relative(plugin: Plugin, static: bool) -> bool:
    """Whether its scores are normalised over the feasible nodes, or hang on others than their own."""
    normalises = knows_bounds(plugin) or type(plugin).normalize is not Plugin.normalize
    return normalises or not (static or plugin.node_local)
