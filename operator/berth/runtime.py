"""The composition root: builds the scheduler and everything around it, and carries what the watches say to it.

    kopf --> handlers --> Runtime.on_event --> Scheduler (observe, remove)
                                |-----------> Census (seen, listed again, gone)
                                +-----------> PolicyStatuses, conditions that are no longer true
    Scheduler --> KubernetesCluster --> Api

It also keeps house: it notices that the API server is away and says so now and then, has every kind counted when it
is back, and has pods counted when the echo of a bind is missing. An error that ends the scheduling loop is kept in
`failure`, for whoever runs the process to end it.
"""

import asyncio
import logging
import os
import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from berth.cluster.api import Api
from berth.cluster.census import REGULAR_SECONDS, Census
from berth.cluster.clock import RealClock
from berth.cluster.credentials import Credentials, Source
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.listing import Resource
from berth.cluster.port import KubernetesCluster
from berth.cluster.statuses import PolicyStatuses
from berth.model import KINDS
from berth.policy import PolicyBook
from berth.scheduler.cache import Cache
from berth.scheduler.faults import Faults
from berth.scheduler.ports import Clock
from berth.scheduler.queue import Queue
from berth.scheduler.scheduler import Scheduler
from berth.serving.health import Readiness
from berth.serving.server import DEFAULT_ADDRESS, Server, parse_address

POLICY = "SchedulingPolicy"
# Finished pods take no room, and clusters keep thousands of them.
POD_FIELDS = "status.phase!=Succeeded,status.phase!=Failed"
PROBE_SECONDS = 10.0
PROBE_LIMIT_SECONDS = 5.0
COMPLAINT_SECONDS = 30.0

RESOURCES = (
    *(
        Resource(
            kind.name, kind.group, kind.version, kind.plural, kind.namespaced, POD_FIELDS if kind.name == "Pod" else ""
        )
        for kind in KINDS
    ),
    Resource(POLICY, "berth.dev", "v1alpha1", "schedulingpolicies", namespaced=False),
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """What can be chosen when Berth is started."""

    kubeconfig: str | None = None
    context: str | None = None
    http_address: str = DEFAULT_ADDRESS
    seed: int | None = None
    census_seconds: float = REGULAR_SECONDS

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Options":
        """From BERTH_*; ValueError names the variable that makes no sense."""
        return cls(
            kubeconfig=environment.get("BERTH_KUBECONFIG") or None,
            context=environment.get("BERTH_CONTEXT") or None,
            http_address=environment.get("BERTH_HTTP_ADDRESS", DEFAULT_ADDRESS),
            seed=_number(environment, "BERTH_SEED"),
            census_seconds=_number(environment, "BERTH_CENSUS_SECONDS", at_least=1) or REGULAR_SECONDS,
        )


def _number(environment: Mapping[str, str], name: str, *, at_least: int = 0) -> int | None:
    """None when the variable is not set, or empty."""
    text = environment.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f'{name}: "{text}" is not a whole number')
    if int(text) < at_least:
        raise ValueError(f"{name}: must be at least {at_least}")
    return int(text)


class Runtime:
    """One Berth; `start` once, `stop` once."""

    def __init__(self, options: Options) -> None:
        clock = RealClock()
        self._clock: Clock = clock
        self._faults = Faults()
        self.credentials = Credentials(Source(options.kubeconfig, options.context))
        self.api = Api(self.credentials)
        self._cluster = KubernetesCluster(self.api, clock, f"{socket.gethostname()}/{os.getpid()}", self._faults)
        self._book = PolicyBook(clock.wall)
        self._cache = Cache()
        self._scheduler = Scheduler(
            cache=self._cache,
            queue=Queue(clock),
            policies=self._book,
            cluster=self._cluster,
            clock=clock,
            random=random.Random(options.seed),
        )
        self._statuses = PolicyStatuses(self.api, clock, self._faults)
        self._view = _View(self._cache, self._scheduler)
        self._census = Census(
            self.api,
            clock,
            self._faults,
            self._view,
            RESOURCES,
            on_whole=self._open,
            regular_seconds=options.census_seconds,
        )
        self._server = self._make_server(options.http_address)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_open = False
        self._echoes_missing = 0
        self.failure: asyncio.Future[None] | None = None
        self.watch_restarts = 0

    def _make_server(self, address: str) -> Server | None:
        if not address:
            return None
        return Server(
            parse_address(address), readiness=self.readiness, statistics=self.statistics, alive=self._is_alive
        )

    # --- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises CredentialsError, or OSError when the HTTP address is taken."""
        await self.api.open()
        if self._server is not None:
            await self._server.start()
        self.failure = asyncio.get_running_loop().create_future()
        self.api.on_return = self._census.want
        self._cluster.start()
        self._statuses.start()
        self._census.start()
        self._tasks = [
            asyncio.create_task(self._schedule(), name="scheduler"),
            asyncio.create_task(self._keep_house(), name="housekeeping"),
        ]

    async def stop_scheduling(self) -> None:
        """No new binds; returns when the running ones have ended."""
        self._is_open = False
        await self._scheduler.stop()

    async def stop(self) -> None:
        """No new binds; running ones end, what waits to be posted is posted, connections are closed."""
        await self.stop_scheduling()
        await self._census.stop()
        await self._statuses.stop()
        await self._cluster.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.stop()
        await self.api.close()

    def _open(self) -> None:
        self._is_open = True
        _log.info("Every kind is whole: scheduling begins")
        self._scheduler.open()

    async def _schedule(self) -> None:
        try:
            await self._scheduler.run()
        except Exception as error:
            _log.critical("The scheduling loop has ended with an error", exc_info=True)
            self._is_open = False
            if self.failure is not None and not self.failure.done():
                self.failure.set_exception(error)

    def _is_alive(self) -> bool:
        return self.failure is None or not self.failure.done()

    # --- what the watches say --------------------------------------------------------------------------------------

    def on_event(self, kind: str, type_: str | None, body: Mapping[str, Any]) -> None:
        """An object as kopf hands it over: type None from a list, DELETED for the last word on it. Never raises."""
        try:
            uid = str(body["metadata"]["uid"])
            removed = type_ == "DELETED"
            if removed:
                self._view.remove(kind, body)
            else:
                self._view.observe(kind, body)
            self._census.note(kind, uid, listed=type_ is None, removed=removed)
            if kind == "Pod":
                if removed or body["spec"].get("nodeName"):
                    self._cluster.pod_settled(uid)
            elif kind == POLICY:
                self._statuses.put(self._book.statuses())
        except Exception:
            _log.exception("An event about a %s could not be handed over: %r", kind, body.get("metadata"))

    # --- housekeeping ----------------------------------------------------------------------------------------------

    async def _keep_house(self) -> None:
        outage = _Outage()
        while True:
            await self._clock.sleep(PROBE_SECONDS)
            try:
                outage.note(await self._ask(), self._clock.now())
                self._look_for_echoes()
            except Exception as error:
                self._faults.note("keeping house", "for the scheduler", error)

    async def _ask(self) -> Exception | None:
        try:
            return await self.probe()
        except ApiError as error:
            return error

    async def probe(self) -> Unreachable | None:
        """Why the API server gives no answer; None when it gives one. ApiError: it does not know us (401)."""
        try:
            await self.api.request("GET", "/version", timeout_seconds=PROBE_LIMIT_SECONDS)
        except ApiError as error:
            if error.status == 401:
                raise
            return None
        except Unreachable as error:
            return error
        return None

    def _look_for_echoes(self) -> None:
        missing = int(self._scheduler.statistics().get("echo_missing", 0))
        if missing > self._echoes_missing:
            self._census.want("Pod")
        self._echoes_missing = missing

    # --- what can be seen of it ------------------------------------------------------------------------------------

    def readiness(self) -> Readiness:
        return Readiness(self._census.wholeness(), self._is_open)

    def statistics(self) -> dict[str, Any]:
        return {
            "scheduler": self._scheduler.statistics(),
            "cluster": self._cluster.statistics(),
            "census": self._census.statistics(),
            "policies": self._book.statistics(),
            "faults": dict(self._faults.counts),
            "api_reachable": int(self.api.reachable),
            "watch_restarts": self.watch_restarts,
        }


class _Outage:
    """Says that the API server is away, now and then, and how long it was when it is back."""

    def __init__(self) -> None:
        self._since_seconds: float | None = None
        self._complained_seconds = 0.0

    def note(self, problem: Exception | None, now_seconds: float) -> None:
        if problem is None:
            if self._since_seconds is not None:
                _log.info("The API server is back after %.0f s", now_seconds - self._since_seconds)
            self._since_seconds = None
            return
        is_new = self._since_seconds is None
        if is_new:
            self._since_seconds = now_seconds
        if is_new or now_seconds - self._complained_seconds >= COMPLAINT_SECONDS:
            self._complained_seconds = now_seconds
            _log.warning("The API server is away; going on when it is back: %s", problem)


class _View:
    """What the census asks and tells: the cache for most kinds, and a list of our own for policies."""

    def __init__(self, cache: Cache, scheduler: Scheduler) -> None:
        self._cache = cache
        self._scheduler = scheduler
        self._policies: dict[str, str] = {}

    def known(self, kind: str) -> Mapping[str, str]:
        return self._policies if kind == POLICY else self._cache.known(kind)

    def observe(self, kind: str, body: Mapping[str, Any]) -> None:
        if kind == POLICY:
            self._policies[body["metadata"]["uid"]] = body["metadata"]["name"]
        self._scheduler.observe(kind, body)

    def remove(self, kind: str, body: Mapping[str, Any]) -> None:
        if kind == POLICY:
            self._policies.pop(body["metadata"]["uid"], None)
        self._scheduler.remove(kind, body)
