"""NodeResourcesBalancedAllocation: prefers nodes on which the pod makes the usage of resources more balanced.

With std the standard deviation of the used shares (each at most 1) over the resources that the node has:
    balance = int((1 - std) * 100), with the pod and without it
    score   = 50 + (50 + balance with - balance without) / 2
A pod that requests none of the resources does not change the balance and is skipped.

Arguments: resources (names; all weigh 1).
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.plugin import MAX_SCORE, Dependencies, Query, ScorePlugin, nothing_else, refuse_unknown
from berth.engine.plugins.common.allocation import (
    CountedResource,
    Load,
    counted,
    loads,
    loads_without,
    parse_resources,
    pod_amount,
)
from berth.engine.state.node_table import NodeTable
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, Rows, row_count

_HALF = MAX_SCORE // 2
_START = 3 * _HALF  # 50 + (50 + with - without) / 2 = (150 - without + with) / 2


class NodeResourcesBalancedAllocation(ScorePlugin):
    name = "NodeResourcesBalancedAllocation"
    dependencies = Dependencies(node_local=True, version=nothing_else)

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "resources")
        self._resources = parse_resources(args.get("resources"), "resources", highest_weight=1)
        self._plan = f"NodeResourcesBalancedAllocation {self._resources}"

    def pre_score(self, query: Query, state: State) -> bool:
        return any(pod_amount(query, resource.name, with_defaults=False) for resource in self._resources)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        table, resources = state.table, self._counted(query, state)

        def start(rows: Rows) -> Int64Column:
            return _START - _balance([*loads_without(table, rows, resources, with_defaults=False)], row_count(rows))

        def start_of_row(row: int) -> int:
            return _START - _single_balance(_taken_shares(table, row, resources)[0])

        key = (self.name, *(resource.number for resource in resources))
        scores = _balance([*loads(table, rows, resources, with_defaults=False)], row_count(rows))
        scores += table.derived(key, start, start_of_row)[rows]
        scores >>= 1  # halves, rounded down
        return scores

    def score_row(self, query: Query, state: State, row: int) -> int:
        without, filled = _taken_shares(state.table, row, self._counted(query, state))
        if len(filled) == 2:  # `_single_balance` inlined: the hottest path, once for every pod
            before, after = abs(without[0] - without[1]), abs(filled[0] - filled[1])
            return (_START - int((2 - before) * _HALF) + int((2 - after) * _HALF)) // 2
        return (_START - _single_balance(without) + _single_balance(filled)) // 2

    def _counted(self, query: Query, state: State) -> tuple[CountedResource, ...]:
        resources: tuple[CountedResource, ...] | None = query.plan.get(self._plan)
        if resources is None:
            resources = query.plan[self._plan] = counted(query, state.table, self._resources, with_defaults=False)
        return resources


def _balance(resources: Sequence[Load], nodes: int) -> Int64Column:
    """Returns int64[nodes], 50..100. Floats in kube-scheduler's order of operations, so that truncation is the same."""
    taken = [_share(load) for load in resources]
    if len(resources) == 2 and all(load.everywhere for load in resources):
        doubled = taken[0]  # twice the deviation: halving is exact, and done once
        doubled -= taken[1]
        np.abs(doubled, out=doubled)
    else:
        counts = np.array([load.have != 0 for load in resources]).reshape(-1, nodes)
        doubled = 2.0 * _deviation(np.array(taken).reshape(-1, nodes), counts)
    np.subtract(2, doubled, out=doubled)
    doubled *= float(MAX_SCORE) / 2
    balance: Int64Column = doubled.astype(np.int64)
    return balance


def _share(load: Load) -> NDArray[np.float64]:
    filled = load.filled()
    if filled.dtype.kind == "f":
        return np.divide(filled, load.divisor, out=filled)
    share: NDArray[np.float64] = filled / load.divisor
    return share


def _taken_shares(table: NodeTable, row: int, resources: Sequence[CountedResource]) -> tuple[list[float], list[float]]:
    """Returns the used shares of the resources that a node has, without the pod and with it."""
    without, filled = [], []
    allocatable, used = table.cells[:2]
    for number, amount, _ in resources:
        at = number, row
        have = allocatable[at]
        if have:
            taken, whole = used[at], float(have)  # float division, as in kube-scheduler
            without.append(taken / whole if taken < have else 1.0)
            taken += amount
            filled.append(taken / whole if taken < have else 1.0)
    return without, filled


def _single_balance(taken: Sequence[float]) -> int:
    """`_balance` of one node."""
    if len(taken) == 2:
        spread = abs(taken[0] - taken[1]) / 2
    elif len(taken) > 2:
        total = squares = 0.0  # in a loop: sum() compensates rounding errors, and kube-scheduler does not
        for share in taken:
            total += share
        mean = total / len(taken)
        for share in taken:
            squares += (share - mean) * (share - mean)
        spread = sqrt(squares / len(taken))
    else:
        spread = 0.0
    return int((1 - spread) * float(MAX_SCORE))


def _deviation(shares: NDArray[np.float64], counts: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Returns float[nodes]: the standard deviation over the resources of the node; for two, half their distance."""
    of = counts.sum(axis=0)
    counted = np.where(counts, shares, 0.0)
    total, squares = np.zeros(shares.shape[1]), np.zeros(shares.shape[1])
    for share in counted:
        total = total + share
    mean = total / np.maximum(of, 1)
    for share, counts_here in zip(counted, counts, strict=True):
        squares = squares + np.where(counts_here, (share - mean) * (share - mean), 0.0)
    spread = np.where(of > 2, np.sqrt(squares / np.maximum(of, 1)), 0.0)
    if len(shares) >= 2:
        first, second = np.take_along_axis(counted, np.argsort(~counts, axis=0, kind="stable"), axis=0)[:2]
        spread = np.where(of == 2, np.abs((first - second) / 2), spread)
    return np.asarray(spread, dtype=np.float64)
