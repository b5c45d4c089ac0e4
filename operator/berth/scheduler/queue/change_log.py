"""Change log: the latest events, for attempts that were running when they occurred.

All running attempts share one log, so the cost of an event does not depend on their number. The log is bounded: an
attempt that began before the oldest logged event learns that it has missed some.
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
        """The current position, for `since`."""
        return self._noted

    def note(self, change: Change) -> None:
        self._noted += 1
        self._changes.append(change)

    def since(self, mark: int) -> list[Change] | None:
        """The changes since this position, oldest first; None if some of them are no longer in the log."""
        missed = self._noted - mark
        if missed > len(self._changes):
            return None
        return list(self._changes)[len(self._changes) - missed :]

    def clear(self) -> None:
        """Drop all changes: no attempt needs them."""
        self._changes.clear()

    def __len__(self) -> int:
        return len(self._changes)
