"""The bridge between the thread that serves and the loop that schedules.

What is shown belongs to the scheduler's loop and is read there, in steps as short as any other; what travels back is
finished: bytes, records, lines. A loop that does not come round in time is `Stuck`, and what was to be read is then
not read later for nobody.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

LIMIT_SECONDS = 5.0

Result = TypeVar("Result")


class Stuck(Exception):
    """The scheduler's loop has not come round."""


class Bridge:
    """To one loop; used in another one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._loop = loop
        self._limit_seconds = limit_seconds

    async def call(self, work: Callable[[], Result]) -> Result:
        """What `work` returns over there, or raises. Stuck when it is not done in time."""
        done: concurrent.futures.Future[Result] = concurrent.futures.Future()

        def carry_out() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(work())
            except Exception as error:
                done.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(carry_out)
        except RuntimeError as error:  # it is closed
            raise Stuck from error
        return await self._wait(done, self._limit_seconds)

    async def run(self, work: Callable[[], Coroutine[Any, Any, Result]], limit_seconds: float) -> Result:
        """The same for what has to wait over there."""
        coroutine = work()
        try:
            done = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as error:
            coroutine.close()
            raise Stuck from error
        return await self._wait(done, limit_seconds)

    async def _wait(self, done: "concurrent.futures.Future[Result]", limit_seconds: float) -> Result:
        try:
            async with asyncio.timeout(limit_seconds):
                return await asyncio.wrap_future(done)
        except TimeoutError:
            if done.done() and not done.cancelled():
                raise  # it is the work's own
            raise Stuck from None
