"""Requests through an HTTP proxy, by aiohttp: CONNECT and TLS within it for an https:// server.

Rare enough that the simpler way counts: a request takes twice the time of our event loop that it takes directly.
The session does not look into the environment by itself (aiohttp's `trust_env`): it would read the proxy variables
and ~/.netrc for every single request, each time in a thread, which costs more than the request.
"""

import socket
from collections.abc import Callable
from typing import Any

import aiohttp

from berth.cluster.http1 import Answer, Request
from berth.cluster.transport import CONNECT_SECONDS, KEEP_ALIVE_SECONDS, BeforeSending, Misconfigured, make_tls

MISCONFIGURED = (
    aiohttp.ClientConnectorDNSError,
    aiohttp.ClientSSLError,
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
)


class ProxiedTransport:
    """An aiohttp session; without a proxy it asks the server directly."""

    def __init__(
        self, configuration: Any, proxy: str | None, *, connections: int, delivery_seconds: float | None = None
    ) -> None:
        self._server = str(configuration.host).rstrip("/")
        self._proxy = proxy
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_ask)
        self._session = aiohttp.ClientSession(
            trace_configs=[trace],
            connector=aiohttp.TCPConnector(
                limit=connections,
                ssl=make_tls(configuration),
                keepalive_timeout=KEEP_ALIVE_SECONDS,
                socket_factory=None if delivery_seconds is None else socket_factory(delivery_seconds),
            ),
        )
        self._requests = 0
        self._is_retired = False

    @property
    def is_closed(self) -> bool:
        return self._session.closed

    @property
    def under_way(self) -> int:
        return self._requests

    async def exchange(self, request: Request, limit_seconds: float, before_sending: BeforeSending) -> Answer:
        self._requests += 1
        try:
            return await self._exchange(request, limit_seconds, before_sending)
        except MISCONFIGURED as error:
            raise Misconfigured(str(error)) from error
        finally:
            self._requests -= 1
            await self._close_if_done()

    async def retire(self) -> None:
        self._is_retired = True
        await self._close_if_done()

    async def close(self) -> None:
        await self._session.close()

    async def _exchange(self, request: Request, limit_seconds: float, before_sending: BeforeSending) -> Answer:
        async with self._session.request(
            request.method,
            self._server + request.path,
            params=request.query,
            data=request.data,
            headers=_headers(request),
            proxy=self._proxy,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=limit_seconds, sock_connect=CONNECT_SECONDS),
            trace_request_ctx=before_sending,
        ) as response:
            raw = await response.read()
            return Answer(response.status, response.reason or "", raw, _retry_after(response))

    async def _close_if_done(self) -> None:
        if self._is_retired and not self._requests:
            await self.close()


async def _ask(_: aiohttp.ClientSession, context: Any, __: object) -> None:
    """The connection is there and nothing is written yet."""
    context.trace_request_ctx()


def _headers(request: Request) -> dict[str, str]:
    headers = {"Accept": request.accept, "User-Agent": request.user_agent}
    if request.authorization is not None:
        headers["Authorization"] = request.authorization
    if request.data is not None:
        headers["Content-Type"] = request.content_type
    return headers


def _retry_after(response: aiohttp.ClientResponse) -> float:
    """Seconds; the API server never sends the other form, a date."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def socket_factory(delivery_seconds: float) -> Callable[[Any], socket.socket]:
    """Sockets whose data the kernel does not deliver later than this, as in `connection`."""

    def make(address: Any) -> socket.socket:
        made = socket.socket(*address[:3])
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(delivery_seconds * 1000))
        return made

    return make
