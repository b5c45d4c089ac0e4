"""The elector of one replica: kopf's own peering, on virtual time and on the simulated network.

What keeps the record and judges the records of others is kopf's code itself (`keepalive`, `process_peering_event`, with
its patches); the settings are the shipped ones. Only what kopf asks of the machine is put in its place: the time of day
of the process, chance, and how a request travels. Around it, as in `berth.elector`: an operator that fails, or does not
get the record there, ends, and another begins after a pause.
"""

from __future__ import annotations

import asyncio
import datetime as real_datetime
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from aiohttp import ClientConnectionError
from kopf._cogs.clients import errors, patching
from kopf._cogs.structs.references import Resource
from kopf._core.engines import peering as kopf_peering

from berth import elector
from berth.cluster import peering
from berth.cluster.api import MERGE_PATCH
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.leader import Leader
from berth.scheduler.ports import Clock
from berth.sim.loop import Process, SeededLoop, current_process
from simulation.network import SimApi, decided_seconds
from simulation.watcher import HandOver, Watcher

STOP_SECONDS = elector.JOIN_SECONDS
RESOURCE = Resource(peering.GROUP, peering.VERSION, peering.PLURAL, kind=peering.KIND, namespaced=False)

of_process: dict[Process | None, SimElector] = {}


class SimElector:
    """Runs inside the process whose record it keeps. `make_watcher`: a watch of the peering object, by its labels."""

    def __init__(
        self,
        loop: SeededLoop,
        lead: Leader,
        api: SimApi,
        clock: Clock,
        random: Random,
        make_watcher: Callable[[HandOver, str], Watcher],
    ) -> None:
        self._loop = loop
        self._lead = lead
        self.api = api
        self.clock = clock
        self.random = random
        self._make_watcher = make_watcher
        self._is_stopping = asyncio.Event()
        self.watcher: Watcher | None = None

    async def run(self) -> None:
        """Until `stop`."""
        while not self._is_stopping.is_set():
            if self._main_loop_moves():
                with suppress(Exception):
                    await self._operate()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_stopping.wait(), elector.PAUSE_SECONDS)

    def stop(self) -> None:
        """Take the record away and end."""
        self._is_stopping.set()

    def _main_loop_moves(self) -> bool:
        return self._loop.time() - self._lead.beat_seconds < self._lead.leadership.terms.lifetime_seconds

    async def _operate(self) -> None:
        """One operator of kopf: the record is kept and the records of others are looked at, until one of it fails."""
        settings = elector.make_settings(self._lead)
        retry_seconds = elector.RETRY_SHARE * self._lead.leadership.terms.lifetime_seconds
        settings.networking.error_backoffs = elector.BriefBackoffs(retry_seconds, now=self._loop.time)
        named: dict[str, Any] = {"identity": self._lead.leadership.identity, "settings": settings, "resource": RESOURCE}
        backlog: asyncio.Queue[Any] = asyncio.Queue()
        pressure = asyncio.Event()

        def hand_over(_: str, type_: str | None, body: Mapping[str, Any]) -> None:
            backlog.put_nowait({"type": type_, "object": body})
            pressure.set()

        async def process() -> None:
            while True:
                event = await backlog.get()
                if backlog.empty():
                    pressure.clear()
                await kopf_peering.process_peering_event(
                    raw_event=event, namespace=None, stream_pressure=pressure, **named
                )

        selector = settings.watching.label_selectors.get((peering.GROUP, peering.VERSION, peering.PLURAL))
        watcher = self.watcher = self._make_watcher(hand_over, str(selector or ""))
        work = [
            asyncio.ensure_future(kopf_peering.keepalive(namespace=None, **named)),
            asyncio.ensure_future(watcher.run()),
            asyncio.ensure_future(process()),
        ]
        try:
            await self._wait_end(work)
        finally:
            watcher.close()
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _wait_end(self, work: Sequence[asyncio.Future[Any]]) -> None:
        alive_seconds, lifetime_seconds = self._loop.time(), self._lead.leadership.terms.lifetime_seconds
        while not self._is_stopping.is_set() and self._main_loop_moves():
            if self._lead.leadership.is_alive():
                alive_seconds = self._loop.time()
            if self._loop.time() - alive_seconds >= elector.PATIENCE * lifetime_seconds:
                return
            done, _ = await asyncio.wait(work, timeout=elector.LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return

    async def _look_before_sending(self, seat: Any) -> None:
        """As the shipped session does when the connection is there."""
        for look in seat.trace().on_connection_reuseconn:
            await look(None, SimpleNamespace(method="PATCH"), None)

    async def patch(self, path: str, payload: Mapping[str, Any], settings: Any) -> dict[str, Any]:
        """As kopf sends it: again after failures that may pass, for as long as its backoffs last."""
        backoffs = iter(settings.networking.error_backoffs)
        decided_seconds.set(self._loop.time())
        while True:
            try:
                await self._look_before_sending(settings.peering)
                _, body = await self.api.request(
                    "PATCH",
                    path,
                    body=payload,
                    content_type=MERGE_PATCH,
                    timeout_seconds=settings.networking.request_timeout,
                )
                return body
            except ApiError as error:
                if error.status == 404:
                    raise errors.APINotFoundError(None, status=404, headers={}) from error
                pause_seconds = next(backoffs, None) if error.status in (403, 429) or error.status >= 500 else None
                if pause_seconds is None:
                    raise
                pause_seconds = max(pause_seconds, error.retry_after_seconds)
            except (Unreachable, ClientConnectionError):
                pause_seconds = next(backoffs, None)
                if pause_seconds is None:
                    raise
            await asyncio.sleep(pause_seconds)


class _TimeOfDay(real_datetime.datetime):
    """What kopf asks for the time."""

    @classmethod
    def now(cls, tz: real_datetime.tzinfo | None = None) -> real_datetime.datetime:  # type: ignore[override]
        return _of_this().clock.wall().astimezone(tz)


def _of_this() -> SimElector:
    return of_process[current_process()]


def is_left_behind(context: Mapping[str, Any]) -> bool:
    """Whether a task that nobody has looked at is one of those that kopf leaves behind when it ends in an outage."""
    coroutine = getattr(context.get("future"), "get_coro", lambda: None)()
    return getattr(coroutine, "cr_code", None) is kopf_peering.touch.__code__


async def _patch(*, url: str, payload: Mapping[str, Any], settings: Any, **_: Any) -> dict[str, Any]:
    return await _of_this().patch(url, payload, settings)


@contextmanager
def kopf_on_virtual_time() -> Iterator[None]:
    """While a run goes on: kopf's peering has the time, the chance and the network of the process that it is in."""
    time = SimpleNamespace(datetime=_TimeOfDay, timedelta=real_datetime.timedelta, UTC=real_datetime.UTC)
    chance = SimpleNamespace(randint=lambda least, most: _of_this().random.randint(least, most))
    quiet = logging.getLogger("kopf._core.engines.peering")
    before = quiet.disabled
    quiet.disabled = True
    try:
        with (
            mock.patch.object(kopf_peering, "datetime", time),
            mock.patch.object(kopf_peering, "random", chance),
            mock.patch.object(patching, "api", SimpleNamespace(patch=_patch)),
        ):
            yield
    finally:
        quiet.disabled = before
        of_process.clear()
