"""The scoring strategies of NodeResourcesFit.

LeastAllocated             weighted mean of the free share: (allocatable - requested) * 100 / allocatable
MostAllocated              weighted mean of the used share: requested * 100 / allocatable
RequestedToCapacityRatio   weighted mean of a piecewise linear function (`shape`) of the used share; resources that
                           score 0 are left out of the mean, which is rounded half up

All divisions truncate to whole numbers, as in kube-scheduler.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import floor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from berth.engine.plugin import MAX_SCORE, BadArgument
from berth.engine.plugins.common.allocation import (
    DEFAULT_RESOURCES,
    CountedResource,
    Load,
    WeighedResource,
    cut_quotient,
    parse_resources,
    percentage,
    require_integer,
    require_list,
    require_object,
)
from berth.engine.state.node_table import MEMORY, NodeTable
from berth.engine.verdict import BoolColumn, Int64Column

TYPES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
MAX_SHAPE_SCORE = 10


class Strategy(Protocol):
    """Scores nodes by how full they are: on columns, and for a single node with the same arithmetic.

    Amounts include the scoring defaults; a resource that the node does not have is left out.
    """

    def columns(self, resources: Iterable[Load], nodes: int) -> Int64Column: ...

    def single(self, table: NodeTable, row: int, resources: Sequence[CountedResource]) -> int: ...


def parse_strategy(value: Any) -> tuple[tuple[WeighedResource, ...], Strategy]:
    """Parses a `scoringStrategy`: its resources, and how it scores them."""
    if value is None:
        return DEFAULT_RESOURCES, _Mean(free=True)
    field = "scoringStrategy"
    strategy = require_object(value, field, "type", "resources", "requestedToCapacityRatio")
    resources = parse_resources(strategy.get("resources"), f"{field}.resources")
    kind = strategy.get("type", TYPES[0])
    if kind not in TYPES:
        raise BadArgument(f"{field}.type", f"must be one of {', '.join(TYPES)}")
    ratio = strategy.get("requestedToCapacityRatio")
    if kind == "RequestedToCapacityRatio":
        line = _parse_shape(ratio, f"{field}.requestedToCapacityRatio")
        return resources, _AlongLine(line)
    if ratio is not None:
        raise BadArgument(f"{field}.requestedToCapacityRatio", f"has no meaning with type {kind}")
    return resources, _Mean(free=kind == "LeastAllocated")


class _Mean:
    """The weighted mean of the free or the used share."""

    def __init__(self, free: bool) -> None:
        self._free = free

    def columns(self, resources: Iterable[Load], nodes: int) -> Int64Column:
        total, weights = None, _Weights()
        for load in resources:
            share = load.filled()
            if self._free:
                np.subtract(load.have, share, out=share)
            share = percentage(share, load.divisor)
            if load.weight != 1:
                share *= load.weight
            total = share if total is None else np.add(total, share, out=total)
            weights.add(load.weight, None if load.everywhere else load.have != 0)
        if total is None:
            return np.zeros(nodes, dtype=np.int64)
        return cut_quotient(total, weights.divisor).astype(np.int64, copy=False)

    def single(self, table: NodeTable, row: int, resources: Sequence[CountedResource]) -> int:
        total, weights, cells = 0, 0, table.cells
        allocatable, used, nonzero = cells.allocatable, cells.used, cells.nonzero
        for number, amount, weight in resources:
            at = number, row
            have = allocatable[at]
            if have:
                filled = (nonzero if number <= MEMORY else used)[at] + amount
                if filled > have:
                    filled = have
                total += (have - filled if self._free else filled) * MAX_SCORE // have * weight
                weights += weight
        return total // weights if weights else 0


class _AlongLine:
    """The weighted mean of the shape's scores for the used share; resources that score 0 are left out."""

    def __init__(self, line: NDArray[np.int64]) -> None:
        self._line = line

    def columns(self, resources: Iterable[Load], nodes: int) -> Int64Column:
        total, weights = np.zeros(nodes, dtype=np.int64), _Weights()
        for load in resources:
            scores = self._line[percentage(load.filled(), load.divisor).astype(np.int64, copy=False)]
            counts = (load.have != 0) & (scores > 0)
            total += np.where(counts, scores, 0) * load.weight
            weights.add(load.weight, counts)
        return np.asarray(np.floor(total / weights.divisor + 0.5), dtype=np.int64)

    def single(self, table: NodeTable, row: int, resources: Sequence[CountedResource]) -> int:
        total, weights, cells = 0, 0, table.cells
        for number, amount, weight in resources:
            have = cells.allocatable[number, row]
            if have:
                taken = (cells.nonzero if number <= MEMORY else cells.used)[number, row] + amount
                score = self._line.item(min(taken, have) * MAX_SCORE // have)
                total += score * weight
                weights += weight if score else 0
        return floor(total / max(weights, 1) + 0.5)


class _Weights:
    """The sum of the weights of the resources on a node: one number while it is the same on all nodes."""

    def __init__(self) -> None:
        self._sum: int | Int64Column = 0

    def add(self, weight: int, where: BoolColumn | None) -> None:
        self._sum = self._sum + (weight if where is None else weight * where.astype(np.int64))

    @property
    def divisor(self) -> int | Int64Column:
        return max(self._sum, 1) if isinstance(self._sum, int) else np.maximum(self._sum, 1)


def _parse_shape(value: Any, field: str) -> NDArray[np.int64]:
    """Returns int64[101]: the score at each whole percentage of utilization."""
    ratio = require_object(value if value is not None else {}, field, "shape")
    points: list[tuple[int, int]] = []
    for index, item in enumerate(require_list(ratio.get("shape", []), f"{field}.shape")):
        path = f"{field}.shape[{index}]"
        point = require_object(item, path, "utilization", "score")
        used = require_integer(point.get("utilization", 0), f"{path}.utilization", 0, 100)
        score = require_integer(point.get("score", 0), f"{path}.score", 0, MAX_SHAPE_SCORE)
        if points and used <= points[-1][0]:
            raise BadArgument(f"{path}.utilization", "must be above that of the point before it")
        points.append((used, score * (MAX_SCORE // MAX_SHAPE_SCORE)))
    if not points:
        raise BadArgument(f"{field}.shape", "needs at least one point")
    return np.array([_on_line(points, used) for used in range(101)], dtype=np.int64)


def _on_line(points: Sequence[tuple[int, int]], used: int) -> int:
    for (before, low), (after, high) in pairwise(points):
        if before < used <= after:
            return low + int((high - low) * (used - before) / (after - before))  # truncates towards zero, as Go does
    return points[0][1] if used <= points[0][0] else points[-1][1]
