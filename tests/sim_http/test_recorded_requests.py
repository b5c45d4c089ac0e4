"""Every request that kubectl, kopf, Berth or the test client was seen to send is served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from berth.sim.resources import BUILT_IN
from berth.sim.store import Store
from contract.asking import plain
from contract.kubectl_session import DEPLOYMENT, POLICY
from control_plane.client import Client
from support.builders import make_node, make_pod

SHAPES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "contract" / "recorded_requests.json").read_text()
)
NAMES = {"schedulingpolicies": "session", "deployments": "web", "namespaces": "other"}
BODIES: dict[str, Any] = {
    "application/json-patch+json": [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}],
    "application/merge-patch+json": {"metadata": {"labels": {"a": "b"}}},
    "application/strategic-merge-patch+json": {"metadata": {"labels": {"a": "b"}}},
}
NOT_SERVED = ("horizontalpodautoscalers", "resourceslices", "admissionregistration.k8s.io")
PROTOBUF = "application/vnd.kubernetes.protobuf"
NAMESPACE_IN_PROTOBUF = b"k8s\0\n\x0f\n\x02v1\x12\tNamespace\x12\x07\n\x05\n\x03new"


def title(shape: dict[str, Any]) -> str:
    query = "&".join(f"{key}={value}" for key, value in shape["query"].items())
    return f"{shape['method']} {shape['path']}?{query} {shape['accept'][:60]} {shape['contentType']}"


def path_of(shape: dict[str, Any]) -> str:
    """The path with names of objects that are there."""
    path: str = shape["path"].replace("{namespace}", "default")
    before, _, _ = path.partition("/{name}")
    return path.replace("{name}", NAMES.get(before.rsplit("/", 1)[-1], "session"))


def query_of(shape: dict[str, Any], version: int) -> dict[str, str]:
    values = {"{version}": str(version), "{timeoutSeconds}": "1", "{uid}": "u"}
    query = {key: values.get(value, value) for key, value in shape["query"].items()}
    return {**query, "timeoutSeconds": "1"} if query.get("watch") == "true" else query


def body_of(shape: dict[str, Any], path: str) -> Any:
    """A body that fits the request."""
    content_type = shape["contentType"]
    if content_type == PROTOBUF:
        return NAMESPACE_IN_PROTOBUF
    if path.endswith("/scale"):
        return {"spec": {"replicas": 3}}
    if path.endswith("/binding"):
        return {"metadata": {"name": "session"}, "target": {"kind": "Node", "name": "session"}}
    if content_type in BODIES:
        return BODIES[content_type]
    if shape["method"] == "DELETE" or not content_type:
        return {} if content_type else None
    return whole_body(path)


def whole_body(path: str) -> Any:
    if path.endswith("/deployments/web"):
        return DEPLOYMENT
    if path.endswith("/events"):
        metadata = {"name": "new", "namespace": "default"}
        about = {"kind": "Pod", "namespace": "default", "name": "session"}
        more = {"eventTime": "2026-01-01T00:00:00.000000Z", "regarding": about, "reportingController": "berth"}
        words = {"reportingInstance": "b", "action": "Binding", "reason": "Scheduled", "type": "Normal"}
        return {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata, **more, **words}
    if "/schedulingpolicies" in path:
        return {**POLICY, "metadata": {"name": "session" if path.endswith("/session") else "new"}}
    return plain(make_node("new")) if path.endswith("/nodes") else plain(make_pod("new"))


async def fill(store: Store, api: Client) -> None:
    await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    await api.create(plain(make_node("session")))
    await api.create(plain(make_pod("session")))
    await api.create(POLICY)
    await api.create(DEPLOYMENT)


@pytest.mark.parametrize("shape", SHAPES, ids=title)
async def test_a_recorded_request_is_served(shape: dict[str, Any], store: Store, api: Client) -> None:
    await fill(store, api)
    path = path_of(shape)
    if "customresourcedefinitions/session" in path:
        path = path.replace("session", "schedulingpolicies.berth.dev")
    headers = {"Accept": shape["accept"], "Content-Type": shape["contentType"] or "application/json"}
    body = body_of(shape, path)
    if shape["method"] == "PUT":
        body["metadata"] = (await api.get(path))["metadata"]
    async with api.session.request(
        shape["method"],
        path,
        params=query_of(shape, store.revision),
        headers=headers,
        data=body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
    ) as answer:
        # A watch goes on for its second, which nobody needs to see.
        text = "" if shape["query"].get("watch") else await answer.text()
    assert answer.status in expected(shape, path), f"{answer.status} {text[:500]}"


def expected(shape: dict[str, Any], path: str) -> tuple[int, ...]:
    """Success, but for what the embedded server has no such kind or encoding for; both refusals suit the clients."""
    if path == "/openapi/v2":
        return (406,)
    if "/leases/" in path or any(name in path for name in NOT_SERVED):
        return (404,)
    return (200, 201)


def test_the_list_holds_all_the_kinds_that_berth_observes_and_no_secrets() -> None:
    paths = {shape["path"] for shape in SHAPES}
    observed = [resource for resource in BUILT_IN if resource.plural in ("pods", "nodes", "storageclasses", "csinodes")]
    assert all(any(path.endswith(f"/{resource.plural}") for path in paths) for resource in observed)
    assert "127.0.0.1" not in json.dumps(SHAPES)
    assert "Bearer" not in json.dumps(SHAPES)
