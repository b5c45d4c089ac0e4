"""The last changes, so that an attempt can be told what happened since it began.

One log for all attempts that are under way: what a change costs does not hang on how many there are. It is bounded;
an attempt that began before the oldest change that is still there learns that it has missed something.
"""

from collections import deque
from typing import Final

from berth.engine.events import Change

MOST_KEPT: Final = 256


class ChangeLog:
    def __init__(self, most: int = MOST_KEPT) -> None:
        self._changes: deque[Change] = deque(maxlen=most)
        self._noted = 0

    @property
    def mark(self) -> int:
        """Now, for `since`."""
        return self._noted

    def note(self, change: Change) -> None:
        self._noted += 1
        self._changes.append(change)

    def since(self, mark: int) -> list[Change] | None:
        """What was noted since then, the oldest first; None where some of it is not kept any more."""
        missed = self._noted - mark
        if missed > len(self._changes):
            return None
        return list(self._changes)[len(self._changes) - missed :]

    def clear(self) -> None:
        """Nobody is left who would ask."""
        self._changes.clear()

    def __len__(self) -> int:
        return len(self._changes)
