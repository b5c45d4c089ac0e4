"""Demand: the resource requests of unschedulable pods as columns, one row per kind of pod.

One comparison with a node answers for all kinds at once.

need      int64[slots, resources]   in the table's units; 0: none
level     int64[slots]              pods of lower priority than this on a node count as free, because the kind may
                                    preempt them; the lowest int64 for pods that do not preempt

A node has room for a kind if, for every resource, what is free plus what pods of lower priority use is at least the
need. This is only a pre-check. It may say yes where a filter says no, because the number of resource columns is limited
as in the table (resources.py). It never says no where NodeResourcesFit would accept the pod, at once or after
preemption.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.amounts import MOST
from berth.engine.state.columns import grown
from berth.engine.state.resources import FIRST_RESOURCES, MOST_RESOURCES
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import Pod

PREEMPTS_NOBODY: Final = int(np.iinfo(np.int64).min)
_FIRST_SLOTS: Final = 64
_PODS: Final = FIRST_RESOURCES.index("pods")


class Demand:
    def __init__(self) -> None:
        self._need: NDArray[np.int64] = np.zeros((_FIRST_SLOTS, len(FIRST_RESOURCES)), dtype=np.int64)
        self._level: Int64Column = np.full(_FIRST_SLOTS, PREEMPTS_NOBODY, dtype=np.int64)
        self._column: dict[str, int] = {name: index for index, name in enumerate(FIRST_RESOURCES)}
        self._uses: Counter[str] = Counter()  # how many slots use a column that is not permanent
        self._names: dict[int, tuple[str, ...]] = {}  # by slot: the resources that it uses
        self._spare: list[int] = []

    def put(self, slot: int, needs: Mapping[str, int], level: int) -> None:
        """Stores the requests of the kind of pod in this slot."""
        while slot >= len(self._level):
            self._need = np.concatenate([self._need, np.zeros_like(self._need)])
            self._level = grown(self._level, 2 * len(self._level), PREEMPTS_NOBODY)
        names = []
        for name, amount in needs.items():
            column = self._column_of(name) if amount > 0 else None
            if column is not None:
                self._need[slot, column] = min(amount, MOST)
                self._uses[name] += 1
                names.append(name)
        self._names[slot] = tuple(names)
        self._level[slot] = level

    def clear(self, slot: int) -> None:
        """Frees the slot, and any column that no other slot uses."""
        self._need[slot] = 0
        self._level[slot] = PREEMPTS_NOBODY
        for name in self._names.pop(slot):
            self._uses[name] -= 1
            if not self._uses[name]:
                del self._uses[name]
                if name not in FIRST_RESOURCES:
                    self._spare.append(self._column.pop(name))

    def fitting(self, state: State, node: str) -> BoolColumn:
        """Returns bool[slots]: the kinds for which the node has room; none if the node is not known."""
        rooms = self._rooms(state, node)
        if rooms is None:
            return np.zeros(len(self._level), dtype=np.bool_)
        levels, room = rooms
        fits: BoolColumn = (self._need <= room[0]).all(axis=1)
        if len(levels):
            fits |= (self._need <= room[np.searchsorted(levels, self._level)]).all(axis=1)
        return fits

    def count(self, state: State, node: str, slot: int) -> int:
        """Returns how many pods of the kind the node has room for."""
        rooms = self._rooms(state, node)
        if rooms is None:
            return 0
        levels, room = rooms
        need, free = self._need[slot], room[np.searchsorted(levels, self._level[slot])]
        asked = need > 0
        return int((free[asked] // need[asked]).min(initial=MOST))

    def statistics(self) -> dict[str, int]:
        """`kinds`: slots in use; `columns`: resources that have one; `width`: columns ever made; `uses`: of columns."""
        return {
            "kinds": len(self._names),
            "columns": len(self._column),
            "width": self._need.shape[1],
            "uses": self._uses.total(),
        }

    def _column_of(self, name: str) -> int | None:
        column = self._column.get(name)
        if column is None and len(self._column) < MOST_RESOURCES:
            if not self._spare:
                self._need = np.concatenate([self._need, np.zeros((len(self._need), 1), dtype=np.int64)], axis=1)
            column = self._column[name] = self._spare.pop() if self._spare else self._need.shape[1] - 1
        return column

    def _rooms(self, state: State, node: str) -> tuple[Int64Column, NDArray[np.int64]] | None:
        """Returns the priorities of the node's pods, ascending, below the highest level of any kind; and
        int64[pods + 1, resources]: what is free once the first 0, 1, 2, ... of these pods are gone.
        """
        table = state.table
        row = table.row(node)
        if row is None:
            return None
        free, allocatable = table.cells.free, table.cells.allocatable
        rest = [MOST] * self._need.shape[1]
        whole = [MOST] * self._need.shape[1]
        for name, column in self._column.items():
            number = table.known_resource(name)
            rest[column], whole[column] = free[number, row], allocatable[number, row]
        highest = self._level.max()
        weaker = sorted(
            (pod for pod in table.pods_on(node).values() if pod.priority < highest), key=lambda pod: pod.priority
        )
        return np.array([pod.priority for pod in weaker], dtype=np.int64), self._without(weaker, rest, whole)

    def _without(self, weaker: Sequence[Pod], rest: list[int], whole: list[int]) -> NDArray[np.int64]:
        """Returns what is free after each pod is gone. Python integers do not overflow; the result is bounded by what
        is allocatable, as pods may use more than that.
        """
        rooms = [_bounded(rest, whole)]
        for pod in weaker:
            rest[_PODS] += 1
            for name, amount in pod.usage.items():
                column = self._column.get(name)
                if column is not None:
                    rest[column] += amount
            rooms.append(_bounded(rest, whole))
        return np.array(rooms, dtype=np.int64)


def _bounded(amounts: list[int], most: list[int]) -> list[int]:
    return [max(0, min(amount, bound)) for amount, bound in zip(amounts, most, strict=True)]
