"""The time that actors live by: the scheduler's own port, and its everyday form."""

import asyncio
import time
from datetime import UTC, datetime

from berth.scheduler.ports import Clock


class WallClock:
    """Real time; implements `berth.scheduler.ports.Clock`."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def timestamp(moment: datetime) -> str:
    """As the API writes times: whole seconds, UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text)


__all__ = ["Clock", "WallClock", "parse_timestamp", "timestamp"]
