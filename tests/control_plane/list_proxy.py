"""An HTTP proxy before an API server that answers lists of metadata wrongly, as load balancers do while they reload.

    with ListProxy(plane.url) as proxy:
        ...                    # proxy.url, in the clear; tokens and everything else are passed on
        proxy.lie(100)         # every second list of metadata is answered wrongly, so many times in all
        proxy.told             # how often, by the way in which it was

Lists of metadata are what Berth compares its cache with; kopf lists whole objects, which are left alone. Everything
happens in a thread and loop of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

CALL_SECONDS = 60.0
METADATA = "as=PartialObjectMetadataList"
HTML = "<html><body>Back in a minute.</body></html>"
NOT_PASSED_ON = ("Host", "Content-Length", "Transfer-Encoding", "Connection")


def _page_not_found(_: bytes) -> web.Response:
    return web.Response(status=404, text="404 page not found\n")


def _html(_: bytes) -> web.Response:
    return web.Response(text=HTML, content_type="text/html")


def _empty(raw: bytes) -> web.Response:
    page = json.loads(raw)
    metadata = {"resourceVersion": page.get("metadata", {}).get("resourceVersion", "1")}
    return web.json_response({**page, "metadata": metadata, "items": []})


def _truncated(raw: bytes) -> web.Response:
    answer = web.Response(body=raw[: len(raw) // 2], headers={"Content-Length": str(len(raw))})
    answer.force_close()
    return answer


WAYS: dict[str, Callable[[bytes], web.Response]] = {
    "404": _page_not_found,
    "200 with HTML": _html,
    "an empty list": _empty,
    "a truncated body": _truncated,
}


class ListProxy:
    """See the module's text."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="list proxy", daemon=True)
        self._runner: web.ServerRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self._left = 0
        self._ways = itertools.cycle(WAYS.items())
        self._turns = itertools.cycle((True, False))
        self.told: Counter[str] = Counter()
        self.url = ""

    def lie(self, times: int) -> None:
        self._left = times

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(CALL_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(CALL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- in the loop

    async def _start(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(limit=0, ssl=False)  # the server made its certificate itself
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name not in NOT_PASSED_ON}
        headers["Accept-Encoding"] = "identity"
        url, body = f"{self._target}{request.path_qs}", await request.read()
        try:
            async with self._session.request(
                request.method, url, data=body or None, headers=headers, allow_redirects=False
            ) as answer:
                if answer.status == 200 and METADATA in headers.get("Accept", "") and self._is_turn():
                    return self._wrong(await answer.read())
                return await _pass_on(request, answer)
        except (aiohttp.ClientError, ConnectionError):
            return web.Response(status=502, text="no answer")

    def _is_turn(self) -> bool:
        return self._left > 0 and next(self._turns)

    def _wrong(self, raw: bytes) -> web.Response:
        self._left -= 1
        name, way = next(self._ways)
        self.told[name] += 1
        return way(raw)


async def _pass_on(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    headers = {name: value for name, value in answer.headers.items() if name not in NOT_PASSED_ON}
    response = web.StreamResponse(status=answer.status, headers=headers)
    await response.prepare(request)
    async for data in answer.content.iter_any():
        await response.write(data)
    await response.write_eof()
    return response
