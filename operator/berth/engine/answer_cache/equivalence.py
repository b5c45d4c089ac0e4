"""EquivalenceGroups: nodes that get equal scores from a plugin, so that it scores each group once.

A pod that is placed in a zone changes the scores of all nodes in that zone (PodTopologySpread, InterPodAffinity). But
all these nodes have the same score, so it is enough to compute it once per zone. An Axis is one property that such a
score depends on:

    domains   the node's value of a label that every node has, such as its zone
    counts    how many pods that match a selector are on the node

A group is one combination of values on all axes. Groups are numbered like the cells of an array whose shape is the
sizes of the axes (row-major). Scores are normalised over feasible nodes only, so each group counts its feasible nodes.
It is inhabited if it has any. There are few inhabited groups, a dozen as a rule: a Python loop over them is faster
than numpy on columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeVar

import numpy as np

from berth.engine.state.domains import Domains
from berth.engine.state.pod_counts import RowCounts
from berth.engine.verdict import BoolColumn, Int64Column, Rows

N = TypeVar("N", int, float)

MOST_GROUPS: Final = 4096
MOST_INHABITED: Final = 512
_ROOM: Final = 8  # spare places on an axis of counts, so that a few more pods on a node do not need new groups


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One property that decides a node's score: its domain, or a count of its pods."""

    of: Domains | RowCounts

    def column(self, rows: Rows) -> Int64Column:
        return self.of.ids[rows] if isinstance(self.of, Domains) else self.of.column()[rows]

    def size(self, column: Int64Column) -> int:
        """Returns how many places the axis gets, if the nodes are at the places in `column`."""
        return self.of.size if isinstance(self.of, Domains) else int(column.max(initial=0)) + _ROOM


class EquivalenceGroups:
    """`of` int64[nodes]: the group of each node. `feasible` int64[groups]: the number of feasible nodes in each group;
    `nodes`: in all of them.
    """

    def __init__(self, axes: Sequence[Axis], of: Int64Column, shape: tuple[int, ...], fits: BoolColumn) -> None:
        self.axes, self.of, self.shape = axes, of, shape
        self.by_counts = not any(isinstance(axis.of, Domains) for axis in axes)
        unfit = (~fits).nonzero()[0]
        self.feasible: Int64Column = np.bincount(of, minlength=prod(shape))
        if len(unfit):
            self.feasible -= np.bincount(of.take(unfit), minlength=prod(shape))
        self.nodes = len(fits) - len(unfit)
        self.settlement = 0  # moves when a group gets its first feasible node or loses its last
        inhabited = self.feasible.nonzero()[0]
        numbers = np.unravel_index(inhabited, shape)
        # The groups that have feasible nodes, in no particular order, with their places on all axes.
        self.inhabited: dict[int, tuple[int, ...]] = dict(
            zip(inhabited.tolist(), zip(*(at.tolist() for at in numbers), strict=True), strict=True)
        )
        # For each axis: the number of inhabited groups at each place, and the number of places that have any.
        self._at_place = [np.bincount(at, minlength=size).tolist() for at, size in zip(numbers, shape, strict=True)]
        self._places_inhabited = [sum(map(bool, groups)) for groups in self._at_place]
        self._strides = _strides(shape)
        self._counted = [
            (axis.of, size, stride)
            for axis, size, stride in zip(axes, shape, self._strides, strict=True)
            if not isinstance(axis.of, Domains)
        ]

    @classmethod
    def by(cls, axes: Sequence[Axis], rows: Rows, fits: BoolColumn) -> EquivalenceGroups | None:
        """Returns the groups of these rows; None if there would be too many for a loop over them to be fast."""
        columns = [axis.column(rows) for axis in axes]
        shape = tuple(axis.size(column) for axis, column in zip(axes, columns, strict=True))
        if prod(shape) > MOST_GROUPS:
            return None
        of = columns[-1].copy()
        for column, stride in zip(columns[:-1], _strides(shape)[:-1], strict=True):
            of += column * stride
        groups = cls(axes, of, shape, fits)
        return groups if len(groups.inhabited) <= MOST_INHABITED else None

    def move(self, row: int, position: int, did_fit: bool, fits: bool) -> bool:
        """Moves a node whose pods changed, or which became feasible or infeasible, to its group now.

        False: its count is beyond the axis, so the caller has to make new groups.
        """
        before = group = self.of.item(position)
        for counts, size, stride in self._counted:
            place = counts.at(row)
            if place >= size:
                return False
            group += (place - before // stride % size) * stride  # only this axis' digit of the group number changes
        if before == group and did_fit == fits:
            return True
        if did_fit:
            self._add(before, -1)
        if fits:
            self._add(group, 1)
        self.of[position] = group
        return True

    def _add(self, group: int, nodes: int) -> None:
        before = self.feasible.item(group)
        self.feasible[group] = before + nodes
        self.nodes += nodes
        if not before or not before + nodes:
            self._settle(group, 1 if nodes > 0 else -1)

    def _settle(self, group: int, sign: int) -> None:
        """Notes that the group got its first feasible node (1), or lost its last (-1)."""
        self.settlement += 1
        places = tuple(group // stride % size for stride, size in zip(self._strides, self.shape, strict=True))
        if sign > 0:
            self.inhabited[group] = places
        else:
            del self.inhabited[group]
        for axis, place in enumerate(places):
            groups = self._at_place[axis]
            groups[place] += sign
            if groups[place] == (sign > 0):
                self._places_inhabited[axis] += sign

    def places_inhabited(self, axis: int) -> int:
        """Returns how many places on an axis have a feasible node, such as the number of zones with one."""
        return self._places_inhabited[axis]

    def sums(self, shares: Sequence[Sequence[N]]) -> list[N]:
        """Returns, for each inhabited group in order, the sum of its shares on all axes; `shares[axis][place]`."""
        cells, first = self.inhabited.values(), shares[0]
        sums = [first[places[0]] for places in cells]
        for axis, share in enumerate(shares[1:], start=1):
            sums = [so_far + share[places[axis]] for so_far, places in zip(sums, cells, strict=True)]
        return sums


def by_node(scores: Mapping[int, int], size: int, of: Int64Column) -> Int64Column:
    """Returns int64[nodes]: the score of each node's group; 0 if its group has none. There are `size` groups."""
    by_group = np.zeros(size, dtype=np.int64)
    by_group[list(scores)] = list(scores.values())
    return by_group.take(of)


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]
