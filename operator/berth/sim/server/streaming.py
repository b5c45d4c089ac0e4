"""Watches over HTTP: one JSON line an event, for as long as the client asked for.

What is ready goes out in one write. A bookmark is queued every 20 s and right before the end, where the client allows
them. Three things end a stream: its time (an orderly end, the client goes on where it was), `stop` (likewise), and
faults, which cut the connection in the middle.

Faults work on single events, in the way that `faults` describes: the first copy of an event keeps its place, and
whatever is behind a late one waits for it; a second copy is sent by itself when its time has come.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count

from berth.sim.errors import StatusError
from berth.sim.faults import ONCE, Copy, Faults
from berth.sim.store import Object, Watch

BOOKMARK_SECONDS = 20.0
FOREVER = float("inf")

Encode = Callable[[str, Object], bytes]


class EventStream:
    """The events of one watch, encoded, when they are due. Times are the event loop's."""

    def __init__(
        self,
        watch: Watch,
        encode: Encode,
        *,
        kind: str,
        now: Callable[[], float],
        lifetime_seconds: float,
        faults: Faults | None = None,
    ) -> None:
        self._watch = watch
        self._encode = encode
        self._kind = kind
        self._now = now
        self._faults = faults
        self._waiting: deque[tuple[float, bytes, Sequence[Copy]]] = deque()
        self._repeats: list[tuple[float, int, bytes, bool]] = []
        self._order = count()
        self._end_at = now() + lifetime_seconds
        self._cut_at = FOREVER
        lifetime = faults.watch_lifetime(kind) if faults is not None else None
        if lifetime is not None:
            self._cut_at = now() + lifetime
        self._bookmark_at = now() + BOOKMARK_SECONDS
        self._ended = False
        self.cut = False
        """Whether the connection is to be cut rather than ended."""

    async def next_chunk(self) -> bytes | None:
        """What is to be written next; None at the end. Raises StatusError when the watch cannot go on."""
        while not self._ended:
            now = self._now()
            self._take(self._watch.take_ready(), now)
            chunk = self._due(now)
            if not self._ended:
                chunk += self._closing_words(now)
            if chunk:
                return chunk
            if not self._ended:
                await self._wait(now)
        return None

    def _take(self, events: list[tuple[str, Object]], now: float) -> None:
        for event_type, body in events:
            encoded = self._encode(event_type, body)
            copies = ONCE if self._faults is None else self._faults.on_event(self._kind, event_type, body)
            if copies:
                self._waiting.append((now, encoded, copies))

    def _due(self, now: float) -> bytes:
        parts: list[bytes] = []
        while self._waiting and self._first_due() <= now and not self._ended:
            since, encoded, (first, *repeats) = self._waiting.popleft()
            parts.append(encoded)
            self._cut_if(first.drop)
            for copy in repeats:  # never before the first: a client would resume past what is still held back
                heapq.heappush(self._repeats, (since + copy.delay_seconds, next(self._order), encoded, copy.drop))
        while self._repeats and self._repeats[0][0] <= now and not self._ended:
            _, _, encoded, drop = heapq.heappop(self._repeats)
            parts.append(encoded)
            self._cut_if(drop)
        return b"".join(parts)

    def _first_due(self) -> float:
        if not self._waiting:
            return FOREVER
        since, _, copies = self._waiting[0]
        return since + copies[0].delay_seconds

    def _cut_if(self, drop: bool) -> None:
        if drop:
            self.cut = self._ended = True

    def _closing_words(self, now: float) -> bytes:
        """Ends what is to end now, with a last bookmark if in order; queues the one that is due."""
        if now >= self._cut_at:
            self.cut = self._ended = True
        elif now >= self._end_at or self._watch.closed:
            self._ended = True
            return self._last_bookmark()
        elif now >= self._bookmark_at:
            self._bookmark_at = now + BOOKMARK_SECONDS
            self._watch.bookmark()
            self._take(self._watch.take_ready(), now)
            return self._due(now)
        return b""

    def _last_bookmark(self) -> bytes:
        """None while events are held back: it would promise what has not been sent."""
        if self._watch.closed or self._waiting:
            return b""
        self._watch.bookmark()
        return b"".join(self._encode(event_type, body) for event_type, body in self._watch.take_ready())

    async def _wait(self, now: float) -> None:
        due = min(
            self._end_at,
            self._cut_at,
            self._bookmark_at,
            self._first_due(),
            self._repeats[0][0] if self._repeats else FOREVER,
        )
        try:
            event = await asyncio.wait_for(anext(self._watch), max(due - now, 0.0))
        except (TimeoutError, StopAsyncIteration):
            return
        self._take([event], self._now())


def expired_words(version: str, current: int) -> StatusError:
    return StatusError(410, "Expired", f"too old resource version: {version or '0'} ({current})")
