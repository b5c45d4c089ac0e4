"""Tables and colours for terminals, as kubectl aligns them."""

from collections.abc import Sequence
from typing import Final

RED, GREEN, YELLOW, BOLD, FAINT, PLAIN = "\033[31m", "\033[32m", "\033[33m", "\033[1m", "\033[2m", "\033[0m"
GAP: Final = "   "


class Painter:
    """Colours text, or leaves it as it is."""

    def __init__(self, colours: bool) -> None:
        self._colours = colours

    def __call__(self, text: str, colour: str) -> str:
        return f"{colour}{text}{PLAIN}" if self._colours and colour else text


def aligned(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Returns the rows with columns of equal width; the columns in `right` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [GAP.join(_cell(cell, widths, place, right) for place, cell in enumerate(row)).rstrip() for row in rows]


def _cell(cell: str, widths: Sequence[int], place: int, right: frozenset[int]) -> str:
    return cell.rjust(widths[place]) if place in right else cell.ljust(widths[place])
