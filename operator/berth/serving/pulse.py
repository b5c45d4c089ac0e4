"""The pulse of an event loop, felt from another thread: how late it is, and whether it still beats.

The loop beats once a BEAT. What a beat is late by is the loop's lag: how long everything else that was ready had to
wait, because one step took long. A loop that hangs does not beat at all, and cannot say so: whoever asks
`silent_seconds` from another thread notices. `trace` shows then what the loop's thread is doing, which is the one thing
that helps afterwards.

The beats are the loop's own timers rather than a Clock's sleep: it is the loop that is measured, not time as the
scheduler knows it.
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


class Pulse:
    """`start` in the loop that is to be felt; everything else may be called from any thread."""

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
        """It is not expected to beat any more."""
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
        """For how long a beat is overdue; 0 while none is, or none is expected."""
        last = self._last_seconds
        return 0.0 if last is None else max(0.0, self._now() - last - BEAT_SECONDS)

    @property
    def lag_seconds(self) -> float:
        """The latest that a beat was in the last half minute."""
        since = self._now() - WINDOW_SECONDS
        return max((lag for seconds, lag in tuple(self._lags) if seconds >= since), default=0.0)

    def trace(self) -> str:
        """What the loop's thread is at, innermost call last."""
        frame = sys._current_frames().get(self._thread)
        return "" if frame is None else "".join(traceback.format_stack(frame)[-TRACE_LINES:])
