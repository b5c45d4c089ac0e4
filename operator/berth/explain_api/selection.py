"""Label and field selectors: the text of a query becomes a test.

labelSelector   app=web, tier in (front, back), !canary, weight>3       labels of the pod or node
fieldSelector   metadata.name=web-7d, status.reason!=InsufficientCPU    the fields that discovery's table names
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from berth.explain_api.port import Body
from berth.explain_api.resources import ApiResource
from berth.explain_api.statuses import ApiRefusal, bad_request
from berth.model.selectors import Requirement

NAME = "metadata.name"
LONGEST_SELECTOR = 4096
_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_SIGNS = frozenset("=!(),<>") | {"==", "!="}
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn", ">": "Gt", "<": "Lt"}
_TERM = re.compile(r"([^=!]+)(!=|==|=)(.*)", re.DOTALL)


def label_test(text: str) -> Callable[[Mapping[str, str]], bool] | None:
    """Returns the test on labels; None for an empty selector. Raises ApiRefusal."""
    if not text.strip():
        return None
    requirements = _Parser(_checked(text)).requirements()
    return lambda labels: all(requirement.matches(labels) for requirement in requirements)


class FieldTerms:
    """The terms of a field selector; all must hold."""

    def __init__(self, text: str, resource: ApiResource) -> None:
        """Raises ApiRefusal."""
        terms = [term for term in re.split(r"(?<!\\),", _checked(text)) if term]
        self._terms = [_read_term(term, resource) for term in terms]

    def __bool__(self) -> bool:
        return bool(self._terms)

    def value_of(self, path: str) -> str | None:
        """Returns the value that the field has to have; None if it may have several."""
        return next((value for field, wanted, value in self._terms if field == path and wanted), None)

    def match(self, body: Body) -> bool:
        return all((_text_at(body, path) == value) is wanted for path, wanted, value in self._terms)


def _checked(text: str) -> str:
    if len(text) > LONGEST_SELECTOR:
        raise bad_request(f"a selector has at most {LONGEST_SELECTOR} characters, this one has {len(text)}")
    return text


# --- labels ----------------------------------------------------------------------------------------------------------


class _Parser:
    """Reads a label selector from left to right. A token that is not there reads as the empty text."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[1] for match in _TOKEN.finditer(text)]
        self._at = 0

    def requirements(self) -> list[Requirement]:
        found = [self._requirement()]
        while self._peek():
            if (separator := self._next()) != ",":
                raise _unparsable(f"found '{separator}', expected: ',' or 'end of string'")
            found.append(self._requirement())
        return found

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), "DoesNotExist", ())
        key = self._key()
        if self._peek() in ("", ","):
            return Requirement(key, "Exists", ())
        sign = self._next()
        operator = _OPERATORS.get(sign)
        if operator is None:
            raise _unparsable(f"found '{sign}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._listed() if sign in ("in", "notin") else (self._value(),)
        requirement = Requirement(key, operator, values)
        if operator in ("Gt", "Lt") and requirement.bound is None:
            raise _unparsable(f"'{values[0]}' after '{sign}' is not an integer")
        return requirement

    def _listed(self) -> tuple[str, ...]:
        if (opening := self._next()) != "(":
            raise _unparsable(f"found '{opening}', expected: '('")
        values = [self._value()]
        while (sign := self._next()) == ",":
            values.append(self._value())
        if sign != ")":
            raise _unparsable(f"found '{sign}', expected: ',' or ')'")
        return tuple(sorted(set(values)))

    def _key(self) -> str:
        token = self._next()
        if not _KEY.fullmatch(token):
            raise _unparsable(f"found '{token}', expected: the key of a label")
        return token

    def _value(self) -> str:
        if self._peek() in ("", ",", ")"):
            return ""
        token = self._next()
        if token in _SIGNS or not _VALUE.fullmatch(token):
            raise _unparsable(f"found '{token}', expected: the value of a label")
        return token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token


def _unparsable(why: str) -> ApiRefusal:
    return bad_request(f"unable to parse requirement: {why}")


# --- fields ----------------------------------------------------------------------------------------------------------


def _read_term(term: str, resource: ApiResource) -> tuple[str, bool, str]:
    """Returns the path, whether it must be equal, and the value."""
    match = _TERM.fullmatch(term.strip())
    if match is None:
        raise bad_request(f"invalid field selector: can't understand '{term}'")
    path, operator, value = match.groups()
    if path not in resource.fields:
        raise bad_request(f"field label not supported: {path}; supported are {', '.join(resource.fields)}")
    return path, operator != "!=", re.sub(r"\\([\\,=])", r"\1", value)


def _text_at(body: Body, path: str) -> str:
    value: Any = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)
