"""What has to be tried again, kept until its time: so that nobody who works through a queue sleeps over one item.

    add -> heap by due time -> (one task) -> release, back into the queue it came from

At most `AT_ONCE` items are released every `STEP_SECONDS`. During an outage everything that waits is due again and
again, and the server that comes back should not meet all of it in one moment.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Generic, TypeVar

from berth.scheduler.ports import Clock
from berth.scheduler.waiting import wait_for_signal

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
AT_ONCE = 64
STEP_SECONDS = 0.5

Item = TypeVar("Item")


def pause_seconds(failures: int, asked_seconds: float = 0.0) -> float:
    """How long to wait after so many failures in a row: doubling, and as long as the server asks for, up to a limit."""
    doubled = FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 16)
    return min(max(doubled, asked_seconds), LONGEST_PAUSE_SECONDS)


class Delays(Generic[Item]):
    """Gives each item to `release` when it is due; `run` does so until it is cancelled."""

    def __init__(self, clock: Clock, release: Callable[[Item], None]) -> None:
        self._clock = clock
        self._release = release
        self._due: list[tuple[float, int, Item]] = []
        self._numbers = itertools.count()
        self._earlier = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, item: Item, seconds: float) -> None:
        """Release the item so many seconds from now."""
        number = next(self._numbers)
        heapq.heappush(self._due, (self._clock.now() + seconds, number, item))
        if self._due[0][1] == number:
            self._earlier.set()

    async def run(self) -> None:
        while True:
            self._earlier.clear()
            if self._release_due() == AT_ONCE:
                await self._clock.sleep(STEP_SECONDS)
            else:
                await wait_for_signal(self._earlier, self._clock, self._wait_seconds())

    def _release_due(self) -> int:
        """How many were released."""
        released = 0
        while self._due and self._due[0][0] <= self._clock.now() and released < AT_ONCE:
            self._release(heapq.heappop(self._due)[2])
            released += 1
        return released

    def _wait_seconds(self) -> float | None:
        return self._due[0][0] - self._clock.now() if self._due else None
