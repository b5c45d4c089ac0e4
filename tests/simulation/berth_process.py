"""One Berth: the shipped Runtime, told by watchers instead of kopf. Its process can be paused, cut off and killed.

Where it is one of several replicas, an elector keeps its record among them (`electing`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from berth.cluster import peering
from berth.cluster.bulk import Change
from berth.cluster.leader import Leader
from berth.cluster.listing import WatchedResource
from berth.cluster.resources import RESOURCES
from berth.configuration.gates import BULK_INTAKE, DEFAULTS, QUEUEING_HINTS
from berth.runtime import Options, Runtime, make_runtime
from berth.sim.loop import Process, SeededLoop
from berth.sim.virtual_clock import VirtualClock
from simulation import electing
from simulation.electing import SimElector
from simulation.extender import SimExtender
from simulation.knowledge import Parser
from simulation.network import Link, Request, SimApi
from simulation.overseer import Overseer
from simulation.recording import RecordingStore
from simulation.trace import Trace
from simulation.usher import Reservations, of_process
from simulation.watcher import HandOver, Watcher
from simulation.weather import Weather

LIFETIME_SECONDS = 10
PEERINGS = WatchedResource(peering.KIND, peering.GROUP, peering.VERSION, peering.PLURAL, namespaced=False)


class BerthProcess:
    """`bound` is shared by all that ever ran: who bound which UID, in which version of the store.

    `has_peers`: it is one of several replicas. `has_hints`: queueing hints are on. `on_landed(process, request)`:
    something of it reaches the server.
    """

    def __init__(
        self,
        number: int,
        loop: SeededLoop,
        store: RecordingStore,
        weather: Weather,
        trace: Trace,
        parse: Parser,
        bound: dict[str, tuple[str, int]],
        *,
        has_peers: bool = False,
        has_hints: bool = True,
        on_landed: Callable[[BerthProcess, Request], None] = lambda *_: None,
    ) -> None:
        self.name = f"berth-{number}"
        self.process = Process(loop, self.name)
        self.clock = VirtualClock(loop)
        self.link = Link(loop.time)
        self.api = SimApi(
            loop,
            store,
            weather,
            self.link,
            on_bind=lambda *said: self.overseer.on_bind(*said),
            on_delete=lambda *said: self.overseer.pushing.on_delete(*said),
            on_event=lambda request: self.overseer.on_event_sent(request),
            on_answer=lambda *said: self.overseer.on_answer(*said),
            on_landed=lambda request: on_landed(self, request),
            note=trace.note,
        )
        self.extender = SimExtender(store, weather, lambda *said: self.overseer.check_landed(*said))
        options = Options(
            https_address="",
            seed=weather.random.getrandbits(32),
            standalone=not has_peers,
            peering_lifetime_seconds=LIFETIME_SECONDS,
            feature_gates={**DEFAULTS, BULK_INTAKE: weather.bulk, QUEUEING_HINTS: has_hints},
        )
        self.runtime = self.process.run(
            lambda: make_runtime(
                options, clock=self.clock, api=self.api, asker=self.extender, bind_limit=weather.bind_limit
            )
        )
        of_process[self.process] = Reservations(weather, trace.violate)
        self._loop = loop
        self._trace = trace
        self._weather = weather
        self._store = store
        self._on_landed = on_landed
        self.watchers = self._make_watchers()
        self.elector = None if self.runtime.leader is None else self._make_elector(self.runtime.leader)
        self._electing: asyncio.Task[None] | None = None
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

    @property
    def leads(self) -> bool:
        return self.runtime.leader is None or self.runtime.leader.is_leading

    @property
    def is_open(self) -> bool:
        """Whether its fence is, as it finds it by its own clock when it next asks."""
        lead = self.runtime.leader
        return self.is_alive and (lead is None or lead.is_open)

    def _make_elector(self, lead: Leader) -> SimElector:
        """With connections of its own, over the same wire."""
        api = SimApi(
            self._loop,
            self._store,
            self._weather,
            self.link,
            on_landed=lambda request: self._on_landed(self, request),
        )
        random = Random(f"elector/{self._weather.random.random()}")
        elector = SimElector(self._loop, lead, api, self.clock, random, self._watch_peering)
        electing.of_process[self.process] = elector
        return elector

    def _watch_peering(self, hand_over: HandOver, label_selector: str = "") -> Watcher:
        return Watcher(
            self._loop,
            self._store,
            self._weather,
            PEERINGS,
            hand_over,
            self.link,
            self._trace.note,
            is_reliable=True,
            label_selector=label_selector,
        )

    def start(self) -> None:
        self._trace.note(f"{self.name} starts")
        self.process.start(self._run())

    async def _run(self) -> None:
        await self.runtime.start()
        self._watch()
        if self.elector is not None:
            self._electing = self.process.start(self.elector.run(), f"{self.name}-elector")

    def _make_watchers(self) -> dict[str, Watcher]:
        bulk = {resource.kind for resource in self.runtime.bulk}
        made = {
            resource.kind: Watcher(
                self._loop,
                self._store,
                self._weather,
                resource,
                self._hand_over,
                self.link,
                self._trace.note,
                taker=_BulkTaker(self.runtime, self._count_order) if resource.kind in bulk else None,
            )
            for resource in RESOURCES
        }
        if self.runtime.leader is not None:
            made[peering.KIND] = self._watch_peering(lambda _, type_, body: self.runtime.on_peering(type_, body))
        return made

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

    def cut_off(self, seconds: float) -> None:
        """Nothing comes through between it and the API server; what is under way either way still arrives."""
        self._trace.note(f"{self.name} is cut off from the API server for {seconds:g} s")
        self.link.cut(seconds)
        self._hang_up()

    def pause(self) -> None:
        self._trace.note(f"{self.name} is paused")
        self.process.pause()

    def go_on(self) -> None:
        if self.process.is_paused:
            self._trace.note(f"{self.name} goes on")
            self.process.resume()

    def _hang_up(self) -> None:
        for watcher in self.watchers.values():
            watcher.close()
        if self.elector is not None and self.elector.watcher is not None:
            self.elector.watcher.close()

    def jump(self, seconds: float) -> None:
        """Its time of day is set."""
        self._trace.note(f"the clock of {self.name} jumps by {seconds:g} s")
        self.clock.jump(seconds)

    def kill(self) -> None:
        """At whichever await it is."""
        self._trace.note(f"{self.name} is killed")
        self.process.kill()
        self._hang_up()

    async def stop(self) -> None:
        """As at SIGTERM."""
        self._trace.note(f"{self.name} stops")
        await self.runtime.stop_scheduling()
        await self.runtime.step_down()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.elector is not None and self._electing is not None:
            self.elector.stop()
            await asyncio.wait([self._electing], timeout=electing.STOP_SECONDS)
            self._electing.cancel()
        await self.runtime.stop()
        self._trace.note(f"{self.name} has stopped")


class _BulkTaker:
    """The runtime, with changes counted that come behind later ones."""

    def __init__(self, runtime: Runtime, count: Callable[[str, str | None, int], None]) -> None:
        self._runtime = runtime
        self._count = count
        self.begin_list = runtime.watch_intake.begin_list
        self.on_list = runtime.watch_intake.on_list
        self.end_list = runtime.watch_intake.end_list

    def on_changes(self, kind: str, changes: Sequence[Change]) -> None:
        for type_, body in changes:
            self._count(kind, type_, int(body["metadata"]["resourceVersion"]))
        self._runtime.watch_intake.on_changes(kind, changes)
