"""The fields of the built-in kinds: their names, types and protobuf numbers.

The table is api_fields.json, which `make api-fields` makes from the Go types of Kubernetes
(tests/control_plane/api_fields). The server reads protobuf bodies with it (`server/protobuf`), describes kinds
(`server/openapi`) and finds fields that do not exist (`unknown_fields`). Custom resources have their schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import orjson

LIST: Final = "[]"
MAP: Final = "{}"
MESSAGE: Final = "#"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message. `name` is "" if its fields are written beside those of the message around it."""

    name: str
    type: str
    """A scalar, "#message", or with "[]" or "{}" in front a list or a map of texts to it."""
    omits_empty: bool
    """Whether JSON leaves it out when it is empty."""


@dataclass(frozen=True, slots=True)
class FieldTable:
    """The messages by name, and the message of each kind ("apps/v1/Deployment")."""

    kinds: Mapping[str, str]
    messages: Mapping[str, Mapping[int, Field]]

    def message_of(self, api_version: str, kind: str) -> str | None:
        """Returns the name of the message of a kind. DeleteOptions are the same in every group."""
        return self.kinds.get(f"v1/{kind}" if kind == "DeleteOptions" else f"{api_version}/{kind}")

    def named_fields(self, message: str) -> Iterator[Field]:
        """The fields as JSON has them: those of inline messages among them."""
        for field in self.messages[message].values():
            if field.name:
                yield field
            elif field.type.startswith(MESSAGE):
                yield from self.named_fields(field.type.removeprefix(MESSAGE))


@cache
def field_table() -> FieldTable:
    raw = orjson.loads(files(__package__).joinpath("api_fields.json").read_bytes())
    messages = {
        name: {int(number): _field(*described) for number, described in fields.items()}
        for name, fields in raw["messages"].items()
    }
    return FieldTable(raw["kinds"], messages)


def _field(name: str, described: str) -> Field:
    return Field(name, described.removesuffix("?"), described.endswith("?"))


def unknown_fields(api_version: str, kind: str, body: Mapping[str, Any]) -> list[str]:
    """Returns the paths of fields that the kind does not have; none if the kind is not in the table."""
    message = field_table().message_of(api_version, kind)
    if message is None:
        return []
    rest = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    return list(_unknown(rest, MESSAGE + message, ""))


@cache
def _types(message: str) -> Mapping[str, str]:
    return {field.name: field.type for field in field_table().named_fields(message)}


def _unknown(value: Any, type_: str, path: str) -> Iterator[str]:
    if type_.startswith(LIST) and isinstance(value, list):
        for place, item in enumerate(value):
            yield from _unknown(item, type_.removeprefix(LIST), f"{path}[{place}]")
    elif type_.startswith(MAP) and isinstance(value, dict):
        for key, item in value.items():
            yield from _unknown(item, type_.removeprefix(MAP), f"{path}.{key}")
    elif type_.startswith(MESSAGE) and isinstance(value, dict):
        types = _types(type_.removeprefix(MESSAGE))
        for key, item in value.items():
            here = f"{path}.{key}" if path else key
            if key in types:
                yield from _unknown(item, types[key], here)
            elif not key.startswith("$"):  # a directive of a strategic patch
                yield here
