"""What all benchmarks say and read at the terminal."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TextIO

BOLD, DIM, GREEN, RED, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[0m"


def say(text: str) -> None:
    """How far it is; figures go to standard output."""
    print(text, file=sys.stderr, flush=True)


def coloured(stream: TextIO) -> bool:
    """Whether people look at it who have not asked for plain text (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Progress:
    """Headings and results as lines; steps as one line that is written over on a terminal, indented elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = coloured(self._stream)

    def heading(self, text: str) -> None:
        self._line(f"{BOLD}{text}{PLAIN}" if self._live else text)

    def step(self, text: str) -> None:
        if self._live:
            print(f"\r\x1b[K  {DIM}{text}{PLAIN}", end="", file=self._stream, flush=True)
        else:
            self._line(f"  {text}")

    def note(self, text: str) -> None:
        """What is worth to stay."""
        self._line(f"  {text}")

    def result(self, text: str) -> None:
        self._line(f"  {GREEN}{text}{PLAIN}" if self._live else f"  {text}")

    def failure(self, text: str) -> None:
        self._line(f"  {RED}{text}{PLAIN}" if self._live else f"  {text}")

    def _line(self, text: str) -> None:
        print(f"\r\x1b[K{text}" if self._live else text, file=self._stream, flush=True)


def positive(text: str) -> int:
    """The value of an option that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 up")
    return int(text)
