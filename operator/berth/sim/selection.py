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

from berth.model.label_selectors import SelectorError, parse_label_selector
from berth.model.selectors import EVERYTHING as ALL_LABELS
from berth.model.selectors import LabelSelector
from berth.sim.errors import bad_request
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


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects a list or a watch is about. `everything` is known, so that the common case costs nothing."""

    labels: LabelSelector = ALL_LABELS
    fields: tuple[Callable[[Object], bool], ...] = ()

    @property
    def everything(self) -> bool:
        return not self.labels.requirements and not self.fields

    def matches(self, body: Object) -> bool:
        if self.labels.requirements and not self.labels.matches(body["metadata"].get("labels") or {}):
            return False
        return all(test(body) for test in self.fields)


EVERYTHING: Final = Selection()


def select(labels: str, fields: str, offered: Mapping[str, str]) -> Selection:
    """The selection that two texts of a query ask for; `offered` are the fields of the kind."""
    if not labels and not fields:
        return EVERYTHING
    try:
        selector = parse_label_selector(labels)
    except SelectorError as error:
        raise bad_request(str(error)) from None
    return Selection(selector, tuple(_field_tests(fields, offered)))


def offered_fields(storage: str, group: str) -> Mapping[str, str]:
    if storage == "events":
        return EVENT_FIELDS[group]
    return FIELDS.get(storage, METADATA_FIELDS)


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
