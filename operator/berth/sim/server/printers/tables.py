"""Tables: objects as rows of cells, which is what `kubectl get` asks for and prints.

Built-in kinds have their columns in `columns`, custom resources in the printer columns of their definition.
`includeObject` says what of the object comes with its row: its metadata (the default), all of it, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from berth.sim.errors import bad_request
from berth.sim.resources import Resource
from berth.sim.server.encoding import list_metadata, metadata_only
from berth.sim.server.printers.columns import DEFAULT, LAYOUTS
from berth.sim.server.printers.durations import age
from berth.sim.server.printers.jsonpath import find_all
from berth.sim.server.printers.layouts import AGE, NAME, Column, Layout, created_age
from berth.sim.store import Page

Body = Mapping[str, Any]
INCLUDED = ("", "Metadata", "Object", "None")


class Tables:
    """Makes tables of one resource; a watch keeps one, since only its first event names the columns."""

    def __init__(self, resource: Resource, definition: Body | None, include_object: str = "") -> None:
        if include_object not in INCLUDED:
            raise bad_request(f'includeObject: "{include_object}" is none of Metadata, Object, None')
        self._layout = _custom_layout(resource, definition) if resource.custom else _built_in_layout(resource)
        self._include_object = include_object

    def of_page(self, page: Page, now: datetime) -> dict[str, Any]:
        return self._table(list_metadata(page), page.items, now)

    def of_object(self, body: Body, now: datetime, *, with_columns: bool = True) -> dict[str, Any]:
        version = (body.get("metadata") or {}).get("resourceVersion", "")
        return self._table({"resourceVersion": version}, [body], now, with_columns=with_columns)

    def of_bookmark(self, body: Body) -> dict[str, Any]:
        return self._table(dict(body.get("metadata") or {}), [], datetime.min, with_columns=False)

    def _table(
        self, metadata: dict[str, Any], bodies: Iterable[Body], now: datetime, *, with_columns: bool = True
    ) -> dict[str, Any]:
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [column.to_dict() for column in self._layout.columns] if with_columns else [],
            "rows": [self._row(body, now) for body in bodies],
        }

    def _row(self, body: Body, now: datetime) -> dict[str, Any]:
        row: dict[str, Any] = {"cells": self._layout.cells(body, now)}
        if self._include_object == "Object":
            row["object"] = body
        elif self._include_object != "None":
            row["object"] = metadata_only(body)
        return row


def _built_in_layout(resource: Resource) -> Layout:
    return LAYOUTS.get(resource.storage, DEFAULT)


def _custom_layout(resource: Resource, definition: Body | None) -> Layout:
    versions = ((definition or {}).get("spec") or {}).get("versions") or []
    printed = next((one.get("additionalPrinterColumns") for one in versions if one["name"] == resource.version), None)
    if not printed:
        return Layout((NAME, AGE), lambda body, now: [body["metadata"]["name"], created_age(body, now)])
    columns = tuple(
        Column(
            name=one["name"],
            type=one["type"],
            format=one.get("format", ""),
            priority=one.get("priority", 0),
            description=one.get("description", ""),
        )
        for one in printed
    )
    return Layout((NAME, *columns), partial(_custom_cells, [(one["jsonPath"], one["type"]) for one in printed]))


def _custom_cells(printed: list[tuple[str, str]], body: Body, now: datetime) -> list[Any]:
    return [body["metadata"]["name"], *(_custom_cell(path, kind, body, now) for path, kind in printed)]


def _custom_cell(path: str, kind: str, body: Body, now: datetime) -> Any:
    """A number or truth value stays one, a date becomes an age, several values are joined; nothing is null."""
    values = find_all(path, body)
    if not values:
        return None
    if kind == "date":
        return age(values[0], now)
    if kind in ("integer", "number", "boolean") and not isinstance(values[0], str):
        return values[0]
    return ",".join(_text(value) for value in values)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
