"""How far a long simulation is: one line on a terminal, rewritten now and then, gone at the end."""

import sys
import time
from typing import Final, TextIO

AFTER_SECONDS: Final = 2.0
EVERY_SECONDS: Final = 0.2
ERASE: Final = "\r\033[K"


class Progress:
    """Shows texts on standard error if that is a terminal, and only if it takes longer than a moment."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = self._stream.isatty()
        self._due = time.monotonic() + AFTER_SECONDS
        self._has_text = False

    def __call__(self, text: str) -> None:
        if self._is_shown and time.monotonic() >= self._due:
            self._due = time.monotonic() + EVERY_SECONDS
            self._has_text = True
            print(f"{ERASE}{text}", end="", file=self._stream, flush=True)

    def end(self) -> None:
        if self._has_text:
            print(ERASE, end="", file=self._stream, flush=True)
