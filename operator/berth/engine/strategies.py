"""The scoring strategies of NodeResourcesFit: how full a node may look to be liked.

LeastAllocated             the free share, weighed over the resources: (allocatable - requested) * 100 / allocatable
MostAllocated              the taken share: requested * 100 / allocatable
RequestedToCapacityRatio   the taken share sent through a broken line of your own (`shape`), resources that score 0 left
                           out of the mean, rounded half up

All divisions cut to whole numbers, as kube-scheduler's do.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.allocation import (
    DEFAULT_RESOURCES,
    Allocation,
    WeighedResource,
    parse_resources,
    require_integer,
    require_list,
    require_object,
)
from berth.engine.plugin import MAX_SCORE, BadArgument
from berth.engine.verdict import Int64Column

TYPES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
MAX_SHAPE_SCORE = 10

Scorer = Callable[[Allocation], Int64Column]


def parse_strategy(value: Any) -> tuple[tuple[WeighedResource, ...], Scorer]:
    """The resources that a `scoringStrategy` looks at, and the function that scores them."""
    if value is None:
        return DEFAULT_RESOURCES, _weighed_mean(DEFAULT_RESOURCES, _free_share)
    field = "scoringStrategy"
    strategy = require_object(value, field, "type", "resources", "requestedToCapacityRatio")
    resources = parse_resources(strategy.get("resources"), f"{field}.resources")
    kind = strategy.get("type", TYPES[0])
    if kind not in TYPES:
        raise BadArgument(f"{field}.type", f"must be one of {', '.join(TYPES)}")
    ratio = strategy.get("requestedToCapacityRatio")
    if kind == "RequestedToCapacityRatio":
        line = _parse_shape(ratio, f"{field}.requestedToCapacityRatio")
        return resources, _along_line(resources, line)
    if ratio is not None:
        raise BadArgument(f"{field}.requestedToCapacityRatio", f"has no meaning with type {kind}")
    return resources, _weighed_mean(resources, _free_share if kind == "LeastAllocated" else _taken_share)


def _free_share(have: NDArray[np.int64], taken: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(taken > have, 0, (have - taken) * MAX_SCORE // np.maximum(have, 1))


def _taken_share(have: NDArray[np.int64], taken: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.minimum(taken, have) * MAX_SCORE // np.maximum(have, 1)


def _weighed_mean(
    resources: Sequence[WeighedResource],
    share: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]],
) -> Scorer:
    weights = np.array([[resource.weight] for resource in resources], dtype=np.int64)

    def score(nodes: Allocation) -> Int64Column:
        counts = nodes.allocatable != 0
        total = (share(nodes.allocatable, nodes.requested) * weights * counts).sum(axis=0)
        return np.asarray(total // np.maximum((weights * counts).sum(axis=0), 1), dtype=np.int64)

    return score


def _along_line(resources: Sequence[WeighedResource], line: NDArray[np.int64]) -> Scorer:
    weights = np.array([[resource.weight] for resource in resources], dtype=np.int64)

    def score(nodes: Allocation) -> Int64Column:
        scores = line[_taken_share(nodes.allocatable, nodes.requested)]
        counts = (nodes.allocatable != 0) & (scores > 0)
        total = (scores * weights * counts).sum(axis=0)
        mean = total / np.maximum((weights * counts).sum(axis=0), 1)
        return np.asarray(np.floor(mean + 0.5), dtype=np.int64)

    return score


def _parse_shape(value: Any, field: str) -> NDArray[np.int64]:
    """int64[101]: the score at each whole percentage of use."""
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
            return low + int((high - low) * (used - before) / (after - before))  # cut towards zero, as Go divides
    return points[0][1] if used <= points[0][0] else points[-1][1]
