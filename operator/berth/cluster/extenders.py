"""Questions to extenders over HTTP, as kube-scheduler asks them: a POST of JSON, and 200 with JSON for an answer.

Everything that can go wrong is an `ExtenderFailed` with the extender's address in it, and nothing takes longer than the
extender's timeout. An answer has a largest size; a redirect is not followed, as it would carry pods to a place that no
policy names.

Who writes policies chooses what is asked from inside Berth's pod, so `ExtenderAddresses` is asked about every address
that a connection is made to, at the moment of connecting: what a name resolved to earlier proves nothing. Through a
proxy nobody can see that address, so there only hosts are asked that the settings name. What comes back is shown only
where it is an extender's answer: an error is a fixed text, never a part of what was received; the log has more of it at
level debug.

Extenders that are trusted in the same way share connections. A client certificate and its key are on disk for as long
as it takes to load them, readable by nobody else, because ssl reads them from nowhere else.
"""

import logging
import os
import socket
import ssl
import tempfile
import urllib.request
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from berth.cluster.api import USER_AGENT
from berth.cluster.transport import KEEP_ALIVE_SECONDS
from berth.scheduler.extenders.extender_protocol import Extender, ExtenderAddresses, ExtenderFailed, Tls

LARGEST_ANSWER_BYTES = 128 * 1024**2
CHUNK_BYTES = 65536
KEPT_SESSIONS = 32
HEADERS = {"Content-Type": "application/json", "User-Agent": USER_AGENT}
LOGGED_CHARACTERS = 300
BEHIND_A_PROXY = (
    "it would be asked through the proxy of the environment, where its address cannot be checked: name its host in "
    "--extender-hosts of the operator, or in no_proxy"
)

_log = logging.getLogger(__name__)


class AddressRefused(OSError):
    """No connection is made to this address; the message says which kind it is and what would allow it."""


class _Way(NamedTuple):
    """How an extender is reached; those that are reached alike share connections."""

    tls: Tls | None
    is_proxied: bool


class HttpExtenders:
    """The scheduler's `Asker` (extender_protocol.py); `close` at the end. `addresses`: where extenders may be."""

    def __init__(
        self,
        addresses: ExtenderAddresses | None = None,
        *,
        largest_answer_bytes: int = LARGEST_ANSWER_BYTES,
    ) -> None:
        self._addresses = addresses or ExtenderAddresses()
        self._largest_answer_bytes = largest_answer_bytes
        self._sessions: OrderedDict[_Way, aiohttp.ClientSession] = OrderedDict()
        self._asking: Counter[_Way] = Counter()

    async def ask(self, extender: Extender, verb: str, body: Mapping[str, object]) -> object:
        url = f"{extender.url_prefix.rstrip('/')}/{verb}"
        proxy = _proxy(url)
        way = _Way(extender.tls, proxy is not None)
        self._asking[way] += 1
        try:
            self._check_host(url, proxy)
            return await self._post(extender, verb, url, orjson.dumps(body), way, proxy)
        except ExtenderFailed:
            raise
        except TimeoutError as error:
            raise ExtenderFailed(f'Post "{url}": no answer within {extender.timeout_seconds:g} s') from error
        except Exception as error:
            _log.debug("Extender %s: %s: %.*s", url, type(error).__name__, LOGGED_CHARACTERS, ascii(str(error)))
            raise ExtenderFailed(f'Post "{url}": {_describe(error)}') from error
        finally:
            self._asking[way] -= 1

    def _check_host(self, url: str, proxy: str | None) -> None:
        host = URL(url).host or ""
        problem = self._addresses.host_problem(host)
        if not problem and proxy is not None and not self._addresses.names(host):
            problem = BEHIND_A_PROXY
        if problem:
            raise AddressRefused(problem)

    @property
    def sessions(self) -> list[aiohttp.ClientSession]:
        """The open sessions: one for each way to connect, the one that was used last at the end."""
        return list(self._sessions.values())

    async def close(self) -> None:
        while self._sessions:
            await self._sessions.popitem()[1].close()

    async def _post(self, extender: Extender, verb: str, url: str, data: bytes, way: _Way, proxy: str | None) -> object:
        session = await self._session(way)
        async with session.post(
            url,
            data=data,
            headers=HEADERS,
            proxy=proxy,
            allow_redirects=False,
            server_hostname=(extender.tls.server_name or None) if extender.tls is not None else None,
            timeout=aiohttp.ClientTimeout(total=extender.timeout_seconds),
        ) as response:
            if response.status != 200:
                raise ExtenderFailed(f"failed {verb} with extender at URL {url}, code {response.status}")
            raw = await self._read(response, verb, url)
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise ExtenderFailed(f"failed {verb} with extender at URL {url}: not JSON: {error}") from error

    async def _read(self, response: aiohttp.ClientResponse, verb: str, url: str) -> bytearray:
        raw = bytearray()
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            raw += chunk
            if len(raw) > self._largest_answer_bytes:
                raise ExtenderFailed(
                    f"failed {verb} with extender at URL {url}: the answer has more than "
                    f"{self._largest_answer_bytes} bytes"
                )
        return raw

    async def _session(self, way: _Way) -> aiohttp.ClientSession:
        session = self._sessions.get(way)
        if session is None:
            session = self._sessions[way] = aiohttp.ClientSession(connector=self._connector(way))
        self._sessions.move_to_end(way)
        idle = [kept for kept in self._sessions if not self._asking[kept]]
        for kept in idle[: max(0, len(self._sessions) - KEPT_SESSIONS)]:
            del self._asking[kept]
            await self._sessions.pop(kept).close()
        return session

    def _connector(self, way: _Way) -> aiohttp.TCPConnector:
        """Makes connections to allowed addresses only; to a proxy, which the environment names, to any."""
        given: dict[str, Any] = {"limit": 0, "ssl": _context(way.tls), "keepalive_timeout": KEEP_ALIVE_SECONDS}
        if not way.is_proxied:
            given |= {"resolver": _CheckingResolver(self._addresses), "socket_factory": self._make_socket}
        return aiohttp.TCPConnector(**given)

    def _make_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """The socket of a connection that is about to be made: nothing comes after this but connecting."""
        family, kind, protocol, _, target = info
        problem = self._addresses.address_problem(str(target[0]))
        if problem:
            raise AddressRefused(problem)
        return socket.socket(family=family, type=kind, proto=protocol)


class _CheckingResolver(AbstractResolver):
    """Resolves names as the system does, and leaves out addresses that are not allowed."""

    def __init__(self, addresses: ExtenderAddresses) -> None:
        self._addresses = addresses
        self._system = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._system.resolve(host, port, family)
        problems = [self._addresses.address_problem(result["host"]) for result in found]
        if found and all(problems):
            raise AddressRefused(problems[0])
        return [result for result, problem in zip(found, problems, strict=True) if not problem]

    async def close(self) -> None:
        await self._system.close()


def _describe(error: Exception) -> str:
    """What went wrong, in a text that has nothing of what was received."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, AddressRefused):
        return str(cause)
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"its certificate is not trusted: {_verification(error.certificate_error)}"
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return f"no TLS connection: {getattr(cause, 'reason', None) or 'the handshake failed'}"
        case aiohttp.ClientConnectorDNSError():
            return "Cannot connect: its host cannot be resolved"
        case aiohttp.ClientConnectorError() | aiohttp.ClientProxyConnectionError():
            number = getattr(cause, "errno", None)
            return f"Cannot connect: {os.strerror(number) if number else 'no connection'}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() | aiohttp.ClientPayloadError():
            return "the connection was closed before the answer had ended"
        case aiohttp.ClientResponseError():
            return "the answer is not HTTP"
        case aiohttp.InvalidURL():
            return "is not a URL that can be asked"
    return f"the question failed with {type(error).__name__}"


def _verification(error: Exception) -> str:
    """OpenSSL's own words, which name no part of the certificate."""
    message = getattr(error, "verify_message", "")
    return message if isinstance(message, str) and message else "the handshake failed"


def _context(tls: Tls | None) -> ssl.SSLContext | bool:
    """True: what the system trusts."""
    if tls is None:
        return True
    context = ssl.create_default_context(cadata=tls.ca or None)
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.certificate:
        _load(context, tls)
    return context


def _load(context: ssl.SSLContext, tls: Tls) -> None:
    handle, path = tempfile.mkstemp(prefix="berth-")  # mode 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{tls.certificate}\n{tls.key}\n")
        context.load_cert_chain(path, password="")  # never prompt for one
    finally:
        os.unlink(path)


def _proxy(url: str) -> str | None:
    parts = URL(url)
    if parts.host is None or urllib.request.proxy_bypass(parts.host):
        return None
    return urllib.request.getproxies().get(parts.scheme)
