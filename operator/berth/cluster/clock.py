"""The real clock: the event loop's monotonic time, the time of day, and a sleep that takes as long as it says."""

import asyncio
import time
from datetime import UTC, datetime


class RealClock:
    """Implements `berth.scheduler.ports.Clock`."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
