"""OpenAPI v3, as much as kubectl insists on.

`kubectl explain` reads the schema of a custom resource, `kubectl apply` and `create` look whether the server itself
reports unknown fields (the parameter fieldValidation of a PATCH) and dry-runs. Custom resources come with the schema of
their definition; the built-in kinds are objects of which nothing more is said, so `kubectl explain pod` shows little.
Strategic patches are not announced: kubectl then makes them from what it knows of the built-in kinds itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import orjson

from berth.sim.resources import Resource
from berth.sim.server.discovery import PageNotFound

Body = Mapping[str, Any]
Definitions = Callable[[Resource], Body | None]
METHODS: Final = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}
PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def index(resources: Iterable[Resource], definitions: Definitions) -> dict[str, Any]:
    """Where the documents are; the hash lets kubectl keep what it has read until it changes."""
    served = list(resources)
    groups = dict.fromkeys((found.group, found.version) for found in served)
    return {"paths": dict(_link(served, definitions, group, version) for group, version in groups)}


def _link(resources: list[Resource], definitions: Definitions, group: str, version: str) -> tuple[str, dict[str, Any]]:
    path = f"apis/{group}/{version}" if group else f"api/{version}"
    text = orjson.dumps(document(resources, definitions, group, version))
    digest = hashlib.sha256(text).hexdigest().upper()
    return path, {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}


def document(resources: Iterable[Resource], definitions: Definitions, group: str, version: str) -> dict[str, Any]:
    """All that is said about one group and version."""
    served = [found for found in resources if (found.group, found.version) == (group, version)]
    if not served:
        raise PageNotFound
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": {path: item for resource in served for path, item in _paths(resource).items()},
        "components": {"schemas": {_schema_name(found): _schema(found, definitions(found)) for found in served}},
    }


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
    group = ".".join(reversed(resource.group.split("."))) if resource.group else "io.k8s.api.core"
    return f"{group}.{resource.version}.{resource.kind}"


def _schema(resource: Resource, definition: Body | None) -> dict[str, Any]:
    versions = ((definition or {}).get("spec") or {}).get("versions") or []
    own = next((one.get("schema") for one in versions if one["name"] == resource.version), None)
    schema = (own or {}).get("openAPIV3Schema") or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {**schema, "x-kubernetes-group-version-kind": [_identity(resource)]}
