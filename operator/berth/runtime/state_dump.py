"""State dump: everything that decisions depend on, as text, for the log (SIGUSR2) and for /debug."""

import asyncio
from collections.abc import Iterator

from berth.cluster.cache_sync import CacheSync
from berth.policy import PolicyStore
from berth.scheduler import dump
from berth.scheduler.cache.cache import Cache
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import Clock
from berth.scheduler.queue.queue import Queue


class StateDump:
    """Writes one dump at a time."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        policies: PolicyStore,
        cache_sync: CacheSync,
        clock: Clock,
        errors: ErrorLog,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._policies = policies
        self._cache_sync = cache_sync
        self._clock = clock
        self._errors = errors
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Write a dump to the log in the background, unless one is being written; then compare with the API server."""
        if not self.is_running:
            self._task = asyncio.create_task(self._write(), name="dump")

    @property
    def is_running(self) -> bool:
        """Whether a dump is being written."""
        return self._task is not None and not self._task.done()

    async def wait(self) -> None:
        """Returns when the last dump is written."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _write(self) -> None:
        try:
            await dump.write(self.cache_lines(), self._clock)
            await dump.write(self.queue_lines(), self._clock)
            self._cache_sync.report()
        except Exception as error:
            self._errors.note("dumping", "what is known", error)

    def cache_lines(self) -> Iterator[str]:
        """Nodes and placed pods, as text."""
        return dump.cache_lines(self._cache)

    def queue_lines(self) -> Iterator[str]:
        """Pending pods, and why they are pending, as text."""
        return dump.queue_lines(self._queue, self._cache, self._policies.serves, self._clock.now)
