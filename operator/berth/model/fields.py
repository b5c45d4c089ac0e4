"""Readers of fields in plain API dicts, with errors that contain the path of the field.

Every reader takes the object that owns the field and the field's name. It returns a value of the declared type or
raises FieldError. Null is the same as absent, everywhere: the API and YAML both write it for an absent value. A path is
built only if there is an error: FieldError starts with the innermost name, and each level that it passes adds its own
(`within`, `read_list`, `read_object`), until `read` at the top turns it into InvalidObject. Valid objects pay nothing
for paths.

Unknown fields are never read. This module knows no kind of object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from .errors import InvalidObject
from .quantity import parse_quantity

T = TypeVar("T")
Body: TypeAlias = Mapping[str, Any]


class Nothing(dict[str, Any]):
    """An empty dict that cannot be modified: otherwise a plugin could add labels to every pod without labels."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the mappings of a record must not be modified")

    __setitem__ = setdefault = update = __ior__ = _refuse


# Shared by all records with an empty mapping.
NOTHING: Final = Nothing()

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1


class FieldError(Exception):
    """A field has an invalid value; `path` is relative to the level that has handled the error so far."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def within(self, outer: str) -> FieldError:
        """The same error with the path extended by the name of the next outer level."""
        self.path = f"{outer}.{self.path}" if self.path else outer
        return self


def read(kind: str, body: object, build: Callable[[Body], T]) -> T:
    """Build the record of an object; a FieldError becomes InvalidObject with the object's kind and name."""
    try:
        return build(as_object(body))
    except FieldError as error:
        raise InvalidObject(kind, object_key(body), error.path, error.problem) from None


def object_key(body: object) -> str:
    """The key "namespace/name", or "name" without a namespace. Never raises: a missing name is "?"."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(metadata, Mapping):
        return "?"
    name, namespace = metadata.get("name"), metadata.get("namespace")
    key = name if isinstance(name, str) and name else "?"
    return f"{namespace}/{key}" if isinstance(namespace, str) and namespace else key


def describe(value: object) -> str:
    """A value for an error message: short, on one line and printable."""
    match value:
        case bool() | None:
            return json.dumps(value)
        case str():
            return json.dumps(value if len(value) <= 60 else value[:57] + "...")
        case int():
            return str(value) if -MAX_INT64 <= value <= MAX_INT64 else "a number beyond 64 bits"
        case float():
            return str(value)
        case Mapping():
            return "an object"
        case Sequence():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def as_object(value: object) -> Body:
    """The value itself if it is a JSON object."""
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101  dict first: the check of an ABC is slow
        return value
    raise FieldError("", f"{describe(value)} is not an object")


def read_text(owner: Body, name: str, default: str = "") -> str:
    """A string."""
    value = owner.get(name)
    if value is None:
        return default
    if isinstance(value, str):
        return value
    raise FieldError(name, f"{describe(value)} is not a string")


def read_required_text(owner: Body, name: str) -> str:
    """A string that must be present and not empty."""
    value = owner.get(name)
    if isinstance(value, str) and value:
        return value
    if value is None or value == "":
        raise FieldError(name, "is required")
    raise FieldError(name, f"{describe(value)} is not a string")


def read_choice(owner: Body, name: str, choices: Sequence[str], default: str | None = None) -> str:
    """One of a few known words; empty is the same as absent; required if there is no default."""
    value = owner.get(name)
    if value is None or value == "":
        if default is None:
            raise FieldError(name, "is required")
        return default
    if isinstance(value, str) and value in choices:
        return value
    raise FieldError(name, f"{describe(value)} is not one of {', '.join(choices)}")


def read_flag(owner: Body, name: str) -> bool:
    """A boolean, false when absent."""
    value = owner.get(name)
    if value is None:
        return False
    if value is True or value is False:
        return value
    raise FieldError(name, f"{describe(value)} is not true or false")


def read_optional_integer(owner: Body, name: str, least: int, most: int) -> int | None:
    """An integer within bounds, or None; true and false are not integers here."""
    value = owner.get(name)
    if value is None:
        return None
    if type(value) is not int:
        raise FieldError(name, f"{describe(value)} is not an integer")
    if not least <= value <= most:
        raise FieldError(name, f"{describe(value)} is not between {least} and {most}")
    return value


def read_integer(owner: Body, name: str, least: int, most: int, default: int | None = None) -> int:
    """An integer within bounds; required if there is no default."""
    value = read_optional_integer(owner, name, least, most)
    if value is not None:
        return value
    if default is None:
        raise FieldError(name, "is required")
    return default


def read_object(owner: Body, name: str) -> Body:
    """A nested object, empty when absent."""
    value = owner.get(name)
    if value is None:
        return NOTHING
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101
        return value
    raise FieldError(name, f"{describe(value)} is not an object")


def read_optional(owner: Body, name: str, build: Callable[[Body], T]) -> T | None:
    """The result of `build` for a nested object, or None if it is absent."""
    if owner.get(name) is None:
        return None
    value = read_object(owner, name)
    try:
        return build(value)
    except FieldError as error:
        raise error.within(name) from None


def read_items(owner: Body, name: str) -> Sequence[Any]:
    """A list without conversion, empty when absent."""
    value = owner.get(name)
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return value
    raise FieldError(name, f"{describe(value)} is not a list")


def read_list(owner: Body, name: str, build: Callable[[Body], T]) -> tuple[T, ...]:
    """The results of `build` for each object of a list."""
    items = read_items(owner, name)
    if not items:
        return ()
    built: list[T] = []
    try:
        for item in items:
            built.append(build(as_object(item)))  # noqa: PERF401  its length is the index of an item that fails
    except FieldError as error:
        raise error.within(f"{name}[{len(built)}]") from None
    return tuple(built)


def read_texts(owner: Body, name: str) -> tuple[str, ...]:
    """A list of strings."""
    items = read_items(owner, name)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise FieldError(f"{name}[{index}]", f"{describe(item)} is not a string")
    return tuple(items)


def read_text_map(owner: Body, name: str) -> Mapping[str, str]:
    """A map from strings to strings, without nulls; a copy, so that later changes of the body do not affect it."""
    value = owner.get(name)
    if not value and (value is None or isinstance(value, Mapping)):
        return NOTHING
    texts = dict(read_object(owner, name))
    for key, text in list(texts.items()):
        if not isinstance(key, str):
            raise FieldError(name, f"{describe(key)} is not a string")
        if text is None:
            del texts[key]
        elif not isinstance(text, str):
            raise FieldError(f"{name}.{key}", f"{describe(text)} is not a string")
    return texts


def read_quantities(owner: Body, name: str, *, signed: bool = False) -> dict[str, int]:
    """A map from resource names to quantities, in nano units; negative ones are rejected unless signed."""
    amounts: dict[str, int] = {}
    for resource, value in read_object(owner, name).items():
        if value is None:
            continue
        if not isinstance(resource, str):
            raise FieldError(name, f"{describe(resource)} is not a string")
        amounts[resource] = _quantity(value, name, resource, signed=signed)
    return amounts


def read_quantity(owner: Body, name: str, *, signed: bool = False) -> int | None:
    """One quantity in nano units, None when absent; a negative one is rejected unless signed."""
    value = owner.get(name)
    return None if value is None else _quantity(value, name, signed=signed)


def _quantity(value: object, *path: str, signed: bool) -> int:
    try:
        nanos = parse_quantity(value)
    except ValueError:
        raise FieldError(".".join(path), f"{describe(value)} is not a quantity") from None
    if nanos < 0 and not signed:
        raise FieldError(".".join(path), f"{describe(value)} is negative")
    return nanos
