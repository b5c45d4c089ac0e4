"""Groups: the nodes of a cluster by what a score hangs on, where nodes that are alike in it score alike.

A pod that lands in a zone changes the score of all the nodes there, but by little work: the score is asked for once a
zone, not once a node. What nodes have to be alike in are axes:

    domains   the value of a label that every node has
    counts    how many pods of one kind lie on the node

and a group is one combination: as many as the product of the axes' sizes, numbered like the cells of an array of that
shape. Only the nodes that fit count for what is normalised, so a group knows how many of its nodes do, and is inhabited
if any does. Inhabited groups are few: they are looked at one by one, which for a dozen takes less time than columns.
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
_ROOM: Final = 8  # so many pods more may come to a node before its group has no number


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Domains, or counts."""

    of: Domains | RowCounts

    def column(self, rows: Rows) -> Int64Column:
        return self.of.ids[rows] if isinstance(self.of, Domains) else self.of.column()[rows]

    def size(self, column: Int64Column) -> int:
        """How many places it has, where these are taken."""
        return self.of.size if isinstance(self.of, Domains) else int(column.max(initial=0)) + _ROOM


class EquivalenceGroups:
    """`of` int64[nodes]: each node's group; `feasible` int64[groups]: how many nodes of each fit, `nodes` in all."""

    def __init__(self, axes: Sequence[Axis], of: Int64Column, shape: tuple[int, ...], fits: BoolColumn) -> None:
        self.axes, self.of, self.shape = axes, of, shape
        self.by_counts = not any(isinstance(axis.of, Domains) for axis in axes)
        unfit = (~fits).nonzero()[0]
        self.feasible: Int64Column = np.bincount(of, minlength=prod(shape))
        if len(unfit):
            self.feasible -= np.bincount(of.take(unfit), minlength=prod(shape))
        self.nodes = len(fits) - len(unfit)
        self.settlement = 0  # moves when other groups than before have nodes that fit
        inhabited = self.feasible.nonzero()[0]
        numbers = np.unravel_index(inhabited, shape)
        # The groups that have nodes that fit, in no order, and the place of each on every axis.
        self.inhabited: dict[int, tuple[int, ...]] = dict(
            zip(inhabited.tolist(), zip(*(at.tolist() for at in numbers), strict=True), strict=True)
        )
        # For each axis, how many inhabited groups each place has, and how many places have one.
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
        """The groups of these rows, of which some fit; None: they are too many."""
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
        """A node has other pods, or fits where it did not; False: there is no number for its group."""
        before = group = self.of.item(position)
        for counts, size, stride in self._counted:
            place = counts.at(row)
            if place >= size:
                return False
            group += (place - before // stride % size) * stride
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
        """The group has nodes that fit and had none (1), or had some and has none (-1)."""
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
        """How many places on an axis have a node that fits."""
        return self._places_inhabited[axis]

    def sums(self, shares: Sequence[Sequence[N]]) -> list[N]:
        """What each inhabited group, in their order, has of all axes together; `shares` are by axis and place there."""
        cells, first = self.inhabited.values(), shares[0]
        sums = [first[places[0]] for places in cells]
        for axis, share in enumerate(shares[1:], start=1):
            sums = [so_far + share[places[axis]] for so_far, places in zip(sums, cells, strict=True)]
        return sums


def by_node(scores: Mapping[int, int], size: int, of: Int64Column) -> Int64Column:
    """int64[nodes]: the score of each node's group, `of` so many groups; 0 for a group without a score."""
    by_group = np.zeros(size, dtype=np.int64)
    by_group[list(scores)] = list(scores.values())
    return by_group.take(of)


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]
