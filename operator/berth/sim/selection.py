"""Label and field selectors of lists and watches: the text in a query becomes a test on objects.

    labels   app=web, tier in (front, back), !canary, weight>3        any label
    fields   spec.nodeName=node-1, status.phase!=Running              the few fields that the kind offers

What cannot be parsed, and a field that a kind does not offer, is refused in the real server's words. Field values are
compared as text; a field that is absent reads as "" (false for the two booleans).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from berth.sim.errors import StatusError, bad_request
from berth.sim.objects import Object, read

METADATA_FIELDS: Final = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}
NAME_FIELD: Final = {"metadata.name": "metadata.name"}
_REGARDING: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

# Field label in a query -> where it lies in the stored object, by storage; other kinds offer name and namespace.
FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "pods": {
        **METADATA_FIELDS,
        "spec.nodeName": "spec.nodeName",
        "spec.host": "spec.nodeName",
        "spec.restartPolicy": "spec.restartPolicy",
        "spec.schedulerName": "spec.schedulerName",
        "spec.serviceAccountName": "spec.serviceAccountName",
        "spec.hostNetwork": "spec.hostNetwork",
        "status.phase": "status.phase",
        "status.podIP": "status.podIP",
        "status.podIPs": "status.podIP",
        "status.nominatedNodeName": "status.nominatedNodeName",
    },
    "nodes": {**NAME_FIELD, "spec.unschedulable": "spec.unschedulable"},
    "namespaces": {**NAME_FIELD, "status.phase": "status.phase"},
    "replicationcontrollers": {**METADATA_FIELDS, "status.replicas": "status.replicas"},
    "replicasets.apps": {**METADATA_FIELDS, "status.replicas": "status.replicas"},
    "jobs.batch": {**METADATA_FIELDS, "status.successful": "status.succeeded"},
    "secrets": {**METADATA_FIELDS, "type": "type"},
    "services": {**METADATA_FIELDS, "spec.clusterIP": "spec.clusterIP", "spec.type": "spec.type"},
}
EVENT_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "": {
        **METADATA_FIELDS,
        **{f"involvedObject.{name}": f"involvedObject.{name}" for name in _REGARDING},
        "reason": "reason",
        "reportingComponent": "reportingComponent",
        "source": "source.component",
        "type": "type",
    },
    "events.k8s.io": {
        **METADATA_FIELDS,
        **{f"regarding.{name}": f"involvedObject.{name}" for name in _REGARDING},
        "reason": "reason",
        "reportingController": "reportingComponent",
        "type": "type",
    },
}
BOOLEANS: Final = frozenset({"spec.hostNetwork", "spec.unschedulable"})
NUMBERS: Final = frozenset({"status.replicas", "status.succeeded"})

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
OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects a list or a watch is about. `everything` is known, so that the common case costs nothing."""

    labels: tuple[Callable[[Mapping[str, str]], bool], ...] = ()
    fields: tuple[Callable[[Object], bool], ...] = ()

    @property
    def everything(self) -> bool:
        return not self.labels and not self.fields

    def matches(self, body: Object) -> bool:
        if self.labels:
            labels = body["metadata"].get("labels") or {}
            if not all(test(labels) for test in self.labels):
                return False
        return all(test(body) for test in self.fields)


EVERYTHING: Final = Selection()


def select(labels: str, fields: str, offered: Mapping[str, str]) -> Selection:
    """The selection that two texts of a query ask for; `offered` are the fields of the kind."""
    if not labels and not fields:
        return EVERYTHING
    return Selection(tuple(_Parser(labels).requirements()), tuple(_field_tests(fields, offered)))


def offered_fields(storage: str, group: str) -> Mapping[str, str]:
    if storage == "events":
        return EVENT_FIELDS[group]
    return FIELDS.get(storage, METADATA_FIELDS)


def label_key_problem(key: str) -> str | None:
    """Why a text cannot be the key of a label or annotation, or None."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not SUBDOMAIN.fullmatch(prefix)):
        return PREFIX_WORDS
    return None if NAME.fullmatch(name) else NAME_WORDS


def label_value_problem(value: str) -> str | None:
    return None if not value or NAME.fullmatch(value) else VALUE_WORDS


# -- labels ------------------------------------------------------------------------------------------------------------


class _Parser:
    """Label selectors as kubectl and clients write them. A token that is not there reads as the empty text."""

    def __init__(self, text: str) -> None:
        self._tokens = [match.group(1) for match in TOKEN.finditer(text)]
        self._at = 0

    def requirements(self) -> list[Callable[[Mapping[str, str]], bool]]:
        tests: list[Callable[[Mapping[str, str]], bool]] = []
        while self._peek():
            tests.append(self._requirement())
            separator = self._next()
            if separator and separator != ",":
                raise _unparsable(f"found '{separator}', expected: ',' or 'end of string'")
            if separator and not self._peek():
                raise _unparsable("found '', expected: identifier after ','")
        return tests

    def _requirement(self) -> Callable[[Mapping[str, str]], bool]:
        if self._peek() == "!":
            self._next()
            key = self._key()
            return lambda labels: key not in labels
        key = self._key()
        if self._peek() in ("", ","):
            return lambda labels: key in labels
        return self._comparison(key, self._next())

    def _comparison(self, key: str, operator: str) -> Callable[[Mapping[str, str]], bool]:
        match operator:
            case "in":
                values = self._values()
                return lambda labels: labels.get(key) in values
            case "notin":
                values = self._values()
                return lambda labels: labels.get(key) not in values
            case "=" | "==":
                value = self._value()
                return lambda labels: labels.get(key) == value
            case "!=":
                value = self._value()
                return lambda labels: labels.get(key) != value
            case ">" | "<":
                return self._bound(key, operator)
        raise _unparsable(f"found '{operator}', expected: {OPERATORS}")

    def _bound(self, key: str, operator: str) -> Callable[[Mapping[str, str]], bool]:
        text = self._value()
        if _integer(text) is None:
            raise _unparsable(
                f"values[0][{key}]: Invalid value: \"{text}\": for 'Gt', 'Lt' operators, the value must be an integer"
            )
        bound, sign = int(text), 1 if operator == ">" else -1

        def beyond(labels: Mapping[str, str]) -> bool:
            number = _integer(labels.get(key, ""))
            return number is not None and sign * (number - bound) > 0

        return beyond

    def _values(self) -> frozenset[str]:
        if (opening := self._next()) != "(":
            raise _unparsable(f"found '{opening}' expected: '('")
        values: set[str] = set()
        expects_value = True
        while True:
            token = self._next()
            if token == ")":
                return frozenset(values | {""}) if expects_value else frozenset(values)
            if token == ",":
                values |= {""} if expects_value else set()
                expects_value = True
            elif token and expects_value and token not in "=!<>()":
                values.add(_checked_value(token))
                expects_value = False
            else:
                raise _unparsable(f"found '{token}', expected: ',' or ')'")

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        token = self._next()
        if token in ("(", ")", "!", "=", "==", "!=", "<", ">"):
            raise _unparsable(f"found '{token}', expected: identifier")
        return _checked_value(token)

    def _key(self) -> str:
        token = self._next()
        if token in ("", "(", ")", ",", "!", "=", "==", "!=", "<", ">"):
            raise _unparsable(f"found '{token}', expected: identifier")
        if problem := label_key_problem(token):
            raise _unparsable(f'<nil>: Invalid value: "{token}": {problem}')
        return token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token


def _checked_value(value: str) -> str:
    if problem := label_value_problem(value):
        raise _unparsable(f'<nil>: Invalid value: "{value}": {problem}')
    return value


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None


def _unparsable(why: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {why}")


# -- fields ------------------------------------------------------------------------------------------------------------


def _field_tests(text: str, offered: Mapping[str, str]) -> list[Callable[[Object], bool]]:
    return [_field_test(term, text, offered) for term in _split(text) if term]


def _field_test(term: str, text: str, offered: Mapping[str, str]) -> Callable[[Object], bool]:
    match = re.match(r"([^=!]*)(!=|==|=)(.*)", term, re.DOTALL)
    if match is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
    label, operator, value = match.group(1), match.group(2), _unescaped(match.group(3))
    if label not in offered:
        raise bad_request(f"field label not supported: {label}")
    path, wanted = offered[label], operator != "!="
    return lambda body: (_field(body, path) == value) is wanted


def _field(body: Object, path: str) -> str:
    value: Any = read(body, path)
    if path in BOOLEANS:
        return "true" if value else "false"
    if path in NUMBERS:
        return str(value or 0)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _split(text: str) -> list[str]:
    return re.split(r"(?<!\\),", text)


def _unescaped(value: str) -> str:
    plain = re.sub(r"\\([\\,=])", "", value)
    if bad := re.search(r"[\\,=]", plain):
        raise bad_request(f"invalid field selector: unescaped character in value: {ord(bad.group())}")
    return re.sub(r"\\([\\,=])", r"\1", value)
