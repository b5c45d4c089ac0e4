"""Requests to the API server: plain dicts out and in, two kinds of failure, and nothing else.

kubernetes_asyncio reads the credentials, `transport` holds the connections; the former's models and serializer are left
alone, since decoding a pod into V1Pod costs twenty times what orjson needs.

A request ends in one of three ways: a dict, `ApiError` (the server said no) or `Unreachable` (a timeout, a cut, a TLS
failure, half an answer, a token that cannot be read, anything else: nobody knows whether it was carried out). A 401
reloads the credentials once and asks again, which is safe because a request that was not let in has done nothing.

What it does not do: retry. Whether a request may be sent twice is for the caller to know.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from berth import __version__
from berth.cluster.credentials import Credentials
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.cluster.transport import Transport

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
CONNECTIONS = 256
CONNECT_SECONDS = 10.0
TEXT_LIMIT = 256
# The API server names the writer of each field after what comes before the slash.
USER_AGENT = f"berth/{__version__}"
MISCONFIGURED = (
    aiohttp.ClientConnectorDNSError,
    aiohttp.ClientSSLError,
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came back, before anybody looked into it."""

    status: int
    reason: str
    raw: bytes
    retry_after_seconds: float


class Api:
    """One API server, as one user. `open` before the first request, `close` at the end."""

    def __init__(self, credentials: Credentials, *, connections: int = CONNECTIONS) -> None:
        self._credentials = credentials
        self._connections = connections
        self._transport: Transport | None = None
        self._retired: list[Transport] = []
        self._fingerprint = ""
        self._reload_lock = asyncio.Lock()
        self._generation = 0
        self._reachable = True
        self._renewal_failed = False
        self.on_return: Callable[[], None] = lambda: None
        """Called when an answer arrives after requests that got none."""

    @property
    def reachable(self) -> bool:
        """Whether the last request got an answer."""
        return self._reachable

    async def open(self) -> None:
        """Load the credentials and make ready to connect; CredentialsError when that is impossible."""
        await self._credentials.load()
        await self._connect()

    async def close(self) -> None:
        transports = [*self._retired, *([self._transport] if self._transport is not None else [])]
        self._transport, self._retired = None, []
        for transport in transports:
            await transport.close()

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
    ) -> tuple[int, dict[str, Any]]:
        """The status and the decoded answer; raises ApiError or Unreachable."""
        data = None if body is None else orjson.dumps(body)
        headers = {"Accept": accept, "User-Agent": USER_AGENT}
        if data is not None:
            headers["Content-Type"] = content_type
        generation = self._generation
        answer = await self._exchange(method, path, data, headers, query, timeout_seconds)
        if answer.status == 401 and await self._renew(generation):
            answer = await self._exchange(method, path, data, headers, query, timeout_seconds)
        if answer.status >= 300:
            raise _refusal(answer)
        return answer.status, _decode(answer.raw)

    async def _exchange(
        self,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
        query: Mapping[str, str] | None,
        timeout_seconds: float,
    ) -> _Answer:
        transport = self._transport
        if transport is None:
            raise Unreachable("the connection has been closed")
        try:
            async with transport.use() as session:
                authorization = await self._credentials.authorization()
                if authorization is not None:
                    headers["Authorization"] = authorization
                async with session.request(
                    method,
                    self._credentials.server + path,
                    params=query,
                    data=data,
                    headers=headers,
                    proxy=transport.proxy,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_SECONDS),
                ) as response:
                    raw = await response.read()
                    answer = _Answer(response.status, response.reason or "", raw, _retry_after(response))
        # Whatever it is, not only aiohttp's errors: a token file is empty while it is replaced, an exec plugin fails,
        # a session is closed under a request (RuntimeError). Nobody who asks should have to know all of these.
        except Exception as error:
            self._note_reachable(False)
            raise Unreachable(
                f"{method} {path}: {_describe(error, timeout_seconds)}",
                is_misconfigured=isinstance(error, MISCONFIGURED),
            ) from error
        self._note_reachable(True)
        return answer

    def _note_reachable(self, reachable: bool) -> None:
        came_back = reachable and not self._reachable
        self._reachable = reachable
        if came_back:
            self.on_return()

    async def _renew(self, generation: int) -> bool:
        """Load the credentials again, once for all requests that were turned away with the same ones."""
        async with self._reload_lock:
            if generation != self._generation:
                return True
            try:
                await self._credentials.load()
                await self._connect()
            except Exception as error:
                self._complain_of_renewal(error)
                return False
            self._renewal_failed = False
            self._generation += 1
            return True

    def _complain_of_renewal(self, error: Exception) -> None:
        """Once, until a renewal succeeds: every request that is turned away comes through here."""
        if not self._renewal_failed:
            _log.error("The API server does not accept our credentials, and they cannot be renewed: %s", error)
        self._renewal_failed = True

    async def _connect(self) -> None:
        """New connections if the certificates changed; the old ones stay for the requests that are on them."""
        try:
            fingerprint = self._credentials.fingerprint()
            if self._transport is not None and fingerprint == self._fingerprint:
                return
            fresh = Transport(self._credentials.configuration, self._connections)
        except (OSError, ValueError) as error:
            raise CredentialsError(f"a certificate or key cannot be used: {error}") from error
        old, self._transport, self._fingerprint = self._transport, fresh, fingerprint
        self._retired = [transport for transport in self._retired if not transport.is_closed]
        if old is not None:
            self._retired.append(old)
            await old.retire()


def _retry_after(response: aiohttp.ClientResponse) -> float:
    """Seconds; the API server never sends the other form, a date."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _describe(error: BaseException, timeout_seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_seconds:g} s"
    return str(error) or type(error).__name__


def _decode(raw: bytes) -> dict[str, Any]:
    try:
        decoded = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError as error:
        raise Unreachable(f"the answer is not JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise Unreachable("the answer is not a JSON object")
    return decoded


def _refusal(answer: _Answer) -> ApiError:
    """The error that a Status object describes; the text itself where a proxy or a missing path answered."""
    try:
        decoded = orjson.loads(answer.raw)
    except orjson.JSONDecodeError:
        decoded = None
    if not isinstance(decoded, dict) or decoded.get("kind") != "Status":
        reason, message, details = answer.reason, answer.raw[:TEXT_LIMIT].decode(errors="replace").strip(), None
    else:
        reason, message = str(decoded.get("reason") or answer.reason), str(decoded.get("message") or "")
        details = decoded.get("details")
    return ApiError(
        answer.status,
        reason,
        message,
        details if isinstance(details, dict) else None,
        retry_after_seconds=answer.retry_after_seconds,
    )
