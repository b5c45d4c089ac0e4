"""Waiting for whichever comes first, on the injected clock only.

What it does not do: wall-clock timeouts. `asyncio.timeout` and friends run on the event loop's own clock and would
tie tests to real time.
"""

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any

from berth.scheduler.ports import Clock


async def wait_for_signal(signal: asyncio.Event, clock: Clock, seconds: float | None) -> None:
    """Wait until the signal is set, or so many seconds have passed (None: no limit)."""
    if seconds is None:
        await signal.wait()
    else:
        await _first_of(signal.wait(), clock.sleep(max(0.0, seconds)))


async def wait_for_tasks(tasks: Collection[asyncio.Task[None]], clock: Clock, seconds: float) -> None:
    """Wait until all tasks have ended, well or badly, or so many seconds have passed; none is cancelled."""
    if tasks:
        await _first_of(_all_ended(tasks), clock.sleep(seconds))


async def _all_ended(tasks: Collection[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    running = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
