"""The server: HTTPS for everybody with the right, plain HTTP on the loopback interface on request.

It lives in a thread and an event loop of its own, for three reasons. A loop that hangs cannot say so: here the probe is
answered while the scheduler's loop is stuck, and says 500 and why. Whatever strangers do to the server, handshakes,
floods, slow reading, takes no turn of the loop that decides. And a decision that takes long delays no probe. The price
is that nothing of the scheduler may be touched here: it is asked over the `Bridge`.

    kubelet, Prometheus, people --> Door (limits) --> Pages --> Gate --> Bridge --> TokenReview, SubjectAccessReview
                                                        +------------> Bridge --> statistics, readiness, dump
    Pulse of the scheduler's loop <-- watchdog, /livez

The watchdog is a look at the pulse once a second: a loop that has not beaten for HANG_SECONDS fails liveness, and what
it hangs in is written to the log, once.
"""

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from berth.scheduler.access import Reviews
from berth.serving.addresses import Address, listen
from berth.serving.bridge import Bridge
from berth.serving.certificates import BadCertificate, Certificates, GivenCertificates, Pair, SelfMadeCertificates
from berth.serving.door import Door
from berth.serving.gate import Gate
from berth.serving.pages import Pages, Subject
from berth.serving.pulse import Pulse

HANG_SECONDS = 15.0
LOOK_SECONDS = 1.0
STOP_SECONDS = 10.0

_log = logging.getLogger(__name__)


class CannotServe(Exception):
    """An address or a certificate cannot be used; str() names the flag and says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where and with what to serve; an address of None is not served, and no pair means a self-made certificate."""

    https: Address | None = None
    http: Address | None = None
    pair: Pair | None = None
    debug: bool = False


class Server:
    """Started and stopped in the scheduler's loop; `start` once, `stop` once."""

    def __init__(
        self,
        plan: Plan,
        subject: Subject,
        reviews: Reviews,
        pulse: Pulse,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._subject = subject
        self._reviews = reviews
        self._pulse = pulse
        self._now = now
        self._counts: Counter[str] = Counter()
        self._sockets: dict[str, socket.socket] = {}
        self._certificates: Certificates | None = None
        self._gate: Gate | None = None
        self._doors: list[Door] = []
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
        if self._plan.https is not None:
            try:
                pair = self._plan.pair
                self._certificates = SelfMadeCertificates() if pair is None else GivenCertificates(pair)
            except BadCertificate as error:
                raise CannotServe(str(error)) from error
        for flag, address in (("--https-address", self._plan.https), ("--http-address", self._plan.http)):
            if address is None:
                continue
            try:
                self._sockets[flag] = listen(address)
            except OSError as error:
                raise CannotServe(f"{flag} {address}: {error.strerror or error}") from error
            self._ports[flag] = int(self._sockets[flag].getsockname()[1])

    def _close_sockets(self) -> None:
        for listener in self._sockets.values():
            listener.close()

    async def stop(self) -> None:
        thread, loop, ending = self._thread, self._loop, self._ending
        if thread is None or loop is None or ending is None:
            return
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            loop.call_soon_threadsafe(ending.set)
        await asyncio.to_thread(thread.join, STOP_SECONDS)
        self._thread = None

    def statistics(self) -> dict[str, Any]:
        """Connections and requests by what became of them; may be asked from any thread."""
        gate = self._gate
        return {
            "open": sum(len(door) for door in self._doors),
            "counts": dict(self._counts),
            "access": gate.statistics() if gate is not None else {},
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
        gate = self._gate = Gate(self._reviews, bridge, self._now)
        pages = Pages(self._subject, gate, bridge, debug=self._plan.debug)
        self._doors = [self._door(flag, listener, pages) for flag, listener in self._sockets.items()]
        tasks = [loop.create_task(door.run()) for door in self._doors] + [loop.create_task(self._watch())]
        begun.get_loop().call_soon_threadsafe(_set, begun)
        tasks.append(loop.create_task(_wait(ending)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(door.close() for door in self._doors))
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _door(self, flag: str, listener: socket.socket, pages: Pages) -> Door:
        if flag == "--http-address":
            return Door(listener, pages.answer, None, self._counts)
        assert self._certificates is not None
        return Door(listener, pages.answer, self._certificates.context, self._counts)

    def _note_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What a connection may die of, after everybody has stopped looking."""
        self._counts["lost_errors"] += 1
        _log.debug("%s: %r", context.get("message"), context.get("exception"))

    async def _watch(self) -> None:
        is_hanging = False
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            silent = self._pulse.silent_seconds
            if silent >= HANG_SECONDS and not is_hanging:
                _log.critical("The event loop has not turned for %.0f s; it is in:\n%s", silent, self._pulse.trace())
            elif is_hanging and silent < HANG_SECONDS:
                _log.error("The event loop turns again")
            is_hanging = silent >= HANG_SECONDS


def hang_alarm(pulse: Pulse) -> str | None:
    """Why the process is to be ended; None while its loop turns."""
    silent = pulse.silent_seconds
    return f"the event loop has not turned for {silent:.0f} s" if silent >= HANG_SECONDS else None


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
