"""What selectors say of devices: one array for each text, with one answer for each shape of devices.

Shapes number devices that no selector can tell apart, so 40,000 devices of a few models cost a few evaluations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.model.devices import Device

from .inventory import DeviceShapes

_UNASKED: Final = -1
_NO: Final = 0
_YES: Final = 1
_ERROR: Final = 2
_MOST_TEXTS: Final = 1_000


class SelectorFailed(Exception):
    """A selector has no answer for a device; the text is "CEL compile error: ..." or "CEL runtime error: ..."."""


# Says yes or no of a device of a driver, or raises SelectorFailed. What evaluates expressions is no part of the engine.
Evaluate = Callable[[str, str, Device], bool]


class SelectorAnswers:
    """Cached answers: int8[shapes] for each text, and the errors beside them."""

    def __init__(self, shapes: DeviceShapes, evaluate: Evaluate) -> None:
        self._shapes, self._evaluate = shapes, evaluate
        self._answers: dict[str, NDArray[np.int8]] = {}
        self._errors: dict[tuple[str, int], str] = {}

    def matches(self, text: str, shape: int) -> bool:
        """Whether the selector selects devices of this shape; raises SelectorFailed."""
        answers = self._array(text, shape)
        said = int(answers[shape])
        if said == _UNASKED:
            said = answers[shape] = self._ask(text, shape)
        if said == _ERROR:
            raise SelectorFailed(self._errors[text, shape])
        return said == _YES

    def columns(self, text: str, shapes: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """bool[rows] twice, for the shapes of the rows: whether the selector selects them, and whether it fails."""
        answers = self._array(text, len(self._shapes.examples) - 1)
        for shape in np.unique(shapes[answers[shapes] == _UNASKED]).tolist():
            answers[shape] = self._ask(text, shape)
        said = answers[shapes]
        return said == _YES, said == _ERROR

    def _array(self, text: str, shape: int) -> NDArray[np.int8]:
        known = self._answers.get(text)
        if known is None:
            if len(self._answers) >= _MOST_TEXTS:
                self._answers.clear()
                self._errors.clear()
            known = self._answers[text] = np.full(len(self._shapes.examples), _UNASKED, dtype=np.int8)
        if shape >= len(known):
            more = np.full(len(self._shapes.examples) - len(known), _UNASKED, dtype=np.int8)
            known = self._answers[text] = np.concatenate([known, more])
        return known

    def _ask(self, text: str, shape: int) -> int:
        driver, device = self._shapes.examples[shape]
        try:
            return _YES if self._evaluate(text, driver, device) else _NO
        except SelectorFailed as error:
            self._errors[text, shape] = str(error)
            return _ERROR
