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


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A filter's answer for k nodes: `codes` int8[k] of Code, `causes` int64[k] (0 where the node fits)."""

    codes: NDArray[np.int8]
    causes: Int64Column
    describe: Callable[[int], tuple[str, ...]]

    def reasons(self, position: int) -> tuple[str, ...]:
        return self.describe(int(self.causes[position]))


def refuse_where(refused: BoolColumn, code: Code, reason: str) -> Verdicts:
    """The answer of a plugin that has one code and one reason."""
    codes = refused.astype(np.int8)
    if code is not Code.UNSCHEDULABLE:
        codes *= np.int8(code)
    return Verdicts(codes, refused.astype(np.int64), lambda cause: (reason,))


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
