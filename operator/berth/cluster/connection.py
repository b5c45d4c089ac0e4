"""One connection to an API server, with at most one request on it.

    open_connection --> idle --send--> busy --answer--> idle
                          |              |--- the server closes it, an error, a limit, a cancelled request --> closed
                          +--- the server closes it, or speaks unasked --> closed

It works on a socket of its own, without asyncio's transports: these cost as much again as the request, and do not tell
when a byte leaves. Here `send` is the moment: when it returns, something may have arrived, and when it raises
NothingSent, nothing can have. A request that did not get its answer has the connection reset, so that what the kernel
still holds of it is not delivered any more.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from typing import NamedTuple

import aiohappyeyeballs

from berth.cluster.http1 import Answer, AnswerReader, BadAnswer

PIECE_BYTES = 64 * 1024
PIECES = 16  # read in a row, before others have their turn
OTHER_FAMILY_SECONDS = 0.25  # after which IPv4 is tried beside IPv6
_RESET = struct.pack("ii", 1, 0)


class NothingSent(Exception):
    """The connection was broken before a byte of the request could leave."""


class ServerAddress(NamedTuple):
    """Where to connect to, and how; without `tls` in plain text."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    delivery_seconds: float | None
    """What the other side has not acknowledged by then is not sent to it any more."""


class Connection:
    """A connected socket; `on_closed` is called once, however it ends."""

    def __init__(self, sock: socket.socket, on_closed: Callable[["Connection"], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._on_closed = on_closed
        self._answer: asyncio.Future[Answer] | None = None
        self._reader = AnswerReader()
        self._unsent = memoryview(b"")
        self.is_closed = False
        self.idle_seconds = 0.0
        """Since when it has nothing to do, on the event loop's clock."""
        self._loop.add_reader(sock.fileno(), self._readable)

    def send(self, data: bytes) -> asyncio.Future[Answer]:
        """Send a request; the future has its answer, or why there is none. Raises NothingSent."""
        if self.is_closed:
            raise NothingSent("the connection was closed")
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError):
            sent = 0
        except OSError as error:
            self.close()
            raise NothingSent(str(error)) from error
        self._reader = AnswerReader()
        self._answer = answer = self._loop.create_future()
        if sent < len(data):
            self._unsent = memoryview(data)[sent:]
            self._loop.add_writer(self._socket.fileno(), self._writable)
        return answer

    def fail(self, error: BaseException) -> None:
        """No answer comes any more: the request that waits for one gets the error."""
        answer, self._answer = self._answer, None
        self._end(reset=answer is not None)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def close(self) -> None:
        """A request that is on it gets an error."""
        self.fail(ConnectionError("the connection has been closed"))

    def _end(self, *, reset: bool) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        descriptor = self._socket.fileno()
        self._loop.remove_reader(descriptor)
        self._loop.remove_writer(descriptor)
        with contextlib.suppress(OSError):
            if reset:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._socket.close()
        self._on_closed(self)

    def _writable(self) -> None:
        """What did not go out at once: it takes a long request and a full buffer."""
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except (BlockingIOError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self.fail(error)
            return
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        for _ in range(PIECES):
            try:
                data = self._socket.recv(PIECE_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                return None
            except OSError as error:
                return self.fail(error)
            future = self._answer
            if future is None:  # the server has closed it, or says what nobody asked for
                return self.close()
            try:
                answer = self._reader.feed(data) if data else self._reader.end()
            except BadAnswer as error:
                return self.fail(error)
            if answer is not None:
                return self._finish(future, answer)
        return None

    def _finish(self, future: asyncio.Future[Answer], answer: Answer) -> None:
        self._answer = None
        if self._unsent or not self._reader.keeps_alive:
            self._end(reset=False)
        if not future.done():
            future.set_result(answer)


async def open_connection(address: ServerAddress, on_closed: Callable[[Connection], None]) -> Connection:
    """Raises OSError; of a kind that `is_misconfiguration` knows where it is no use to wait."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    sock = await aiohappyeyeballs.start_connection(
        found,
        happy_eyeballs_delay=OTHER_FAMILY_SECONDS,
        interleave=1,
        socket_factory=lambda info: make_socket(info, address),
    )
    try:
        return Connection(sock if address.tls is None else await _wrap(sock, address.tls, address.host), on_closed)
    except BaseException:
        sock.close()
        raise


def is_misconfiguration(error: BaseException) -> bool:
    """Whether waiting will not help: a host that has no address, a certificate that is not trusted."""
    broken = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return isinstance(error, socket.gaierror | ssl.SSLError | ssl.CertificateError) and not broken


def make_socket(info: tuple[int, int, int, str, tuple[object, ...]], address: ServerAddress) -> socket.socket:
    """A socket whose data the kernel does not deliver too late: closing one does not take back what was sent, and a
    network that comes back after a minute would carry out requests that were given up long ago."""
    made = socket.socket(*info[:3])
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if address.delivery_seconds is not None and hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(address.delivery_seconds * 1000))
    return made


async def _wrap(sock: socket.socket, tls: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    """The socket when both sides have shown who they are."""
    loop = asyncio.get_running_loop()
    wrapped = tls.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False, suppress_ragged_eofs=False)
    try:
        while True:
            try:
                wrapped.do_handshake()
                return wrapped
            except ssl.SSLWantReadError:
                await _wait_ready(wrapped.fileno(), loop.add_reader, loop.remove_reader)
            except ssl.SSLWantWriteError:
                await _wait_ready(wrapped.fileno(), loop.add_writer, loop.remove_writer)
    except BaseException:
        wrapped.close()
        raise


async def _wait_ready(descriptor: int, add: Callable[..., object], remove: Callable[[int], object]) -> None:
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)
