"""Verdicts: the result of a filter, one status code per node, and the reasons.

A filter returns columns, not one Status object per node. `codes[i]` is the status code of the i-th node. `causes[i]` is
a number that the plugin chooses (a bit set of insufficient resources, the id of a taint set, ...). `describe` turns it
into text. Text is made only when it is read, once per distinct cause and never per node.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Rows = slice | NDArray[np.intp]
"""Rows of the node table: a slice if they are contiguous, else their numbers."""


def row_numbers(rows: Rows) -> NDArray[np.intp]:
    return np.arange(rows.start, rows.stop, dtype=np.intp) if isinstance(rows, slice) else rows


def row_count(rows: Rows) -> int:
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


Int64Column = NDArray[np.int64]
BoolColumn = NDArray[np.bool_]


class Code(IntEnum):
    """The status codes of kube-scheduler's framework (`kubernetes_name`)."""

    FITS = 0
    UNSCHEDULABLE = 1  # does not fit, but preemption may help
    UNRESOLVABLE = 2  # does not fit, and preemption does not help
    WAIT = 3  # does not fit until something that is in progress ends
    ERROR = 4  # the plugin failed

    @property
    def kubernetes_name(self) -> str:
        return _KUBERNETES_NAMES[self]


_KUBERNETES_NAMES = {
    Code.FITS: "Success",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Pending",
    Code.ERROR: "Error",
}


class Verdicts:
    """The result of a filter for k nodes: `codes` int8[k] of Code, `causes` int64[k] (0 where the node fits).

    The causes may be passed as a function: they are computed only if a diagnosis needs them.
    """

    __slots__ = ("_all_fit", "_causes", "_fails", "_fits", "codes", "describe")

    def __init__(
        self,
        codes: NDArray[np.int8],
        causes: Int64Column | Callable[[], Int64Column],
        describe: Callable[[int], tuple[str, ...]],
    ) -> None:
        self.codes = codes
        self.describe = describe
        self._causes = causes
        self._fits: BoolColumn | None = None
        self._all_fit: bool | None = None
        self._fails: bool | None = None

    @property
    def causes(self) -> Int64Column:
        if callable(self._causes):
            self._causes = self._causes()
        return self._causes

    @property
    def fits(self) -> BoolColumn:
        """bool[k]; shared: callers must not write it."""
        if self._fits is None:
            self._fits = self.codes == 0
        return self._fits

    @property
    def all_fit(self) -> bool:
        if self._all_fit is None:
            self._all_fit = not self.codes.any()
        return self._all_fit

    @property
    def failed(self) -> BoolColumn | None:
        """bool[k]: where the plugin failed; None if it did not fail anywhere."""
        if self._fails is None:
            self._fails = not self.all_fit and bool(self.codes.max() == Code.ERROR)
        if not self._fails:
            return None
        return np.asarray(self.codes == Code.ERROR)

    def at(self, positions: NDArray[np.intp] | BoolColumn) -> "Verdicts":
        """Returns the verdicts at these positions."""
        return Verdicts(self.codes[positions], lambda: np.asarray(self.causes[positions]), self.describe)

    def laid_over(self, positions: NDArray[np.intp], others: "Verdicts") -> "Verdicts":
        """Returns a copy with other verdicts of the same plugin for the same pod at these positions.

        Causes of the others are stored as negative numbers, so that `describe` can tell them apart.
        """
        codes = self.codes.copy()
        codes[positions] = others.codes
        return Verdicts(
            codes,
            lambda: _laid_over(self.causes, positions, -1 - others.causes),
            lambda cause: self.describe(cause) if cause >= 0 else others.describe(-1 - cause),
        )

    def reasons(self, position: int) -> tuple[str, ...]:
        return self.describe(int(self.causes[position]))


def _laid_over(column: Int64Column, positions: NDArray[np.intp], others: Int64Column) -> Int64Column:
    result = column.copy()
    result[positions] = others
    return result


def refuse_where(refused: BoolColumn, code: Code, reason: str) -> Verdicts:
    """Returns the verdicts of a plugin that has a single code and a single reason."""
    codes = refused.astype(np.int8)
    if code is not Code.UNSCHEDULABLE:
        codes *= np.int8(code)
    return Verdicts(codes, lambda: refused.astype(np.int64), lambda cause: (reason,))


@dataclass(frozen=True, slots=True)
class PreFilter:
    """The result of a plugin's PreFilter.

    `skip`: Filter is not called for this pod. `code` other than FITS: the pod is rejected on all nodes, for `reasons`.
    `nodes`: the only nodes to evaluate (PreFilterResult). `unsupported`: kube-scheduler would not reject the pod; Berth
    does, because the pod needs something that Berth does not support.
    """

    skip: bool = False
    code: Code = Code.FITS
    reasons: tuple[str, ...] = ()
    nodes: frozenset[str] | None = None
    unsupported: bool = False


PROCEED = PreFilter()
SKIP = PreFilter(skip=True)
