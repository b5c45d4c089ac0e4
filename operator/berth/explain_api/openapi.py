"""OpenAPI: the schemas for `kubectl explain`, and the paths as far as the API server and kubectl read them."""

from typing import Any, Final

from berth.explain_api.resources import API_VERSION, GROUP, RESOURCES, VERSION, ApiResource
from berth.explain_api.schemas import schema_of

_INFO: Final = {"title": "Berth: explanations", "version": VERSION}
_PREFIX: Final = "dev.berth.explain.v1alpha1"
_METADATA: Final = f"{_PREFIX}.ObjectMeta"
_METADATA_SCHEMA: Final = {
    "type": "object",
    "description": "Name, namespace, labels and creation time of the pod or node that this is about.",
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "uid": {"type": "string"},
        "resourceVersion": {"type": "string"},
        "creationTimestamp": {"type": "string", "format": "date-time"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def version_2() -> dict[str, Any]:
    """Returns the document that the API server merges into its own."""
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": _paths(),
        "definitions": _schemas("#/definitions/"),
    }


def version_3() -> dict[str, Any]:
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": _paths(),
        "components": {"schemas": _schemas("#/components/schemas/")},
    }


def index(digest: str) -> dict[str, Any]:
    """Returns where the document of version 3 is; the digest lets clients keep it until it changes."""
    path = f"apis/{API_VERSION}"
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}}}


def _schemas(root: str) -> dict[str, Any]:
    reference = {"$ref": f"{root}{_METADATA}"}
    kinds = {
        f"{_PREFIX}.{resource.kind}": {
            **schema_of(resource, reference),
            "x-kubernetes-group-version-kind": [_identity(resource)],
        }
        for resource in RESOURCES
    }
    return {_METADATA: _METADATA_SCHEMA, **kinds}


def _paths() -> dict[str, Any]:
    found = {}
    for resource in RESOURCES:
        place = f"namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else resource.plural
        found[f"/apis/{API_VERSION}/{place}"] = {"get": _operation(resource, "list")}
        found[f"/apis/{API_VERSION}/{place}/{{name}}"] = {"get": _operation(resource, "get")}
    return found


def _operation(resource: ApiResource, action: str) -> dict[str, Any]:
    return {
        "operationId": f"{action}ExplainBerthDevV1alpha1{resource.kind}",
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _identity(resource),
    }


def _identity(resource: ApiResource) -> dict[str, str]:
    return {"group": GROUP, "version": VERSION, "kind": resource.kind}
