"""Colours for lines on a terminal."""

from typing import Final

from berth.explain.records import PodState

RED, GREEN, YELLOW, BOLD, DIM, PLAIN = "\033[31m", "\033[32m", "\033[33m", "\033[1m", "\033[2m", "\033[0m"
_GOOD: Final = (PodState.BOUND, PodState.BINDING)
_BAD: Final = (PodState.UNSCHEDULABLE, PodState.NOT_SERVED, PodState.INVALID)


def coloured(lines: list[str], state: PodState) -> list[str]:
    """Returns the lines with the first in the colour of the state, and details dimmed."""
    colour = GREEN if state in _GOOD else RED if state in _BAD else YELLOW
    first = f"{BOLD}{colour}{lines[0]}{PLAIN}"
    return [first, *(f"{DIM}{line}{PLAIN}" if _is_detail(line) else line for line in lines[1:])]


def _is_detail(line: str) -> bool:
    """Whether the line belongs to the one above it, and is no numbered advice."""
    return line.startswith("  ") and not line.strip()[:1].isdigit()
