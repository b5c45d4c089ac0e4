"""A TCP proxy before an API server, for one client that is to be cut off: `cut`, `swallow`, `mute`, then `heal`.

    with Proxy("127.0.0.1", port) as proxy:
        ...                 # proxy.port
        proxy.cut()         # connections are reset, new ones are refused
        proxy.swallow()     # nothing gets through in either direction, and nobody is told
        proxy.mute(b"...")  # the answers to requests whose first line holds all these words do not get through
        proxy.heal()        # connections that have lost something are reset, the others go on

`binds` notes when a binding was asked for, where requests can be read (without TLS). Everything happens in a thread and
loop of its own; it is not safe for use from two threads at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

CALL_SECONDS = 60.0
CHUNK = 65_536
METHODS = (b"GET ", b"POST ", b"PATCH ", b"DELETE ")
BIND = re.compile(rb"POST /api/v1/namespaces/([^/ ]+)/pods/([^/ ]+)/binding")


class Proxy:
    """See the module's text."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[Any]] = set()  # one a link
        self.mode = "pass"
        self.muted: tuple[bytes, ...] = ()
        self.port = 0
        self.binds: list[tuple[float, str]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        self._call(self._cut)

    def swallow(self) -> None:
        self.mode = "swallow"

    def mute(self, *words: bytes) -> None:
        self.muted = words

    def heal(self) -> None:
        self._call(self._heal)

    # -- in the loop

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _cut(self) -> None:
        self.mode = "cut"
        for link in list(self._links):
            link.reset()

    async def _heal(self) -> None:
        self.mode, self.muted = "pass", ()
        for link in list(self._links):
            if link.has_lost:
                link.reset()

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for link in list(self._links):
            link.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)  # none may be left in a loop that is closed

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode == "cut":
            writer.transport.abort()
            return
        link = _Link(self, writer)
        self._links.add(link)
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            with contextlib.suppress(OSError):
                await link.run(reader, *self._target)
        finally:
            self._links.discard(link)
            link.reset()

    def _call(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run_coroutine_threadsafe(work(), self._loop).result(CALL_SECONDS)


class _Link:
    """One connection, from the client to the server and back."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._server: asyncio.StreamWriter | None = None
        self._request = b""
        self.has_lost = False

    def reset(self) -> None:
        for writer in (self._client, self._server):
            if writer is not None:
                writer.transport.abort()

    async def run(self, from_client: asyncio.StreamReader, host: str, port: int) -> None:
        from_server, self._server = await asyncio.open_connection(host, port)
        ways = [
            asyncio.create_task(self._carry(from_client, self._server, self._listen_to)),
            asyncio.create_task(self._carry(from_server, self._client, None)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listen: Callable[[bytes], None] | None
    ) -> None:
        while data := await reader.read(CHUNK):
            if listen is not None:
                listen(data)
            if self._proxy.mode == "swallow" or (listen is None and self._is_muted):
                self.has_lost = True
                continue
            writer.write(data)
            await writer.drain()

    @property
    def _is_muted(self) -> bool:
        words = self._proxy.muted
        return bool(words) and all(word in self._request for word in words)

    def _listen_to(self, data: bytes) -> None:
        if data.startswith(METHODS):
            self._request = data.partition(b"\r\n")[0]
        if self._proxy.mode == "pass":
            now = time.time()
            self._proxy.binds += [(now, f"{space.decode()}/{pod.decode()}") for space, pod in BIND.findall(data)]
