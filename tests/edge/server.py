"""A small real HTTP server that answers as a test tells it to, and the client under test connected to it.

Answers are given per method and path: a list of them is used up one by one and the last one stays. Besides JSON
answers there are the things that happen to connections: `Cut` closes it after the request has been read, `Silence`
never answers.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from berth.cluster.api import Api
from berth.cluster.credentials import Credentials, Source

LIMIT_SECONDS = 60


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
        reactions = self.answers.get((request.method, request.path), [Answer(404, "404 page not found\n")])
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
async def connected(folder: Path, server: Server, *, token_file: Path | None = None) -> AsyncIterator[Api]:
    path = write_kubeconfig(folder, f"http://127.0.0.1:{server.port}", token_file=token_file)
    api = Api(Credentials(Source(str(path))))
    await api.open()
    try:
        yield api
    finally:
        await api.close()


async def until(condition: Callable[[], bool]) -> None:
    """Let everything run until the condition holds; fails after a while rather than waiting for ever."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the condition is on state that many things change
            await asyncio.sleep(0)
