"""Columns that grow with the node table: lazily filled ones, and counts that come and go.

None of these knows what a node is; the table tells them which row changed and what it holds now.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

import numpy as np

from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import Node

K = TypeVar("K", bound=Hashable)

MISSING = -1


def grown(array: Int64Column, rows: int, fill: int = 0) -> Int64Column:
    """The same column(s) with room for `rows` rows; the new ones hold `fill`."""
    wider = np.full((*array.shape[:-1], rows), fill, dtype=np.int64)
    wider[..., : array.shape[-1]] = array
    return wider


class LazyColumns(Generic[K]):
    """One int64 column for each key that somebody asked for: what `read` finds in a row's node, MISSING without one.

    A key costs nothing until it is asked for; from then on it follows the nodes.
    """

    def __init__(self, read: Callable[[Node, K], int]) -> None:
        self._read = read
        self._columns: dict[K, Int64Column] = {}

    def column(self, key: K, nodes: Iterable[tuple[int, Node]], rows: int) -> Int64Column:
        column = self._columns.get(key)
        if column is None:
            column = np.full(rows, MISSING, dtype=np.int64)
            for row, node in nodes:
                column[row] = self._read(node, key)
            self._columns[key] = column
        return column

    def set_row(self, row: int, node: Node | None) -> None:
        for key, column in self._columns.items():
            column[row] = MISSING if node is None else self._read(node, key)

    def grow(self, rows: int) -> None:
        self._columns = {key: grown(column, rows, MISSING) for key, column in self._columns.items()}

    def __len__(self) -> int:
        return len(self._columns)


class Vocabulary:
    """Label values as small numbers, one vocabulary a key, with what they are as integers (for Gt and Lt)."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self._integers: list[int] = []
        self._is_integer: list[bool] = []

    def intern(self, value: str) -> int:
        known = self.ids.get(value)
        if known is None:
            known = self.ids[value] = len(self.ids)
            integer = as_int64(value)
            self._integers.append(integer or 0)
            self._is_integer.append(integer is not None)
        return known

    def compared(self, bound: int, greater: bool) -> BoolColumn:
        """bool[values + 1]: which values are integers above (or below) `bound`; the last entry is a missing label's."""
        integers = np.array([*self._integers, 0], dtype=np.int64)
        known = np.array([*self._is_integer, False])
        return known & ((integers > bound) if greater else (integers < bound))


def as_int64(text: str) -> int | None:
    """What Go's ParseInt(text, 10, 64) reads, or None where it fails: no spaces, no underscores, ASCII digits only."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class RowCounts(Generic[K]):
    """How often each key occurs on each row; a key that occurs nowhere any more is forgotten."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._counts: dict[K, Int64Column] = {}
        self._totals: dict[K, int] = {}

    def add(self, key: K, row: int) -> None:
        if key not in self._counts:
            self._counts[key] = np.zeros(self._rows, dtype=np.int64)
            self._totals[key] = 0
        self._counts[key][row] += 1
        self._totals[key] += 1

    def discard(self, key: K, row: int) -> None:
        self._counts[key][row] -= 1
        self._totals[key] -= 1
        if not self._totals[key]:
            del self._counts[key], self._totals[key]

    def grow(self, rows: int) -> None:
        self._rows = rows
        self._counts = {key: grown(column, rows) for key, column in self._counts.items()}

    @property
    def columns(self) -> Mapping[K, Int64Column]:
        return self._counts
