"""Structural schemas of custom resources: prune, default, validate, with the words of the real API server.

    schema = Schema(crd_version["schema"]["openAPIV3Schema"])      raises StatusError for what is not supported
    body = schema.complete(body)                                   unknown fields dropped, nulls dropped, defaults set
    causes = schema.problems(body)                                 every field that is wrong, as errors.Cause

Supported is what structural schemas of resources like ours use: types, nullable, required, properties,
additionalProperties, items, enum, bounds of numbers, lengths, items and properties, pattern, uniqueItems, multipleOf,
format date-time (and int32, int64), default, x-kubernetes-list-type set and map, preserve-unknown-fields,
int-or-string and embedded-resource, and rules in CEL (`rules`). The logical keywords are refused when the schema is
read: one that is silently not enforced would be worse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from berth.sim.custom_resources.validation_rules import RULES, broken_rules, refuse_unsupported
from berth.sim.errors import Cause, StatusError, not_implemented
from berth.sim.objects import copied

REFUSED: Final = ("allOf", "anyOf", "oneOf", "not", "$ref", "patternProperties")
IGNORED_AT_ROOT: Final = ("apiVersion", "kind", "metadata")
TYPE_NAMES: Final = {"object": dict, "array": list, "string": str, "boolean": bool}
KEEPS_ALL: Final = {"x-kubernetes-preserve-unknown-fields": True}
MISSING: Final = "FieldValueRequired"
WRONG: Final = "FieldValueInvalid"
WRONG_TYPE: Final = "FieldValueTypeInvalid"
BLOCKING: Final = frozenset((MISSING, WRONG_TYPE, "FieldValueNotSupported", "FieldValueTooLong", "FieldValueTooMany"))
NOT_CHECKED: Final = Cause(
    "<nil>",
    WRONG,
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class Schema:
    def __init__(self, definition: Mapping[str, Any]) -> None:
        _refuse_unsupported(definition, "openAPIV3Schema")
        self._root = dict(definition)
        self._has_rules = RULES in json.dumps(self._root)

    @property
    def definition(self) -> Mapping[str, Any]:
        return self._root

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """A copy with what the schema does not know left out and with its defaults filled in."""
        kept: dict[str, Any] = {key: copied(body[key]) for key in IGNORED_AT_ROOT if key in body}
        rest = {key: value for key, value in body.items() if key not in IGNORED_AT_ROOT}
        completed: dict[str, Any] = _completed(rest, _without_metadata(self._root))
        return {**kept, **completed}

    def unknown_fields(self, body: dict[str, Any]) -> list[str]:
        """The paths that pruning would drop: what strict decoding complains about."""
        rest = {key: value for key, value in body.items() if key not in IGNORED_AT_ROOT}
        return sorted(_unknown(rest, _without_metadata(self._root), ""))

    def problems(self, body: dict[str, Any], *, subresource: str = "") -> list[Cause]:
        """What is wrong, in the order of the fields. Of a subresource only its own field is looked at."""
        if subresource:
            schema = self._root.get("properties", {}).get(subresource)
            # The real server names a status' fields without the "status." in the words behind the path.
            if not schema or subresource not in body:
                return []
            causes = list(_check(body[subresource], schema, subresource, f"{subresource}."))
            return causes + self._broken(causes, body[subresource], schema, subresource)
        rest = {key: value for key, value in body.items() if key not in IGNORED_AT_ROOT}
        causes = list(_check(rest, _without_metadata(self._root), "", ""))
        return causes + self._broken(causes, body, self._root, "")

    def _broken(self, causes: list[Cause], value: Any, schema: Mapping[str, Any], path: str) -> list[Cause]:
        """The rules that it breaks, where it is well-formed enough to be judged by them."""
        if not self._has_rules:
            return []
        if any(cause.reason in BLOCKING for cause in causes):
            return [NOT_CHECKED]
        return list(broken_rules(value, schema, path))

    def list_keys(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """What tells the items of the list at a path apart, if the schema says that they are merged."""
        schema: Mapping[str, Any] = self._root
        for part in path:
            while "items" in schema:
                schema = schema["items"]
            schema = schema.get("properties", {}).get(part) or _additional(schema) or {}
        return tuple(schema.get("x-kubernetes-list-map-keys", ()))


def _without_metadata(root: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = {key: value for key, value in root.get("properties", {}).items() if key not in IGNORED_AT_ROOT}
    required = [key for key in root.get("required", ()) if key not in IGNORED_AT_ROOT]
    return {**root, "properties": properties, "required": required}


def _refuse_unsupported(schema: Any, path: str) -> None:
    if not isinstance(schema, Mapping):
        return
    for keyword in REFUSED:
        if keyword in schema and not (schema.get("x-kubernetes-int-or-string") and keyword in ("anyOf", "allOf")):
            raise _unsupported(path, keyword)
    refuse_unsupported(schema, path)
    for name, child in (schema.get("properties") or {}).items():
        _refuse_unsupported(child, f"{path}.properties[{name}]")
    _refuse_unsupported(schema.get("items"), f"{path}.items")
    _refuse_unsupported(schema.get("additionalProperties"), f"{path}.additionalProperties")


def _unsupported(path: str, keyword: str) -> StatusError:
    return not_implemented(
        f"the embedded cluster does not enforce {keyword} ({path}.{keyword}): "
        "leave it out of the schema, or use a real API server"
    )


def _additional(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    additional = schema.get("additionalProperties")
    return additional if isinstance(additional, Mapping) else None


# -- prune and default -------------------------------------------------------------------------------------------------


def _completed(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return _completed_object(value, schema)
    if isinstance(value, list):
        return [_completed(item, _item(schema)) for item in value]
    return value


def _completed_object(value: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    completed: dict[str, Any] = {}
    for key, item in value.items():
        child = _child(schema, key)
        if child is None:
            continue
        if item is None and not child.get("nullable") and key in properties:
            continue
        completed[key] = _completed(item, child)
    for key, child in properties.items():
        if key not in completed and "default" in child:
            completed[key] = _completed(copied(child["default"]), child)
    return completed


def _child(schema: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """The schema of a property; None: pruned. An empty one lets everything pass."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    if key in properties:
        known: Mapping[str, Any] = properties[key]
        return known
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return additional
    if additional is True or schema.get("x-kubernetes-preserve-unknown-fields"):
        return KEEPS_ALL
    if schema.get("x-kubernetes-embedded-resource") and key in IGNORED_AT_ROOT:
        return KEEPS_ALL
    return None


def _item(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a list's items; where everything is kept it is kept in lists, too."""
    if "items" in schema:
        items: Mapping[str, Any] = schema["items"]
        return items
    return KEEPS_ALL if schema.get("x-kubernetes-preserve-unknown-fields") else {}


def _unknown(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            here = f"{path}.{key}" if path else key
            child = _child(schema, key)
            if child is None:
                yield here
            else:
                yield from _unknown(item, child, here)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _unknown(item, _item(schema), f"{path}[{place}]")


# -- validate ----------------------------------------------------------------------------------------------------------


def _check(value: Any, schema: Mapping[str, Any], path: str, prefix: str) -> Iterator[Cause]:
    """`path` names the field; the words behind it leave `prefix` out."""
    if value is None and schema.get("nullable"):
        return
    if problem := _type_problem(value, schema, path, prefix):
        yield problem
        if isinstance(value, float) and schema.get("format"):
            words = f"Checked value must be of type integer with format {schema['format']} in {path}"
            yield Cause("<nil>", WRONG, f'Invalid value: "": {words}')
        return
    yield from _check_enum(value, schema, path)
    if isinstance(value, dict):
        yield from _check_object(value, schema, path, prefix)
    elif isinstance(value, list):
        yield from _check_list(value, schema, path, prefix)
    elif isinstance(value, str):
        yield from _check_string(value, schema, path, prefix)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _check_number(value, schema, path, prefix)


def _type_problem(value: Any, schema: Mapping[str, Any], path: str, prefix: str) -> Cause | None:
    wanted, found = schema.get("type"), _type_of(value)
    if schema.get("x-kubernetes-int-or-string"):
        fits, wanted = found in ("integer", "string"), "integer,string"
    elif wanted == "number":
        fits = found in ("integer", "number")
    elif wanted == "integer":
        fits = found == "integer" or (isinstance(value, float) and value.is_integer())
    else:
        fits = wanted is None or wanted == found
    if fits:
        return None
    if found == "number":
        found, wanted = "float64", schema.get("format") if wanted == "integer" and schema.get("format") else wanted
    return Cause(
        path,
        WRONG_TYPE,
        f'Invalid value: "{found}": {path.removeprefix(prefix)} in body must be of type {wanted}: "{found}"',
    )


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    for name, kind in TYPE_NAMES.items():
        if isinstance(value, kind):
            return name
    return "integer" if isinstance(value, int) else "number"


def _check_enum(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(_quoted(choice) for choice in schema["enum"])
        problem = f"Unsupported value: {_quoted(value)}: supported values: {supported}"
        yield Cause(path, "FieldValueNotSupported", problem)


def _check_object(value: dict[str, Any], schema: Mapping[str, Any], path: str, prefix: str) -> Iterator[Cause]:
    for key in schema.get("required", ()):
        if key not in value:
            yield Cause(_join(path, key), MISSING, "Required value")
    yield from _check_size(len(value), schema, "Properties", path, prefix)
    for key in sorted(value):
        child = _child(schema, key)
        if child:
            yield from _check(value[key], child, _join(path, key), prefix)


def _check_list(value: list[Any], schema: Mapping[str, Any], path: str, prefix: str) -> Iterator[Cause]:
    yield from _check_size(len(value), schema, "Items", path, prefix)
    for place, item in enumerate(value):
        yield from _check(item, _item(schema), f"{path}[{place}]", prefix)
    yield from _check_repetitions(value, schema, path)


def _check_size(size: int, schema: Mapping[str, Any], what: str, path: str, prefix: str) -> Iterator[Cause]:
    """`what` is the end of the keyword: Items or Properties. The real server says "items" of both that are too many."""
    most, least = schema.get(f"max{what}"), schema.get(f"min{what}")
    if most is not None and size > most:
        yield Cause(path, "FieldValueTooMany", f"Too many: {size}: must have at most {most} items")
    if least is not None and size < least:
        words = f"should have at least {least} {what.lower()}"
        yield Cause(path, WRONG, f"Invalid value: {size}: {path.removeprefix(prefix)} in body {words}")


def _check_repetitions(value: list[Any], schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        yield from _check_map_keys(value, schema, path)
    elif kind == "set" or schema.get("uniqueItems"):
        seen: set[str] = set()
        for place, item in enumerate(value):
            shown = _quoted(item)
            if shown in seen:
                yield Cause(f"{path}[{place}]", "FieldValueDuplicate", f"Duplicate value: {shown}")
            seen.add(shown)


def _check_map_keys(value: list[Any], schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    keys = schema.get("x-kubernetes-list-map-keys", ())
    seen: set[str] = set()
    for place, item in enumerate(value):
        if not isinstance(item, dict):
            problem = f"Invalid value: {_quoted(item)}: must be an object for an array of list-type map"
            yield Cause(f"{path}[{place}]", WRONG, problem)
            continue
        identity = _quoted({key: item[key] for key in sorted(keys) if key in item})
        if identity != "{}" and identity in seen:
            yield Cause(f"{path}[{place}]", "FieldValueDuplicate", f"Duplicate value: {identity}")
        seen.add(identity)


def _check_string(value: str, schema: Mapping[str, Any], path: str, prefix: str) -> Iterator[Cause]:
    words = path.removeprefix(prefix)
    # Only the first of these, as in the real server; the format is looked at by itself.
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        yield Cause(path, "FieldValueTooLong", f"Too long: may not be more than {schema['maxLength']} bytes")
    elif "minLength" in schema and len(value) < schema["minLength"]:
        problem = (
            f"Invalid value: {_quoted(value)}: {words} in body should be at least {schema['minLength']} chars long"
        )
        yield Cause(path, WRONG, problem)
    elif "pattern" in schema and not re.search(schema["pattern"], value):
        yield Cause(path, WRONG, f"Invalid value: {_quoted(value)}: {words} in body should match '{schema['pattern']}'")
    if schema.get("format") == "date-time" and not _is_date_time(value):
        problem = f"Invalid value: {_quoted(value)}: {words} in body must be of type date-time: {_quoted(value)}"
        yield Cause(path, WRONG_TYPE, problem)


def _is_date_time(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None and "T" in value.upper()
    except ValueError:
        return False


def _check_number(value: float, schema: Mapping[str, Any], path: str, prefix: str) -> Iterator[Cause]:
    shown = f"Invalid value: {_quoted(value)}: {path.removeprefix(prefix)} in body should be"
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    if minimum is not None and (value <= minimum if schema.get("exclusiveMinimum") else value < minimum):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield Cause(path, WRONG, f"{shown} {words} {minimum}")
    if maximum is not None and (value >= maximum if schema.get("exclusiveMaximum") else value > maximum):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield Cause(path, WRONG, f"{shown} {words} {maximum}")
    if (step := schema.get("multipleOf")) and value % step:
        yield Cause(path, WRONG, f"{shown} a multiple of {step}")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _quoted(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
