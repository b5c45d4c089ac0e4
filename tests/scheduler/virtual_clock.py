"""Time that passes when a test says so."""

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any, cast

START = datetime(2026, 1, 1, tzinfo=UTC)
MOST_TURNS = 200_000


async def settle() -> None:
    """Let everything that can run do so, until all that is left waits for something."""
    # The loop's list of ready callbacks is private; it is the only exact answer to "is anything left to run?".
    ready = cast(Any, asyncio.get_running_loop())._ready
    for _ in range(MOST_TURNS):
        await asyncio.sleep(0)
        if not ready:
            return
    raise AssertionError("something keeps running without waiting for anything")


class VirtualClock:
    """The Clock port; `advance` wakes the sleepers in the order of their times."""

    def __init__(self) -> None:
        self._now = 0.0
        self._sequence = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        return START + timedelta(seconds=self._now)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._sequence), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let this much time pass, with everything that happens in it."""
        end = self._now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            moment, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self._now = max(self._now, moment)
                woken.set_result(None)
                await settle()
        self._now = end
        await settle()
