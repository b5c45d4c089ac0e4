"""The part of Go's templates that the files of scheduler_perf use.

    render("pod-{{ .Index }}: {{ DivideInt 30000 .Count }}Mi", {"Index": 4, "Count": 10})

An action is a field (`.Index`), a number, a quoted text, or a function with arguments, which may be calls in
parentheses. There are no pipelines, conditions or loops. Anything else is a TemplateError, so that a file that needs
more is skipped and not misread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce

ACTION = re.compile(r"\{\{-?(.*?)-?\}\}", re.DOTALL)
TOKEN = re.compile(r'\s*(?:(?P<text>"[^"]*")|(?P<number>-?\d+(?:\.\d+)?)|(?P<word>\.?\w+)|(?P<bracket>[()]))')

Value = int | float | str


class TemplateError(ValueError):
    """A template asks for something that is not interpreted here."""


def has_actions(text: str) -> bool:
    return ACTION.search(text) is not None


def render(text: str, values: Mapping[str, Value]) -> str:
    """The text with every action replaced by its value."""
    return ACTION.sub(lambda found: _shown(_evaluate(found[1], values)), text)


def _evaluate(action: str, values: Mapping[str, Value]) -> Value:
    tokens = list(_tokens(action))
    if not tokens:
        raise TemplateError("an empty action")
    result, rest = _call(tokens, values)
    if rest:
        raise TemplateError(f"{{{{{action}}}}}: {rest[0]} is not expected")
    return result


def _tokens(action: str) -> Iterator[str]:
    position, end = 0, len(action.rstrip())
    while position < end:
        found = TOKEN.match(action, position)
        if found is None:
            raise TemplateError(f"{{{{{action}}}}}: {action[position:].strip()} is not interpreted")
        yield found[0].strip()
        position = found.end()


def _call(tokens: list[str], values: Mapping[str, Value]) -> tuple[Value, list[str]]:
    """A value, or a function with its arguments, up to the end or to a closing parenthesis."""
    first = tokens[0]
    if first not in FUNCTIONS:
        return _argument(tokens, values)
    arguments, rest = [], tokens[1:]
    while rest and rest[0] != ")":
        value, rest = _argument(rest, values)
        arguments.append(value)
    try:
        return FUNCTIONS[first](*map(_number, arguments)), rest
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise TemplateError(f"{first} {arguments}: {error}") from error


def _argument(tokens: list[str], values: Mapping[str, Value]) -> tuple[Value, list[str]]:
    first, rest = tokens[0], tokens[1:]
    if first == "(":
        if not rest:
            raise TemplateError("a parenthesis is not closed")
        value, rest = _call(rest, values)
        if not rest or rest[0] != ")":
            raise TemplateError("a parenthesis is not closed")
        return value, rest[1:]
    if first.startswith('"'):
        return first[1:-1], rest
    if first.startswith("."):
        if first[1:] not in values:
            raise TemplateError(f"{first} is not known: must be one of {', '.join(f'.{name}' for name in values)}")
        return values[first[1:]], rest
    if first[0].isdigit() or first[0] == "-":
        return _literal(first), rest
    raise TemplateError(f"{first} is not a function: must be one of {', '.join(FUNCTIONS)}")


def _literal(text: str) -> Value:
    return float(text) if "." in text else int(text)


def _number(value: Value) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise TemplateError(f"{value} is not a number") from error


def _shown(value: Value) -> str:
    """As Go prints it: a float without a fraction has no point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


def _mod(left: float, right: float) -> int:
    """The sign is that of the left one, as in Go."""
    return int(math.fmod(int(left), int(right)))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "AddFloat": lambda *numbers: sum(numbers),
    "AddInt": lambda *numbers: int(sum(numbers)),
    "SubtractFloat": lambda left, right: left - right,
    "SubtractInt": lambda left, right: int(left - right),
    "MultiplyFloat": lambda *numbers: reduce(lambda product, number: product * number, numbers, 1.0),
    "MultiplyInt": lambda *numbers: int(reduce(lambda product, number: product * number, numbers, 1.0)),
    "DivideFloat": lambda left, right: left / right,
    "DivideInt": lambda left, right: int(left / right),
    "Mod": _mod,
}
