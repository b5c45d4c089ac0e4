"""Between Berth and the API server: a proxy whose watches say nothing of some objects.

    async with Silence(plane.url) as proxy:
        berth_as_account(plane, folder, url=proxy.url)

Objects whose names begin with `unseen` are in every list and can be read, and no watch ever tells of them: what a watch
that loses events does, for as many kinds at once as one likes.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Self

import aiohttp
import orjson
from aiohttp import web

from control_plane.process import unverified_tls

UNSEEN = "unseen"
PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")


class Silence:
    """See the module's text."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        assert self._runner is not None
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=unverified_tls())
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(self._upstream, connector=connector, timeout=timeout)
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        assert self._session is not None
        await self._session.close()  # first: whoever waits for a watch to say something is let go
        await self._runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        asked = self._session.request(
            request.method, request.rel_url, headers=headers, data=await request.read() or None, allow_redirects=False
        )
        async with asked as answer:
            said = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
            if request.query.get("watch") != "true" or answer.status != 200:
                return web.Response(status=answer.status, body=await answer.read(), headers=said)
            return await self._stream(request, answer, said)

    async def _stream(
        self, request: web.Request, answer: aiohttp.ClientResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        rest = b""
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):  # either side may leave at any time
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if not _is_unseen(line):
                        await response.write(line + b"\n")
        return response


def _is_unseen(line: bytes) -> bool:
    metadata = orjson.loads(line)["object"].get("metadata", {})
    return str(metadata.get("name", "")).startswith(UNSEEN)
