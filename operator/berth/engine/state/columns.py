"""Building blocks of the node table: columns that grow, columns that are filled on first use, ids for values.

The node table tells them which row changed, and what the row holds now.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import Node, parse_int64

K = TypeVar("K", bound=Hashable)

MISSING = -1
KEPT_COLUMNS = 512


def grown(array: Int64Column, rows: int, fill: int = 0) -> Int64Column:
    """Returns a copy of the column(s) with `rows` rows; the new rows hold `fill`."""
    wider = np.full((*array.shape[:-1], rows), fill, dtype=np.int64)
    wider[..., : array.shape[-1]] = array
    return wider


class Stacked:
    """A 2-dimensional array [columns, rows] to which columns are added and removed; `shown` is a view of those in use.

    The array is larger than what is in use, so that adding columns takes constant time on average. Pages that were
    never written take no memory.
    """

    _LEAST_ROOM: Final = 8

    def __init__(self, columns: int, rows: int, dtype: type[np.generic] = np.int64) -> None:
        self._store: NDArray[Any] = np.zeros((max(columns, self._LEAST_ROOM), rows), dtype=dtype)
        self.shown: NDArray[Any] = self._store[:columns]

    def add(self, columns: int) -> None:
        """Adds columns of zeros at the end."""
        count = len(self.shown) + columns
        if count > len(self._store):
            self._move(max(count, 2 * len(self._store)), self.shown)
        self.shown = self._store[:count]

    def drop(self, holes: Sequence[int], movers: Sequence[int], left: int) -> None:
        """Moves the columns `movers` to the indexes `holes`, and frees those from `left` on."""
        if holes:
            self.shown[list(holes)] = self.shown[list(movers)]
        if left < len(self._store) // 4 and len(self._store) > self._LEAST_ROOM:
            self._move(max(2 * left, self._LEAST_ROOM), self.shown[:left])
        else:
            self.shown[left:] = 0
        self.shown = self._store[:left]

    def take(self, rows: NDArray[np.intp], length: int) -> None:
        """Keeps only these rows, in this order, in an array of `length` rows."""
        kept = self.shown[:, rows]
        self._store = np.zeros((len(self._store), length), dtype=self._store.dtype)
        self.shown = self._store[: len(kept)]
        self.shown[:, : len(rows)] = kept

    def widen(self, rows: int) -> None:
        """Makes room for this number of rows."""
        before = self.shown
        self._store = np.zeros((len(self._store), rows), dtype=before.dtype)
        self.shown = self._store[: len(before)]
        self.shown[:, : before.shape[1]] = before

    def _move(self, room: int, kept: NDArray[Any]) -> None:
        self._store = np.zeros((room, kept.shape[1]), dtype=kept.dtype)
        self._store[: len(kept)] = kept


class LazyColumns(Generic[K]):
    """One int64 column for each key that was used: `read(node, key)` for each row, MISSING if the row has no node.

    A key costs nothing until its first use. From then on its column is updated with the nodes, until the key is evicted
    as the least recently used one.
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
    """Ids for the values of one label, and the values as integers, for the operators Gt and Lt."""

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
        """Returns bool[values + 1]: which values are integers above (or below) `bound`.

        The last entry is for a missing label, whose id is -1.
        """
        integers = np.array([*self._integers, 0], dtype=np.int64)
        known = np.array([*self._is_integer, False])
        return known & ((integers > bound) if greater else (integers < bound))


class Interner(Generic[K]):
    """Reference-counted ids for values; the id of a value that is no longer used is reused."""

    def __init__(self, idle: K) -> None:
        """`idle` is the value of id 0, which is never released, and of unused ids."""
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
