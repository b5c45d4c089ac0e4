"""The text that the demo ends with: the result, and what to try next.

On a terminal it must leave room for the bars of the zones above it: what matters least is left out first.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClosingText:
    """The parts in their order. `result` and `next_steps` are always shown."""

    result: str
    table: Sequence[str] = ()
    pending: Sequence[str] = ()
    policy: str = ""
    problems: Sequence[str] = ()
    next_steps: Sequence[str] = ()

    def whole(self) -> list[str]:
        """Returns all lines, with empty ones between the parts, as long as they are."""
        details = [*self.pending, *([self.policy] if self.policy else [])]
        parts = [[self.result], self.table, details, self.problems, self.next_steps]
        return [line for part in parts if part for line in ("", *part)]

    def fit(self, width: int, height: int) -> list[str]:
        """Returns as many lines as fit; problems and next steps are there in any case."""
        for lines in self._ever_shorter(width):
            if lines_on_screen(lines, width) <= height:
                return lines
        return self._must(width)

    def _ever_shorter(self, width: int) -> list[list[str]]:
        result, problems = textwrap.wrap(self.result, width), _wrap(self.problems, width)
        pending = [line for text in self.pending for line in textwrap.wrap(text, width)]
        short = [text if len(text) <= width else f"{text[: width - 1]}…" for text in self.pending]
        policy, table, steps = textwrap.wrap(self.policy, width), list(self.table), list(self.next_steps)
        return [
            ["", *result, "", *table, "", *pending, *policy, *problems, "", *steps],
            [*result, *table, *pending, *policy, *problems, *steps],
            [*result, *table, *short, *policy, *problems, *steps],
            [*result, *table, *policy, *problems, *steps],
            [*result, *table, *problems, *steps],
        ]

    def _must(self, width: int) -> list[str]:
        return [*textwrap.wrap(self.result, width), *_wrap(self.problems, width), *self.next_steps]


def _wrap(texts: Sequence[str], width: int) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(text, width)]


def lines_on_screen(lines: Sequence[str], width: int) -> int:
    """How many lines a terminal needs for them."""
    return sum(max(1, -(-len(line) // width)) for line in lines)
