"""A small real HTTP server that answers as a test tells it to, and the client under test connected to it.

Answers are given per method and path: a list of them is used up one by one and the last one stays. Where nothing was
said, the kinds that Berth watches are served and empty (`listed`), and discovery says so. Besides JSON answers there
are the things that happen to connections: `Cut` closes it after the request has been read, `Silence` never answers.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from berth.cluster.api import Api, OpenTransport, open_transport
from berth.cluster.credentials import Credentials, Source
from berth.cluster.listing import WatchedResource
from berth.cluster.proxied import ProxiedTransport
from berth.cluster.resources import RESOURCES
from berth.cluster.transport import Transport
from support.patience import LIMIT_SECONDS


@dataclass(frozen=True)
class Answer:
    """A status and a body; a str goes out as plain text."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


class Cut:
    """The connection breaks after the server has read the request."""


class Silence:
    """No answer ever comes."""


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


def refusal(status: int, reason: str, message: str, **details: Any) -> Answer:
    """A Status object, as the API server sends it."""
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
    return Answer(status, body | ({"details": details} if details else {}))


def busy(retry_after: str = "") -> Answer:
    """429, as the API server turns requests away that it has no time for."""
    answer = refusal(429, "TooManyRequests", "Too many requests, please try again later.")
    return Answer(429, answer.body, {"Retry-After": retry_after} if retry_after else {})


def listed(kind: str, *items: Any, version: str = "1000", token: str = "") -> Answer:
    """A page of a list, as the API server sends it."""
    resource = next((each for each in RESOURCES if each.kind == kind), None)
    metadata = {"resourceVersion": version} | ({"continue": token} if token else {})
    api_version = resource.api_version if resource is not None else "berth.dev/v1"
    return Answer(200, {"kind": f"{kind}List", "apiVersion": api_version, "metadata": metadata, "items": list(items)})


def discovered(*resources: WatchedResource) -> dict[str, Answer]:
    """What discovery says where these are served, and nothing else, by path."""
    groups: dict[str, list[str]] = {}
    answers = {}
    for resource in resources:
        served = [{"name": each.plural} for each in resources if each.root == resource.root]
        body = {"kind": "APIResourceList", "groupVersion": resource.api_version, "resources": served}
        answers[resource.root] = Answer(200, body)
        if resource.group and resource.version not in groups.setdefault(resource.group, []):
            groups[resource.group].append(resource.version)
    listed = [{"name": name, "versions": [{"version": each} for each in found]} for name, found in groups.items()]
    return {**answers, "/apis": Answer(200, {"kind": "APIGroupList", "groups": listed})}


DEFAULTS = {**{each.path: listed(each.kind) for each in RESOURCES}, **discovered(*RESOURCES)}

Reaction = Answer | Cut | Silence | Callable[[Seen], "Answer | Cut | Silence"]


class Server:
    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.answers: dict[tuple[str, str], list[Reaction]] = {}
        self.port = 0

    def answer(self, method: str, path: str, *reactions: Reaction) -> None:
        self.answers[method, path] = list(reactions)

    def seen(self, method: str, path: str = "") -> list[Seen]:
        return [request for request in self.requests if request.method == method and path in request.path]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        seen = Seen(
            request.method, request.path, dict(request.query), dict(request.headers), json.loads(raw) if raw else None
        )
        self.requests.append(seen)
        default = DEFAULTS.get(request.path) if request.method == "GET" else None
        reactions = self.answers.get((request.method, request.path), [default or Answer(404, "404 page not found\n")])
        reaction = reactions.pop(0) if len(reactions) > 1 else reactions[0]
        outcome = reaction(seen) if callable(reaction) else reaction
        if isinstance(outcome, Silence):
            await asyncio.Event().wait()
        if isinstance(outcome, Cut):
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        assert isinstance(outcome, Answer)
        if isinstance(outcome.body, str):
            return web.Response(status=outcome.status, text=outcome.body, headers=outcome.headers)
        return web.json_response(outcome.body, status=outcome.status, headers=outcome.headers)


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


def write_kubeconfig(
    folder: Path, server: str, *, token_file: Path | None = None, cluster: dict[str, Any] | None = None
) -> Path:
    """A kubeconfig with contexts `main` (current) and `other`."""
    user = {"tokenFile": str(token_file)} if token_file else {"token": "secret"}
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "main",
                "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("main", "other")],
            }
        )
    )
    return path


@asynccontextmanager
async def connected(
    folder: Path, server: Server, *, token_file: Path | None = None, open_transport: OpenTransport = open_transport
) -> AsyncIterator[Api]:
    path = write_kubeconfig(folder, f"http://127.0.0.1:{server.port}", token_file=token_file)
    api = Api(Credentials(Source(str(path))), open_transport=open_transport)
    await api.open()
    try:
        yield api
    finally:
        await api.close()


def by_aiohttp(configuration: Any, *, connections: int, ahead: int, delivery_seconds: float | None) -> Transport:
    """The transport for proxies, without one."""
    return ProxiedTransport(configuration, None, connections=connections, delivery_seconds=delivery_seconds)


TRANSPORTS: dict[str, OpenTransport] = {"direct": open_transport, "aiohttp": by_aiohttp}


async def until(condition: Callable[[], bool]) -> None:
    """Let everything run until the condition holds; fails after a while rather than waiting for ever."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the condition is on state that many things change
            await asyncio.sleep(0)
