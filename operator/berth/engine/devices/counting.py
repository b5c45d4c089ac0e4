"""Answers for all nodes at once, where counting devices is enough.

If every request in turn finds enough free devices behind those that the requests before it take, what they take is the
first solution of the search. If the first request does not, there is none. In all other cases, and where a device needs
more than selectors and taints, the node is left to the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.model.devices import DeviceClass, DeviceRequest, ResourceClaim
from berth.model.devices.limits import MOST_RESULTS

from .columns import DeviceColumns
from .selection import SelectorAnswers

REFUSED: Final = 0
FITS: Final = 1
SEARCH: Final = 2

Rows = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """`codes` int8[nodes]: FITS, REFUSED or SEARCH; `taken` bool[rows] for each request: valid where the node fits."""

    codes: NDArray[np.int8]
    taken: tuple[Rows, ...]


def countable(claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass]) -> bool:
    """Whether counting can say anything about claims like these."""
    for claim in claims:
        if claim.constraints or sum(request.count for request in claim.requests) > MOST_RESULTS:
            return False
        if not all(_is_plain(request, classes) for request in claim.requests):
            return False
    return True


def count_devices(
    columns: DeviceColumns,
    in_use: Rows,
    claims: Sequence[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    answers: SelectorAnswers,
) -> Counted:
    """What counting says of every node, for claims that are countable; `in_use` is bool[rows]."""
    codes = np.where(columns.whole, np.int8(FITS), np.int8(SEARCH))
    used, taken = in_use.copy(), list[Rows]()
    requests = [request for claim in claims for request in claim.requests]
    for place, request in enumerate(requests):
        selected, failing = _selected(columns, request, classes[request.device_class], answers)
        free = ~used
        tolerated = _tolerated(columns, request)[columns.taints]
        # An evaluation that fails, or a special device, may decide: the search knows.
        doubtful = _nodes(columns, free & (failing | selected & columns.special))
        found = free & selected & tolerated
        enough = _per_node(columns, found) >= request.count
        codes[(codes == FITS) & doubtful] = SEARCH
        codes[(codes == FITS) & ~enough] = REFUSED if place == 0 else SEARCH
        chosen = found & (_rank(columns, found) <= request.count)
        taken.append(chosen)
        used |= chosen
    return Counted(codes, tuple(taken))


def _is_plain(request: DeviceRequest, classes: Mapping[str, DeviceClass]) -> bool:
    selectors = request.selectors
    return (
        request.known
        and not request.alternatives
        and request.mode == "ExactCount"
        and not request.admin_access
        and not request.capacity
        and request.device_class in classes
        and all(selector.expression is not None for selector in selectors)
    )


def _selected(
    columns: DeviceColumns, request: DeviceRequest, device_class: DeviceClass, answers: SelectorAnswers
) -> tuple[Rows, Rows]:
    """bool[rows] twice: which devices all selectors select, and for which an evaluation fails before one says no."""
    selected = np.ones(len(columns.rows), dtype=np.bool_)
    failing = np.zeros(len(columns.rows), dtype=np.bool_)
    for selector in (*device_class.selectors, *request.selectors):
        yes, error = answers.columns(selector.expression or "", columns.shape)
        failing |= selected & error
        selected &= yes
    return selected, failing


def _tolerated(columns: DeviceColumns, request: DeviceRequest) -> Rows:
    """bool[taint sets]."""
    tolerations = request.tolerations
    return np.array(
        [
            all(any(toleration.tolerates(taint) for toleration in tolerations) for taint in taints)
            for taints in columns.taint_sets
        ],
        dtype=np.bool_,
    )


def _per_node(columns: DeviceColumns, rows: Rows) -> NDArray[np.int64]:
    """int64[nodes]: how many of the rows each node has."""
    return np.bincount(columns.node[rows], minlength=len(columns.whole))


def _nodes(columns: DeviceColumns, rows: Rows) -> Rows:
    return _per_node(columns, rows) > 0


def _rank(columns: DeviceColumns, rows: Rows) -> NDArray[np.int64]:
    """int64[rows]: the how manieth of these rows of its node each is."""
    total: NDArray[np.int64] = np.cumsum(rows, dtype=np.int64)
    before = np.concatenate([[0], total])[columns.starts]
    return total - before[columns.node] if len(rows) else total
