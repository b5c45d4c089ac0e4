"""What the columns of all kinds share: their layout, and how common parts of objects are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from berth.sim.server.printers.durations import age

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"

Body = Mapping[str, Any]
Cells = Callable[[Body, datetime], list[Any]]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Layout:
    columns: tuple[Column, ...]
    cells: Cells


NAME: Final = Column("Name", format="name", description="Name must be unique within a namespace.")
AGE: Final = Column("Age")


def created_age(body: Body, now: datetime) -> str:
    return age(body["metadata"].get("creationTimestamp"), now)


def layout(cells: Cells, *columns: str) -> Layout:
    """Name, the given ones ("Ready", "Restarts:integer", "IP+" for wide), and age where "Age" stands."""
    return Layout((NAME, *(column(text) for text in columns)), cells)


def column(text: str) -> Column:
    """See `layout`."""
    name, _, kind = text.removesuffix("+").partition(":")
    return Column(name, kind or "string", priority=int(text.endswith("+")))


def name_of(body: Body) -> str:
    return str(body["metadata"]["name"])


def spec_of(body: Body) -> Body:
    return body.get("spec") or {}


def status_of(body: Body) -> Body:
    return body.get("status") or {}


def pairs(labels: Body | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Body | None) -> str:
    return pairs((selector or {}).get("matchLabels"))


def containers_of(body: Body) -> tuple[str, str]:
    containers = ((spec_of(body).get("template") or {}).get("spec") or {}).get("containers") or []
    return ",".join(str(one["name"]) for one in containers), ",".join(str(one.get("image", "")) for one in containers)
