"""An event loop on virtual time in which chance decides what runs next, the same for the same seed.

    loop = SeededLoop(seed=7)
    loop.run_until_complete(scenario())

Nothing real is waited for: when no callback is ready, time jumps to the next timer. Of several that are ready, one is
drawn. asyncio itself runs them in the order in which they became ready, and code that relies on that relies on luck:
what is ready in the same moment here is what arrives within a few microseconds in a real process.

A `Process` is a part of what runs in the loop: every callback that was made inside it (its tasks, their tasks, their
timers) belongs to it. Such a part can be paused, and killed: nothing of it runs any more, at whichever `await` it is,
while everything outside of it, requests of it that are on their way included, goes on.

What it does not do: threads, sockets, subprocesses, signals.
"""

from __future__ import annotations

import asyncio
import heapq
import weakref
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

_process: ContextVar[Process | None] = ContextVar("process", default=None)


class Stuck(Exception):
    """Nothing is ready and no timer is set: the coroutine that the loop runs would wait for ever."""


class Process:
    """Everything that was started by `run`; see the module's text."""

    def __init__(self, loop: SeededLoop, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self._loop = loop
        self._context = copy_context()
        self._context.run(_process.set, self)
        self._held: list[asyncio.Handle] = []
        self._tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Those that have not ended, by name."""
        return sorted((task for task in self._tasks if not task.done()), key=lambda task: task.get_name())

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)

    def run(self, act: Callable[..., T], *args: Any) -> T:
        """Call it as a part of the process."""
        return self._context.copy().run(act, *args)

    def start(self, work: Coroutine[Any, Any, T], name: str = "") -> asyncio.Task[T]:
        """Run it as a task of the process."""
        return self.run(lambda: self._loop.create_task(work, name=name or self.name))

    def pause(self) -> None:
        """Nothing of it runs until it is resumed, and its timers are late then."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        if self.is_alive:
            self._loop.give_back(self._held)
            self._held = []

    def kill(self) -> None:
        """Nothing of it runs ever again, not even what is meant to run at its end."""
        self.is_alive = False

    def exhume(self) -> None:
        """Ends the killed tasks in order, after the run, so that they can be freed."""
        self.is_alive = True
        self.resume()

    def holds_back(self, handle: asyncio.Handle) -> bool:
        """Whether the callback, which is ready, is not to run now."""
        if self.is_alive and not self.is_paused:
            return False
        self._held.append(handle)
        return True


def current_process() -> Process | None:
    """The process that asks."""
    return _process.get()


class SeededLoop(asyncio.BaseEventLoop):
    """See the module's text. `on_step` is called after every callback."""

    _ready: list[asyncio.Handle]  # a deque in the base class, which does nothing but append to it
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, seed: object = 0) -> None:
        super().__init__()
        self._ready = []
        self._draw = Random(f"loop/{seed}").random
        self._now = 0.0
        self.steps = 0
        self.on_step: Callable[[], None] = lambda: None
        self.outside: Context = copy_context()
        """Where everything runs that belongs to no process."""

    def time(self) -> float:
        return self._now

    def create_task(self, *args: Any, **kwargs: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(*args, **kwargs)
        if (process := _process.get()) is not None:
            process.adopt(task)
        return task

    def give_back(self, handles: list[asyncio.Handle]) -> None:
        """Callbacks that were ready before and may run again."""
        self._ready.extend(handles)

    def call_outside(self, seconds: float, act: Callable[..., None], *args: Any) -> None:
        """Call it so much later, outside of every process."""
        self.call_later(seconds, act, *args, context=self.outside)

    def _run_once(self) -> None:
        """One callback, or time passes until there is one."""
        self._collect_due()
        if not self._ready:
            if not self._scheduled:
                raise Stuck("everything waits, and nothing is due")
            self._now = max(self._now, self._scheduled[0].when())
            self._collect_due()
        handle = self._take()
        if handle is None:
            return
        self.steps += 1
        handle._run()
        self.on_step()

    def _collect_due(self) -> None:
        scheduled, now = self._scheduled, self._now
        while scheduled and (scheduled[0].cancelled() or scheduled[0].when() <= now):
            handle = heapq.heappop(scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            if not handle.cancelled():
                self._ready.append(handle)

    def _take(self) -> asyncio.Handle | None:
        """One of those that are ready; None when it turns out not to be."""
        ready = self._ready
        if len(ready) > 1:
            place = int(self._draw() * len(ready))
            ready[place], ready[-1] = ready[-1], ready[place]
        handle = ready.pop()
        if handle.cancelled():
            return None
        process = handle._context.get(_process)  # type: ignore[attr-defined]
        if process is not None and process.holds_back(handle):
            return None
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers leave when their time comes."""

    def _write_to_self(self) -> None:
        """No other thread waits for this one."""
