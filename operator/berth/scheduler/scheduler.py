"""The scheduler as the rest of Berth sees it: tell it what the cluster says, open it, run it, stop it.

    watches --observe/remove--> Intake --> Cache, Queue, PolicyBook
                                              |
                    pop <--- Queue            v
                     |                     State
                     v                        |
                   Cycle --- decide ----------+
                     |--- no node: park, report
                     +--- a node: assume, VolumeBinder (where claims wait for it), Binder (background) --> Cluster port
                                                Echoes: did the watch show what was bound?

Everything runs on one event loop; only `run` and what it starts ever waits. `observe` and `remove` are plain calls
that never raise, so that a report that breaks something costs itself only.

What it does not do: decide when it may decide. The edge opens it once the cache is whole, and closes it when it is not.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from berth.policy.book import PolicyBook
from berth.scheduler.binding import Binder
from berth.scheduler.cache import Cache
from berth.scheduler.cycle import Cycle
from berth.scheduler.echoes import Echoes
from berth.scheduler.faults import Faults
from berth.scheduler.intake import Intake
from berth.scheduler.ports import Clock, Cluster, Random
from berth.scheduler.queue import Queue
from berth.scheduler.reporting import Reporter
from berth.scheduler.volumes import VolumeBinder

DRAIN_SECONDS = 25.0


class Scheduler:
    """The facade over cache, queue, cycle and binding."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        policies: PolicyBook,
        cluster: Cluster,
        clock: Clock,
        random: Random,
        bind_limit: int = 64,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._policies = policies
        self._clock = clock
        self._drain_seconds = drain_seconds
        self._stopping = asyncio.Event()
        self._faults = Faults()
        reporter = Reporter(cluster, self._faults)
        self._intake = Intake(cache, queue, policies, reporter)
        self._echoes = Echoes(cache, self._intake, cluster, clock, self._faults)
        self._binder = Binder(
            cache=cache,
            intake=self._intake,
            echoes=self._echoes,
            cluster=cluster,
            clock=clock,
            reporter=reporter,
            faults=self._faults,
            limit=bind_limit,
        )
        self._volumes = VolumeBinder(
            cache=cache,
            queue=queue,
            intake=self._intake,
            cluster=cluster,
            clock=clock,
            reporter=reporter,
            faults=self._faults,
            bind_pod=self._binder.start,
        )
        self._cycle = Cycle(
            cache=cache,
            queue=queue,
            policies=policies,
            intake=self._intake,
            binder=self._binder,
            volumes=self._volumes,
            reporter=reporter,
            faults=self._faults,
            random=random,
        )
        queue.close()
        policies.on_change(self._intake.follow_policies)

    # --- what the cluster says -----------------------------------------------------------------------------------

    def observe(self, kind: str, body: Mapping[str, Any]) -> None:
        """The watch shows an object, new or changed. Never raises."""
        try:
            self._intake.observe(kind, body)
            if kind == "Pod":
                self._echoes.heard(self._cache.uid_of(kind, body))
            self._volumes.heard(kind, body)
        except Exception as error:
            self._faults.note("observing", f"{kind} {_name(body)}", error)

    def remove(self, kind: str, body: Mapping[str, Any]) -> None:
        """The watch, or a comparison with a list, says that the object of this UID is gone. Never raises."""
        try:
            if kind == "Pod":
                self._echoes.heard(self._cache.uid_of(kind, body))
            self._intake.remove(kind, body)
            self._volumes.heard(kind, body)
        except Exception as error:
            self._faults.note("removing", f"{kind} {_name(body)}", error)

    # --- the loop ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Decisions may be made: what the cache holds is whole."""
        if not self._stopping.is_set():
            self._queue.open()
            self._intake.complain()

    def close(self) -> None:
        """No decision is made until opened again; binds under way go on."""
        self._queue.close()

    async def run(self) -> None:
        """Decide until stopped, then let the running binds end. An error that escapes ends it, loudly."""
        work = [asyncio.ensure_future(self._decide_on_each()), asyncio.ensure_future(self._echoes.run())]
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            done, _ = await asyncio.wait([*work, stop], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*work, stop):
                task.cancel()
            await asyncio.gather(*work, stop, return_exceptions=True)
            await self._drain()

    async def stop(self) -> None:
        """No new decision from now on; returns when the running binds have ended or run out of time."""
        self._queue.close()
        self._stopping.set()
        await self._drain()

    async def _drain(self) -> None:
        await self._volumes.stop()
        await self._binder.drain(self._drain_seconds)

    async def _decide_on_each(self) -> None:
        while True:
            await self._binder.wait_slot()
            self._cycle.attempt(await self._queue.pop())
            # Watch events, answers to binds and everything else get their turn between any two decisions.
            await self._clock.sleep(0)

    # --- what can be seen of it ----------------------------------------------------------------------------------

    def statistics(self) -> dict[str, Any]:
        """Counts, nested by topic: gauges of what is there, counters of what has happened."""
        return {
            "queue": self._queue.statistics(),
            "cache": self._cache.statistics(),
            "attempts": dict(self._cycle.results),
            "binds": {"running": len(self._binder), **self._binder.outcomes},
            "volumes": {"waiting": len(self._volumes), **self._volumes.outcomes},
            "echo_missing": self._echoes.missing,
            "policies": self._policies.statistics(),
            "faults": dict(self._faults.counts),
        }


def _name(body: object) -> str:
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(metadata, Mapping):
        return "without a name"
    return "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
