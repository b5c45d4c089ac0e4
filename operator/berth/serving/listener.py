"""One listening socket with limits: how many connections at once, and how long each state of one may last.

    accepted --(TLS, 5 s)--> waiting for a request (10 s, headers included) --> being answered (60 s) --> waiting ...

aiohttp parses the requests, limits their size, and closes connections that wait too long for one. At the limit of
connections, the oldest one without a request makes room, so that connections that are only held open keep no client
out. Only if all are being answered is a new one refused.

Sockets are accepted here and not by aiohttp's runner, which has no limit on connections and none on the time of a
handshake, and does not see a connection before its handshake is done.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable

from aiohttp import web

from berth.serving.responses import plain

MAX_CONNECTIONS = 100
HANDSHAKE_SECONDS = 5.0
REQUEST_SECONDS = 10.0
ANSWER_SECONDS = 60.0
CLOSE_SECONDS = 1.0
ACCEPT_RETRY_SECONDS = 0.1  # after a failed accept: there may be no file descriptors left for a moment
MAX_HEADERS = 64
READ_BYTES = 2**14

_log = logging.getLogger(__name__)
# aiohttp logs a traceback, with the bytes, for every malformed request. Outside the hierarchy, so that it stays off.
_silent = logging.Logger("aiohttp, silenced", logging.CRITICAL)

Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Listener:
    """Accepts connections on one socket. Lives in one loop: `run` until cancelled, then `close`."""

    def __init__(
        self,
        listening: socket.socket,
        answer: Answering,
        tls: Callable[[], ssl.SSLContext] | None,
        counts: Counter[str],
        *,
        answer_seconds: float | None = None,
        max_headers: int = MAX_HEADERS,
    ) -> None:
        """`answer_seconds`: how long an answer may take, where that is longer than ANSWER_SECONDS."""
        self._answer_seconds = answer_seconds
        self._max_headers = max_headers
        self._socket = listening
        self._answer = answer
        self._tls = tls
        self._counts = counts
        self._connections: dict[_Connection, asyncio.Task[None]] = {}  # oldest first
        self._server = web.Server(self._handle, handler_cancellation=True)

    def __len__(self) -> int:
        return len(self._connections)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                self._counts["not_accepted"] += 1
                _log.warning("A connection cannot be accepted: %s", error)
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            self._accept(accepted)
            await asyncio.sleep(0)  # the new task starts, and a flood of connections leaves the loop to the others

    async def close(self) -> None:
        """Stops accepting; requests that are being answered get CLOSE_SECONDS."""
        self._socket.close()
        await self._server.shutdown(CLOSE_SECONDS)
        tasks = list(self._connections.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- connections -------------------------------------------------------------------------------------------------

    def _accept(self, accepted: socket.socket) -> None:
        self._counts["connections"] += 1
        if len(self._connections) >= MAX_CONNECTIONS and not self._make_room():
            self._counts["turned_away"] += 1
            accepted.close()
            return
        connection = _Connection(self._server, self._counts, self._max_headers)
        self._connections[connection] = asyncio.create_task(self._serve(connection, accepted))

    def _make_room(self) -> bool:
        idle = next((connection for connection in self._connections if not connection.is_answering), None)
        if idle is None:
            return False
        self._counts["displaced"] += 1
        self._connections.pop(idle).cancel()
        return True

    async def _serve(self, connection: "_Connection", accepted: socket.socket) -> None:
        """Lasts from the handshake until the connection has ended. If it is cancelled, the connection is cut."""
        try:
            if await self._open(connection, accepted):
                await connection.ended.wait()
        finally:
            self._connections.pop(connection, None)
            # Both directions end, in whatever state asyncio's transport is: it may not even have begun the handshake.
            with contextlib.suppress(OSError):
                accepted.shutdown(socket.SHUT_RDWR)

    async def _open(self, connection: "_Connection", accepted: socket.socket) -> bool:
        limits = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": CLOSE_SECONDS}
        try:
            tls = self._tls() if self._tls is not None else None
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=tls, **(limits if tls else {})
            )
        except Exception as error:  # TLS errors and time-outs, mostly
            self._counts["handshake_failed"] += 1
            if not isinstance(error, OSError):
                _log.warning("A connection could not be begun: %r", error)
            accepted.close()
            return False
        return True

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, _Connection)
        connection.is_answering = True
        try:
            async with asyncio.timeout(self._answer_seconds or ANSWER_SECONDS):
                response = await self._respond(request)
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError as error:
            self._counts["timed_out"] += 1
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionError("the answer has taken too long") from error
        finally:
            connection.is_answering = False
        self._counts[str(response.status)] += 1
        return response

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except ConnectionError:
            raise
        except Exception as error:
            self._counts["failed"] += 1
            _log.exception("A request for %.100r could not be answered: %s", request.path, type(error).__name__)
            response = plain(500, "an error inside; the log says more")
            response.force_close()
            return response


class _Connection(web.RequestHandler):
    """aiohttp's protocol of one connection, with our limits and our response to what is not a request."""

    __slots__ = ("_counts", "ended", "is_answering")

    def __init__(self, server: web.Server, counts: Counter[str], max_headers: int) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=REQUEST_SECONDS,
            logger=_silent,
            access_log=None,  # type: ignore[arg-type] # its documented way to have none
            max_headers=max_headers,
            lingering_time=0,
            read_bufsize=READ_BYTES,
            auto_decompress=False,
        )
        self._counts = counts
        self.ended = asyncio.Event()
        self.is_answering = False

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.ended.set()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        super().handle_error(request, status, exc, message)  # raises if a part of an answer has been sent
        if status == 400:
            self._counts["malformed"] += 1
        response = plain(status, "this is not a request that can be read")
        response.force_close()
        return response
