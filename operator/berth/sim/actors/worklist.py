"""Keys that are to be looked at, each at its time: no key twice, none by two workers at once.

    add(key, seconds) --> due, the earliest wins --> take() --> in work --> done(key)

A key that is added while it is in work is due again after `done`.
"""

import asyncio
import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, TypeVar

from berth.scheduler.waiting import wait_for_signal
from berth.sim.actors.clock import Clock

K = TypeVar("K", bound=Hashable)


class Worklist(Generic[K]):
    """See the module's text."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = itertools.count()
        self._in_work: set[K] = set()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due) + len(self._in_work)

    def add(self, key: K, seconds: float = 0.0) -> None:
        """Look at the key after so many seconds, or earlier if that was said before."""
        moment = self._clock.now() + seconds
        if moment < self._due.get(key, float("inf")):
            self._due[key] = moment
            heapq.heappush(self._heap, (moment, next(self._sequence), key))
            self._changed.set()

    def done(self, key: K) -> None:
        """The key that was taken is no longer in work."""
        self._in_work.discard(key)
        if key in self._due:
            heapq.heappush(self._heap, (self._due[key], next(self._sequence), key))
            self._changed.set()

    async def take(self) -> K:
        """The next key whose time has come; it is in work until `done`."""
        while True:
            self._changed.clear()
            key = self._pop()
            if key is not None:
                return key
            seconds = self._heap[0][0] - self._clock.now() if self._heap else None
            await wait_for_signal(self._changed, self._clock, seconds)

    def _pop(self) -> K | None:
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            moment, _, key = heapq.heappop(self._heap)
            # One that was added again earlier, or is in work, has another entry by the time it counts.
            if self._due.get(key) == moment and key not in self._in_work:
                del self._due[key]
                self._in_work.add(key)
                return key
        return None
