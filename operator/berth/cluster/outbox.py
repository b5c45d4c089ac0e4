"""Writes that must arrive in the end, of which only the latest counts: conditions of pods, statuses of policies.

A key names what is written about. At most one write a key is on its way; a newer one that comes meanwhile waits,
replacing any that waited before it. A write that fails for a reason that passes is tried again, with growing pauses,
until it arrives, a newer one takes its place, it is withdrawn, or the object turns out to be gone.

    put -> waiting -> (a worker) on its way -> written | gone | refused
                         ^  pause  |
                         +---------+   unreachable, 429, 5xx, not let in

It is bounded by the number of keys, which is the number of objects that somebody reports on. Workers are few and live
from `start` to `stop`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from berth.cluster.errors import ApiError, Unreachable
from berth.scheduler.ports import Clock

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0

Item = TypeVar("Item")

_log = logging.getLogger(__name__)


class Outbox(Generic[Item]):
    """Latest-wins delivery by key; `write` does one write and raises ApiError or Unreachable."""

    def __init__(
        self, name: str, write: Callable[[str, Item], Awaitable[None]], clock: Clock, *, workers: int = 8
    ) -> None:
        self._name = name
        self._write = write
        self._clock = clock
        self._workers = workers
        self._latest: dict[str, Item] = {}
        self._active: set[str] = set()
        self._writing: dict[str, asyncio.Event] = {}
        self._withdrawn: set[str] = set()
        self._keys: asyncio.Queue[str] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many keys have something to be written or on its way."""
        return len(self._active)

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work(), name=f"{self._name}-{n}") for n in range(self._workers)]

    async def stop(self) -> None:
        """Stop writing; what has not been written stays unwritten."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def put(self, key: str, item: Item) -> None:
        """Have this written, instead of anything about the key that still waits."""
        self._latest[key] = item
        if key not in self._active:
            self._active.add(key)
            self._keys.put_nowait(key)

    def withdraw(self, key: str) -> None:
        """Write nothing more about the key; a write that is on its way is not called back."""
        self._latest.pop(key, None)
        if key in self._writing:
            self._withdrawn.add(key)

    async def settle(self, key: str) -> None:
        """Withdraw, and wait until nothing about the key is on its way."""
        self.withdraw(key)
        writing = self._writing.get(key)
        if writing is not None:
            await writing.wait()

    async def _work(self) -> None:
        while True:
            key = await self._keys.get()
            try:
                await self._deliver(key)
            finally:
                self._active.discard(key)

    async def _deliver(self, key: str) -> None:
        pause_seconds = FIRST_PAUSE_SECONDS
        while key in self._latest:
            item = self._latest.pop(key)
            if await self._write_alone(key, item):
                pause_seconds = FIRST_PAUSE_SECONDS
                continue
            self._latest.setdefault(key, item)
            await self._clock.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, LONGEST_PAUSE_SECONDS)

    async def _write_alone(self, key: str, item: Item) -> bool:
        """Whether this item is done with; those who wait for the key to settle are let go in any case."""
        self._writing[key] = asyncio.Event()
        try:
            done = await self._try(key, item)
            return done or key in self._withdrawn
        finally:
            self._withdrawn.discard(key)
            self._writing.pop(key).set()

    async def _try(self, key: str, item: Item) -> bool:
        """Whether this item is done with, one way or another."""
        try:
            await self._write(key, item)
        except Unreachable as error:
            return self._again(key, error)
        except ApiError as error:
            if error.object_is_gone:
                self.counts["gone"] += 1
                return True
            if error.is_transient or error.status == 409:
                return self._again(key, error)
            self.counts["refused"] += 1
            _log.error("Writing a %s (%s) was refused and is given up: %s", self._name, key, error)
            return True
        self.counts["written"] += 1
        return True

    def _again(self, key: str, error: Exception) -> bool:
        self.counts["retried"] += 1
        _log.debug("Writing a %s (%s) will be tried again: %s", self._name, key, error)
        return False
