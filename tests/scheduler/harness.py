"""A whole scheduler on a cluster in memory, for tests that follow a pod from its creation to its node."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from berth.policy.policy_store import PolicyStore
from berth.scheduler import Cache, Queue, Scheduler
from berth.scheduler.binding.unconfirmed_binds import UnconfirmedBinds
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.object_events import observed, removed
from berth.scheduler.ports import ExtenderPort
from berth.scheduler.queue.queueing_hints import QueueingHints
from berth.scheduler.scheduler import DRAIN_SECONDS
from berth.scheduler.wiring import LoopComponents
from scheduler.memory_cluster import Body, MemoryCluster
from scheduler.virtual_clock import VirtualClock, settle


class Harness:
    """Everything that a test needs to hold in its hands."""

    def __init__(
        self,
        *,
        built_in: bool = True,
        hints: bool = True,
        extenders: ExtenderPort | None = None,
        drain_seconds: float = DRAIN_SECONDS,
        **options: Any,
    ) -> None:
        self.clock = VirtualClock()
        self.cluster = MemoryCluster()
        self.errors = ErrorLog()
        self.cache = Cache()
        self.queue = Queue(self.clock, hints=QueueingHints(self.cache.state, self.errors) if hints else None)
        self.policies = PolicyStore(now=self.clock.wall, built_in=built_in)
        self.unconfirmed = UnconfirmedBinds(self.cache, self.clock)
        self.components = LoopComponents(
            cache=self.cache,
            queue=self.queue,
            policies=self.policies,
            cluster=self.cluster,
            clock=self.clock,
            random=random.Random(0),
            errors=self.errors,
            unconfirmed=self.unconfirmed,
            extenders=extenders or self.make_extenders(),
            **options,
        )
        self.scheduler = Scheduler(self.components, drain_seconds=drain_seconds)

    def make_extenders(self) -> ExtenderPort | None:
        """There are none, unless a subclass has some."""
        return None

    def observe(self, kind: str, body: Body) -> None:
        """The watch reports the object as it is."""
        self.scheduler.on_event(observed(kind, body))

    def remove(self, kind: str, body: Body, *, reported_by_watch: bool = True) -> None:
        """The object is gone, as the watch reports or a list shows."""
        self.scheduler.on_event(removed(kind, body, reported_by_watch=reported_by_watch))

    def write(self, *bodies: Body) -> None:
        """Create or replace objects, and let the scheduler hear of it."""
        for body in bodies:
            self.cluster.write(body["kind"], body)
        self.tell()

    def tell(self) -> None:
        """Deliver what the watch has to say."""
        self.cluster.deliver(self.scheduler)

    async def go(self) -> None:
        """Let watch and scheduler run until neither has anything left to do at this moment."""
        await settle()
        while self.cluster.feed:
            self.tell()
            await settle()

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass, with the watch telling what happens in it."""
        passed = 0.0
        while passed < seconds:
            await self.clock.advance(min(step, seconds - passed))
            await self.go()
            passed += step

    def notes(self, name: str) -> list[str]:
        """What the Events about a pod say."""
        return [event.note for subject, event in self.cluster.events if subject == name]


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Harness]:
    """A harness whose scheduler is open and runs until the end of the block."""
    harness = Harness(**options)
    harness.scheduler.open()
    run = asyncio.ensure_future(harness.scheduler.run())
    try:
        await settle()
        yield harness
    finally:
        stop = asyncio.ensure_future(harness.scheduler.stop())
        await harness.clock.advance(60)
        await stop
        await run
