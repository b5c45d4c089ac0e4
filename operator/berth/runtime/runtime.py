"""Runtime: the life of a Berth. It starts and stops the components, and is what handlers and the command line hold.

Where several replicas run, `Leader` says when decisions are made and what is written; a standby takes all events and
compares everything, and does nothing else.

An error that ends the scheduling loop is final (`wait_failure`): the caller ends the process.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from berth.serving.health import Readiness

if TYPE_CHECKING:
    from berth.runtime.wiring import Components


class Runtime:
    """One Berth; `start` once, `stop` once."""

    def __init__(self, components: "Components") -> None:
        self.components = components
        self.options = components.options
        self.credentials = components.credentials
        self.resources = components.resources
        self.bulk = components.bulk
        self.leader = components.leader
        self.watch_intake = components.watch_intake
        self.watch_control = components.watch_control
        self._tasks: list[asyncio.Task[None]] = []
        self._recovering: asyncio.Task[None] | None = None
        self._has_stepped_down = False

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises CredentialsError, or CannotServe when an address is taken or a certificate cannot be used."""
        parts = self.components
        await parts.api.open()
        await parts.serving.start()
        if parts.collector is not None:
            parts.collector.start()
        parts.cluster.start()
        parts.statuses.start()
        parts.cache_sync.start()
        self._tasks = [
            asyncio.create_task(parts.decisions.run(), name="scheduler"),
            asyncio.create_task(parts.housekeeping.run(), name="housekeeping"),
            asyncio.create_task(parts.policy_reports.run(), name="reporting"),
        ]
        if parts.explaining is not None:
            self._tasks.append(asyncio.create_task(parts.explaining.run(), name="explaining"))
        if parts.admitting is not None:
            self._tasks.append(asyncio.create_task(parts.admitting.run(), name="admitting"))
        if parts.leader is not None:
            self._tasks.append(asyncio.create_task(parts.leader.run(), name="leading"))
        self._recovering = asyncio.create_task(parts.recovery.run(), name="recovery")

    async def wait_failure(self) -> None:
        """Returns when the scheduling loop has ended with an error."""
        await self.components.decisions.failed.wait()

    async def stop_scheduling(self) -> None:
        """No new binds; returns when the running ones have ended."""
        await self.components.decisions.stop()

    async def step_down(self) -> None:
        """After `stop_scheduling`: report on the policies once more, and leave the lead to others. Done once."""
        if self._has_stepped_down:
            return
        self._has_stepped_down = True
        await self.components.policy_reports.stop()
        if self.leader is not None:
            await self.leader.stop()

    async def stop(self) -> None:
        """No new binds; running ones end, what waits to be posted is posted, connections are closed."""
        parts = self.components
        await self.stop_scheduling()
        if self._recovering is not None:
            await _cancel(self._recovering)
        await parts.watch_intake.stop()
        await parts.cache_sync.stop()
        await self.step_down()
        await parts.cluster.stop()
        await _cancel(*self._tasks)
        await parts.dump.stop()
        await parts.serving.stop()
        await parts.asker.close()
        await parts.api.close()
        if parts.collector is not None:
            parts.collector.stop()

    # --- for those who watch and look --------------------------------------------------------------------------------

    def on_event(self, kind: str, type_: str | None, body: Mapping[str, Any]) -> None:
        """Take an object as kopf hands it over: type None from a list, DELETED for a removal. Never raises."""
        self.watch_intake.on_event(kind, type_, body)

    def on_peering(self, type_: str | None, body: Mapping[str, Any]) -> None:
        """Take a peering object, ours or that of another installation. Never raises."""
        if self.components.peering_intake is not None:
            self.components.peering_intake.on_event(type_, body)

    def dump(self) -> None:
        """Write everything that decisions depend on to the log, and compare it with the API server soon."""
        self.components.dump.start()

    def readiness(self) -> Readiness:
        return self.components.health.readiness()

    def statistics(self) -> dict[str, Any]:
        return self.components.serving.statistics()


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
