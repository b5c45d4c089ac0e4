"""CSINodeColumns: volume limits and migrated plugins from the CSINodes, one column for each driver or plugin.

A CSINode belongs to the row of the node with its name. A column is filled on first use, updated with every CSINode
that changes, and filled again when nodes are added or removed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import CSINode

if TYPE_CHECKING:
    from berth.engine.state.state import State

NO_LIMIT = -1
_KEPT_COLUMNS = 64

Read = Callable[[CSINode], int]


class CSINodeColumns:
    def __init__(self, state: State) -> None:
        self._state = state
        self._columns: OrderedDict[Hashable, tuple[Read, Int64Column]] = OrderedDict()
        self._rows: NDArray[np.intp] | None = None  # the table's rows when the columns were filled
        self._stale: set[str] = set()  # CSINodes that changed since

    def limit(self, driver: str) -> Int64Column:
        """Returns int64[rows]: the limit of volumes of the driver on each node; NO_LIMIT if there is none."""
        return self._column(("limit", driver), lambda node: _limit(node, driver))

    def known(self) -> BoolColumn:
        """bool[rows]: the nodes that have a CSINode."""
        return self._column("known", lambda node: 1) > 0

    def limited(self) -> BoolColumn:
        """bool[rows]: the nodes that limit any driver."""
        return self._column("limited", lambda node: int(any(d.count is not None for d in node.drivers))) > 0

    def migrated(self, plugin: str) -> BoolColumn:
        """bool[rows]: the nodes where the in-tree plugin is migrated to CSI."""
        return self._column(("migrated", plugin), lambda node: int(plugin in node.migrated_plugins)) > 0

    def changed(self, name: str) -> None:
        if self._columns:
            self._stale.add(name)

    def _column(self, key: Hashable, read: Read) -> Int64Column:
        self._follow()
        if key not in self._columns:
            self._columns[key] = read, self._filled(read)
            if len(self._columns) > _KEPT_COLUMNS:
                self._columns.popitem(last=False)
        self._columns.move_to_end(key)
        return self._columns[key][1]

    def _follow(self) -> None:
        """Applies changes. Rows move only when nodes are added or removed; then `rows_by_name` is a new array."""
        table = self._state.table
        if self._rows is not table.rows_by_name or any(len(c) != table.capacity for _, c in self._columns.values()):
            self._columns.clear()
            self._rows = table.rows_by_name
        for name in self._stale:
            row, node = table.row(name), self._state.objects["CSINode"].get(name)
            for read, column in self._columns.values() if row is not None else ():
                column[row] = NO_LIMIT if node is None else read(node)
        self._stale.clear()

    def _filled(self, read: Read) -> Int64Column:
        table = self._state.table
        column = np.full(table.capacity, NO_LIMIT, dtype=np.int64)
        for name, node in self._state.objects["CSINode"].items():
            row = table.row(name)
            if row is not None:
                column[row] = read(node)
        return column


def _limit(node: CSINode, driver: str) -> int:
    limits = [known.count for known in node.drivers if known.name == driver and known.count is not None]
    return limits[-1] if limits else NO_LIMIT
