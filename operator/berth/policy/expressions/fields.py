"""What an expression may read: the fields of `node`, `pod` and `policy`, their types, and what they are of a pod.

Each field is a variable of its own to CEL (`node.labels`), so that a misspelt one is an undeclared reference and a
label is known to be a string before anything is evaluated.

    AMOUNTS    resource name -> integer; 0 where there is none of it
    TEXTS      string -> string
    RECORDS    a list of maps whose keys are known
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from berth.model import Pod


class FieldKind(Enum):
    TEXT = "string"
    INTEGER = "int"
    FLAG = "bool"
    LIST = "list<string>"
    TEXTS = "map<string, string>"
    AMOUNTS = "map<string, int>"
    RECORDS = "list<map<string, string>>"
    ANYTHING = "map<string, dyn>"

    @property
    def has_keys(self) -> bool:
        return self in (FieldKind.TEXTS, FieldKind.AMOUNTS)


@dataclass(frozen=True, slots=True)
class Field:
    """`keys`: the only ones that its map, or each of its maps, can have. `longest`: the longest text in it.

    `entries`: how many a map or list is taken to have before anything is known of it.
    """

    kind: FieldKind
    keys: tuple[str, ...] = ()
    longest: int = 63
    entries: int = 64


TAINT_KEYS: Final = ("key", "value", "effect")
TOLERATION_KEYS: Final = ("key", "operator", "value", "effect")
CONTROLLER_KEYS: Final = ("apiVersion", "kind", "name")
LONGEST_KEY: Final = 317
LONGEST_ANNOTATION: Final = 4096

FIELDS: Final[Mapping[str, Field]] = {
    "node.name": Field(FieldKind.TEXT, longest=253),
    "node.labels": Field(FieldKind.TEXTS),
    "node.annotations": Field(FieldKind.TEXTS, longest=LONGEST_ANNOTATION),
    "node.taints": Field(FieldKind.RECORDS, TAINT_KEYS, longest=LONGEST_KEY, entries=16),
    "node.unschedulable": Field(FieldKind.FLAG),
    "node.conditions": Field(FieldKind.TEXTS),
    "node.allocatable": Field(FieldKind.AMOUNTS),
    "node.used": Field(FieldKind.AMOUNTS),
    "node.free": Field(FieldKind.AMOUNTS),
    "pod.name": Field(FieldKind.TEXT, longest=253),
    "pod.namespace": Field(FieldKind.TEXT),
    "pod.labels": Field(FieldKind.TEXTS),
    "pod.priority": Field(FieldKind.INTEGER),
    "pod.schedulerName": Field(FieldKind.TEXT, longest=253),
    "pod.requests": Field(FieldKind.AMOUNTS),
    "pod.limits": Field(FieldKind.AMOUNTS, ("cpu", "memory")),
    "pod.nodeSelector": Field(FieldKind.TEXTS),
    "pod.tolerations": Field(FieldKind.RECORDS, TOLERATION_KEYS, longest=LONGEST_KEY, entries=16),
    "pod.images": Field(FieldKind.LIST, longest=1024, entries=16),
    "pod.controller": Field(FieldKind.TEXTS, CONTROLLER_KEYS, longest=253),
    "policy.parameters": Field(FieldKind.ANYTHING, longest=LONGEST_ANNOTATION),
}
VARIABLES: Final = ("node", "pod", "policy")

ALLOCATABLE, USED, FREE = "node.allocatable", "node.used", "node.free"
RESOURCES: Final = (ALLOCATABLE, USED, FREE)

BEYOND_SIGNATURE: Final = frozenset({"pod.name", "pod.priority"})
"""Fields in which pods of one signature may differ."""

_POD: Final[Mapping[str, Callable[[Pod], Any]]] = {
    "pod.name": lambda pod: pod.name,
    "pod.namespace": lambda pod: pod.namespace,
    "pod.labels": lambda pod: pod.labels,
    "pod.priority": lambda pod: pod.priority,
    "pod.schedulerName": lambda pod: pod.scheduler_name,
    "pod.requests": lambda pod: pod.requests,
    "pod.limits": lambda pod: pod.limits,
    "pod.nodeSelector": lambda pod: pod.node_selector or {},
    "pod.tolerations": lambda pod: pod.tolerations,
    "pod.images": lambda pod: pod.images,
    "pod.controller": lambda pod: _controller(pod),
}


def read_pod(pod: Pod, field: str) -> Any:
    """What the field is of this pod; maps and lists are the record's own."""
    return _POD[field](pod)


def _controller(pod: Pod) -> Mapping[str, str]:
    owner = pod.controller
    return {} if owner is None else {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name}


def pairs(mapping: Mapping[str, Any]) -> Hashable:
    return tuple(sorted(mapping.items()))


def records(items: Any, keys: tuple[str, ...]) -> list[dict[str, str]]:
    """Taints or tolerations as CEL sees them."""
    return [{key: getattr(item, key) for key in keys} for item in items]
