"""The syntax of regular expressions, as RE2 has it: a pattern to a tree."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

_MOST_REPEATS: Final = 1_000

Test = Callable[[str], bool]


class BadPattern(Exception):
    """The pattern is not a regular expression."""


def parse_pattern(pattern: str) -> Any:
    """The tree of a pattern; raises BadPattern."""
    return _Parser(pattern).parse()


@dataclass(frozen=True, slots=True)
class Character:
    test: Test


@dataclass(frozen=True, slots=True)
class Assertion:
    holds: Callable[[str, int], bool]


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Any
    least: int
    most: int | None
    greedy: bool


class _Flags(NamedTuple):
    ignore_case: bool = False
    lines: bool = False
    dot_all: bool = False
    ungreedy: bool = False


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


_CLASSES: Final[dict[str, Test]] = {
    "d": lambda c: "0" <= c <= "9",
    "w": _is_word,
    "s": lambda c: c in "\t\n\f\r ",
}
_NAMED: Final[dict[str, Test]] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": str.isascii,
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": lambda c: "0" <= c <= "9",
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": _is_word,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}
_CONTROL: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _boundary(text: str, at: int) -> bool:
    before = at > 0 and _is_word(text[at - 1])
    return before != (at < len(text) and _is_word(text[at]))


def _negated(test: Test) -> Test:
    return lambda c: not test(c)


def _either(tests: list[Test]) -> Test:
    return lambda c: any(test(c) for test in tests)


def _same(wanted: str, ignore_case: bool) -> Test:
    if not ignore_case:
        return lambda c: c == wanted
    folded = {wanted, wanted.lower(), wanted.upper()}
    return lambda c: c in folded


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text, self._at, self._flags = pattern, 0, _Flags()

    def parse(self) -> Any:
        tree = self._choice()
        if self._at < len(self._text):
            raise BadPattern(f"unexpected ): `{self._text}`")
        return tree

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise BadPattern("trailing backslash at end of expression: ``")
        self._at += 1
        return character

    def _choice(self) -> Any:
        flags = self._flags
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        self._flags = flags
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Any:
        parts: list[Any] = []
        while self._peek() not in ("", "|", ")"):
            start = self._at
            if self._take("\\Q"):
                end = self._text.find("\\E", self._at)
                quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
                self._at += len(quoted) + (2 if end >= 0 else 0)
                parts += [Character(_same(c, self._flags.ignore_case)) for c in quoted]
                continue
            part = self._atom()
            if part is not None:
                parts.append(self._repeated(part, start))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    # --- repetition

    def _repeated(self, part: Any, start: int) -> Any:
        repeated = False
        while True:
            before = self._at
            bounds = self._bounds()
            if bounds is None:
                return part
            if repeated:
                raise BadPattern(f"invalid nested repetition operator: `{self._text[start : self._at]}`")
            greedy = not self._take("?")
            least, most = bounds
            if least > _MOST_REPEATS or (most or 0) > _MOST_REPEATS or (most is not None and most < least):
                raise BadPattern(f"invalid repeat count: `{self._text[before : self._at]}`")
            part, repeated, start = Repeat(part, least, most, greedy != self._flags.ungreedy), True, before

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        if self._peek() != "{":
            return None
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if (
            end < 0
            or not least.isdecimal()
            or not least.isascii()
            or (most and not (most.isascii() and most.isdecimal()))
        ):
            return None
        self._at = end + 1
        return int(least), int(most) if most else None if comma else int(least)

    # --- atoms

    def _atom(self) -> Any:
        character = self._next()
        flags = self._flags
        match character:
            case "(":
                return self._group()
            case "[":
                return Character(self._class())
            case ".":
                return Character((lambda c: True) if flags.dot_all else (lambda c: c != "\n"))
            case "^":
                return Assertion(_line_start if flags.lines else _text_start)
            case "$":
                return Assertion(_line_end if flags.lines else _text_end)
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise BadPattern(f"missing argument to repetition operator: `{character}`")
            case "{" if self._is_repeat():
                raise BadPattern("missing argument to repetition operator: `{`")
        return Character(_same(character, flags.ignore_case))

    def _is_repeat(self) -> bool:
        self._at -= 1
        before, bounds = self._at, self._bounds()
        self._at = before + 1
        return bounds is not None

    def _group(self) -> Any:
        flags = self._flags
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                end = self._text.find(">", self._at)
                name = self._text[self._at : end]
                if end < 0 or not name or not all(map(_is_word, name)):
                    raise BadPattern(f"invalid named capture: `{self._text[self._at - 3 :]}`")
                self._at = end + 1
            elif self._changes_flags():
                return None
        inside = self._choice()
        if not self._take(")"):
            raise BadPattern(f"missing closing ): `{self._text}`")
        self._flags = flags
        return inside

    def _changes_flags(self) -> bool:
        """Reads the flags after "(?"; whether the group ends with them, so that they are for what follows."""
        on, names = True, {"i": "ignore_case", "m": "lines", "s": "dot_all", "U": "ungreedy"}
        while True:
            character = self._peek()
            self._at += 1
            if character == ":":
                return False
            if character == ")":
                return True
            if character == "-" and on:
                on = False
            elif character in names:
                self._flags = self._flags._replace(**{names[character]: on})
            else:
                raise BadPattern(f"invalid or unsupported Perl syntax: `{self._text[: self._at]}`")

    def _escape(self) -> Any:
        character = self._next()
        assertions = {"b": _boundary, "B": lambda text, at: not _boundary(text, at), "A": _text_start, "z": _text_end}
        if character in assertions:
            return Assertion(assertions[character])
        test = self._class_escape(character)
        if test is not None:
            return Character(test)
        return Character(_same(self._literal_escape(character), self._flags.ignore_case))

    def _class_escape(self, character: str) -> Test | None:
        if character.lower() in _CLASSES:
            test = _CLASSES[character.lower()]
            return _negated(test) if character.isupper() else test
        if character in "pP":
            return self._unicode_class(character == "P")
        return None

    def _unicode_class(self, negate: bool) -> Test:
        name = self._next()
        if name == "{":
            end = self._text.find("}", self._at)
            name, self._at = self._text[self._at : end], end + 1
        if name.startswith("^"):
            name, negate = name[1:], not negate
        if not name or name[0] not in "LMNPSZC" or len(name) > 2:
            raise BadPattern(f"invalid character class range: `\\p{{{name}}}`")
        test: Test = lambda c: unicodedata.category(c).startswith(name)  # noqa: E731
        return _negated(test) if negate else test

    def _literal_escape(self, character: str) -> str:
        if character in _CONTROL:
            return _CONTROL[character]
        if character == "x":
            digits = self._hexadecimal()
            return chr(int(digits, 16))
        if character in "01234567":
            digits = character
            while len(digits) < 3 and self._peek() in tuple("01234567"):
                digits += self._next()
            if character == "0" or len(digits) > 1:
                return chr(int(digits, 8))
        if character.isascii() and not character.isalnum():
            return character
        raise BadPattern(f"invalid escape sequence: `\\{character}`")

    def _hexadecimal(self) -> str:
        if self._take("{"):
            end = self._text.find("}", self._at)
            digits, self._at = self._text[self._at : end], end + 1
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += 2
        if not digits or any(c not in "0123456789abcdefABCDEF" for c in digits) or int(digits, 16) > 0x10FFFF:
            raise BadPattern(f"invalid escape sequence: `\\x{digits}`")
        return digits

    # --- classes

    def _class(self) -> Test:
        start = self._at - 1
        negate = self._take("^")
        tests: list[Test] = []
        first = True
        while first or self._peek() != "]":
            first = False
            if not self._peek():
                raise BadPattern(f"missing closing ]: `{self._text[start:]}`")
            tests.append(self._class_item())
        self._at += 1
        test = _either(tests)
        return _negated(test) if negate else test

    def _class_item(self) -> Test:
        if self._take("[:"):
            return self._named_class()
        low = self._class_character()
        if callable(low):
            return low
        high = low
        if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
            start = self._at - 1
            self._at += 1
            bound = self._class_character()
            if callable(bound) or bound < low:
                raise BadPattern(f"invalid character class range: `{self._text[start : self._at]}`")
            high = bound
        if self._flags.ignore_case:
            return lambda c: low <= c <= high or low <= c.lower() <= high or low <= c.upper() <= high
        return lambda c: low <= c <= high

    def _named_class(self) -> Test:
        negate = self._take("^")
        end = self._text.find(":]", self._at)
        name = self._text[self._at : end]
        if end < 0 or name not in _NAMED:
            raise BadPattern(f"invalid character class range: `[:{name}:]`")
        self._at = end + 2
        return _negated(_NAMED[name]) if negate else _NAMED[name]

    def _class_character(self) -> str | Test:
        character = self._next()
        if character != "\\":
            return character
        character = self._next()
        return self._class_escape(character) or self._literal_escape(character)


def _text_start(text: str, at: int) -> bool:
    return at == 0


def _text_end(text: str, at: int) -> bool:
    return at == len(text)


def _line_start(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n"


def _line_end(text: str, at: int) -> bool:
    return at == len(text) or text[at] == "\n"
