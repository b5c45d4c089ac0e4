"""A lean HTTP/1.1 client for benchmarks that share the machine with what they measure.

    async with LeanClient(plane.url, plane.token, connections=30) as api:
        await api.send_all([Request("POST", path, body)] for body in bodies)
        await api.follow(PODS, version, seen)

Each connection is a plain TLS socket with one request on its way, read in the event loop's own callback; answers are
not decoded unless the caller asks for them. That takes about a third of what a general client takes. A request whose
connection broke is sent again: so is one that the server had no time for (429 and 5xx). Already there (409) after a
repeated POST means that it was made the first time.

It knows one server, on loopback, whose certificate is not verified. JSON only: in its bodies there is no bare line
break, so the end of a chunked answer is found by its last five bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import orjson

from control_plane.process import unverified_tls

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
READ_BYTES = 1 << 18
LAST_CHUNK = b"0\r\n\r\n"
ATTEMPTS = 8
PAUSE_SECONDS = 0.25

Object = dict[str, Any]
See = Callable[[str, Object], None]


class Refused(Exception):
    """The API server said no; `status` is the HTTP status."""

    def __init__(self, status: int, request: Request, said: bytes) -> None:
        super().__init__(f"{request.method} {request.path}: {status} {_message(said)}")
        self.status = status


class Broken(ConnectionError):
    """The connection ended before the answer did."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes


class Connection:
    """One connection: a request, then its answer."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext, head: str) -> None:
        self._head = head
        self._loop = asyncio.get_running_loop()
        plain = socket.create_connection(address)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = context.wrap_socket(plain)
        self._socket.setblocking(False)
        self._buffer = b""
        self._answer: asyncio.Future[Answer] | None = None
        self.reusable = True
        self._loop.add_reader(self._socket, self._readable)

    async def ask(self, request: Request) -> Answer:
        self._answer = self._loop.create_future()
        self._buffer = b""
        await self.write(request)
        return await self._answer

    async def write(self, request: Request) -> None:
        head = (
            f"{request.method} {request.path} HTTP/1.1\r\n{self._head}"
            f"Content-Type: {request.content_type}\r\nContent-Length: {len(request.body)}\r\n\r\n"
        )
        left = memoryview(head.encode() + request.body)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                await asyncio.sleep(0.001)  # the server reads slower than we write: rare
            except OSError as error:
                self.reusable = False
                raise Broken(str(error)) from error

    def close(self) -> None:
        self.reusable = False
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _readable(self) -> None:
        data = self._read()
        if data is None:
            return
        if not data:
            self.close()
            self._fail()
            return
        self._take(data)

    def _read(self) -> bytes | None:
        """What has come; None for nothing yet, empty at the end. What was read before an end or an error counts."""
        parts: list[bytes] = []
        try:
            while part := self._socket.recv(READ_BYTES):
                parts.append(part)
                if not self._socket.pending():  # the loop calls again for what the kernel still has
                    return b"".join(parts)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return b"".join(parts) or None
        except OSError:
            pass
        return b"".join(parts)

    def _take(self, data: bytes) -> None:
        self._buffer += data
        answer = parse_answer(self._buffer)
        if answer is not None and self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _fail(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Broken("the connection was closed"))


class Stream(Connection):
    """A connection whose answer has no end: lines, as they come."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext, head: str, see: See) -> None:
        super().__init__(address, context, head)
        self._see = see
        self._lines = Lines()
        self._ended: asyncio.Future[None] = self._loop.create_future()

    async def run(self, request: Request) -> None:
        """Until the server ends it."""
        await self.write(request)
        await self._ended

    def _take(self, data: bytes) -> None:
        try:
            for line in self._lines.feed(data):
                event = orjson.loads(line)
                self._see(event["type"], event["object"])
            if self._lines.ended:  # as the server does with a watcher that it finds slow; it keeps the connection
                self.close()
                self._fail()
        except Exception as error:
            self.close()
            if not self._ended.done():
                self._ended.set_exception(error)

    def _fail(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


class Lines:
    """The lines of a chunked answer, whatever pieces it comes in."""

    def __init__(self) -> None:
        self._raw = b""
        self._line = b""
        self._headed = False
        self.ended = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._raw += data
        if not self._headed:
            head, found, rest = self._raw.partition(b"\r\n\r\n")
            if not found:
                return
            if not head.startswith(b"HTTP/1.1 200"):
                raise Broken(f"the watch was refused: {head.splitlines()[0].decode()} {rest[:300]!r}")
            self._headed, self._raw = True, rest
        *lines, self._line = (self._line + b"".join(self._chunks())).split(b"\n")
        yield from lines

    def _chunks(self) -> Iterator[bytes]:
        position = 0
        while (end := self._raw.find(b"\r\n", position)) >= 0:
            size = int(self._raw[position:end], 16)
            if len(self._raw) < end + 2 + size + 2:
                break
            self.ended = self.ended or size == 0
            yield self._raw[end + 2 : end + 2 + size]
            position = end + 2 + size + 2
        self._raw = self._raw[position:]


class LeanClient:
    """See the module's text. Use it as an async context manager, in one event loop."""

    def __init__(
        self, url: str, token: str, *, connections: int = 30, connect: Callable[[], Connection] | None = None
    ) -> None:
        """`connect` makes the connections, if they are not to go to the URL."""
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 443)
        self._head = f"Host: {parts.netloc}\r\nAuthorization: Bearer {token}\r\nAccept: {JSON}\r\n"
        self._context = unverified_tls()
        self._count = connections
        self._connect = connect or self._make_connection
        self._free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()

    async def __aenter__(self) -> Self:
        for _ in range(self._count):
            self._free.put_nowait(self._connect())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while not self._free.empty():
            self._free.get_nowait().close()

    async def send(self, request: Request) -> bytes:
        """The body of the answer; raises Refused."""
        connection = await self._free.get()
        try:
            for attempt in range(ATTEMPTS):
                if not connection.reusable:
                    connection = self._connect()
                with contextlib.suppress(Broken):
                    answer = await connection.ask(request)
                    if answer.status < 300 or (answer.status == 409 and attempt and request.method == "POST"):
                        return answer.body
                    if answer.status != 429 and answer.status < 500:
                        raise Refused(answer.status, request, answer.body)
                await asyncio.sleep(PAUSE_SECONDS)
            raise Broken(f"{request.method} {request.path}: no answer after {ATTEMPTS} attempts")
        finally:
            if not connection.reusable:
                connection = self._connect()
            self._free.put_nowait(connection)

    async def send_all(self, sequences: Iterable[Sequence[Request]], *, at_once: int | None = None) -> int:
        """Sends the requests of each sequence one after the other, and as many sequences at once as there are
        connections. Returns how many sequences there were; the first refusal ends it.
        """
        remaining = iter(sequences)
        done = 0

        async def work() -> None:
            nonlocal done
            for sequence in remaining:
                for request in sequence:
                    await self.send(request)
                done += 1

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(at_once or self._count, self._count)):
                    workers.create_task(work())
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        return done

    async def get(self, path: str, **query: str) -> Object:
        asked = f"{path}?{urlencode(query)}" if query else path
        answer: Object = orjson.loads(await self.send(Request("GET", asked)))
        return answer

    async def follow(self, path: str, version: str, see: See, **query: str) -> None:
        """A watch from this version on, that goes on where it was when the server ends it. Never returns."""
        last = version

        def seen(kind: str, body: Object) -> None:
            nonlocal last
            if kind == "ERROR":
                raise Broken(f"watch of {path}: {body.get('message', body)}")
            last = str(body["metadata"]["resourceVersion"])
            if kind != "BOOKMARK":
                see(kind, body)

        while True:
            stream = Stream(self._address, self._context, self._head, seen)
            try:
                asked = urlencode({"watch": "true", "resourceVersion": last, "allowWatchBookmarks": "true", **query})
                await stream.run(Request("GET", f"{path}?{asked}"))
            finally:
                stream.close()

    def _make_connection(self) -> Connection:
        return Connection(self._address, self._context, self._head)


def parse_answer(raw: bytes) -> Answer | None:
    """The answer, or None while some of it is missing."""
    head, found, body = raw.partition(b"\r\n\r\n")
    if not found:
        return None
    status = int(head[9:12])
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        return Answer(status, _unchunked(body)) if body.endswith(LAST_CHUNK) else None
    length = _length(lower)
    return Answer(status, body) if len(body) >= length else None


def _length(head: bytes) -> int:
    _, found, rest = head.partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


def _unchunked(body: bytes) -> bytes:
    parts: list[bytes] = []
    position = 0
    while True:
        end = body.index(b"\r\n", position)
        size = int(body[position:end], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(body[end + 2 : end + 2 + size])
        position = end + 2 + size + 2


def _message(said: bytes) -> str:
    try:
        return str(orjson.loads(said)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return said[:300].decode(errors="replace")
