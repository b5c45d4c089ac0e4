"""Answers as bytes: objects, lists and events of watches, in the form that was asked for."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from berth.explain_api.negotiation import META_GROUP, Form
from berth.explain_api.port import Body
from berth.explain_api.requests import Question
from berth.explain_api.resources import API_VERSION
from berth.explain_api.tables import Tables, metadata_list, metadata_only

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Renderer:
    """Renders the answers to one question."""

    def __init__(self, question: Question, wall: Callable[[], float]) -> None:
        self._resource = question.resource
        self._accepted = question.accepted
        self._tables = Tables(question.resource, question.accepted.version, question.include_object)
        self._wall = wall
        self._has_columns = False  # a table of this watch has said what its columns are

    def object(self, body: Body, version: int) -> bytes:
        body = with_version(body, version)
        if self._accepted.form is Form.TABLE:
            return orjson.dumps(self._tables.table([body], {"resourceVersion": str(version)}, self._now()))
        if self._accepted.form is Form.METADATA:
            return orjson.dumps(metadata_only(body, self._accepted.version))
        return orjson.dumps(body)

    def list(self, bodies: Sequence[Body], version: int, token: str, rest: int | None) -> bytes:
        """`token`: what continues the list, "" for nothing; `rest`: how many objects are left, None if unknown."""
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if token:
            metadata["continue"] = token
            if rest is not None:
                metadata["remainingItemCount"] = rest
        bodies = [with_version(body, version) for body in bodies]
        if self._accepted.form is Form.TABLE:
            return orjson.dumps(self._tables.table(bodies, metadata, self._now()))
        if self._accepted.form is Form.METADATA:
            return orjson.dumps(metadata_list(bodies, metadata, self._accepted.version))
        return orjson.dumps(
            {"kind": self._resource.list_kind, "apiVersion": API_VERSION, "metadata": metadata, "items": bodies}
        )

    def event(self, kind: str, body: Body, version: int) -> bytes:
        """Returns the line of a watch for ADDED, MODIFIED or DELETED."""
        body = with_version(body, version)
        if self._accepted.form is Form.TABLE:
            metadata = {"resourceVersion": str(version)}
            shown = self._tables.table([body], metadata, self._now(), with_columns=not self._has_columns)
            self._has_columns = True
        elif self._accepted.form is Form.METADATA:
            shown = metadata_only(body, self._accepted.version)
        else:
            shown = body
        return _line(kind, shown)

    def bookmark(self, version: int, *, ends_initial_events: bool) -> bytes:
        """Returns the line that tells how far a watch has come."""
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if ends_initial_events:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        if self._accepted.form is Form.TABLE:
            return _line("BOOKMARK", {**self._tables.table([], {}, self._now()), "metadata": metadata})
        kind, group = self._resource.kind, API_VERSION
        if self._accepted.form is Form.METADATA:
            kind, group = "PartialObjectMetadata", f"{META_GROUP}/{self._accepted.version}"
        return _line("BOOKMARK", {"kind": kind, "apiVersion": group, "metadata": metadata})

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._wall(), UTC)


def with_version(body: Body, version: int) -> Body:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


def _line(kind: str, shown: Body) -> bytes:
    return orjson.dumps({"type": kind, "object": shown}) + b"\n"
