"""Tables: objects as rows of cells, as `kubectl get` prints them, and objects as their metadata only."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from berth.explain_api.columns import COLUMNS, Column
from berth.explain_api.negotiation import META_GROUP
from berth.explain_api.port import Body
from berth.explain_api.resources import ApiResource


def _name(body: Body, _: datetime) -> str:
    return str(body["metadata"]["name"])


NAME = Column("Name", _name, "The name of the object.", format="name")


class Tables:
    """Makes tables of one kind. `version`: of meta.k8s.io; `include`: what a row holds of its object."""

    def __init__(self, resource: ApiResource, version: str, include: str) -> None:
        self._columns = (NAME, *COLUMNS[resource.plural])
        self._version = version
        self._include = include

    def table(
        self, bodies: Sequence[Body], metadata: dict[str, Any], now: datetime, *, with_columns: bool = True
    ) -> Body:
        """Returns the table; in a watch only the first one says what its columns are."""
        return {
            "kind": "Table",
            "apiVersion": f"{META_GROUP}/{self._version}",
            "metadata": metadata,
            "columnDefinitions": [column.definition() for column in self._columns] if with_columns else [],
            "rows": [self._row(body, now) for body in bodies],
        }

    def _row(self, body: Body, now: datetime) -> dict[str, Any]:
        row: dict[str, Any] = {"cells": [column.cell(body, now) for column in self._columns]}
        if self._include == "Object":
            row["object"] = body
        elif self._include == "Metadata":
            row["object"] = metadata_only(body, self._version)
        return row


def metadata_only(body: Body, version: str) -> Body:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": body["metadata"],
    }


def metadata_list(bodies: Sequence[Body], metadata: dict[str, Any], version: str) -> Body:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": metadata,
        "items": [metadata_only(body, version) for body in bodies],
    }
