"""Time that stands still until a test moves it; real sockets go on meanwhile."""

import asyncio
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)
TURNS = 50


class ManualClock:
    """The Clock port."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        return START + timedelta(seconds=self._now)

    @property
    def sleeping(self) -> int:
        """How many wait for time to pass."""
        return sum(1 for _, woken in self._sleepers if not woken.done())

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + seconds, woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let this much time pass, and those it wakes run."""
        self._now += seconds
        due = [woken for moment, woken in self._sleepers if moment <= self._now]
        self._sleepers = [(moment, woken) for moment, woken in self._sleepers if moment > self._now]
        for woken in due:
            if not woken.done():
                woken.set_result(None)
        for _ in range(TURNS):
            await asyncio.sleep(0)
