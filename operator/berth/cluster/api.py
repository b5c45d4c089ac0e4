"""Requests to the API server: plain dicts out and in, two kinds of failure, and nothing else.

kubernetes_asyncio reads the credentials, `transport` holds the connections; the former's models and serializer are left
alone, since decoding a pod into V1Pod costs twenty times what orjson needs.
What cannot be sent as it is, a path that leads elsewhere or a text that is no text, is refused here as the server would
(ApiError 400).

A request ends in one of three ways: a dict, `ApiError` (the server said no) or `Unreachable` (a timeout, a cut, a TLS
failure, half an answer, a token that cannot be read, anything else: nobody knows whether it was carried out). A 401
reloads the credentials once and asks again, which is safe because a request that was not let in has done nothing.

A request behind a fence ends in a fourth way where several replicas run: `NotLeading`, and nothing was sent. The
fence is asked twice, before a connection is looked for and right before the first byte is written, also when a 401 has
the request sent again; and it limits how long the request may take.

What it does not do: retry. Whether a request may be sent twice is for the caller to know.
"""

import asyncio
import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson

from berth import __version__
from berth.cluster.credentials import Credentials
from berth.cluster.deep_json import decode
from berth.cluster.errors import ApiError, CredentialsError, Malformed, Unreachable
from berth.cluster.fence import Fence
from berth.cluster.http1 import Answer, Request
from berth.cluster.pool import DirectTransport
from berth.cluster.transport import Misconfigured, Transport, find_proxy
from berth.scheduler.ports import NotLeading

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
CONNECTIONS = 256
TEXT_LIMIT = 256
LONGEST_PATH = 2048
# The API server names the writer of each field after what comes before the slash.
USER_AGENT = f"berth/{__version__}"
_PATH = re.compile(r"(/[A-Za-z0-9._:~-]+)+")

_log = logging.getLogger(__name__)


class OpenTransport(Protocol):
    """How connections are made ready."""

    def __call__(
        self, configuration: Any, *, connections: int, ahead: int, delivery_seconds: float | None
    ) -> Transport: ...


def open_transport(configuration: Any, *, connections: int, ahead: int, delivery_seconds: float | None) -> Transport:
    """Raises OSError or ValueError if the address, a certificate or a key cannot be used.

    `ahead`: how many connections are kept ready. `delivery_seconds`: what the other side has not acknowledged by then
    is not sent to it any more.
    """
    proxy = find_proxy(configuration)
    if proxy is None:
        return DirectTransport(configuration, connections=connections, ahead=ahead, delivery_seconds=delivery_seconds)
    from berth.cluster.proxied import ProxiedTransport  # few need it

    return ProxiedTransport(configuration, proxy, connections=connections, delivery_seconds=delivery_seconds)


class Api:
    """One API server, as one user. `open` before the first request, `close` at the end."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        ahead: int = 0,
        delivery_seconds: float | None = None,
        open_transport: OpenTransport = open_transport,
    ) -> None:
        """`ahead` and `delivery_seconds`: as `open_transport` has them."""
        self._credentials = credentials
        self._ahead = ahead
        self._delivery_seconds = delivery_seconds
        self._open_transport = open_transport
        self._transport: Transport | None = None
        self._retired: list[Transport] = []
        self._fingerprint = ""
        self._reload_lock = asyncio.Lock()
        self._generation = 0
        self._reachable = True
        self._answered_seconds: float | None = None
        self._renewal_failed = False
        self._no_writes_because = ""
        self.returned = asyncio.Event()
        """Set when an answer arrives after requests that got none, and cleared by the one who acts on it."""

    @property
    def reachable(self) -> bool:
        """Whether the last request got an answer."""
        return self._reachable

    @property
    def last_answer_seconds(self) -> float | None:
        """How long ago a request last got an answer other than that the server has failed; None: never."""
        return None if self._answered_seconds is None else time.monotonic() - self._answered_seconds

    def stop_writing(self, reason: str) -> None:
        """Send nothing any more that may write: from now on every request but GET fails unsent."""
        self._no_writes_because = reason

    async def open(self) -> None:
        """Load the credentials and make ready to connect, unless that is done; CredentialsError if it is impossible."""
        if self._transport is None:
            await self._credentials.load()
            await self._connect()

    @property
    def requests_under_way(self) -> int:
        """The number of requests that have no answer yet."""
        return 0 if self._transport is None else self._transport.under_way

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
        fence: Fence | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """The status and the decoded answer; raises ApiError or Unreachable, and NotLeading if the fence is closed."""
        _check_path(path)
        if self._no_writes_because and method != "GET":
            not_sent = Unreachable if fence is None else NotLeading
            raise not_sent(f"{method} {path}: {self._no_writes_because}: nothing was sent")
        if fence is not None:
            timeout_seconds = min(timeout_seconds, fence.request_seconds)
        data = None if body is None else _encode(body)
        request = Request(method, path, query, accept, USER_AGENT, None, content_type, data)
        generation = self._generation
        answer = await self._exchange(request, timeout_seconds, fence)
        if answer.status == 401 and await self._renew(generation):
            answer = await self._exchange(request, timeout_seconds, fence)
        if answer.status >= 300:
            raise refusal_of(answer)
        return answer.status, decode_object(answer.raw)

    async def _exchange(self, request: Request, timeout_seconds: float, fence: Fence | None) -> Answer:
        transport = self._transport
        if transport is None:
            raise Unreachable("the connection has been closed")
        ask = _nothing if fence is None else fence.check
        try:
            authorization = await self._credentials.authorization()
            if authorization is not None:
                request = request._replace(authorization=authorization)
            ask()
            answer = await transport.exchange(request, timeout_seconds, ask)
        except NotLeading:
            raise
        # Whatever it is, not only errors of the network: a token file is empty while it is replaced, an exec plugin
        # fails, connections are closed under a request. No caller should have to know all of these.
        except Exception as error:
            self.note_reachable(False)
            raise Unreachable(
                f"{request.method} {request.path}: {_describe(error, timeout_seconds)}",
                is_misconfigured=isinstance(error, Misconfigured),
            ) from error
        self.note_reachable(True)
        if answer.status < 500:
            self._answered_seconds = time.monotonic()
        return answer

    def note_reachable(self, reachable: bool) -> None:
        """Records whether a request got an answer."""
        came_back = reachable and not self._reachable
        self._reachable = reachable
        if came_back:
            self.returned.set()

    async def _renew(self, generation: int) -> bool:
        """Load the credentials again, once for all requests that were refused with the same ones."""
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
        """Once, until a renewal succeeds: every request that is refused comes through here."""
        if not self._renewal_failed:
            _log.error("The API server does not accept our credentials, and they cannot be renewed: %s", error)
        self._renewal_failed = True

    async def _connect(self) -> None:
        """New connections if the certificates changed; the old ones stay for the requests that are on them."""
        try:
            fingerprint = self._credentials.fingerprint()
            if self._transport is not None and fingerprint == self._fingerprint:
                return
            fresh = self._open_transport(
                self._credentials.configuration,
                connections=CONNECTIONS,
                ahead=self._ahead,
                delivery_seconds=self._delivery_seconds,
            )
        except (OSError, ValueError) as error:
            raise CredentialsError(f"a certificate or key cannot be used: {error}") from error
        old, self._transport, self._fingerprint = self._transport, fresh, fingerprint
        self._retired = [transport for transport in self._retired if not transport.is_closed]
        if old is not None:
            self._retired.append(old)
            await old.retire()


def is_path(path: str) -> bool:
    """Whether an API server can have something there. Paths are made of names, and a real name leads nowhere else."""
    return len(path) <= LONGEST_PATH and _PATH.fullmatch(path) is not None and "/." not in path


def _check_path(path: str) -> None:
    if not is_path(path):
        raise ApiError(400, "BadRequest", f"{path[:TEXT_LIMIT]!a} is no path of an API server: nothing was sent")


def _encode(body: Mapping[str, Any] | Sequence[Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError as error:  # half a surrogate pair, a number beyond 64 bits
        raise ApiError(400, "BadRequest", f"what was to be sent is not JSON, nothing was: {error}") from error


def _nothing() -> None:
    """There is no fence to ask."""


def _describe(error: BaseException, timeout_seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_seconds:g} s"
    return str(error) or type(error).__name__


def decode_object(raw: bytes) -> dict[str, Any]:
    """The JSON object of an answer, {} for an empty one; raises Malformed."""
    try:
        decoded = decode(raw) if raw else {}
    except orjson.JSONDecodeError as error:
        raise Malformed("the answer is not JSON") from error
    if not isinstance(decoded, dict):
        raise Malformed("the answer is not a JSON object")
    return decoded


def refusal_of(answer: Answer) -> ApiError:
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
