"""Label selectors as kubectl and clients write them: `app=web, tier in (front, back), !canary, weight>3`.

What cannot be parsed is refused in the API server's words, which users know from kubectl.
"""

from __future__ import annotations

import re
from typing import Final

from .selectors import LabelSelector, Requirement, make_label_selector

NAME_WORDS: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_WORDS: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
PREFIX_WORDS: Final = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
TOKEN: Final = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
SIGNS: Final = frozenset({"=", "==", "!=", "!", "(", ")", ",", "<", ">"})
OPERATORS: Final = {"in": "In", "notin": "NotIn", "=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}


class SelectorError(ValueError):
    """The text of a label selector cannot be parsed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"unable to parse requirement: {why}")


def parse_label_selector(text: str) -> LabelSelector:
    """Returns the selector; an empty text selects everything. Raises SelectorError."""
    return make_label_selector(_Parser(text).requirements())


def label_key_problem(key: str) -> str | None:
    """Returns why a text cannot be the key of a label or annotation, or None."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not SUBDOMAIN.fullmatch(prefix)):
        return PREFIX_WORDS
    return None if NAME.fullmatch(name) else NAME_WORDS


def label_value_problem(value: str) -> str | None:
    """Returns why a text cannot be the value of a label, or None."""
    return None if not value or NAME.fullmatch(value) else VALUE_WORDS


class _Parser:
    """Reads from left to right. A token that is not there reads as the empty text."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[1] for match in TOKEN.finditer(text)]
        self._at = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self._peek():
            found.append(self._requirement())
            separator = self._next()
            if separator and separator != ",":
                raise SelectorError(f"found '{separator}', expected: ',' or 'end of string'")
            if separator and not self._peek():
                raise SelectorError("found '', expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), "DoesNotExist", ())
        key = self._key()
        if self._peek() in ("", ","):
            return Requirement(key, "Exists", ())
        return self._comparison(key, self._next())

    def _comparison(self, key: str, sign: str) -> Requirement:
        operator = OPERATORS.get(sign)
        if operator is None:
            raise SelectorError(f"found '{sign}', expected: in, notin, =, ==, !=, gt, lt")
        requirement = Requirement(key, operator, self._values() if sign in ("in", "notin") else (self._value(),))
        if operator in ("Gt", "Lt") and requirement.bound is None:
            raise SelectorError(
                f'values[0][{key}]: Invalid value: "{requirement.values[0]}": '
                "for 'Gt', 'Lt' operators, the value must be an integer"
            )
        return requirement

    def _values(self) -> tuple[str, ...]:
        """Returns the values between parentheses. Where one is missing, it is the empty text."""
        if (opening := self._next()) != "(":
            raise SelectorError(f"found '{opening}' expected: '('")
        values: set[str] = set()
        expects_value = True
        while True:
            token = self._next()
            if token == ")":
                return tuple(sorted(values | {""} if expects_value else values))
            if token == ",":
                values |= {""} if expects_value else set()
                expects_value = True
            elif token and expects_value and token not in SIGNS:
                values.add(_checked_value(token))
                expects_value = False
            else:
                raise SelectorError(f"found '{token}', expected: ',' or ')'")

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        token = self._next()
        if token in SIGNS:
            raise SelectorError(f"found '{token}', expected: identifier")
        return _checked_value(token)

    def _key(self) -> str:
        token = self._next()
        if not token or token in SIGNS:
            raise SelectorError(f"found '{token}', expected: identifier")
        if problem := label_key_problem(token):
            raise SelectorError(f'<nil>: Invalid value: "{token}": {problem}')
        return token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token


def _checked_value(value: str) -> str:
    if problem := label_value_problem(value):
        raise SelectorError(f'<nil>: Invalid value: "{value}": {problem}')
    return value
