"""What somebody outside the engine, an extender, said of the nodes that fit a pod.

Asking takes time, and meanwhile the cluster changes: so the answers come in by the names of nodes, the pod is judged
anew, and a node is taken only if it fits now and was let through then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from berth.engine.events import ANY
from berth.engine.plugin import Plugin
from berth.engine.state.node_table import NodeTable
from berth.engine.verdict import BoolColumn, Code, Int64Column, Rows, Verdicts, row_numbers

LEFT_OUT = "node(s) were left out by an extender"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node was turned away; `code` says whether removing pods from it may help."""

    code: Code
    reason: str


@dataclass(frozen=True, slots=True)
class ExtenderResult:
    """By the names of nodes: those that may be taken, why others may not, and points to add to the weighted totals."""

    allowed: frozenset[str]
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    points: Mapping[str, int] = field(default_factory=dict)


class Extenders(Plugin):
    """Stands for the extenders where a diagnosis names who turned a node away; is never asked itself."""

    name = "Extenders"
    filters = True
    wakes_on = ANY


EXTENDERS = Extenders({})


def verdicts_of(outside: ExtenderResult, table: NodeTable, rows: Rows, asked: BoolColumn) -> Verdicts:
    """What was said of these rows, as a filter says it; nothing of those that were not asked about."""
    reasons = [LEFT_OUT]
    codes = np.full(table.capacity, Code.UNRESOLVABLE, dtype=np.int8)  # nothing says that pods are in the way there
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
    """int64[all rows]."""
    points = np.zeros(table.capacity, dtype=np.int64)
    for name, value in outside.points.items():
        row = table.row(name)
        if row is not None:
            points[row] = value
    return points


def _rows_of(names: frozenset[str], table: NodeTable) -> list[int]:
    return [row for row in map(table.row, names) if row is not None]
