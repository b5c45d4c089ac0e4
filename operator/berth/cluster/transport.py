"""Connections to one API server with one set of certificates: an aiohttp session, and the proxy to go through.

The session does not look into the environment by itself (aiohttp's `trust_env`): it would read the proxy variables
and ~/.netrc for every single request, each time in a thread, which costs more than the request. The proxy is looked
up once, here: the kubeconfig's `proxy-url` first, then HTTPS_PROXY and NO_PROXY.

When certificates change, a new transport takes the place of the old one, which is retired: it is closed as soon as the
requests on it have ended.
"""

import socket
import ssl
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

KEEP_ALIVE_SECONDS = 30.0

BeforeSending = Callable[[aiohttp.ClientSession, Any, Any], Awaitable[None]]


class Transport:
    """An open pool of connections."""

    def __init__(
        self,
        configuration: Any,
        connections: int,
        *,
        before_sending: BeforeSending | None = None,
        delivery_seconds: float | None = None,
    ) -> None:
        """`before_sending`: awaited for each request when it has a connection; if it raises, nothing is sent.

        `delivery_seconds`: what the other side has not acknowledged by then is not sent to it any more.
        """
        self.proxy = find_proxy(configuration)
        trace = aiohttp.TraceConfig()
        if before_sending is not None:
            trace.on_request_headers_sent.append(before_sending)
        self.session = aiohttp.ClientSession(
            trace_configs=[trace],
            connector=aiohttp.TCPConnector(
                limit=connections,
                ssl=_tls(configuration),
                keepalive_timeout=KEEP_ALIVE_SECONDS,
                socket_factory=None if delivery_seconds is None else _sockets(delivery_seconds),
            )
        )
        self._requests = 0
        self._is_retired = False

    @property
    def is_closed(self) -> bool:
        return self.session.closed

    @asynccontextmanager
    async def use(self) -> AsyncIterator[aiohttp.ClientSession]:
        """The session, for one request; it stays open until the request has ended."""
        self._requests += 1
        try:
            yield self.session
        finally:
            self._requests -= 1
            await self._close_if_done()

    async def retire(self) -> None:
        """No request will come any more: close now, or with the last one that is on its way."""
        self._is_retired = True
        await self._close_if_done()

    async def close(self) -> None:
        await self.session.close()

    async def _close_if_done(self) -> None:
        if self._is_retired and not self._requests:
            await self.close()


def find_proxy(configuration: Any) -> str | None:
    """The proxy between us and the API server, if there is one."""
    if configuration.proxy:
        return str(configuration.proxy)
    server = URL(configuration.host)
    if server.host is None or urllib.request.proxy_bypass(server.host):
        return None
    return urllib.request.getproxies().get(server.scheme)


def _sockets(delivery_seconds: float) -> Callable[[Any], socket.socket]:
    """Sockets whose data the kernel does not deliver later than this: closing one does not take back what was sent,
    and a network that comes back after a minute would carry out requests that were given up long ago."""

    def make(address: Any) -> socket.socket:
        made = socket.socket(*address[:3])
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(delivery_seconds * 1000))
        return made

    return make


def _tls(configuration: Any) -> ssl.SSLContext:
    """OSError or ValueError when a file is missing or no certificate."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
