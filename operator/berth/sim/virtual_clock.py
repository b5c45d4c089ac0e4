"""The Clock port on the time of a loop: what is slept is not waited for, and the time of day may jump."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """Implements `berth.scheduler.ports.Clock`. One loop may have several, each with a time of day of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ahead = timedelta(0)

    def now(self) -> float:
        return self._loop.time()

    def wall(self) -> datetime:
        return START + timedelta(seconds=self._loop.time()) + self._ahead

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def jump(self, seconds: float) -> None:
        """Set the time of day forward, or back; `now` only ever grows, as on any machine."""
        self._ahead += timedelta(seconds=seconds)
