"""Requests to the API server: plain dicts out and in, two kinds of failure, and nothing else.

kubernetes_asyncio reads the credentials, `transport` holds the connections; the former's models and serializer are left
alone, since decoding a pod into V1Pod costs twenty times what orjson needs.
What cannot be sent as it is, a path that leads elsewhere or a text that is no text, is refused here as the server would
(ApiError 400).

A request ends in one of three ways: a dict, `ApiError` (the server said no) or `Unreachable` (a timeout, a cut, a TLS
failure, half an answer, a token that cannot be read, anything else: nobody knows whether it was carried out). A 401
reloads the credentials once and asks again, which is safe because a request that was not let in has done nothing.

A request that is `fenced` ends in a fourth way where several replicas run: `NotLeading`, and nothing was sent. The
fence is asked twice, before a connection is looked for and right before the first byte is written, also when a 401 has
the request sent again; and it limits how long the request may take.

What it does not do: retry. Whether a request may be sent twice is for the caller to know.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import aiohttp
import orjson

from berth import __version__
from berth.cluster.credentials import Credentials
from berth.cluster.errors import ApiError, CredentialsError, Malformed, Unreachable
from berth.cluster.shallow import decode
from berth.cluster.transport import Transport
from berth.scheduler.ports import NotLeading

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
CONNECTIONS = 256
CONNECT_SECONDS = 10.0
TEXT_LIMIT = 256
LONGEST_PATH = 2048
# The API server names the writer of each field after what comes before the slash.
USER_AGENT = f"berth/{__version__}"
_PATH = re.compile(r"(/[A-Za-z0-9._:~-]+)+")
MISCONFIGURED = (
    aiohttp.ClientConnectorDNSError,
    aiohttp.ClientSSLError,
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
)

_log = logging.getLogger(__name__)


class Fence(Protocol):
    """Who is asked before each write."""

    @property
    def request_seconds(self) -> float:
        """The longest that a fenced request may take."""
        ...

    def check(self) -> None:
        """Raises NotLeading."""
        ...


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
        self._answered_seconds: float | None = None
        self._renewal_failed = False
        self.on_return: Callable[[], None] = lambda: None
        """Called when an answer arrives after requests that got none."""
        self.fence: Fence | None = None
        self.stopped_writing = ""
        """Why nothing may be written any more; while it is not empty, every request but GET fails unsent."""

    @property
    def reachable(self) -> bool:
        """Whether the last request got an answer."""
        return self._reachable

    @property
    def last_answer_seconds(self) -> float | None:
        """How long ago a request last got an answer other than that the server has failed; None: never."""
        return None if self._answered_seconds is None else time.monotonic() - self._answered_seconds

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
        body: Mapping[str, Any] | Sequence[Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        query: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
        fenced: bool = False,
    ) -> tuple[int, dict[str, Any]]:
        """The status and the decoded answer; raises ApiError or Unreachable, and NotLeading if it is fenced."""
        _check_path(path)
        if self.stopped_writing and method != "GET":
            raise (NotLeading if fenced else Unreachable)(f"{method} {path}: {self.stopped_writing}: nothing was sent")
        fence = self.fence if fenced else None
        if fence is not None:
            timeout_seconds = min(timeout_seconds, fence.request_seconds)
        data = None if body is None else _encode(body)
        headers = {"Accept": accept, "User-Agent": USER_AGENT}
        if data is not None:
            headers["Content-Type"] = content_type
        generation = self._generation
        answer = await self._exchange(method, path, data, headers, query, timeout_seconds, fence)
        if answer.status == 401 and await self._renew(generation):
            answer = await self._exchange(method, path, data, headers, query, timeout_seconds, fence)
        if answer.status >= 300:
            raise _refusal(answer)
        return answer.status, _decode(answer.raw)

    def check_fence(self) -> None:
        """Raises NotLeading where a fenced request would."""
        if self.fence is not None:
            self.fence.check()

    async def _exchange(
        self,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
        query: Mapping[str, str] | None,
        timeout_seconds: float,
        fence: Fence | None,
    ) -> _Answer:
        transport = self._transport
        if transport is None:
            raise Unreachable("the connection has been closed")
        try:
            async with transport.use() as session:
                authorization = await self._credentials.authorization()
                if authorization is not None:
                    headers["Authorization"] = authorization
                if fence is not None:
                    fence.check()
                async with session.request(
                    method,
                    self._credentials.server + path,
                    params=query,
                    data=data,
                    headers=headers,
                    proxy=transport.proxy,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_SECONDS),
                    trace_request_ctx=fence,
                ) as response:
                    raw = await response.read()
                    answer = _Answer(response.status, response.reason or "", raw, _retry_after(response))
        except NotLeading:
            raise
        # Whatever it is, not only aiohttp's errors: a token file is empty while it is replaced, an exec plugin fails,
        # a session is closed under a request (RuntimeError). Nobody who asks should have to know all of these.
        except Exception as error:
            self._note_reachable(False)
            raise Unreachable(
                f"{method} {path}: {_describe(error, timeout_seconds)}",
                is_misconfigured=isinstance(error, MISCONFIGURED),
            ) from error
        self._note_reachable(True)
        if answer.status < 500:
            self._answered_seconds = time.monotonic()
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
            fresh = Transport(
                self._credentials.configuration,
                self._connections,
                before_sending=_ask_fence,
                delivery_seconds=None if self.fence is None else self.fence.request_seconds,
            )
        except (OSError, ValueError) as error:
            raise CredentialsError(f"a certificate or key cannot be used: {error}") from error
        old, self._transport, self._fingerprint = self._transport, fresh, fingerprint
        self._retired = [transport for transport in self._retired if not transport.is_closed]
        if old is not None:
            self._retired.append(old)
            await old.retire()


def _check_path(path: str) -> None:
    """Paths are put together from names. A real one cannot lead elsewhere; one that could is not followed."""
    if len(path) > LONGEST_PATH or not _PATH.fullmatch(path) or "/." in path:
        raise ApiError(400, "BadRequest", f"{path[:TEXT_LIMIT]!a} is no path of an API server: nothing was sent")


def _encode(body: Mapping[str, Any] | Sequence[Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError as error:  # half a surrogate pair, a number beyond 64 bits
        raise ApiError(400, "BadRequest", f"what was to be sent is not JSON, nothing was: {error}") from error


async def _ask_fence(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
    """The connection is there and nothing is written yet."""
    fence = context.trace_request_ctx
    if fence is not None:
        fence.check()


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
        decoded = decode(raw) if raw else {}
    except orjson.JSONDecodeError as error:
        raise Malformed("the answer is not JSON") from error
    if not isinstance(decoded, dict):
        raise Malformed("the answer is not a JSON object")
    return decoded


def _refusal(answer: _Answer) -> ApiError:
    """The error that a Status object describes; the text itself where a proxy or a missing path answered."""
    try:
        decoded = orjson.loads(answer.raw)
    except orjson.JSONDecodeError:
        decoded = None
    is_status = isinstance(decoded, dict) and decoded.get("kind") == "Status"
    if not isinstance(decoded, dict) or not is_status:
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
        is_status=is_status,
    )
