"""What plugins answer: one code a node, and why.

A filter answers with columns, not objects: `codes[i]` says what happens next with the i-th node asked about,
`causes[i]` is a number of the plugin's own (a bit set of short resources, the id of a taint set, ...) that `describe`
turns into words. Words are made only when somebody reads them, once a distinct cause and never once a node.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Rows = slice | NDArray[np.intp]
"""Which rows of the table are asked about: a slice where they lie side by side, else their numbers."""


def row_numbers(rows: Rows) -> NDArray[np.intp]:
    return np.arange(rows.start, rows.stop, dtype=np.intp) if isinstance(rows, slice) else rows


def row_count(rows: Rows) -> int:
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


Int64Column = NDArray[np.int64]
BoolColumn = NDArray[np.bool_]


class Code(IntEnum):
    """What a verdict means for what happens next."""

    FITS = 0
    UNSCHEDULABLE = 1  # does not fit, but removing pods from the node may help
    UNRESOLVABLE = 2  # does not fit, and nothing that is done on this node helps
    WAIT = 3  # not now: something that is under way has to end first
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
    """A filter's answer for k nodes: `codes` int8[k] of Code, `causes` int64[k] (0 where the node fits).

    The causes may be given as a function that works them out: they are read only when somebody asks why.
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
        """bool[k]; shared: read it, never write it."""
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
        """bool[k]: where the plugin failed; None, if nowhere."""
        if self._fails is None:
            self._fails = not self.all_fit and bool(self.codes.max() == Code.ERROR)
        if not self._fails:
            return None
        return np.asarray(self.codes == Code.ERROR)

    def at(self, positions: NDArray[np.intp] | BoolColumn) -> "Verdicts":
        """Those at these positions."""
        return Verdicts(self.codes[positions], lambda: np.asarray(self.causes[positions]), self.describe)

    def laid_over(self, positions: NDArray[np.intp], others: "Verdicts") -> "Verdicts":
        """These, with what another answer of the same plugin about the same pod says at these positions."""
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
    """The answer of a plugin that has one code and one reason."""
    codes = refused.astype(np.int8)
    if code is not Code.UNSCHEDULABLE:
        codes *= np.int8(code)
    return Verdicts(codes, lambda: refused.astype(np.int64), lambda cause: (reason,))


@dataclass(frozen=True, slots=True)
class PreFilter:
    """What a plugin says of a pod before any node is looked at.

    `skip`: it has nothing to say of this pod. `code` other than FITS: no node can take the pod, for `reasons`.
    `nodes`: the only ones it leaves to look at. `unsupported`: the refusal is not Kubernetes' answer but ours, because
    the pod asks for something that this version does not judge.
    """

    skip: bool = False
    code: Code = Code.FITS
    reasons: tuple[str, ...] = ()
    nodes: frozenset[str] | None = None
    unsupported: bool = False


PROCEED = PreFilter()
SKIP = PreFilter(skip=True)
