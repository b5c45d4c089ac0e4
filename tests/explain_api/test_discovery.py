"""What the API server and kubectl learn of the group."""

from pathlib import Path
from typing import Any

import pytest

from berth.explain_api import schemas
from berth.explain_api.columns import COLUMNS
from berth.explain_api.resources import RESOURCES
from explain_api.harness import running

GROUP_PATH = "/apis/explain.berth.dev"
VERSION_PATH = f"{GROUP_PATH}/v1alpha1"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_groups_versions_and_kinds_are_discovered(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        groups = (await api.get("/apis")).json
        group = (await api.get(GROUP_PATH)).json
        kinds = (await api.get(VERSION_PATH)).json

    assert [found["name"] for found in groups["groups"]] == ["explain.berth.dev"]
    assert group["preferredVersion"] == {"groupVersion": "explain.berth.dev/v1alpha1", "version": "v1alpha1"}
    found = {kind["name"]: kind for kind in kinds["resources"]}
    assert set(found) == {"explanations", "nodeviews", "clusterviews", "decisions"}
    assert found["explanations"]["shortNames"] == ["why"]
    assert {name for name, kind in found.items() if kind["namespaced"]} == {"explanations", "decisions"}
    assert all(kind["verbs"] == ["get", "list", "watch"] for kind in found.values())


async def test_the_api_server_gets_everything_at_once_and_only_if_it_has_changed(tmp_path: Path) -> None:
    accept = f"{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    async with running(tmp_path) as api:
        answer = await api.get("/apis", accept=accept)
        again = await api.get("/apis", accept=accept, headers={"If-None-Match": answer.headers["ETag"]})

    assert answer.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    (group,) = answer.json["items"]
    assert group["metadata"]["name"] == "explain.berth.dev"
    assert [kind["resource"] for kind in group["versions"][0]["resources"]] == [found.plural for found in RESOURCES]
    assert (again.status, again.text) == (304, "")


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/apis/explain.berth.dev/v1alpha1"])
async def test_openapi_has_a_schema_for_each_kind(tmp_path: Path, path: str) -> None:
    async with running(tmp_path) as api:
        document = (await api.get(path)).json

    found = document.get("definitions") or document["components"]["schemas"]
    kinds = {kind["kind"] for schema in found.values() for kind in schema.get("x-kubernetes-group-version-kind", [])}
    assert kinds == {resource.kind for resource in RESOURCES}
    assert all(text in found for text in references(document))


def references(value: Any) -> list[str]:
    """The names of all schemas that a document refers to."""
    if isinstance(value, dict):
        own = [value["$ref"].rpartition("/")[2]] if "$ref" in value else []
        return own + [name for item in value.values() for name in references(item)]
    return [name for item in value for name in references(item)] if isinstance(value, list) else []


async def test_the_index_of_openapi_leads_to_the_document(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        index = (await api.get("/openapi/v3")).json
        (link,) = index["paths"].values()
        document = await api.get(link["serverRelativeURL"])
    assert document.json["openapi"] == "3.0.0"


def test_every_kind_has_columns_and_a_schema() -> None:
    assert set(COLUMNS) == set(schemas.STATUS) == {resource.plural for resource in RESOURCES}
