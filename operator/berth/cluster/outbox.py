"""Writes that must arrive in the end, of which only the latest counts: conditions of pods, statuses of policies.

A key names what is written about. At most one write a key is on its way; a newer one that comes meanwhile waits,
replacing any that waited before it. A write that fails for a reason that passes is tried again, with growing pauses,
until it arrives, a newer one takes its place, it is withdrawn, or the object turns out to be gone.

    put -> waiting -> (the gate) on its way -> written | gone | refused
              ^                       |
              +--- due later <--------+   for ever: unreachable, 429, 5xx, not known (401), behind a closed fence
                                          a few times: forbidden, a conflict, an error that nobody expected

When a write may begin, and how many at once, is for the gate to say (`gate`), by rank; what waits there is not on its
way, so nobody who settles a key waits for it. A key that failed is put aside until it is due (`delays`), and the others
go on. At most `limit` keys wait: one more is dropped, counted and complained of, unless it is put as urgent.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

from berth.cluster.delays import Delays, pause_seconds
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.gate import CONDITION, URGENT, Rank, WriteGate
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import Clock, NotLeading

ATTEMPTS = 5  # of a write that is refused for a reason that a user may repair
MENDABLE = (403, 409)
COMPLAINT_SECONDS = 60.0
WAITING_LIMIT = 50_000

Item = TypeVar("Item")

_log = logging.getLogger(__name__)


class Outbox(Generic[Item]):
    """Latest-wins delivery by key; `write` does one write and raises ApiError or Unreachable."""

    def __init__(
        self,
        name: str,
        write: Callable[[str, Item], Awaitable[None]],
        clock: Clock,
        errors: ErrorLog,
        gate: WriteGate,
        *,
        limit: int = WAITING_LIMIT,
    ) -> None:
        self._name = name
        self._write = write
        self._clock = clock
        self._errors = errors
        self._gate = gate
        self._limit = limit
        self._latest: dict[str, Item] = {}
        self._active: dict[str, Rank] = {}
        self._failures: dict[str, int] = {}
        self._writing: dict[str, asyncio.Event] = {}
        self._withdrawn: set[str] = set()
        self._delays: Delays[str] = Delays(clock, self._submit)
        self._complained_seconds: dict[str, float] = {}
        self._delivering: dict[str, asyncio.Task[None]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._releasing: asyncio.Task[None] | None = None
        self._is_stopped = False
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many keys have something to be written or on its way."""
        return len(self._active)

    def start(self) -> None:
        self._is_stopped = False
        self._releasing = asyncio.create_task(self._delays.run(), name=f"{self._name}-delays")

    async def stop(self) -> None:
        """Stop writing; what has not been written stays unwritten."""
        tasks = [*self._tasks, *([] if self._releasing is None else [self._releasing])]
        self._is_stopped = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._delivering.clear()  # also of what was cancelled before it began

    def put(self, key: str, item: Item, *, urgent: bool = False) -> None:
        """Have this written, instead of anything about the key that still waits."""
        known = self._active.get(key)
        if known is None and not urgent and len(self._active) >= self._limit:
            self.counts["dropped"] += 1
            self._complain("waiting", f"{self._limit} of kind {self._name} wait to be written, more are dropped")
            return
        self._latest[key] = item
        if known is None or (urgent and known is not URGENT):
            # One that waits as less urgent stays in that queue too, and finds nothing to do when its turn comes.
            self._active[key] = URGENT if urgent else CONDITION
            self._submit(key)

    def waiting(self, key: str) -> Item | None:
        """What is still to be written about the key, and is not on its way."""
        return self._latest.get(key)

    def withdraw(self, key: str) -> None:
        """Write nothing more about the key; a write that is on its way is not called back."""
        self._latest.pop(key, None)
        self._failures.pop(key, None)
        if key in self._writing:
            self._withdrawn.add(key)

    def withdraw_all(self) -> None:
        """Write nothing of what waits: it is for another replica to say."""
        for key in list(self._active):
            self.withdraw(key)

    async def settle(self, key: str) -> None:
        """Withdraw, and wait until nothing about the key is on its way."""
        self.withdraw(key)
        writing = self._writing.get(key)
        if writing is not None:
            await writing.wait()

    def _submit(self, key: str) -> None:
        rank = self._active.get(key)
        if rank is not None:
            self._gate.submit(rank, partial(self._begin, key, rank))

    def _begin(self, key: str, rank: Rank) -> bool:
        """Whether there is something to write about the key, and nobody does so already."""
        if self._is_stopped or key in self._delivering:
            return False
        if key not in self._latest:
            self._active.pop(key, None)
            return False
        task = asyncio.get_running_loop().create_task(self._deliver(key), name=self._name)
        self._delivering[key] = task
        self._tasks[task] = None
        task.add_done_callback(partial(self._ended, rank))
        return True

    def _ended(self, rank: Rank, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._gate.end(rank)

    async def _deliver(self, key: str) -> None:
        """Write what waits about the key; what failed is put back, unless something newer has come."""
        try:
            while key in self._latest:
                item = self._latest.pop(key)
                seconds = await self._write_alone(key, item)
                if seconds is not None:
                    self._latest.setdefault(key, item)
                    return self._delays.add(key, seconds)
            self._active.pop(key, None)
        finally:
            del self._delivering[key]
        return None

    async def _write_alone(self, key: str, item: Item) -> float | None:
        """After how many seconds to try again; None: done. Who waits for the key to settle is let go in any case."""
        self._writing[key] = asyncio.Event()
        try:
            seconds = await self._try(key, item)
            if seconds is None or key in self._withdrawn:
                self._failures.pop(key, None)
                return None
            return seconds
        finally:
            self._withdrawn.discard(key)
            self._writing.pop(key).set()

    async def _try(self, key: str, item: Item) -> float | None:
        """After how many seconds to try again; None when this item is done with, one way or another."""
        try:
            await self._write(key, item)
        except (Unreachable, NotLeading) as error:
            return self._again(key, error)
        except ApiError as error:
            return self._refused(key, error)
        except Exception as error:
            return self._failed(key, error)
        self.counts["written"] += 1
        return None

    def _refused(self, key: str, error: ApiError) -> float | None:
        if error.object_is_gone:
            self.counts["gone"] += 1
            return None
        if error.is_transient or (error.status in MENDABLE and self._has_attempts_left(key)):
            return self._again(key, error, error.retry_after_seconds)
        self.counts["refused"] += 1
        self._complain(str(error.status), f"Writing a {self._name} ({key}) was refused and is given up: {error}")
        return None

    def _failed(self, key: str, error: Exception) -> float | None:
        """An error that nobody expected costs this write at most, never the worker."""
        self._errors.note(f"writing a {self._name}", key, error)
        if self._has_attempts_left(key):
            return self._again(key, error)
        self.counts["refused"] += 1
        return None

    def _has_attempts_left(self, key: str) -> bool:
        return self._failures.get(key, 0) + 1 < ATTEMPTS

    def _again(self, key: str, error: Exception, asked_seconds: float = 0.0) -> float:
        self.counts["retried"] += 1
        self._failures[key] = self._failures.get(key, 0) + 1
        _log.debug("Writing a %s (%s) will be tried again: %s", self._name, key, error)
        return pause_seconds(self._failures[key], asked_seconds)

    def _complain(self, problem: str, text: str) -> None:
        """Once a minute for each problem, such as a status: what refuses one write usually refuses hundreds."""
        now = self._clock.now()
        level = logging.DEBUG
        if now - self._complained_seconds.get(problem, -COMPLAINT_SECONDS) >= COMPLAINT_SECONDS:
            self._complained_seconds[problem] = now
            level = logging.ERROR
        _log.log(level, "%s", text)
