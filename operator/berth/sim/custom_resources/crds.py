"""Custom resources: what a CustomResourceDefinition makes the store serve.

A definition is accepted and established at once: names do not clash with others here, and there is nothing to wait
for. Each served version becomes a Resource with its schema; all versions share one collection, and differ in nothing
but apiVersion (conversion strategy None, the only one). Webhooks are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from berth.sim.custom_resources.schema import Schema
from berth.sim.errors import Cause, invalid, not_implemented
from berth.sim.objects import Object, items, mapping, read
from berth.sim.resources import CRDS, Resource
from berth.sim.selection import METADATA_FIELDS, NAME_FIELD

REQUIRED: Final = "FieldValueRequired"


@dataclass(frozen=True, slots=True)
class CustomVersion:
    """One served version of a custom resource."""

    resource: Resource
    schema: Schema
    fields: Mapping[str, str]
    """The field selectors that it offers: name, namespace, and selectableFields."""
    definition: str
    """The name of the CustomResourceDefinition."""


def complete(body: Object) -> None:
    """The defaults of a definition."""
    spec = body.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = str(names.get("kind", ""))
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def establish(body: Object, now: str) -> None:
    """The status that the API server's own controllers write."""
    spec = body["spec"]
    versions = items(spec.get("versions"))
    body["status"] = {
        "conditions": [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
        ],
        "acceptedNames": dict(spec["names"]),
        "storedVersions": [version["name"] for version in versions if version.get("storage")],
    }


def served_versions(body: Object) -> list[CustomVersion]:
    """What a definition adds to the store; raises StatusError for one that is wrong or not supported."""
    _check(body)
    return [_served(body, version) for version in body["spec"]["versions"] if version.get("served")]


def _served(body: Object, version: Object) -> CustomVersion:
    spec, names = body["spec"], body["spec"]["names"]
    namespaced = spec.get("scope") == "Namespaced"
    subresources = mapping(version.get("subresources"))
    resource = Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=namespaced,
        singular=names["singular"],
        short_names=tuple(items(names.get("shortNames"))),
        subresources=tuple(name for name in ("status", "scale") if name in subresources),
        list_kind=names["listKind"],
        categories=tuple(items(names.get("categories"))),
        custom=True,
    )
    selectable = {
        str(field["jsonPath"]).lstrip("."): str(field["jsonPath"]).lstrip(".")
        for field in items(version.get("selectableFields"))
    }
    fields = {
        **(METADATA_FIELDS if namespaced else NAME_FIELD),
        "metadata.namespace": "metadata.namespace",
        **selectable,
    }
    schema = Schema(read(version, "schema.openAPIV3Schema"))
    return CustomVersion(resource, schema, fields, body["metadata"]["name"])


def _check(body: Object) -> None:
    spec = mapping(body.get("spec"))
    causes = [*_missing(spec)]
    if not causes:
        causes = [*_wrong_name(body), *_wrong_versions(spec)]
    if causes:
        raise invalid(CRDS.group, CRDS.kind, str(body["metadata"].get("name", "")), causes)
    if read(spec, "conversion.strategy") != "None":
        raise not_implemented("the embedded cluster converts nothing: spec.conversion.strategy must be None")


def _missing(spec: Object) -> list[Cause]:
    paths = ("group", "scope", "names.plural", "names.kind", "versions")
    return [Cause(f"spec.{path}", REQUIRED, "Required value") for path in paths if not read(spec, path)]


def _wrong_name(body: Object) -> list[Cause]:
    spec, name = body["spec"], str(body["metadata"].get("name", ""))
    if name == f"{spec['names']['plural']}.{spec['group']}":
        return []
    problem = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
    return [Cause("metadata.name", "FieldValueInvalid", problem)]


def _wrong_versions(spec: Mapping[str, Any]) -> list[Cause]:
    causes = []
    for place, version in enumerate(spec["versions"]):
        if not isinstance(read(version, "schema.openAPIV3Schema"), dict):
            path = f"spec.versions[{place}].schema.openAPIV3Schema"
            causes.append(Cause(path, REQUIRED, "Required value: schemas are required"))
    if sum(1 for version in spec["versions"] if version.get("storage")) != 1:
        shown = "Invalid value: []: must have exactly one version marked as storage version"
        causes.append(Cause("spec.versions", "FieldValueInvalid", shown))
    return causes


def _condition(kind: str, reason: str, message: str, now: str) -> Object:
    return {"lastTransitionTime": now, "message": message, "reason": reason, "status": "True", "type": kind}
