"""OpenAPI v3, as much as kubectl reads.

`kubectl explain` reads the schema of a kind, `kubectl apply` and `create` look whether the server itself reports
unknown fields (the parameter fieldValidation of a PATCH) and dry-runs. Custom resources come with the schema of their
definition. Built-in kinds have the names and types of their fields (`builtin_kinds/api_fields`) and no descriptions.
Strategic patches are not announced: kubectl then makes them from what it knows of the built-in kinds itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from berth.sim.builtin_kinds.api_fields import LIST, MAP, MESSAGE, field_table
from berth.sim.resources import Resource
from berth.sim.server.discovery import PageNotFound

Body = Mapping[str, Any]
Definitions = Callable[[Resource], Body | None]
METHODS: Final = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}
PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
NO_DESCRIPTIONS: Final = (
    "The embedded API server knows the names and types of the fields of built-in kinds. "
    "Their descriptions are in the Kubernetes API reference, and in kubectl explain on a real cluster."
)
NUMBER_OR_TEXT: Final = [{"type": "string"}, {"type": "number"}]
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
# What kubectl prints by name.
NAMED_SCALARS: Final[Mapping[str, tuple[str, Body]]] = {
    "Time": (f"{META}.Time", {"type": "string", "format": "date-time"}),
    "MicroTime": (f"{META}.MicroTime", {"type": "string", "format": "date-time"}),
    "Quantity": ("io.k8s.apimachinery.pkg.api.resource.Quantity", {"oneOf": NUMBER_OR_TEXT}),
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
}
SCALARS: Final[Mapping[str, Body]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bytes": {"type": "string", "format": "byte"},
    "Raw": {"type": "object"},
}


def index(resources: Iterable[Resource], definitions: Definitions) -> dict[str, Any]:
    """Where the documents are; the hash lets kubectl keep what it has read until it changes."""
    served = list(resources)
    groups = dict.fromkeys((found.group, found.version) for found in served)
    return {"paths": dict(_link(served, definitions, group, version) for group, version in groups)}


def _link(resources: list[Resource], definitions: Definitions, group: str, version: str) -> tuple[str, dict[str, Any]]:
    path = f"apis/{group}/{version}" if group else f"api/{version}"
    digest = hashlib.sha256(document(resources, definitions, group, version)).hexdigest().upper()
    return path, {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}


def document(resources: Iterable[Resource], definitions: Definitions, group: str, version: str) -> bytes:
    """All that is said about one group and version, as JSON."""
    served = tuple(found for found in resources if (found.group, found.version) == (group, version))
    if not served:
        raise PageNotFound
    if not any(found.custom for found in served):
        return _built_in(served)
    return _document(served, {_schema_name(found): _schema(found, definitions(found)) for found in served})


@lru_cache(maxsize=64)
def _built_in(served: tuple[Resource, ...]) -> bytes:
    """Made once: it does not change, and kubectl asks for the digests of all documents again and again."""
    return _document(served, _built_in_schemas(served))


def _document(served: Iterable[Resource], schemas: Mapping[str, Any]) -> bytes:
    return orjson.dumps(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "v1.36.0"},
            "paths": {path: item for resource in served for path, item in _paths(resource).items()},
            "components": {"schemas": schemas},
        }
    )


def _paths(resource: Resource) -> dict[str, Any]:
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    collection = f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else None
    collection = collection or f"{root}/{resource.plural}"
    return {
        collection: {"get": _operation(resource, "list"), "post": _operation(resource, "post")},
        f"{collection}/{{name}}": {method: _operation(resource, action) for method, action in METHODS.items()},
    }


def _operation(resource: Resource, action: str) -> dict[str, Any]:
    return {
        "operationId": f"{action}{resource.kind}",
        "parameters": PARAMETERS,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _identity(resource),
    }


def _identity(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema_name(resource: Resource) -> str:
    group = ".".join(reversed(resource.group.split(".")))
    return f"{group}.{resource.version}.{resource.kind}"


def _schema(resource: Resource, definition: Body | None) -> dict[str, Any]:
    versions = ((definition or {}).get("spec") or {}).get("versions") or []
    own = next((one.get("schema") for one in versions if one["name"] == resource.version), None)
    schema = (own or {}).get("openAPIV3Schema") or ANYTHING
    return {**schema, "x-kubernetes-group-version-kind": [_identity(resource)]}


# -- built-in kinds ----------------------------------------------------------------------------------------------------


def _built_in_schemas(served: Iterable[Resource]) -> dict[str, Any]:
    """The schemas of the kinds, and of all messages that they consist of."""
    schemas: dict[str, Any] = dict(NAMED_SCALARS.values())
    for resource in served:
        message = field_table().message_of(resource.api_version, resource.kind)
        name = _schema_name(resource) if message is None else _message_name(message)
        own = ANYTHING if message is None else _kind_schema(message)
        schemas[name] = {**own, "x-kubernetes-group-version-kind": [_identity(resource)]}
        for part in _parts(message, set()) if message is not None else ():
            schemas.setdefault(_message_name(part), _message_schema(part))
    return schemas


def _kind_schema(message: str) -> dict[str, Any]:
    schema = _message_schema(message)
    type_meta = {"apiVersion": SCALARS["string"], "kind": SCALARS["string"]}
    return {**schema, "description": NO_DESCRIPTIONS, "properties": {**type_meta, **schema["properties"]}}


def _message_schema(message: str) -> dict[str, Any]:
    fields = field_table().named_fields(message)
    return {"type": "object", "properties": {field.name: _type_schema(field.type) for field in fields}}


def _type_schema(type_: str) -> dict[str, Any]:
    if type_.startswith(LIST):
        return {"type": "array", "items": _type_schema(type_.removeprefix(LIST))}
    if type_.startswith(MAP):
        return {"type": "object", "additionalProperties": _type_schema(type_.removeprefix(MAP))}
    if type_.startswith(MESSAGE):
        return _reference(_message_name(type_.removeprefix(MESSAGE)))
    if type_ in NAMED_SCALARS:
        return _reference(NAMED_SCALARS[type_][0])
    return dict(SCALARS[type_])


def _reference(name: str) -> dict[str, Any]:
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}


def _message_name(message: str) -> str:
    return f"io.k8s.apimachinery.pkg.apis.{message}" if message.startswith("meta.") else f"io.k8s.api.{message}"


def _parts(message: str, seen: set[str]) -> Iterator[str]:
    for field in field_table().named_fields(message):
        part = field.type.removeprefix(LIST).removeprefix(MAP)
        name = part.removeprefix(MESSAGE)
        if part.startswith(MESSAGE) and name not in seen:
            seen.add(name)
            yield name
            yield from _parts(name, seen)
