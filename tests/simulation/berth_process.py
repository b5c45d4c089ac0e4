"""One Berth: the shipped Runtime, told by watchers instead of kopf, in a process that can be paused and killed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from berth.runtime import RESOURCES, Options, Runtime
from berth.sim.loop import Process, SeededLoop
from berth.sim.virtual_clock import VirtualClock
from simulation.extender import SimExtender
from simulation.knowledge import Parser
from simulation.network import SimApi
from simulation.overseer import Overseer
from simulation.recording import RecordingStore
from simulation.trace import Trace
from simulation.usher import Reservations, of_process
from simulation.watcher import Watcher
from simulation.weather import Weather


class BerthProcess:
    """`bound` is shared by all that ever ran: who bound which UID, in which version of the store."""

    def __init__(
        self,
        number: int,
        loop: SeededLoop,
        store: RecordingStore,
        weather: Weather,
        trace: Trace,
        parse: Parser,
        bound: dict[str, tuple[str, int]],
    ) -> None:
        self.name = f"berth-{number}"
        self.process = Process(loop, self.name)
        self.clock = VirtualClock(loop)
        self.api = SimApi(
            loop,
            store,
            weather,
            lambda *said: self.overseer.on_bind(*said),
            lambda *said: self.overseer.pushing.on_delete(*said),
            lambda *said: self.overseer.on_answer(*said),
            trace.note,
        )
        self.extender = SimExtender(store, weather, lambda *said: self.overseer._check_landed(*said))
        options = Options(https_address="", seed=weather.random.getrandbits(32), standalone=True)
        self.runtime = self.process.run(lambda: Runtime(options, clock=self.clock, api=self.api, asker=self.extender))
        self.runtime._scheduler._binder._limit = weather.bind_limit
        of_process[self.process] = Reservations(weather, trace.violate)
        self._loop = loop
        self._trace = trace
        self._weather = weather
        self._store = store
        self.watchers = self._make_watchers()
        self._tasks: list[asyncio.Task[None]] = []
        self._first_version = 0
        self._heard = (0, "")  # the greatest version, and of which kind
        self.overseer = Overseer(
            self.name,
            self.runtime,
            store,
            trace,
            parse,
            bound,
            lambda: self._first_version or self.watchers["Pod"].first_version,
            self.extender.allowed,
            loop.time,
        )

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive

    def start(self) -> None:
        self._trace.note(f"{self.name} starts")
        self.process.start(self._run())

    async def _run(self) -> None:
        await self.runtime.start()
        self._watch()

    def _make_watchers(self) -> dict[str, Watcher]:
        return {
            resource.kind: Watcher(self._loop, self._store, self._weather, resource, self._hand_over, self._trace.note)
            for resource in RESOURCES
        }

    def _watch(self) -> None:
        self._tasks = [
            self.process.start(watcher.run(), f"{self.name}-{kind}") for kind, watcher in self.watchers.items()
        ]

    def _hand_over(self, kind: str, type_: str | None, body: Mapping[str, Any]) -> None:
        self._count_order(kind, type_, int(body["metadata"]["resourceVersion"]))
        self.runtime.on_event(kind, type_, body)

    def _count_order(self, kind: str, type_: str | None, version: int) -> None:
        newest, of_kind = self._heard
        if type_ is not None and version < newest and not self._weather.calm:
            whose = "its kind" if kind == of_kind else "another kind"
            self._weather.counts[f"event behind a later one of {whose}"] += 1
        self._heard = max(self._heard, (version, kind))

    def watch_again(self) -> None:
        """kopf's operator has ended and is started again, in the same process."""
        self._trace.note(f"{self.name} watches anew")
        for task in self._tasks:
            task.cancel()
        self._first_version = self.watchers["Pod"].first_version
        for watcher in self.watchers.values():
            watcher.close()
        self.watchers = self._make_watchers()
        self._watch()

    def deafen(self, kind: str, seconds: float) -> None:
        """A watch stays open and says nothing: what happens meanwhile is never told."""
        self._trace.note(f"{self.name} hears nothing of {kind}s for {seconds:g} s")
        self.watchers[kind].deafen(seconds)

    def kill(self) -> None:
        """At whichever await it is."""
        self._trace.note(f"{self.name} is killed")
        self.process.kill()
        for watcher in self.watchers.values():
            watcher.close()

    async def stop(self) -> None:
        """As at SIGTERM."""
        self._trace.note(f"{self.name} stops")
        await self.runtime.stop_scheduling()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.runtime.stop()
        self._trace.note(f"{self.name} has stopped")
