"""Plain API objects: how they are copied, read by path and dated.

A stored body is never changed: lists, watches and the history share it. A write makes a new one, with `copied` for a
body from outside and shallow copies along the changed path for our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

Object = dict[str, Any]

Json = TypeVar("Json")


def copied(value: Json) -> Json:
    """A copy of JSON that shares nothing that can be changed."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}  # type: ignore[return-value]
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}  # type: ignore[return-value]
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]  # type: ignore[return-value]
    return value


def without(body: Mapping[str, Any], *keys: str) -> Object:
    return {key: value for key, value in body.items() if key not in keys}


def read(body: Mapping[str, Any], path: str) -> Any:
    """What lies at a dotted path, or None."""
    value: Any = body
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def mapping(value: object) -> Object:
    """The value if it is an object, else an empty one: for what may be absent, null or nonsense."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def with_version(body: Object, revision: int) -> Object:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(revision)}}


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def later(stamp: str, seconds: int) -> str:
    """A timestamp that many seconds after (or, negative, before) another."""
    return timestamp(datetime.fromisoformat(stamp) + timedelta(seconds=seconds))
