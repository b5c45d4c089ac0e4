"""Connections to one API server with one set of certificates: an aiohttp session, and the proxy to go through.

The session does not look into the environment by itself (aiohttp's `trust_env`): it would read the proxy variables
and ~/.netrc for every single request, each time in a thread, which costs more than the request. The proxy is looked
up once, here: the kubeconfig's `proxy-url` first, then HTTPS_PROXY and NO_PROXY.
"""

import ssl
import urllib.request
from typing import Any

import aiohttp
from yarl import URL

KEEP_ALIVE_SECONDS = 30.0


class Transport:
    """An open pool of connections."""

    def __init__(self, configuration: Any, connections: int) -> None:
        self.proxy = find_proxy(configuration)
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=connections, ssl=_tls(configuration), keepalive_timeout=KEEP_ALIVE_SECONDS
            )
        )

    async def close(self) -> None:
        await self.session.close()


def find_proxy(configuration: Any) -> str | None:
    """The proxy between us and the API server, if there is one."""
    if configuration.proxy:
        return str(configuration.proxy)
    server = URL(configuration.host)
    if server.host is None or urllib.request.proxy_bypass(server.host):
        return None
    return urllib.request.getproxies().get(server.scheme)


def _tls(configuration: Any) -> ssl.SSLContext:
    """OSError or ValueError when a file is missing or no certificate."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
