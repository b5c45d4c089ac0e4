"""Regular expressions in linear time, with the syntax of RE2: an expression of a user must not stop the scheduler.

Python's own engine backtracks, and takes 2^64 steps for `(a+)+$` on a text of 64 letters. Here a pattern becomes
instructions for a machine that follows all possibilities at once (Pike's), so that a search costs at most the length of
the text times the number of instructions. Among matches the leftmost wins, then the one that the pattern prefers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from .patterns import Assertion, BadPattern, Character, Choice, Repeat, Sequence, parse_pattern
from .values import EvaluationError

_MOST_INSTRUCTIONS: Final = 20_000
_CACHED: Final = 256


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern matches anywhere in the text."""
    return _compiled(pattern).search(text, 0) is not None


def find(text: str, pattern: str) -> str:
    """The first match, "" without one."""
    found = _compiled(pattern).search(text, 0)
    return text[found[0] : found[1]] if found else ""


def find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    """At most so many matches that do not overlap; all of them for a negative number."""
    program, found, at, last_end = _compiled(pattern), list[str](), 0, -1
    while at <= len(text) and (most < 0 or len(found) < most):
        match = program.search(text, at)
        if match is None:
            break
        start, end = match
        if end > at or start != last_end:
            found.append(text[start:end])
        at = end if end > at else at + 1
        last_end = end
    return found


@lru_cache(maxsize=_CACHED)
def _compile(pattern: str) -> _Machine | str:
    try:
        return _Machine(parse_pattern(pattern))
    except BadPattern as error:
        return str(error)


def _compiled(pattern: str) -> _Machine:
    made = _compile(pattern)
    if isinstance(made, str):
        raise EvaluationError(f"error parsing regexp: {made}")
    return made


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with a pattern, None for a good one."""
    made = _compile(pattern)
    return made if isinstance(made, str) else None


# --- the machine


class _Machine:
    """Instructions: a test of a character, an assertion, (first, second) places to go on at, or None: a match."""

    def __init__(self, tree: Any) -> None:
        self._code: list[Any] = []
        self._emit(tree)
        self._code.append(None)

    def search(self, text: str, start: int) -> tuple[int, int] | None:
        """Where the leftmost match from `start` on begins and ends."""
        threads: list[tuple[int, int]] = []
        found: tuple[int, int] | None = None
        for at in range(start, len(text) + 1):
            seen: set[int] = set()
            ready: list[tuple[int, int]] = []
            entering = threads if found else [*threads, (0, at)]
            for place, begin in entering:
                ready.extend((reached, begin) for reached in self._reach(place, text, at, seen))
            threads = []
            for place, begin in ready:
                instruction = self._code[place]
                if instruction is None:
                    found = (begin, at)
                    break  # what follows is less preferred
                if at < len(text) and instruction.test(text[at]):
                    threads.append((place + 1, begin))
            if found and not threads:
                return found
        return found

    def _reach(self, place: int, text: str, at: int, seen: set[int]) -> Iterator[int]:
        """The tests of characters and matches that are reached without a character, in the order of preference."""
        pending = [place]
        while pending:
            here = pending.pop()
            if here in seen:
                continue
            seen.add(here)
            instruction = self._code[here]
            if isinstance(instruction, list):
                pending.extend(reversed(instruction))
            elif isinstance(instruction, Assertion):
                if instruction.holds(text, at):
                    pending.append(here + 1)
            else:
                yield here

    def _emit(self, tree: Any) -> None:
        if len(self._code) > _MOST_INSTRUCTIONS:
            raise BadPattern("expression too large")
        match tree:
            case Character() | Assertion():
                self._code.append(tree)
            case Sequence():
                for part in tree.parts:
                    self._emit(part)
            case Choice():
                self._emit_choice(tree)
            case Repeat():
                self._emit_repeat(tree)

    def _emit_choice(self, tree: Choice) -> None:
        ends: list[list[int]] = []
        for option in tree.options[:-1]:
            split: list[int] = []
            self._code.append(split)
            split.append(len(self._code))
            self._emit(option)
            end: list[int] = []
            self._code.append(end)
            ends.append(end)
            split.append(len(self._code))
        self._emit(tree.options[-1])
        for end in ends:
            end.append(len(self._code))

    def _emit_repeat(self, tree: Repeat) -> None:
        if tree.most is None:
            for _ in range(tree.least - 1):
                self._emit(tree.part)
            if tree.least:
                self._emit_plus(tree)
            else:
                self._emit_star(tree)
            return
        for _ in range(tree.least):
            self._emit(tree.part)
        splits = []
        for _ in range(tree.most - tree.least):
            split: list[int] = []
            self._code.append(split)
            splits.append((split, len(self._code)))
            self._emit(tree.part)
        for split, inside in splits:
            self._order(split, inside, len(self._code), greedy=tree.greedy)

    def _emit_plus(self, tree: Repeat) -> None:
        """The part, and again as often as it matches."""
        start = len(self._code)
        self._emit(tree.part)
        split: list[int] = []
        self._code.append(split)
        self._order(split, start, len(self._code), greedy=tree.greedy)

    def _emit_star(self, tree: Repeat) -> None:
        """A part that may match nothing becomes (part+)?, or else the preferred match would depend on its loop."""
        start = len(self._code)
        split: list[int] = []
        self._code.append(split)
        if _is_nullable(tree.part):
            self._emit_plus(tree)
        else:
            self._emit(tree.part)
            self._code.append([start])
        self._order(split, start + 1, len(self._code), greedy=tree.greedy)

    def _order(self, split: list[int], inside: int, after: int, *, greedy: bool) -> None:
        split += [inside, after] if greedy else [after, inside]


def _is_nullable(tree: Any) -> bool:
    """Whether it can match nothing."""
    match tree:
        case Sequence():
            return all(map(_is_nullable, tree.parts))
        case Choice():
            return any(map(_is_nullable, tree.options))
        case Repeat():
            return tree.least == 0 or _is_nullable(tree.part)
    return isinstance(tree, Assertion)
