"""The elector: a second kopf, in a thread of its own, which keeps our record in the peering object and nothing else.

    thread "elector": (main loop moves?) --> kopf.operator, peered and watching nothing --> ended --> pause --> again
                                                   |-- renews our record, with the priority that `Leadership` says
                                                   +-- removes ours at a clean end

In a thread, so that a busy scheduler does not lose its seat; but a main loop that has not moved for a whole lifetime
leads nobody, so then the record is taken away until it moves again. A kopf that runs and does not get our record there
(it looks for the kind once, and an API server that has just started may not know it yet) is started again as well.

What kopf says in this thread about each failed attempt is left out: that the API server is away is said elsewhere.

kopf's own verdict, pausing, is not used: who leads is judged by the records as the *observer* sees them, and by our own
clock (`cluster/leadership.py`). Nor does kopf see the records of others, because its watch of the peering object has a
selector that matches none: it would remove what is out of date by the time of day, and a process that was frozen would
judge by what it saw before, and remove the record of the leader that took over meanwhile.

So that no renewal is written long after it was made, with a priority that may be void
by then, requests are retried for a part of the lifetime only; after that kopf's operator ends, and a new one begins
with a new renewal. A renewal that was made before a lapse is not sent after it (`Seat.trace`): it would have the
priority of a leader.

kopf is abandoned, which leaves our record as it is, in two cases:

- The store has gone back in time (`Leadership.start_over`). kopf's watches would continue from versions that lie in the
  future. The next operator begins at once, so that the record is renewed in time.
- Another cluster answers (`Leadership.is_silent`). Not even our record may be written there.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import aiohttp
import kopf

from berth.cluster import peering
from berth.cluster.credentials import Credentials
from berth.cluster.leader import Leader
from berth.cluster.leadership import OUTSIDE
from berth.handlers import LOGIN_PAUSE_SECONDS, Login, NoDiffBase, NoProgress

THREAD = "elector"
LOOK_SECONDS = 0.2
PAUSE_SECONDS = 1.0
JOIN_SECONDS = 10.0
RETRY_SECONDS = 0.25
RETRY_SHARE = 0.3  # of the lifetime, for which a renewal is tried again
NOTHING = "berth.dev/none,!berth.dev/none"  # a selector that no object matches
PATIENCE = 3  # lifetimes within which our record has to be there
KOPF_LOGGERS = (
    "kopf._core.engines.peering",
    "kopf._core.reactor.observation",
    "kopf._core.reactor.orchestration",
    "kopf._core.reactor.queueing",
    "kopf._core.reactor.running",
)

_log = logging.getLogger(__name__)


class Elector:
    """Keeps the record from `start` to `stop`."""

    def __init__(self, leader: Leader, credentials: Credentials, *, now: Callable[[], float] = time.monotonic) -> None:
        """The credentials are the elector's own: they are used in its loop only."""
        self._leader = leader
        self._leadership = leader.leadership
        self._credentials = credentials
        self._now = now
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        self._alive_seconds = 0.0  # when our record was last seen to be there
        self._has_complained = False

    def start(self) -> None:
        for name in KOPF_LOGGERS:
            logging.getLogger(name).addFilter(_is_worth_saying)
        self._thread.start()

    def stop(self) -> None:
        """Take the record away and end; blocks for some seconds at most."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        asyncio.run(self._keep())

    async def _keep(self) -> None:
        asyncio.get_running_loop().set_exception_handler(_note)
        while not self._stop.is_set():
            begins_anew = False
            if self._main_loop_moves() and not self._leadership.is_silent:
                try:
                    await self._credentials.load()
                    begins_anew = await self._operate_while_needed()
                except Exception as error:
                    self._complain(error)
            if not begins_anew:
                await asyncio.to_thread(self._stop.wait, PAUSE_SECONDS)

    def _complain(self, error: Exception) -> None:
        """Once, until our record is there again."""
        if self._leadership.is_alive():
            self._has_complained = False
        level = logging.DEBUG if self._has_complained else logging.WARNING
        self._has_complained = True
        _log.log(level, "Our record among the replicas cannot be renewed, trying on: %s", error)

    async def _operate_while_needed(self) -> bool:
        """Until kopf ends by itself, does not do its work, is to end, or is abandoned.

        Returns whether to begin anew at once.
        """
        beginnings = self._leadership.beginnings
        settings = make_settings(self._leader)
        ending = asyncio.Event()
        operating = asyncio.ensure_future(self._operate(settings, ending))
        self._alive_seconds = self._now()
        while not operating.done():
            if self._leadership.beginnings != beginnings or self._leadership.is_silent:
                await self._abandon(settings, operating)
                return not self._leadership.is_silent
            if not ending.is_set() and self._is_to_end():
                ending.set()
            await asyncio.wait([operating], timeout=LOOK_SECONDS)
        operating.result()
        return False

    async def _abandon(self, settings: kopf.OperatorSettings, operating: "asyncio.Future[None]") -> None:
        """End kopf's operator without its last write, which would remove our record."""
        cast(Seat, settings.peering).abandon()
        settings.networking.error_backoffs = ()
        operating.cancel()
        await asyncio.gather(operating, return_exceptions=True)
        if self._leadership.is_silent:
            _log.warning("Another cluster answers: our record among the replicas is not renewed any more")

    def _is_to_end(self) -> bool:
        lifetime_seconds = self._leadership.terms.lifetime_seconds
        if self._leadership.is_alive():
            self._alive_seconds = self._now()
        if self._stop.is_set():
            return True
        if not self._main_loop_moves():
            _log.error("The main loop hangs: this replica takes its record away until it moves again")
            return True
        return self._now() - self._alive_seconds >= PATIENCE * lifetime_seconds

    async def _operate(self, settings: kopf.OperatorSettings, ending: asyncio.Event) -> None:
        registry = kopf.OperatorRegistry()
        login = Login(self._credentials, [cast(Seat, settings.peering).trace()])
        kopf.on.login(registry=registry, backoff=LOGIN_PAUSE_SECONDS)(login.log_in)
        try:
            await kopf.operator(
                registry=registry,
                settings=settings,
                identity=cast(Any, self._leadership.identity),
                clusterwide=True,
                stop_flag=ending,
            )
        finally:
            await login.close()

    def _main_loop_moves(self) -> bool:
        return self._now() - self._leader.beat_seconds < self._leadership.terms.lifetime_seconds


class Seat:
    """kopf's `settings.peering`, whose priority is asked for whenever it is read."""

    stealth = True
    mandatory = True
    standalone = False
    clusterwide = True
    namespaced = False

    def __init__(self, leader: Leader) -> None:
        self._leadership = leader.leadership
        self.name = leader.peering.name
        self.lifetime = leader.leadership.terms.lifetime_seconds
        self._renewed = OUTSIDE
        self._is_abandoned = False

    def abandon(self) -> None:
        """Have nothing written any more by the operator that has this seat."""
        self._is_abandoned = True

    @property
    def priority(self) -> int:
        self._renewed = self._leadership.renew()
        return self._renewed

    def trace(self) -> aiohttp.TraceConfig:
        """Has every write looked at when its connection is there: as late as can be before it is sent."""
        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(self._begin)
        trace.on_connection_create_end.append(self._check)
        trace.on_connection_reuseconn.append(self._check)
        return trace

    async def _check(self, _: aiohttp.ClientSession, context: Any, __: Any) -> None:
        if context.method == "PATCH" and not self._leadership.stands(self._renewed):
            raise aiohttp.ClientConnectionError("this replica has lapsed since the renewal was made")

    async def _begin(self, _: aiohttp.ClientSession, context: Any, given: aiohttp.TraceRequestStartParams) -> None:
        context.method = given.method
        if self._is_abandoned and given.method == "PATCH":
            raise aiohttp.ClientConnectionError("the record is left as it is")


class BriefBackoffs:
    """Short pauses for a while, counted anew for each request."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._now = now

    def __iter__(self) -> Iterator[float]:
        give_up_seconds = self._now() + self._seconds
        while self._now() < give_up_seconds:
            yield RETRY_SECONDS


def make_settings(leader: Leader) -> kopf.OperatorSettings:
    """kopf as a keeper of one record."""
    terms = leader.leadership.terms
    settings = kopf.OperatorSettings()
    settings.peering = cast(Any, Seat(leader))
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    settings.networking.request_timeout = settings.networking.connect_timeout = terms.request_seconds
    settings.networking.error_backoffs = BriefBackoffs(RETRY_SHARE * terms.lifetime_seconds)
    settings.watching.connect_timeout = terms.request_seconds
    settings.watching.label_selectors[peering.GROUP, peering.VERSION, peering.PLURAL] = NOTHING
    settings.process.ultimate_exiting_timeout = None
    return settings


def _is_worth_saying(record: logging.LogRecord) -> bool:
    return record.threadName != THREAD or logging.getLogger("kopf").isEnabledFor(logging.DEBUG)


def _note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Of what kopf leaves behind when it ends in an outage."""
    _log.debug("In the elector: %s: %r", context.get("message"), context.get("exception"))
