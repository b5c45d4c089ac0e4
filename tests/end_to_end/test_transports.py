"""Our own connections and aiohttp's, on an API server: the same requests get the same answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from berth.cluster.api import MERGE_PATCH, Api, open_transport
from berth.cluster.credentials import Credentials, Source
from berth.cluster.errors import ApiError
from berth.cluster.proxied import ProxiedTransport
from berth.cluster.transport import Transport

NODES = "/api/v1/nodes"
MANY = 300  # enough for a list that is sent in many pieces


def by_aiohttp(configuration: Any, *, connections: int, ahead: int, delivery_seconds: float | None) -> Transport:
    return ProxiedTransport(configuration, None, connections=connections, delivery_seconds=delivery_seconds)


@pytest.fixture(params=["direct", "aiohttp"])
async def client(request: pytest.FixtureRequest, kubeconfig: Path) -> AsyncIterator[Api]:
    transport = open_transport if request.param == "direct" else by_aiohttp
    client = Api(Credentials(Source(str(kubeconfig))), ahead=4, open_transport=transport)
    await client.open()
    yield client
    await client.close()


def node(name: str) -> dict[str, Any]:
    note = {"berth.dev/note": name * 100}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": note}}


async def test_objects_are_made_listed_patched_and_deleted_many_at_once(client: Api) -> None:
    names = [f"node-{number}" for number in range(MANY)]
    made = await asyncio.gather(*(client.request("POST", NODES, body=node(name)) for name in names))
    assert {status for status, _ in made} == {201}
    _, listed = await client.request("GET", NODES)
    assert sorted(item["metadata"]["name"] for item in listed["items"]) == sorted(names)
    patch = {"metadata": {"labels": {"zone": "a"}}}
    _, patched = await client.request("PATCH", f"{NODES}/node-7", body=patch, content_type=MERGE_PATCH)
    assert patched["metadata"]["labels"]["zone"] == "a"
    await asyncio.gather(*(client.request("DELETE", f"{NODES}/{name}") for name in names))
    _, listed = await client.request("GET", NODES)
    assert listed["items"] == []


async def test_refusals_say_what_the_server_says(client: Api) -> None:
    await client.request("POST", NODES, body=node("there"))
    with pytest.raises(ApiError) as exists:
        await client.request("POST", NODES, body=node("there"))
    assert (exists.value.status, exists.value.reason) == (409, "AlreadyExists")
    with pytest.raises(ApiError) as missing:
        await client.request("GET", f"{NODES}/nowhere")
    assert missing.value.names_missing_object
    with pytest.raises(ApiError) as unserved:
        await client.request("GET", "/apis/nobody.example/v1")
    assert (unserved.value.status, unserved.value.is_status) == (404, False)
