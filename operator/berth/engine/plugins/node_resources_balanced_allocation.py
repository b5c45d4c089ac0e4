"""NodeResourcesBalancedAllocation: likes nodes on which the pod makes the shares of the resources more alike.

With std the standard deviation of the taken shares (each at most 1) over the resources that the node has:
    balance = int((1 - std) * 100), with the pod and without it
    score   = 50 + (50 + balance with - balance without) / 2
A pod that asks for none of the resources says nothing about balance and is skipped.

Arguments: resources (names; all weigh 1).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.allocation import allocation, parse_resources, pod_amount
from berth.engine.plugin import MAX_SCORE, Plugin, Query, refuse_unknown
from berth.engine.state import State
from berth.engine.verdict import Int64Column, Rows

_HALF = MAX_SCORE // 2


class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"
    scores = True

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "resources")
        self._resources = parse_resources(args.get("resources"), "resources", highest_weight=1)

    def pre_score(self, query: Query, state: State) -> bool:
        return any(pod_amount(query, resource.name, with_defaults=False) for resource in self._resources)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        nodes = allocation(query, state.table, rows, self._resources, with_defaults=False)
        gain = _balance(nodes.requested, nodes.allocatable) - _balance(nodes.allocated, nodes.allocatable)
        return _HALF + (_HALF + gain) // 2


def _balance(taken: NDArray[np.int64], have: NDArray[np.int64]) -> Int64Column:
    """int64[nodes], 50..100. Floats in kube-scheduler's order of operations, so that the cut falls where its does."""
    counts = have != 0
    shares = np.minimum(taken / np.maximum(have, 1), 1.0)
    spread = np.abs((shares[0] - shares[1]) / 2) if len(have) == 2 else _deviation(shares, counts)
    if not counts.all():
        spread = np.where(counts.all(axis=0), spread, _deviation(shares, counts))
    return ((1 - spread) * float(MAX_SCORE)).astype(np.int64)


def _deviation(shares: NDArray[np.float64], counts: NDArray[np.bool_]) -> NDArray[np.float64]:
    """float[nodes]: the standard deviation over the resources that count on the node; of two, half their distance."""
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
