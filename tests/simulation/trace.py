"""What happened in a run, line by line, so that the lines about one pod or node can be shown alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from typing import NamedTuple

SHOWN = 40
SHOWN_OF_ALL = 12  # lines that are about everything: kills, pauses, outages


class Line(NamedTuple):
    seconds: float
    text: str
    subjects: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.seconds:10.3f}  {self.text}"


class Violation(Exception):
    """An invariant does not hold; `subjects` are the pods and nodes that it is about."""

    def __init__(self, invariant: str, message: str, *subjects: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant
        self.subjects = subjects


class Trace:
    """`show` is given every line as it is written."""

    def __init__(self, now: Callable[[], float], show: Callable[[str], None] | None = None) -> None:
        self._now = now
        self._show = show
        self._lines: list[Line] = []
        self.violation: Violation | None = None

    def note(self, text: str, *subjects: str) -> None:
        line = Line(self._now(), text, subjects)
        self._lines.append(line)
        if self._show is not None:
            self._show(str(line))

    def violate(self, invariant: str, message: str, *subjects: str) -> None:
        """Take it down; whoever steps raises it. Raised here, it might end in a handler of the code that is judged."""
        if self.violation is None:
            self.violation = Violation(invariant, message, *subjects)
            self.note(f"*** {self.violation}", *subjects)

    def __len__(self) -> int:
        return len(self._lines)

    def digest(self) -> str:
        """The same for two runs in which the same happened."""
        return hashlib.sha256("\n".join(map(str, self._lines)).encode()).hexdigest()[:16]

    def about(self, subjects: Collection[str], count: int = SHOWN) -> list[str]:
        """The last lines about any of these, and what happened to everything meanwhile; the last lines of all where
        none is named.
        """
        wanted = set(subjects)
        if not wanted:
            return [str(line) for line in self._lines[-count:]]
        shown = [number for number, line in enumerate(self._lines) if wanted.intersection(line.subjects)][-count:]
        general = [number for number, line in enumerate(self._lines) if not line.subjects][-SHOWN_OF_ALL:]
        return [str(self._lines[number]) for number in sorted({*shown, *general})]
