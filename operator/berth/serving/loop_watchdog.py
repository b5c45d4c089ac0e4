"""A watchdog of an event loop, read from another thread: how late the loop is, and whether it still turns.

A timer of the loop beats every BEAT_SECONDS. The delay of a beat is the loop's lag: how long everything that was ready
had to wait for one long step. A loop that hangs does not beat, which another thread sees in `silent_seconds`. `trace`
then shows the stack of the loop's thread.

The beats are timers of the loop and not a Clock's sleep, because the loop itself is measured, not the scheduler's time.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable

BEAT_SECONDS = 0.5
WINDOW_SECONDS = 30.0
TRACE_LINES = 30


class LoopWatchdog:
    """Measures the loop in which `start` is called; everything else may be called from any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._timer: asyncio.TimerHandle | None = None
        self._last_seconds: float | None = None
        self._lags: deque[tuple[float, float]] = deque(maxlen=int(WINDOW_SECONDS / BEAT_SECONDS))
        self._thread = 0

    def start(self) -> None:
        self._thread = threading.get_ident()
        self._last_seconds = self._now()
        self._plan()

    def stop(self) -> None:
        """Stops: from now on no beat is expected."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._last_seconds = None

    def _plan(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self.beat)

    def beat(self) -> None:
        now = self._now()
        if self._last_seconds is None:
            return
        self._lags.append((now, max(0.0, now - self._last_seconds - BEAT_SECONDS)))
        self._last_seconds = now
        self._plan()

    @property
    def silent_seconds(self) -> float:
        """Returns for how long a beat is overdue; 0 if none is, or none is expected."""
        last = self._last_seconds
        return 0.0 if last is None else max(0.0, self._now() - last - BEAT_SECONDS)

    @property
    def lag_seconds(self) -> float:
        """Returns the largest delay of a beat in the last half minute."""
        since = self._now() - WINDOW_SECONDS
        return max((lag for seconds, lag in tuple(self._lags) if seconds >= since), default=0.0)

    def trace(self) -> str:
        """Returns the stack of the loop's thread, innermost call last."""
        frame = sys._current_frames().get(self._thread)
        return "" if frame is None else "".join(traceback.format_stack(frame)[-TRACE_LINES:])
