"""Connections of our own to the API server, without a proxy between.

    exchange --> an idle connection, the one used last --> send --> the answer --> idle again
             \\-> none is idle: wait for the first that becomes free or is opened, in turn

While requests wait, connections are opened, a few at a time: most of those who wait are served by connections that
become free before, and handshakes of a burst do not hold up the loop. Some are opened ahead and kept ready, since the
first pods of a rollout should not wait for handshakes. A connection that was idle for KEEP_ALIVE_SECONDS is closed
rather than trusted: what lies between may have forgotten it without a word.

A connection that breaks before a byte of the request could leave (NothingSent) costs nothing: another is taken, and
`before_sending` is asked again. If it breaks later, nobody knows what became of the request, and nobody repeats it
here.
"""

import asyncio
import logging
from collections import deque
from typing import Any

from yarl import URL

from berth.cluster.connection import Connection, NothingSent, ServerAddress, is_misconfiguration, open_connection
from berth.cluster.http1 import Answer, Request, encode_request
from berth.cluster.transport import (
    CONNECT_SECONDS,
    KEEP_ALIVE_SECONDS,
    BeforeSending,
    Misconfigured,
    make_tls,
    server_url,
)

OPENING_AT_ONCE = 8
SLOW_SECONDS = 1.0  # an attempt that takes longer does not keep others from being made
MAINTENANCE_SECONDS = 1.0  # between looks for connections that are too old or missing
CONNECTIONS_TRIED = 4  # by one request, of which no byte has left yet

_log = logging.getLogger(__name__)


class DirectTransport:
    """A pool of connections."""

    def __init__(
        self, configuration: Any, *, connections: int, ahead: int = 0, delivery_seconds: float | None = None
    ) -> None:
        server = server_url(configuration)
        tls = make_tls(configuration) if server.scheme == "https" else None
        self._address = ServerAddress(server.raw_host or "", server.port or 0, tls, delivery_seconds)
        self._host = host_header(server)
        self._prefix = server.raw_path.rstrip("/")
        self._limit = connections
        self._ahead = ahead
        self._connections: dict[Connection, None] = {}
        self._idle: list[Connection] = []  # the one used last is the last
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._opening: dict[asyncio.Task[None], float] = {}  # since when
        self._requests = 0
        self._is_retired = False
        self.is_closed = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._keep_ready()

    @property
    def under_way(self) -> int:
        return self._requests

    def statistics(self) -> dict[str, int]:
        return {
            "open": len(self._connections),
            "idle": len(self._idle),
            "opening": len(self._opening),
            "waiting": len(self._waiting),
        }

    async def exchange(self, request: Request, limit_seconds: float, before_sending: BeforeSending) -> Answer:
        data = encode_request(request, self._host, self._prefix)
        limit = self._loop.time() + limit_seconds
        self._requests += 1
        try:
            for _ in range(CONNECTIONS_TRIED):
                connection = self._idle.pop() if self._idle else await self._wait_connection(limit)
                try:
                    return await self._send(connection, data, limit, before_sending)
                except NothingSent as error:
                    _log.debug("A connection was broken before the request could be sent: %s", error)
            raise ConnectionError(f"{CONNECTIONS_TRIED} connections were broken, nothing was sent")
        finally:
            self._requests -= 1
            self._close_if_done()

    async def retire(self) -> None:
        self._is_retired, self._ahead = True, 0
        for connection in list(self._idle):
            connection.close()
        self._close_if_done()

    async def close(self) -> None:
        self._close()
        await asyncio.gather(*self._opening, return_exceptions=True)

    async def _send(self, connection: Connection, data: bytes, limit: float, before_sending: BeforeSending) -> Answer:
        try:
            before_sending()
        except BaseException:
            self._free(connection)
            raise
        answer = connection.send(data)
        timer = self._loop.call_at(limit, connection.fail, TimeoutError())
        try:
            return await answer
        except asyncio.CancelledError:
            connection.close()  # the answer that is still to come is for nobody
            raise
        finally:
            timer.cancel()
            self._free(connection)

    async def _wait_connection(self, limit: float) -> Connection:
        if self.is_closed:
            raise ConnectionError("the connection has been closed")
        turn: asyncio.Future[Connection] = self._loop.create_future()
        self._waiting.append(turn)
        self._open_more()
        timer = self._loop.call_at(limit, _fail, turn, TimeoutError())
        try:
            return await turn
        except BaseException:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled() and turn.exception() is None:
                self._free(turn.result())  # it was our turn, and nobody is left to make use of it
            raise
        finally:
            timer.cancel()

    def _free(self, connection: Connection) -> None:
        """It has nothing to do: for the first who waits."""
        if connection.is_closed:
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        connection.idle_seconds = self._loop.time()
        self._idle.append(connection)

    def _forget(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._waiting:
            self._open_more()

    # --- opening and closing -----------------------------------------------------------------------------------------

    def _open_more(self) -> None:
        """As many as wait, within the limits.

        An attempt into a network that drops everything takes long, also when the network is back.
        """
        recent = self._loop.time() - SLOW_SECONDS
        under_way = sum(1 for since in self._opening.values() if since > recent)
        for _ in range(under_way, min(len(self._waiting), OPENING_AT_ONCE)):
            if not self._open_one():
                return

    def _open_one(self) -> bool:
        if self.is_closed or len(self._connections) + len(self._opening) >= self._limit:
            return False
        task = self._loop.create_task(self._open())
        self._opening[task] = self._loop.time()
        task.add_done_callback(self._opened)
        return True

    async def _open(self) -> None:
        """The request that has waited longest gets the connection, or the error."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await open_connection(self._address, self._forget)
        except TimeoutError:
            self._refuse(ConnectionError(f"no connection within {CONNECT_SECONDS:g} s"))
        except Exception as error:
            self._refuse(Misconfigured(str(error)) if is_misconfiguration(error) else error)
        else:
            self._connections[connection] = None
            self._free(connection)

    def _opened(self, task: asyncio.Task[None]) -> None:
        del self._opening[task]
        self._open_more()

    def _refuse(self, error: Exception) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(error)
                return
        _log.debug("No connection could be opened ahead: %s", error)

    def _keep_ready(self) -> None:
        self.maintain()
        self._timer = self._loop.call_later(MAINTENANCE_SECONDS, self._keep_ready)

    def maintain(self) -> None:
        """Closes connections that were idle for too long, and opens what is missing of those opened ahead.

        While none is open, it makes one attempt: the server may be away.
        """
        old = self._loop.time() - KEEP_ALIVE_SECONDS
        for connection in [each for each in self._idle if each.idle_seconds < old]:
            connection.close()
        missing = self._ahead - len(self._idle) - len(self._opening)
        for _ in range(missing if self._connections or self._timer is None else min(missing, 1)):
            self._open_one()

    def _close_if_done(self) -> None:
        if self._is_retired and not self._requests:
            self._close()

    def _close(self) -> None:
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._opening:
            task.cancel()
        for turn in self._waiting:
            _fail(turn, ConnectionError("the connection has been closed"))
        self._waiting.clear()
        for connection in list(self._connections):
            connection.close()


def _fail(turn: asyncio.Future[Connection], error: Exception) -> None:
    if not turn.done():
        turn.set_exception(error)


def host_header(server: URL) -> str:
    host = f"[{server.raw_host}]" if ":" in (server.raw_host or "") else str(server.raw_host)
    return host if server.is_default_port() else f"{host}:{server.port}"
