"""Columns that grow with the node table: lazily filled ones, and numbers for values that come and go.

None of these knows what a node is; the table tells them which row changed and what it holds now.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np

from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import Node, parse_int64

K = TypeVar("K", bound=Hashable)

MISSING = -1
KEPT_COLUMNS = 512


def grown(array: Int64Column, rows: int, fill: int = 0) -> Int64Column:
    """The same column(s) with room for `rows` rows; the new ones hold `fill`."""
    wider = np.full((*array.shape[:-1], rows), fill, dtype=np.int64)
    wider[..., : array.shape[-1]] = array
    return wider


class LazyColumns(Generic[K]):
    """One int64 column for each key that somebody asked for: what `read` finds in a row's node, MISSING without one.

    A key costs nothing until it is asked for; from then on it follows the nodes, until so many other keys have been
    asked for since that it is forgotten.
    """

    def __init__(self, read: Callable[[Node, K], int], on_forget: Callable[[K], object] = lambda key: None) -> None:
        self._read = read
        self._on_forget = on_forget
        self._columns: OrderedDict[K, Int64Column] = OrderedDict()

    def column(self, key: K, nodes: Iterable[tuple[int, Node]], rows: int) -> Int64Column:
        column = self._columns.get(key)
        if column is not None:
            self._columns.move_to_end(key)
            return column
        column = np.full(rows, MISSING, dtype=np.int64)
        for row, node in nodes:
            column[row] = self._read(node, key)
        self._columns[key] = column
        if len(self._columns) > KEPT_COLUMNS:
            self.forget(next(iter(self._columns)))
        return column

    def forget(self, key: K) -> None:
        self._columns.pop(key, None)
        self._on_forget(key)

    def set_row(self, row: int, node: Node | None) -> None:
        for key, column in self._columns.items():
            column[row] = MISSING if node is None else self._read(node, key)

    def grow(self, rows: int) -> None:
        for key, column in self._columns.items():
            self._columns[key] = grown(column, rows, MISSING)

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
            integer = parse_int64(value)
            self._integers.append(integer or 0)
            self._is_integer.append(integer is not None)
        return known

    def compared(self, bound: int, greater: bool) -> BoolColumn:
        """bool[values + 1]: which values are integers above (or below) `bound`; the last entry is a missing label's."""
        integers = np.array([*self._integers, 0], dtype=np.int64)
        known = np.array([*self._is_integer, False])
        return known & ((integers > bound) if greater else (integers < bound))


class Interner(Generic[K]):
    """Values in use as small numbers; a number is given out again when nobody uses its value any more."""

    def __init__(self, idle: K) -> None:
        """`idle` is the value of number 0, which is never given back, and of numbers that nobody uses."""
        self._idle = idle
        self._ids: dict[K, int] = {idle: 0}
        self._uses = [0]
        self._free: list[int] = []
        self.values = [idle]

    def use(self, value: K) -> int:
        number = self._ids.get(value)
        if number is None:
            number = self._free.pop() if self._free else self._new()
            self._ids[value] = number
            self.values[number] = value
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        if not number:
            return
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._ids[self.values[number]]
            self.values[number] = self._idle
            self._free.append(number)

    def _new(self) -> int:
        self.values.append(self._idle)
        self._uses.append(0)
        return len(self.values) - 1

    def __len__(self) -> int:
        return len(self._ids)
