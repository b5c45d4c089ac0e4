"""The combined result of all extenders for one pod: nodes that passed, rejections, and scores.

A call to an extender takes time, and the cluster changes meanwhile. So results are by node name, not by row, and the
filters run again afterwards. A node is taken only if it fits now and the extenders passed it then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from berth.engine.events import ANY
from berth.engine.plugin import Dependencies, FilterPlugin, PodsRead
from berth.engine.state.node_table import NodeTable
from berth.engine.verdict import BoolColumn, Code, Int64Column, Rows, Verdicts, row_numbers

LEFT_OUT = "node(s) were left out by an extender"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an extender rejected a node; `code` says whether preemption may help."""

    code: Code
    reason: str


@dataclass(frozen=True, slots=True)
class ExtenderResult:
    """By node name: nodes that passed, reasons for rejected ones, and points to add to the weighted totals."""

    allowed: frozenset[str]
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    points: Mapping[str, int] = field(default_factory=dict)


class Extenders(FilterPlugin):
    """Represents the extenders in a diagnosis, which names plugins. The pipeline never calls it."""

    name = "Extenders"
    dependencies = Dependencies(pods=PodsRead.NONE)
    retry_events = ANY


EXTENDERS = Extenders({})


def verdicts_of(outside: ExtenderResult, table: NodeTable, rows: Rows, asked: BoolColumn) -> Verdicts:
    """Returns the extenders' verdicts on these rows. Rows that were not sent to them (`asked` is False) fit."""
    reasons = [LEFT_OUT]
    codes = np.full(table.capacity, Code.UNRESOLVABLE, dtype=np.int8)  # no reason to expect that preemption helps
    causes = np.zeros(table.capacity, dtype=np.int64)
    for name, refusal in outside.refused.items():
        row = table.row(name)
        if row is not None:
            codes[row], causes[row] = refusal.code, len(reasons)
            reasons.append(refusal.reason)
    codes[_rows_of(outside.allowed, table)] = Code.FITS
    numbers = row_numbers(rows)
    said = np.where(asked, codes[numbers], np.int8(Code.FITS))
    return Verdicts(said, causes[numbers], lambda cause: (reasons[cause],))


def points_of(outside: ExtenderResult, table: NodeTable) -> Int64Column:
    """Returns int64[all rows]: the points of each node, 0 where there are none."""
    points = np.zeros(table.capacity, dtype=np.int64)
    for name, value in outside.points.items():
        row = table.row(name)
        if row is not None:
            points[row] = value
    return points


def _rows_of(names: frozenset[str], table: NodeTable) -> list[int]:
    return [row for row in map(table.row, names) if row is not None]
