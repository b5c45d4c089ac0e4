"""The bridge between the thread that serves and the loop that schedules.

The scheduler's state belongs to the scheduler's loop and is read there, in short steps; only finished values travel
back: bytes, records, lines. If the loop does not turn in time, `BridgeTimeout` is raised, and the read is cancelled.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

LIMIT_SECONDS = 5.0

Result = TypeVar("Result")


class BridgeTimeout(Exception):
    """The scheduler's loop did not turn in time, or is closed."""


class Bridge:
    """Runs functions in one loop; used in another one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._loop = loop
        self._limit_seconds = limit_seconds

    async def call(self, work: Callable[[], Result]) -> Result:
        """Returns what `work` returns in the other loop, or raises it. Raises BridgeTimeout if it takes too long."""
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
            raise BridgeTimeout from error
        return await self._wait(done, self._limit_seconds)

    async def run(self, work: Callable[[], Coroutine[Any, Any, Result]], limit_seconds: float) -> Result:
        """Does the same with a coroutine."""
        coroutine = work()
        try:
            done = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as error:
            coroutine.close()
            raise BridgeTimeout from error
        return await self._wait(done, limit_seconds)

    async def _wait(self, done: "concurrent.futures.Future[Result]", limit_seconds: float) -> Result:
        try:
            async with asyncio.timeout(limit_seconds):
                return await asyncio.wrap_future(done)
        except TimeoutError:
            if done.done() and not done.cancelled():
                raise  # a timeout of the work itself
            raise BridgeTimeout from None
