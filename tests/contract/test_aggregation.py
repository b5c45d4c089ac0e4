"""Aggregated APIs: what the API server makes of an APIService, and what it passes on.

The API behind it is a small one of its own, served by this process, which answers with what it was sent.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from berth.serving.addresses import ListenAddress, listen
from berth.serving.certificates import context_of, make_pem
from berth.serving.listener import Listener
from contract.asking import Server, refused
from control_plane.client import ApiError, Client, Object

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GROUP, VERSION = "echo.example.com", "v1"
NAME = f"{VERSION}.{GROUP}"
ROOT = f"/apis/{GROUP}/{VERSION}"
WAIT_SECONDS = 90
KINDS = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {
            "name": "echoes",
            "singularName": "echo",
            "namespaced": True,
            "kind": "Echo",
            "verbs": ["get", "list"],
            "shortNames": ["ec"],
        }
    ],
}
DOCUMENT = {"openapi": "3.0.0", "info": {"title": "echo", "version": "v1"}, "paths": {}, "components": {"schemas": {}}}
INDEX = {"paths": {f"apis/{GROUP}/{VERSION}": {"serverRelativeURL": f"/openapi/v3{ROOT}?hash=1"}}}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Echo:
    """The API; `seen` are the requests for objects, `pem` its key and certificate."""

    def __init__(self) -> None:
        self.pem = make_pem("echo.default.svc")
        self.seen: list[tuple[web.BaseRequest, bytes]] = []
        opened = listen(ListenAddress("127.0.0.1", 0))
        self.port = int(opened.getsockname()[1])
        context = context_of(self.pem)
        self._listener = Listener(opened, self._answer, lambda: context, Counter())
        self._running = asyncio.create_task(self._listener.run())

    async def stop(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self._listener.close()

    @property
    def bundle(self) -> str:
        certificate = self.pem[self.pem.index(b"-----BEGIN CERTIFICATE") :]
        return base64.b64encode(certificate).decode()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        documents: dict[str, Any] = {ROOT: KINDS, "/openapi/v3": INDEX, f"/openapi/v3{ROOT}": DOCUMENT}
        if request.path in documents:
            return web.json_response(documents[request.path])
        if request.path.endswith("/missing") or not request.path.startswith(ROOT):
            return web.json_response({"kind": "Status", "status": "Failure", "code": 404}, status=404)
        self.seen.append((request, await request.read()))
        if "watch" in request.query:
            return await self._stream(request)
        return web.json_response({"kind": "Echo", "path": request.path, "query": sorted(request.query.items())})

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"type": "ADDED"}\n')
        await asyncio.Event().wait()
        return response


def api_service(echo: Echo, **changes: Any) -> Object:
    spec = {
        "group": GROUP,
        "version": VERSION,
        "groupPriorityMinimum": 100,
        "versionPriority": 10,
        "service": {"namespace": "default", "name": "echo", "port": echo.port},
        "caBundle": echo.bundle,
        **changes,
    }
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": NAME},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "echo", "namespace": "default"},
    "spec": {"type": "ExternalName", "externalName": "localhost"},
}


@pytest.fixture
async def echo(api: Client) -> AsyncIterator[Echo]:
    served = Echo()
    yield served
    await api.delete(f"{API_SERVICES}/{NAME}")
    await served.stop()


async def wait_available(api: Client, status: str = "True") -> dict[str, Any]:
    """Returns the condition once it has this status."""

    def condition(found: Any) -> dict[str, Any]:
        conditions = found[NAME].get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == "Available"), {})

    found = await api.wait_until(
        API_SERVICES, lambda found: condition(found).get("status") == status, timeout_seconds=WAIT_SECONDS
    )
    return condition(found)


async def test_an_api_that_answers_is_available_and_discovered(api: Client, echo: Echo) -> None:
    await api.create(SERVICE)
    await api.create(api_service(echo))
    condition = await wait_available(api)
    assert (condition["reason"], condition["message"]) == ("Passed", "all checks passed")

    assert await api.get(ROOT) == KINDS
    groups = await api.get("/apis")
    assert GROUP in [group["name"] for group in groups["groups"]]
    assert (await api.get(f"/apis/{GROUP}"))["preferredVersion"]["version"] == VERSION
    await wait_discovered(api)


async def wait_discovered(api: Client) -> None:
    """In the form that kubectl asks for; the real server reads it a moment later."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            async with api.session.get("/apis", headers={"Accept": AGGREGATED}) as answer:
                items = (await answer.json(content_type=None))["items"]
            found = [group for group in items if group["metadata"]["name"] == GROUP]
            resources = found[0]["versions"][0].get("resources") if found else None
            if resources:
                assert resources[0]["resource"] == "echoes"
                assert resources[0]["shortNames"] == ["ec"]
                return
            await asyncio.sleep(0.1)


async def test_requests_are_passed_on_with_the_users_name_and_the_front_proxys_certificate(
    api: Client, echo: Echo, server: Server
) -> None:
    await api.create(SERVICE)
    await api.create(api_service(echo))
    await wait_available(api)

    answer = await api.get(f"{ROOT}/namespaces/a/echoes/b?x=1&y=%2F&y=2")
    assert answer["path"] == f"{ROOT}/namespaces/a/echoes/b"
    assert answer["query"] == [["x", "1"], ["y", "/"], ["y", "2"]]
    await api.request("POST", f"{ROOT}/namespaces/a/echoes", {"kind": "Echo"})
    (first, _), (second, body) = echo.seen
    assert first.headers["X-Remote-User"] == "admin"
    assert "system:masters" in first.headers.getall("X-Remote-Group")
    assert "Authorization" not in first.headers
    assert second.method == "POST"
    assert json.loads(body) == {"kind": "Echo"}


async def test_an_administrator_acts_as_somebody_else(api: Client, echo: Echo) -> None:
    await api.create(SERVICE)
    await api.create(api_service(echo))
    await wait_available(api)
    headers = {"Impersonate-User": "eve", "Impersonate-Group": "system:masters", "X-Remote-User": "forged"}
    async with api.session.get(f"{ROOT}/namespaces/a/echoes", headers=headers) as answer:
        assert answer.status == 200
    ((seen, _),) = echo.seen
    assert seen.headers.getall("X-Remote-User") == ["eve"]
    assert "system:masters" in seen.headers.getall("X-Remote-Group")


async def test_refusals_and_streams_come_as_they_are(api: Client, echo: Echo) -> None:
    await api.create(SERVICE)
    await api.create(api_service(echo))
    await wait_available(api)
    assert await refused(api, 404, "GET", f"{ROOT}/namespaces/a/echoes/missing")
    async with api.session.get(f"{ROOT}/namespaces/a/echoes?watch=true") as answer:
        assert await asyncio.wait_for(answer.content.readline(), WAIT_SECONDS) == b'{"type": "ADDED"}\n'


async def test_an_api_whose_certificate_is_not_trusted_is_not_available(api: Client, echo: Echo) -> None:
    await api.create(SERVICE)
    await api.create(api_service(echo, caBundle=base64.b64encode(other_certificate()).decode()))
    assert (await wait_available(api, "False"))["reason"] == "FailedDiscoveryCheck"
    assert "service unavailable" in await refused(api, 503, "GET", ROOT)

    await api.patch(f"{API_SERVICES}/{NAME}", {"spec": {"caBundle": echo.bundle}})
    await wait_available(api)
    assert await api.get(ROOT) == KINDS


def other_certificate() -> bytes:
    pem = make_pem("echo.default.svc")
    return pem[pem.index(b"-----BEGIN CERTIFICATE") :]


async def test_without_its_service_an_api_is_not_available(api: Client, echo: Echo) -> None:
    await api.create(api_service(echo))
    condition = await wait_available(api, "False")
    assert condition["reason"] == "ServiceNotFound"
    assert condition["message"] == 'service/echo in "default" is not present'


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"version": "v2"}, 'must be `spec.version+"."+spec.group`'),
        ({"groupPriorityMinimum": None}, "spec.groupPriorityMinimum: Invalid value: 0"),
        ({"versionPriority": 5000}, "spec.versionPriority: Invalid value: 5000"),
        ({"insecureSkipTLSVerify": True}, "may not be true if caBundle is present"),
    ],
)
async def test_an_api_service_that_cannot_be_is_refused(
    api: Client, echo: Echo, changes: dict[str, Any], problem: str
) -> None:
    assert problem in await refused(api, 422, "POST", API_SERVICES, api_service(echo, **changes))


async def test_the_front_proxys_authority_is_published(api: Client, echo: Echo, tmp_path: Path) -> None:
    await api.create(SERVICE)
    await api.create(api_service(echo))
    await wait_available(api)
    body = await api.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
    ssl.create_default_context().load_verify_locations(cadata=body["data"]["requestheader-client-ca-file"])
    assert json.loads(body["data"]["requestheader-allowed-names"]) == ["front-proxy-client"]
    assert json.loads(body["data"]["requestheader-username-headers"]) == ["X-Remote-User"]
    assert json.loads(body["data"]["requestheader-group-headers"]) == ["X-Remote-Group"]
    assert json.loads(body["data"]["requestheader-extra-headers-prefix"]) == ["X-Remote-Extra-"]


async def test_an_api_that_is_taken_away_is_gone(api: Client, echo: Echo) -> None:
    await api.create(SERVICE)
    await api.create(api_service(echo))
    await wait_available(api)
    await api.delete(f"{API_SERVICES}/{NAME}")
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                await api.get(ROOT)
            except ApiError as error:
                if error.status == 404:
                    return
            await asyncio.sleep(0.1)
