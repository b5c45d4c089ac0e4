"""The schemas that kubectl reads: of every kind, with every part that they name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from berth.sim.resources import BUILT_IN, Resource
from control_plane.client import Client

# Defined by other servers than kube-apiserver's own types.
NOT_DESCRIBED = ("apiextensions.k8s.io", "apiregistration.k8s.io")
DOCUMENTS = sorted({(found.group, found.version) for found in BUILT_IN})


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].removeprefix("#/components/schemas/")
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


async def _document(api: Client, group: str, version: str) -> dict[str, Any]:
    path = f"apis/{group}/{version}" if group else f"api/{version}"
    return await api.get(f"/openapi/v3/{path}")


def _schema(document: dict[str, Any], resource: Resource) -> dict[str, Any]:
    identity = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    schemas = document["components"]["schemas"].values()
    [found] = [one for one in schemas if identity in one.get("x-kubernetes-group-version-kind", ())]
    return dict(found)


@pytest.mark.parametrize(("group", "version"), DOCUMENTS)
async def test_every_part_that_a_document_names_is_in_it(api: Client, group: str, version: str) -> None:
    document = await _document(api, group, version)
    assert set(_references(document)) <= set(document["components"]["schemas"])


@pytest.mark.parametrize("resource", [found for found in BUILT_IN if found.group not in NOT_DESCRIBED], ids=str)
async def test_every_built_in_kind_has_its_fields(api: Client, resource: Resource) -> None:
    schema = _schema(await _document(api, resource.group, resource.version), resource)
    assert {"apiVersion", "kind", "metadata"} <= set(schema["properties"])
    assert len(schema["properties"]) > 3


async def test_a_field_of_a_built_in_kind_has_its_type(api: Client) -> None:
    schemas = (await _document(api, "apps", "v1"))["components"]["schemas"]
    fields = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert fields["hostNetwork"] == {"type": "boolean"}
    assert fields["nodeSelector"] == {"type": "object", "additionalProperties": {"type": "string"}}
    container = {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}]}
    assert fields["containers"] == {"type": "array", "items": container}
    assert "emptyDir" in schemas["io.k8s.api.core.v1.Volume"]["properties"], "fields of inline messages are its own"
