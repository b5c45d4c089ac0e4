"""One pod judged by one policy on the state as it is now: the survey of its filters, and columns made from it.

A judgement is valid until the state changes. A caller that pauses in between makes a new one afterwards (`is_current`).
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.ma  # np.unique needs it, and imports it in its first call: tens of milliseconds of the loop
from numpy.typing import NDArray

from berth.engine.diagnosis import NO_NODES, Diagnosis, Opinion, Survey
from berth.engine.events import ANY
from berth.engine.pipeline import Pipeline
from berth.engine.plugin import FilterPlugin, Query
from berth.engine.state.node_table import NodeTable
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Code, Int64Column, row_numbers
from berth.model import Pod

Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The nodes that one plugin rejects for one reason; `where` is bool[positions of the survey].

    `left_out` counts nodes that PreFilter left out, which are not in the survey.
    """

    plugin: FilterPlugin
    text: str
    code: Code
    where: BoolColumn
    left_out: int = 0

    @property
    def nodes(self) -> int:
        return int(np.count_nonzero(self.where)) + self.left_out


class Judgement:
    """Asks every filter about every node. Raises PluginFailed if a plugin does."""

    def __init__(self, pod: Pod, pipeline: Pipeline, state: State) -> None:
        self.pod = pod
        self.pipeline = pipeline
        self.state = state
        self.table: NodeTable = state.table
        self.nodes = len(state.table)
        self.query = Query(pod, state.table)
        self._version = _version(state)
        self.survey: Survey | None = pipeline.survey(self.query, state) if self.nodes else None

    @property
    def is_current(self) -> bool:
        """Whether nothing has changed since that the judgement depends on."""
        return self._version == _version(self.state)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Why no node is feasible, as kube-scheduler says it."""
        if self.survey is None:
            return Diagnosis(NO_NODES, 0, frozenset(), ANY)
        return self.survey.failed or self.pipeline.diagnose(self.survey, self.nodes)

    @property
    def fits(self) -> bool:
        return self.survey is not None and self.survey.failed is None and bool(self.survey.fits.any())

    @cached_property
    def rows(self) -> Positions:
        """The rows of the survey."""
        return row_numbers(self.survey.rows) if self.survey is not None else np.zeros(0, dtype=np.intp)

    @property
    def feasible(self) -> Positions:
        """The rows of the nodes that fit."""
        return self.rows[self.survey.fits] if self.survey is not None else self.rows

    @property
    def opinions(self) -> tuple[Opinion, ...]:
        return self.survey.opinions if self.survey is not None else ()

    @cached_property
    def refusing(self) -> Int64Column:
        """int64[positions]: how many plugins reject each node."""
        total = np.zeros(len(self.rows), dtype=np.int64)
        for opinion in self.opinions:
            if opinion.verdicts is not None:
                total += ~opinion.verdicts.fits
        return total

    @cached_property
    def by_name(self) -> Positions:
        """intp[positions]: the place of each node in the order of names."""
        place = np.empty(self.table.capacity, dtype=np.intp)
        place[self.table.rows_by_name] = np.arange(self.nodes)
        return place[self.rows]

    @cached_property
    def alone(self) -> dict[str, BoolColumn]:
        """By the name of a plugin, bool[positions]: the nodes that no other plugin rejects."""
        single = self.refusing == 1
        said = ((o.plugin.name, o.verdicts) for o in self.opinions)
        return {name: single & ~verdicts.fits for name, verdicts in said if verdicts is not None}

    def refusals(self) -> Iterator[Refusal]:
        """Yields the reasons that the diagnosis counts, in the order of the pipeline.

        A node counts under the first plugin that rejects it or, if the policy says so, under each plugin that does.
        """
        survey = self.survey
        if survey is None:
            return
        if survey.stopped_by is not None:
            stop = survey.stopped_by
            everywhere = np.ones(self.nodes, dtype=np.bool_)
            for text in stop.pre_filter.reasons:
                yield Refusal(stop.plugin, text, stop.pre_filter.code, everywhere)
            return
        left = np.ones(len(self.rows), dtype=np.bool_)
        for opinion in survey.opinions:
            refused = left & ~opinion.verdicts.fits if opinion.verdicts is not None else None
            if refused is None or not refused.any():
                continue
            if not self.pipeline.check_all:
                left &= ~refused
            yield from _by_reason(opinion, refused)
        yield from self._left_out()

    def _left_out(self) -> Iterator[Refusal]:
        left_out = self.nodes - len(self.rows)
        narrowing = [opinion.plugin for opinion in self.opinions if opinion.pre_filter.nodes is not None]
        if left_out and narrowing:
            text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugin.name for plugin in narrowing))}]"
            nowhere = np.zeros(len(self.rows), dtype=np.bool_)
            yield Refusal(narrowing[0], text, Code.UNRESOLVABLE, nowhere, left_out)


def _by_reason(opinion: Opinion, refused: BoolColumn) -> Iterator[Refusal]:
    """Yields the texts of one plugin with the nodes that each is about; causes are few, nodes are many."""
    verdicts = opinion.verdicts
    assert verdicts is not None
    causes = verdicts.causes
    found: dict[str, BoolColumn] = {}
    codes: dict[str, Code] = {}
    for cause in np.unique(causes[refused]).tolist():
        where = refused & (causes == cause)
        for text in verdicts.describe(cause):
            found[text] = found[text] | where if text in found else where
            codes.setdefault(text, Code(int(verdicts.codes[where.argmax()])))
    for text, where in found.items():
        yield Refusal(opinion.plugin, text, codes[text], where)


def _version(state: State) -> Hashable:
    table = state.table
    nominated = frozenset((node, uid) for node, pods in state.nominated.items() for uid in pods)
    return table.static_version, table.mark, state.changes, nominated
