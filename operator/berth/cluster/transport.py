"""How requests get to the API server: one seam, and two ways behind it.

    Api --> Transport --+--> DirectTransport    connections of our own, opened ahead and kept (pool.py, connection.py)
                        +--> ProxiedTransport   through an HTTP proxy, by aiohttp (proxied.py)

The proxy is looked up once, here: the kubeconfig's `proxy-url` first, then HTTPS_PROXY and NO_PROXY. When certificates
change, a new transport takes the place of the old one, which is retired: it is closed as soon as the requests on it
have ended.
"""

import ssl
import urllib.request
from collections.abc import Callable
from typing import Any, Protocol

from yarl import URL

from berth.cluster.errors import CredentialsError
from berth.cluster.http1 import Answer, Request

KEEP_ALIVE_SECONDS = 30.0
CONNECT_SECONDS = 10.0

BeforeSending = Callable[[], None]


class Misconfigured(Exception):
    """There is no connection, and waiting will not help: a host without an address, a certificate not trusted."""


class Transport(Protocol):
    """Connections to one API server with one set of certificates."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def under_way(self) -> int:
        """The number of requests without an answer."""
        ...

    async def exchange(self, request: Request, limit_seconds: float, before_sending: BeforeSending) -> Answer:
        """The answer, whatever its status; redirects are not followed.

        `before_sending` is called when there is a connection, right before the first byte is written, again if the
        request goes to another connection; if it raises, nothing is sent. TimeoutError after the limit, which covers
        everything. Any other exception: the request may have been carried out.
        """
        ...

    async def retire(self) -> None:
        """No request will come any more: close now, or with the last one that is on its way."""
        ...

    async def close(self) -> None: ...


def server_url(configuration: Any) -> URL:
    """Where the API server is; CredentialsError if that is no address."""
    try:
        server = URL(str(configuration.host).rstrip("/"))
    except ValueError as error:
        raise CredentialsError(f"{configuration.host} is no address of an API server: {error}") from error
    if server.scheme not in ("http", "https") or not server.raw_host:
        raise CredentialsError(f"{configuration.host} is no address of an API server; one begins with https://")
    return server


def find_proxy(configuration: Any) -> str | None:
    """The proxy between us and the API server, if there is one."""
    if configuration.proxy:
        return str(configuration.proxy)
    server = server_url(configuration)
    if server.host is None or urllib.request.proxy_bypass(server.host):
        return None
    return urllib.request.getproxies().get(server.scheme)


def make_tls(configuration: Any) -> ssl.SSLContext:
    """OSError or ValueError when a file is missing or no certificate."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
