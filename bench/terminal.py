"""What all benchmarks say and read at the terminal."""

from __future__ import annotations

import argparse
import sys


def say(text: str) -> None:
    """How far it is; figures go to standard output."""
    print(text, file=sys.stderr, flush=True)


def positive(text: str) -> int:
    """The value of an option that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 up")
    return int(text)
