"""The strings library of CEL, version 2."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from .overloads import Library
from .scope import COST_EXCEEDED
from .standard import to_string
from .values import EvaluationError, Uint, kind_of

_LONGEST: Final = 10_000_000


def add_strings(library: Library) -> None:
    method = library.method
    method("charAt", "string int", "string", _char_at)
    for name, run in (("indexOf", _index_of), ("lastIndexOf", _last_index_of)):
        method(name, "string string", "int", run)
        method(name, "string string int", "int", run)
    method("join", "list(string)", "string", _join)
    method("join", "list(string) string", "string", _join)
    method("lowerAscii", "string", "string", lambda text: _ascii(text, str.lower))
    method("upperAscii", "string", "string", lambda text: _ascii(text, str.upper))
    method("replace", "string string string", "string", _replace)
    method("replace", "string string string int", "string", _replace)
    method("split", "string string", "list(string)", _split)
    method("split", "string string int", "list(string)", _split)
    method("substring", "string int", "string", _substring)
    method("substring", "string int int", "string", _substring)
    method("trim", "string", "string", str.strip)
    method("format", "string list", "string", _format)
    library.add("strings.quote", "string", "string", _quote)


def _check_length(length: int) -> None:
    """A step must not make more than a whole evaluation could look at."""
    if length > _LONGEST:
        raise EvaluationError(COST_EXCEEDED)


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if not part:
        return len(text) if start is None else start
    if start is None:
        return text.rfind(part)
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _join(items: list[Any], separator: str = "") -> str:
    if any(type(item) is not str for item in items):
        raise EvaluationError("no such overload")
    _check_length(sum(map(len, items)) + len(items) * len(separator))
    return separator.join(items)


def _ascii(text: str, convert: Any) -> str:
    return "".join(convert(c) if c.isascii() else c for c in text)


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    times = text.count(old) if most < 0 else min(text.count(old), most)
    _check_length(len(text) + times * len(new))
    return text.replace(old, new, most)


def _split(text: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not separator:
        return list(text) if most < 0 or most >= len(text) else [*text[: most - 1], text[most - 1 :]]
    return text.split(separator, -1 if most < 0 else most - 1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    if not 0 <= last <= len(text):
        raise EvaluationError(f"index out of range: {last}")
    if start > last:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {last}")
    return text[start:last]


def _quote(text: str) -> str:
    escapes = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    escapes |= {"\\": "\\\\", '"': '\\"'}
    return '"' + "".join(escapes.get(c, c) for c in text) + '"'


# --- format

_MOST_DIGITS: Final = 1_000
_VERB: Final = re.compile(r"%(?:\.([0-9]+))?(.)?", re.DOTALL)
# Each verb with what it is called, the types that it takes, and the word for them in errors.
_NUMBERS: Final = frozenset({"int", "uint", "double"})
_INTEGERS: Final = frozenset({"int", "uint"})
_VERBS: Final = {
    "d": ("decimal", _INTEGERS, "integers"),
    "f": ("fixed-point", _NUMBERS, "doubles"),
    "e": ("scientific", _NUMBERS, "doubles"),
    "b": ("binary", _INTEGERS | {"bool"}, "integers and bools"),
    "o": ("octal", _INTEGERS, "integers"),
    "x": ("hexadecimal", _INTEGERS | {"string", "bytes"}, "integers, byte buffers, and strings"),
    "X": ("hexadecimal", _INTEGERS | {"string", "bytes"}, "integers, byte buffers, and strings"),
}


def format_problem(template: str, kinds: Sequence[str]) -> str | None:
    """What is wrong with a template for values of these types, as far as the types are known."""
    remaining = iter(kinds)
    for found in _VERB.finditer(template):
        verb = found[2]
        if verb == "%":
            continue
        problem = _verb_problem(verb)
        if problem is not None:
            return problem
        kind = next(remaining, None)
        if kind is None:
            return f"index {len(kinds)} out of range"
        if kind not in ("dyn", "any") and (problem := _kind_problem(verb, kind)):
            return problem
    return None


def _verb_problem(verb: str | None) -> str | None:
    if verb is None:
        return "unexpected end of string"
    if verb != "s" and verb not in _VERBS:
        return f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
    return None


def _kind_problem(verb: str, kind: str) -> str | None:
    if verb == "s" or kind in _VERBS[verb][1]:
        return None
    name, _, words = _VERBS[verb]
    return f"error during formatting: {name} clause can only be used on {words}, was given {kind}"


def _format(template: str, args: list[Any]) -> str:
    remaining = iter(args)

    def replace(found: re.Match[str]) -> str:
        precision, verb = found.groups()
        if verb == "%":
            return "%"
        if problem := _verb_problem(verb):
            raise EvaluationError(problem)
        try:
            value = next(remaining)
        except StopIteration:
            raise EvaluationError(f"index {len(args)} out of range") from None
        if problem := _kind_problem(verb, kind_of(value)):
            raise EvaluationError(problem)
        digits = 6 if precision is None else int(precision)
        _check_length(digits)
        return _formatted(verb, value, min(digits, _MOST_DIGITS))

    return _VERB.sub(replace, template)


def _formatted(verb: str, value: Any, precision: int) -> str:
    match verb:
        case "s":
            return _shown(value)
        case "f" | "e":
            return f"{float(value):.{precision}{verb}}"
        case "x" | "X" if not isinstance(value, int):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return str(digits if verb == "x" else digits.upper())
    return format(int(value), verb)


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "[" + ", ".join(map(_nested, value)) + "]"
        case dict():
            entries = sorted((_nested(key), _nested(inner)) for key, inner in value.items())
            return "{" + ", ".join(f"{key}:{inner}" for key, inner in entries) + "}"
        case Uint():
            return str(int(value))
    return to_string(value)


def _nested(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else _shown(value)
