"""The server: HTTPS for every client with the right, plain HTTP on the loopback interface on request.

It lives in a thread and an event loop of its own, for three reasons. A loop that hangs cannot say so: here the probe is
answered while the scheduler's loop is stuck, with 500 and the reason. Handshakes, floods and slow clients take no turn
of the loop that decides. And a decision that takes long delays no probe. The price is that nothing of the scheduler may
be touched here: it is read over the `Bridge`.

    kubelet, Prometheus, users --> Listener (limits) --> Pages --> Authorizer --> Bridge --> reviews of the API server
                                                           +--------------------> Bridge --> statistics, readiness, dump
    LoopWatchdog of the scheduler's loop <-- this thread, once a second; /livez

If the scheduler's loop has not turned for HANG_SECONDS, liveness fails, and the stack of its thread is logged once.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from berth.scheduler.access_review import Reviews
from berth.serving.addresses import ListenAddress, listen
from berth.serving.authorizer import Authorizer
from berth.serving.bridge import Bridge
from berth.serving.certificates import BadCertificate, Certificates, GivenCertificates, Pair, SelfMadeCertificates
from berth.serving.listener import Listener
from berth.serving.loop_watchdog import LoopWatchdog
from berth.serving.pages import Pages, ServedState

HANG_SECONDS = 15.0
LOOK_SECONDS = 1.0
STOP_SECONDS = 10.0

_log = logging.getLogger(__name__)


class CannotServe(Exception):
    """An address or a certificate cannot be used; str() names the flag and says why."""


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """Where and with what to serve. An address of None is not served; without a pair Berth makes a certificate."""

    https: ListenAddress | None = None
    http: ListenAddress | None = None
    pair: Pair | None = None
    debug: bool = False


class Endpoint(Protocol):
    """Something else that is served in the same thread, at an address of its own."""

    @property
    def flag(self) -> str:
        """The flag that sets the address."""
        ...

    @property
    def address(self) -> ListenAddress: ...

    def prepare(self) -> None:
        """Reads what is needed to serve; raises BadCertificate."""
        ...

    def make_listener(self, opened: socket.socket, bridge: Bridge, counts: Counter[str]) -> Listener:
        """Returns what accepts connections at the address; called in the serving thread."""
        ...


class Server:
    """Started and stopped in the scheduler's loop; `start` once, `stop` once."""

    def __init__(
        self,
        plan: ServingPlan,
        state: ServedState,
        reviews: Reviews,
        watchdog: LoopWatchdog,
        *,
        endpoints: Sequence[Endpoint] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._endpoints = {endpoint.flag: endpoint for endpoint in endpoints}
        self._state = state
        self._reviews = reviews
        self._watchdog = watchdog
        self._now = now
        self._counts: Counter[str] = Counter()
        self._sockets: dict[str, socket.socket] = {}
        self._certificates: Certificates | None = None
        self._authorizer: Authorizer | None = None
        self._listeners: list[Listener] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._ports: dict[str, int] = {}

    @property
    def https_port(self) -> int:
        """The port that is served on; 0 for none."""
        return self._ports.get("--https-address", 0)

    @property
    def http_port(self) -> int:
        return self._ports.get("--http-address", 0)

    async def start(self) -> None:
        """Raises CannotServe; then nothing is open."""
        try:
            self._prepare()
        except BaseException:
            self._close_sockets()
            raise
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        bridge = Bridge(asyncio.get_running_loop())
        self._thread = threading.Thread(target=self._run, args=(bridge, begun), name="serving", daemon=True)
        self._thread.start()
        await begun

    def _prepare(self) -> None:
        try:
            if self._plan.https is not None:
                pair = self._plan.pair
                self._certificates = SelfMadeCertificates() if pair is None else GivenCertificates(pair)
            for endpoint in self._endpoints.values():
                endpoint.prepare()
        except BadCertificate as error:
            raise CannotServe(str(error)) from error
        addresses = {"--https-address": self._plan.https, "--http-address": self._plan.http}
        others = {flag: endpoint.address for flag, endpoint in self._endpoints.items()}
        for flag, address in (addresses | others).items():
            if address is None:
                continue
            try:
                self._sockets[flag] = listen(address)
            except OSError as error:
                raise CannotServe(f"{flag} {address}: {_why_not(error)}") from error
            self._ports[flag] = int(self._sockets[flag].getsockname()[1])

    def _close_sockets(self) -> None:
        for opened in self._sockets.values():
            opened.close()

    async def stop(self) -> None:
        thread, loop, ending = self._thread, self._loop, self._ending
        if thread is None or loop is None or ending is None:
            return
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            loop.call_soon_threadsafe(ending.set)
        await asyncio.to_thread(thread.join, STOP_SECONDS)
        self._thread = None

    def statistics(self) -> dict[str, Any]:
        """Returns connections and requests by outcome; may be called from any thread."""
        authorizer = self._authorizer
        return {
            "open": sum(len(listener) for listener in self._listeners),
            "counts": dict(self._counts),
            "access": authorizer.statistics() if authorizer is not None else {},
        }

    # --- in the serving thread ---------------------------------------------------------------------------------------

    def _run(self, bridge: Bridge, begun: "asyncio.Future[None]") -> None:
        try:
            asyncio.run(self._serve(bridge, begun))
        except Exception:
            _log.critical("Serving has ended with an error", exc_info=True)
        finally:
            self._close_sockets()

    async def _serve(self, bridge: Bridge, begun: "asyncio.Future[None]") -> None:
        loop = self._loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._note_error)
        ending = self._ending = asyncio.Event()
        authorizer = self._authorizer = Authorizer(self._reviews, bridge, self._now)
        pages = Pages(self._state, authorizer, bridge, debug=self._plan.debug)
        self._listeners = [self._make_listener(flag, opened, pages, bridge) for flag, opened in self._sockets.items()]
        tasks = [loop.create_task(listener.run()) for listener in self._listeners] + [loop.create_task(self._watch())]
        begun.get_loop().call_soon_threadsafe(_set, begun)
        tasks.append(loop.create_task(_wait(ending)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(listener.close() for listener in self._listeners))
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _make_listener(self, flag: str, opened: socket.socket, pages: Pages, bridge: Bridge) -> Listener:
        if flag in self._endpoints:
            return self._endpoints[flag].make_listener(opened, bridge, self._counts)
        if flag == "--http-address":
            return Listener(opened, pages.answer, None, self._counts)
        assert self._certificates is not None
        return Listener(opened, pages.answer, self._certificates.context, self._counts)

    def _note_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Counts an error of a connection that no task waits for any more."""
        self._counts["lost_errors"] += 1
        _log.debug("%s: %r", context.get("message"), context.get("exception"))

    async def _watch(self) -> None:
        is_hanging = False
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            silent = self._watchdog.silent_seconds
            if silent >= HANG_SECONDS and not is_hanging:
                _log.critical("The event loop has not turned for %.0f s; it is in:\n%s", silent, self._watchdog.trace())
            elif is_hanging and silent < HANG_SECONDS:
                _log.error("The event loop turns again")
            is_hanging = silent >= HANG_SECONDS


def hang_alarm(watchdog: LoopWatchdog) -> str | None:
    """Returns why the process must be restarted; None while its loop turns."""
    silent = watchdog.silent_seconds
    return f"the event loop has not turned for {silent:.0f} s" if silent >= HANG_SECONDS else None


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _why_not(error: OSError) -> str:
    """Returns why an address cannot be listened on, and the way out; Python's text repeats the address."""
    text = (error.strerror or str(error)).partition(" (while attempting")[0]
    return f"{text}: stop the other process, or give another address" if error.errno == errno.EADDRINUSE else text
