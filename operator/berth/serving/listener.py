"""One listening socket with limits: how many connections at once, and how long each state of one may last.

    accepted --(TLS, 5 s)--> waiting for a request (10 s, headers included) --> being answered (60 s) --> waiting ...

Every state has its time limit; a connection that exceeds it is closed. At the limit of connections, the oldest one
without a request makes room, so that connections that are only held open keep no client out. Only if all are being
answered is a new one refused. aiohttp parses the requests and enforces the sizes below. Bytes that it cannot parse are
answered 400 and counted, but not logged.

aiohttp's own runner is not enough here: it has no limit on connections, no time limit for the handshake or for the
headers of a first request, and it does not see a connection before its handshake is done.
"""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from berth.serving.responses import plain

MAX_CONNECTIONS = 100
HANDSHAKE_SECONDS = 5.0
REQUEST_SECONDS = 10.0
ANSWER_SECONDS = 60.0
CLOSE_SECONDS = 1.0
ACCEPT_RETRY_SECONDS = 0.1  # after a failed accept: there may be no file descriptors left for a moment
MAX_LINE_BYTES = 8190
MAX_HEADER_BYTES = 8190
MAX_HEADERS = 64
MAX_BODY_BYTES = 1024
READ_BYTES = 2**14

_log = logging.getLogger(__name__)
# aiohttp logs a traceback, with the bytes, for every malformed request. Outside the hierarchy, so that it stays off.
_silent = logging.Logger("aiohttp, silenced", logging.CRITICAL)

Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(eq=False, slots=True)
class _Connection:
    """The state of one connection, from the moment that it was accepted."""

    task: "asyncio.Task[None] | None" = None  # of the handshake
    transport: asyncio.Transport | None = None  # after the handshake
    timer: asyncio.TimerHandle | None = None
    is_answering: bool = False  # a request is being answered


class Listener:
    """Accepts connections on one socket. Lives in one loop: `run` until cancelled, then `close`."""

    def __init__(
        self,
        listening: socket.socket,
        answer: Answering,
        tls: Callable[[], ssl.SSLContext] | None,
        counts: Counter[str],
    ) -> None:
        self._socket = listening
        self._answer = answer
        self._tls = tls
        self._counts = counts
        self._connections: dict[_Connection, None] = {}  # oldest first
        self._manager = web.Server(self._handle, request_factory=_request, handler_cancellation=True)

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

    async def close(self) -> None:
        """Stops accepting; requests that are being answered get CLOSE_SECONDS."""
        self._socket.close()
        await self._manager.shutdown(CLOSE_SECONDS)
        tasks = [connection.task for connection in self._connections if connection.task is not None]
        for connection in list(self._connections):
            self._drop(connection)
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- connections -------------------------------------------------------------------------------------------------

    def _accept(self, accepted: socket.socket) -> None:
        self._counts["connections"] += 1
        if len(self._connections) >= MAX_CONNECTIONS and not self._make_room():
            self._counts["turned_away"] += 1
            accepted.close()
            return
        connection = _Connection()
        self._connections[connection] = None
        connection.task = asyncio.get_running_loop().create_task(self._begin(connection, accepted))

    def _make_room(self) -> bool:
        idle = next((connection for connection in self._connections if not connection.is_answering), None)
        if idle is None:
            return False
        self._counts["displaced"] += 1
        self._drop(idle)
        return True

    async def _begin(self, connection: _Connection, accepted: socket.socket) -> None:
        limits = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": CLOSE_SECONDS}
        try:
            tls = self._tls() if self._tls is not None else None
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _ConnectionHandler(self, connection, self._manager),
                accepted,
                ssl=tls,
                **(limits if tls else {}),
            )
        except Exception as error:  # TLS errors and time-outs, mostly
            self._counts["handshake_failed"] += 1
            if not isinstance(error, OSError):
                _log.warning("A connection could not be begun: %r", error)
            accepted.close()
            self.forget(connection)
        except asyncio.CancelledError:
            self.forget(connection)
            raise
        finally:
            connection.task = None

    def begin_requests(self, connection: _Connection, transport: asyncio.Transport) -> None:
        """Starts the time in which a request must arrive."""
        connection.transport = transport
        self._allow(connection, REQUEST_SECONDS)

    def _allow(self, connection: _Connection, seconds: float) -> None:
        if connection.timer is not None:
            connection.timer.cancel()
        connection.timer = asyncio.get_running_loop().call_later(seconds, self._time_out, connection)

    def _time_out(self, connection: _Connection) -> None:
        self._counts["timed_out"] += 1
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self.forget(connection)
        if connection.transport is not None:
            connection.transport.abort()
        elif connection.task is not None:
            connection.task.cancel()

    def forget(self, connection: _Connection) -> None:
        """Drops the state of a closed connection."""
        self._connections.pop(connection, None)
        if connection.timer is not None:
            connection.timer.cancel()

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        assert isinstance(protocol, _ConnectionHandler)
        connection = protocol.connection
        connection.is_answering = True
        self._allow(connection, ANSWER_SECONDS)
        try:
            response = await self._answer(request)
        except ConnectionError:
            raise
        except Exception as error:
            self._counts["failed"] += 1
            _log.exception("A request for %.100r could not be answered: %s", request.path, type(error).__name__)
            response = plain(500, "an error inside; the log says more")
            response.force_close()
        finally:
            connection.is_answering = False
            if connection in self._connections:
                self._allow(connection, REQUEST_SECONDS)  # to read the response, and for the next request
        self._counts[str(response.status)] += 1
        return response

    def malformed(self, status: int) -> web.Response:
        """Returns the response to bytes that are not HTTP, or too large."""
        self._counts["malformed"] += 1
        response = plain(status, "this is not a request that can be read")
        response.force_close()
        return response


class _ConnectionHandler(web.RequestHandler):
    """aiohttp's protocol of one connection, with our limits and our error responses."""

    __slots__ = ("_owner", "connection")

    def __init__(self, owner: Listener, connection: _Connection, manager: web.Server) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=REQUEST_SECONDS,
            logger=_silent,
            access_log=None,  # type: ignore[arg-type] # its documented way to have none
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
            lingering_time=0,
            read_bufsize=READ_BYTES,
            auto_decompress=False,
        )
        self._owner = owner
        self.connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._owner.begin_requests(self.connection, transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._owner.forget(self.connection)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("half an answer has been sent, another cannot be")
        return self._owner.malformed(status)


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES)
