"""The port through which actors talk to an API server, and that port over HTTP.

`ActorApi.request` is as in the operator's own client; `ActorApi.stream` is only here, since kopf watches for the
operator. A request ends with a response, with `Refused` (the server said no) or with `ServerUnreachable` (it is unknown
whether the request was carried out).

What it does not do: retry, read kubeconfigs, or renew credentials.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Protocol, Self

import aiohttp
import orjson

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
CONNECT_SECONDS = 10.0
# A watch that is silent for longer is taken for dead. Bookmarks come once a minute from a real API server.
SILENCE_SECONDS = 90.0
READ_BYTES = 1024 * 1024
LONGEST_LINE_BYTES = 16 * 1024 * 1024

Object = dict[str, Any]


class Refused(Exception):
    """The API server answered with an HTTP status of 300 or more."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class ServerUnreachable(Exception):
    """No answer, or half of one: the request may or may not have been carried out."""


class ActorApi(Protocol):
    """An API server, as actors see it."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        query: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
    ) -> tuple[int, Object]:
        """The status and the decoded answer; raises Refused or ServerUnreachable."""
        ...

    def stream(self, path: str, query: Mapping[str, str]) -> AbstractAsyncContextManager[AsyncIterator[Object]]:
        """The events of a watch, until the server ends it; raises Refused or ServerUnreachable."""
        ...


class HttpApi:
    """The port over aiohttp. Use it as an async context manager, or `close` it."""

    def __init__(
        self, url: str, *, token: str | None = None, tls: ssl.SSLContext | None = None, connections: int = 64
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = {"User-Agent": "berth-actors"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._tls = tls
        self._connections = connections
        self._opened: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            connector = aiohttp.TCPConnector(limit=self._connections, ssl=True if self._tls is None else self._tls)
            self._opened = aiohttp.ClientSession(connector=connector, headers=self._headers, read_bufsize=READ_BYTES)
        return self._opened

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        query: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
    ) -> tuple[int, Object]:
        """See `ActorApi`."""
        data = None if body is None else orjson.dumps(body)
        headers = {"Accept": accept} | ({} if data is None else {"Content-Type": content_type})
        limit = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_SECONDS)
        try:
            async with self._session().request(
                method, self._url + path, params=query, data=data, headers=headers, timeout=limit
            ) as response:
                status, raw = response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError, RuntimeError) as error:
            raise ServerUnreachable(f"{method} {path}: {str(error) or type(error).__name__}") from error
        if status >= 300:
            raise _refusal(status, raw)
        return status, _decode(raw)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[AsyncIterator[Object], None]:
        """See `ActorApi`."""
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        try:
            async with self._session().get(
                self._url + path, params=query, headers={"Accept": JSON}, timeout=limit
            ) as response:
                if response.status >= 300:
                    raise _refusal(response.status, await response.read())
                yield _events(response.content)
        except (aiohttp.ClientError, TimeoutError, OSError, RuntimeError) as error:
            raise ServerUnreachable(f"watch of {path}: {str(error) or type(error).__name__}") from error


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[Object]:
    """The JSON documents of a stream, one a line. Lines are put together here: aiohttp's own limit is too short."""
    rest = b""
    while chunk := await content.readany():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST_LINE_BYTES:
            raise ServerUnreachable("a watch event is too long")
        for line in lines:
            if line.strip():
                yield _decode(line)
        await asyncio.sleep(0)  # a flood of events leaves others their turn


def _decode(raw: bytes) -> Object:
    try:
        decoded = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError as error:
        raise ServerUnreachable(f"the answer is not JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise ServerUnreachable("the answer is not a JSON object")
    return decoded


def _refusal(status: int, raw: bytes) -> Refused:
    try:
        decoded = orjson.loads(raw)
    except orjson.JSONDecodeError:
        decoded = None
    if not isinstance(decoded, dict):
        return Refused(status, "", raw[:256].decode(errors="replace").strip())
    return Refused(status, str(decoded.get("reason") or ""), str(decoded.get("message") or ""))
