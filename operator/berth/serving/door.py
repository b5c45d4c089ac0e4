"""One listening socket, and whoever comes in through it: so many at once, none for longer than they need.

    accepted --(TLS, 5 s)--> waiting for a request (10 s, headers included) --> being answered (60 s) --> waiting ...

Every state has its time, and a guest who overstays is dropped without a word. When the house is full, the guest who
has waited longest without asking for anything makes room, so that holding connections open keeps nobody else out; only
when all are being answered is a newcomer turned away. aiohttp reads the requests and enforces the sizes below; what it
cannot read is answered 400 and counted, and not logged, as it is nothing but a stranger's bytes.
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

from berth.serving.answers import plain

GUESTS = 100
HANDSHAKE_SECONDS = 5.0
REQUEST_SECONDS = 10.0
ANSWER_SECONDS = 60.0
FAREWELL_SECONDS = 1.0
PAUSE_SECONDS = 0.1  # after an accept that failed: there may be no file descriptors left for a moment
LARGEST_LINE_BYTES = 8190
LARGEST_HEADER_BYTES = 8190
MOST_HEADERS = 64
LARGEST_BODY_BYTES = 1024
READ_BYTES = 2**14

_log = logging.getLogger(__name__)
# aiohttp logs a traceback, with the bytes, for whatever a stranger sends. In no hierarchy, so that nobody turns it on.
_silent = logging.Logger("aiohttp, silenced", logging.CRITICAL)

Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(eq=False, slots=True)
class _Guest:
    """One connection, from the moment that it was accepted."""

    task: "asyncio.Task[None] | None" = None  # the handshake
    transport: asyncio.Transport | None = None  # from then on
    timer: asyncio.TimerHandle | None = None
    is_answered: bool = False  # a request of it is


class Door:
    """Lives in one loop: `run` until cancelled, then `close`."""

    def __init__(
        self,
        listener: socket.socket,
        answer: Answering,
        tls: Callable[[], ssl.SSLContext] | None,
        counts: Counter[str],
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._tls = tls
        self._counts = counts
        self._guests: dict[_Guest, None] = {}  # in the order of their coming
        self._manager = web.Server(self._handle, request_factory=_request, handler_cancellation=True)

    def __len__(self) -> int:
        return len(self._guests)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                self._counts["not_accepted"] += 1
                _log.warning("A connection cannot be accepted: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self._receive(connection)

    async def close(self) -> None:
        """No more guests; those who are being answered get a moment."""
        self._listener.close()
        await self._manager.shutdown(FAREWELL_SECONDS)
        tasks = [guest.task for guest in self._guests if guest.task is not None]
        for guest in list(self._guests):
            self._drop(guest)
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- coming and going --------------------------------------------------------------------------------------------

    def _receive(self, connection: socket.socket) -> None:
        self._counts["connections"] += 1
        if len(self._guests) >= GUESTS and not self._make_room():
            self._counts["turned_away"] += 1
            connection.close()
            return
        guest = _Guest()
        self._guests[guest] = None
        guest.task = asyncio.get_running_loop().create_task(self._greet(guest, connection))

    def _make_room(self) -> bool:
        idle = next((guest for guest in self._guests if not guest.is_answered), None)
        if idle is None:
            return False
        self._counts["displaced"] += 1
        self._drop(idle)
        return True

    async def _greet(self, guest: _Guest, connection: socket.socket) -> None:
        limits = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": FAREWELL_SECONDS}
        try:
            tls = self._tls() if self._tls is not None else None
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Conversation(self, guest, self._manager), connection, ssl=tls, **(limits if tls else {})
            )
        except Exception as error:  # TLS errors and time-outs, mostly
            self._counts["handshake_failed"] += 1
            if not isinstance(error, OSError):
                _log.warning("A connection could not be begun: %r", error)
            connection.close()
            self._forget(guest)
        except asyncio.CancelledError:
            self._forget(guest)
            raise
        finally:
            guest.task = None

    def settle(self, guest: _Guest, transport: asyncio.Transport) -> None:
        """The connection is ready for requests."""
        guest.transport = transport
        self._allow(guest, REQUEST_SECONDS)

    def _allow(self, guest: _Guest, seconds: float) -> None:
        if guest.timer is not None:
            guest.timer.cancel()
        guest.timer = asyncio.get_running_loop().call_later(seconds, self._time_out, guest)

    def _time_out(self, guest: _Guest) -> None:
        self._counts["timed_out"] += 1
        self._drop(guest)

    def _drop(self, guest: _Guest) -> None:
        self._forget(guest)
        if guest.transport is not None:
            guest.transport.abort()
        elif guest.task is not None:
            guest.task.cancel()

    def _forget(self, guest: _Guest) -> None:
        self._guests.pop(guest, None)
        if guest.timer is not None:
            guest.timer.cancel()

    def leave(self, guest: _Guest) -> None:
        """The connection is closed."""
        self._forget(guest)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        assert isinstance(protocol, _Conversation)
        guest = protocol.guest
        guest.is_answered = True
        self._allow(guest, ANSWER_SECONDS)
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
            guest.is_answered = False
            if guest in self._guests:
                self._allow(guest, REQUEST_SECONDS)  # to take the answer, and to ask again
        self._counts[str(response.status)] += 1
        return response

    def malformed(self, status: int) -> web.Response:
        """The answer to what is not HTTP, or too large."""
        self._counts["malformed"] += 1
        response = plain(status, "this is not a request that can be read")
        response.force_close()
        return response


class _Conversation(web.RequestHandler):
    """aiohttp's side of one connection, with our limits, and our words where it would use its own."""

    __slots__ = ("_door", "guest")

    def __init__(self, door: Door, guest: _Guest, manager: web.Server) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=REQUEST_SECONDS,
            logger=_silent,
            access_log=None,  # type: ignore[arg-type] # its documented way to have none
            max_line_size=LARGEST_LINE_BYTES,
            max_field_size=LARGEST_HEADER_BYTES,
            max_headers=MOST_HEADERS,
            lingering_time=0,
            read_bufsize=READ_BYTES,
            auto_decompress=False,
        )
        self._door = door
        self.guest = guest

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._door.settle(self.guest, transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._door.leave(self.guest)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("half an answer has been sent, another cannot be")
        return self._door.malformed(status)


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=LARGEST_BODY_BYTES)
