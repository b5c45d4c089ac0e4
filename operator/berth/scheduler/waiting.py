"""Waits for the first of several events, on the injected clock only.

What it does not do: wall-clock timeouts. `asyncio.timeout` and similar functions use the event loop's own clock and
would tie tests to real time.
"""

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, Final, TypeVar

from berth.scheduler.ports import Clock

T = TypeVar("T")

_RUNNING: Final[set[asyncio.Task[Any]]] = set()  # the event loop keeps weak references to tasks only


async def wait_for_signal(signal: asyncio.Event, clock: Clock, seconds: float | None) -> None:
    """Wait until the signal is set, or this many seconds have passed (None: no limit)."""
    if seconds is None:
        await signal.wait()
    else:
        await first_of(signal.wait(), clock.sleep(max(0.0, seconds)))


async def wait_for_tasks(tasks: Collection[asyncio.Task[None]], clock: Clock, seconds: float) -> None:
    """Wait until all tasks have ended, or this many seconds have passed; no task is cancelled."""
    if tasks:
        await first_of(_all_ended(tasks), clock.sleep(seconds))


async def first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Run all of them until one ends; the others are cancelled."""
    running = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def finish_within(work: Coroutine[Any, Any, T], clock: Clock, seconds: float) -> asyncio.Task[T] | None:
    """Run the work as a task. Returns the task once it has ended, or None after this many seconds, when it is
    cancelled.

    Work that ignores its cancellation is not waited for.
    """
    task, limit = asyncio.ensure_future(work), asyncio.ensure_future(clock.sleep(seconds))
    _RUNNING.add(task)
    task.add_done_callback(_let_go)
    try:
        await asyncio.wait((task, limit), return_when=asyncio.FIRST_COMPLETED)
        return task if task.done() else None
    finally:
        task.cancel()
        limit.cancel()


def _let_go(task: asyncio.Task[Any]) -> None:
    _RUNNING.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not warn about it


async def _all_ended(tasks: Collection[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)
