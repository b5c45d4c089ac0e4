"""Aggregated APIs: requests for the group and version of an APIService are passed on to its Service.

    request --> which APIService has its group and version --> its Service --> an address --> the answer, as it comes

A Service of type ExternalName leads to that host, any other to the ready addresses of its EndpointSlices: there are no
cluster addresses here. Whether an API is available is found out as in the real server, by asking it for its kinds once
a second, and stands in the APIService's status; its kinds are part of discovery from then on. The user is whoever sent
the request: the account of a token, whom an administrator impersonates, or else an administrator.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import aiohttp
import orjson
from aiohttp import web
from yarl import URL

from berth.sim.errors import StatusError
from berth.sim.objects import Object, items, mapping, timestamp
from berth.sim.resources import API_SERVICES, CONFIG_MAPS, ENDPOINT_SLICES, SERVICES, Resource
from berth.sim.server.front_proxy import GROUP, NAMESPACE, USER, FrontProxyCredentials
from berth.sim.server.reviews import EVERYTHING, Account
from berth.sim.store import Store

CHECK_SECONDS: Final = 1.0
LIMIT_SECONDS: Final = 5.0
SERVICE_NAME: Final = "kubernetes.io/service-name"
ADMINISTRATOR: Final = Account("admin", groups=(EVERYTHING, "system:authenticated"))
OURSELVES: Final = Account("system:kube-aggregator", groups=(EVERYTHING,))
PASSED_ON: Final = ("Accept", "Content-Type", "If-None-Match", "User-Agent")
ANSWERED: Final = (
    "Content-Type",
    "ETag",
    "Retry-After",
    "Allow",
    "Cache-Control",
    "Warning",
    "Content-Security-Policy",
    "Referrer-Policy",
    "X-Content-Type-Options",
    "X-Frame-Options",
)
CHUNK_BYTES: Final = 2**16

_log = logging.getLogger(__name__)


class Unavailable(Exception):
    """Why an API cannot be reached: reason and message of its condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(slots=True)
class _Known:
    """What an aggregated API has said of itself; kept while it does not answer."""

    resources: tuple[Resource, ...] = ()
    documents: Mapping[str, Any] = field(default_factory=dict)  # the paths of its OpenAPI


class Aggregation:
    """Lives in the server's loop, from `start` to `stop`; costs nothing while there are no APIServices."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._credentials: FrontProxyCredentials | None = None
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[tuple[str, bool], ssl.SSLContext] = {}
        self._known: dict[str, _Known] = {}
        self._checking: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Begin to check APIs if there are some and nobody does. Called at the start, and when one is written."""
        if self._checking is None and any(map(_service_of, self._api_services())):
            self._publish()
            self._checking = asyncio.get_running_loop().create_task(self._check_all())

    async def stop(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)
            self._checking = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _publish(self) -> None:
        if self._credentials is None:
            from berth.sim.server.certificates import make_credentials  # few need it

            self._credentials = make_credentials()
        body = self._credentials.config_map()
        try:
            self._store.create(CONFIG_MAPS, body, namespace=NAMESPACE)
        except StatusError:  # it is there from an earlier start, of another server on this store perhaps
            self._store.replace(CONFIG_MAPS, NAMESPACE, body["metadata"]["name"], body)

    def _api_services(self) -> list[Object]:
        return list(self._store.list(API_SERVICES).items)

    # -- what is known -----------------------------------------------------------------------------------------------

    def find(self, path: str) -> Object | None:
        """Returns the APIService that a path belongs to: /apis/GROUP/VERSION and everything below."""
        parts = path.strip("/").split("/")
        if len(parts) < 3 or parts[0] != "apis":
            return None
        return self._find(f"{parts[2]}.{parts[1]}")

    def find_document(self, path: str) -> Object | None:
        """Returns the APIService whose schemas are at a path of /openapi/v3."""
        return self.find(path) if path.count("/") == 2 else None

    def _find(self, name: str) -> Object | None:
        if self._checking is None:
            return None
        try:
            found = self._store.get(API_SERVICES, "", name)
        except StatusError:
            return None
        return found if _service_of(found) else None

    def resources(self) -> tuple[Resource, ...]:
        """Returns the kinds of aggregated APIs, for discovery."""
        return tuple(resource for known in self._of_present() for resource in known.resources)

    def documents(self) -> dict[str, Any]:
        """Returns where their schemas are."""
        return {path: link for known in self._of_present() for path, link in known.documents.items()}

    def _of_present(self) -> list[_Known]:
        names = [body["metadata"]["name"] for body in self._api_services()] if self._known else []
        return [self._known[name] for name in names if name in self._known]

    # -- requests ----------------------------------------------------------------------------------------------------

    async def pass_on(self, request: web.BaseRequest, api_service: Object, user: Account) -> web.StreamResponse:
        """Sends the request to the API, and its answer to the client, as it comes."""
        if not _is_available(api_service):
            return web.Response(text="service unavailable\n", status=503)
        body = await request.read() if request.body_exists else None
        try:
            answer = await self._send(
                api_service,
                request.method,
                request.raw_path,
                user,
                headers={name: request.headers[name] for name in PASSED_ON if name in request.headers},
                body=body,
            )
        except (Unavailable, aiohttp.ClientError, OSError, TimeoutError) as error:
            return web.Response(text=f"error trying to reach service: {error}\n", status=503)
        async with answer:
            headers = {name: answer.headers[name] for name in ANSWERED if name in answer.headers}
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    async def _send(
        self,
        api_service: Object,
        method: str,
        path: str,
        user: Account,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> aiohttp.ClientResponse:
        service = _service_of(api_service)
        host, port = self._resolve(service)
        sent = [*(headers or {}).items(), (USER, user.name), *((GROUP, group) for group in user.groups)]
        self._session = self._session or aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(sock_connect=LIMIT_SECONDS)
        )
        return await self._session.request(
            method,
            URL(f"https://{f'[{host}]' if ':' in host else host}:{port}{path}", encoded=True),
            headers=sent,
            data=body,
            ssl=self._context(mapping(api_service.get("spec"))),
            server_hostname=f"{service['name']}.{service['namespace']}.svc",
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=LIMIT_SECONDS),
        )

    def _resolve(self, service: Mapping[str, Any]) -> tuple[str, int]:
        namespace, name, port = str(service["namespace"]), str(service["name"]), int(service.get("port") or 443)
        try:
            spec = mapping(self._store.get(SERVICES, namespace, name).get("spec"))
        except StatusError:
            raise Unavailable("ServiceNotFound", f'service/{name} in "{namespace}" is not present') from None
        if spec.get("type") == "ExternalName":
            return str(spec.get("externalName")), port
        slices = self._store.list(ENDPOINT_SLICES, namespace, label_selector=f"{SERVICE_NAME}={name}").items
        for found in slices:
            ports = [int(one["port"]) for one in items(found.get("ports"))]
            ready = [one for one in items(found.get("endpoints")) if mapping(one.get("conditions")).get("ready", True)]
            if ports and ready:
                return str(ready[0]["addresses"][0]), ports[0]
        problem = f'endpointslices for service/{name} in "{namespace}" have no addresses'
        raise Unavailable("MissingEndpoints", problem)

    def _context(self, spec: Mapping[str, Any]) -> ssl.SSLContext:
        """One for each caBundle; a certificate that is not trusted ends the handshake."""
        key = str(spec.get("caBundle", "")), bool(spec.get("insecureSkipTLSVerify"))
        if key not in self._contexts:
            assert self._credentials is not None, "APIs are checked before requests are passed on"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if key[1]:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            elif key[0]:
                context.load_verify_locations(cadata=base64.b64decode(key[0]).decode())
            with self._credentials.write() as file:
                context.load_cert_chain(file.name)
            self._contexts = {key: context} if len(self._contexts) > 20 else {**self._contexts, key: context}
        return self._contexts[key]

    # -- availability ------------------------------------------------------------------------------------------------

    async def _check_all(self) -> None:
        while True:
            for api_service in self._api_services():
                if _service_of(api_service):
                    await self._check(api_service)
            await asyncio.sleep(CHECK_SECONDS)

    async def _check(self, api_service: Object) -> None:
        name = api_service["metadata"]["name"]
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                self._known[name] = await self._ask(api_service)
            self._note(api_service, "True", "Passed", "all checks passed")
        except Unavailable as error:
            self._note(api_service, "False", error.reason, str(error))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError) as error:
            problem = str(error) or type(error).__name__
            self._note(api_service, "False", "FailedDiscoveryCheck", f"failing or missing response: {problem}")

    async def _ask(self, api_service: Object) -> _Known:
        spec = api_service["spec"]
        path = f"/apis/{spec['group']}/{spec['version']}"
        kinds = await self._read(api_service, path)
        documents = mapping((await self._read(api_service, "/openapi/v3", optional=True)).get("paths"))
        return _Known(tuple(_resource(spec, kind) for kind in kinds["resources"] if "/" not in kind["name"]), documents)

    async def _read(self, api_service: Object, path: str, *, optional: bool = False) -> dict[str, Any]:
        async with await self._send(
            api_service, "GET", path, OURSELVES, headers={"Accept": "application/json"}
        ) as answer:
            if answer.status == 404 and optional:
                return {}
            if answer.status >= 300:
                raise Unavailable("FailedDiscoveryCheck", f"bad status from {path}: {answer.status}")
            return mapping(orjson.loads(await answer.read()))

    def _note(self, api_service: Object, status: str, reason: str, message: str) -> None:
        """Writes the condition, if it says something new."""
        before = _condition(api_service)
        if (before.get("status"), before.get("reason"), before.get("message")) == (status, reason, message):
            return
        condition = {"type": "Available", "status": status, "reason": reason, "message": message}
        condition["lastTransitionTime"] = timestamp(self._clock())
        patch = {"status": {"conditions": [condition]}}
        try:
            self._store.patch(API_SERVICES, "", api_service["metadata"]["name"], patch, "merge", subresource="status")
        except StatusError as error:
            _log.debug("an APIService has gone: %s", error)


def sender(request: web.BaseRequest, accounts: Mapping[str, Account]) -> Account:
    """Returns who has sent a request, or whom the sender impersonates."""
    impersonated = request.headers.get("Impersonate-User")
    if impersonated:
        groups = tuple(request.headers.getall("Impersonate-Group", ()))
        return Account(impersonated, groups=(*groups, "system:authenticated"))
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    return accounts.get(token, ADMINISTRATOR)


def _service_of(api_service: Object) -> dict[str, Any]:
    return mapping(mapping(api_service.get("spec")).get("service"))


def _condition(api_service: Object) -> dict[str, Any]:
    conditions = items(mapping(api_service.get("status")).get("conditions"))
    return next((one for one in conditions if one.get("type") == "Available"), {})


def _is_available(api_service: Object) -> bool:
    return _condition(api_service).get("status") == "True"


def _resource(spec: Mapping[str, Any], kind: Mapping[str, Any]) -> Resource:
    return Resource(
        str(spec["group"]),
        str(spec["version"]),
        str(kind["name"]),
        str(kind["kind"]),
        bool(kind["namespaced"]),
        str(kind.get("singularName", "")),
        tuple(kind.get("shortNames") or ()),
        tuple(kind["verbs"]),
        categories=tuple(kind.get("categories") or ()),
    )
