"""Limits: how much of the scheduler's time requests may take.

    requests a second, of one user     a bucket of BURST that fills by A_SECOND
    requests at once, of all users     those that wait for their turn included
    one question at a time             and a pause after each, so that questions take at most a quarter of the time
    watches at once                    their questions wait for the same turn

What is over a limit is refused (429) and may be sent again after a second, which kubectl does by itself.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from berth.explain_api.statuses import too_many

AT_ONCE = 32
WATCHES = 32
A_SECOND = 20.0
BURST = 60.0
MOST_USERS = 1000
REST = 3.0  # pause after a question, as a multiple of its duration
LONGEST_REST_SECONDS = 2.0
RETRY_SECONDS = 1


class Limits:
    """Counts what is going on. Lives in the serving loop."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # user: what is left, and since when
        self._requests = 0
        self._watches = 0
        self._turn = asyncio.Lock()
        self._free_at = 0.0
        self.refused: Counter[str] = Counter()

    @contextmanager
    def request(self, user: str) -> Iterator[None]:
        """Holds a place for a request; raises ApiRefusal (429)."""
        if self._requests >= AT_ONCE:
            self.refused["at_once"] += 1
            raise too_many(f"{AT_ONCE} requests are being answered already, try again", RETRY_SECONDS)
        if not self._take(user):
            self.refused["a_second"] += 1
            raise too_many(f"more than {A_SECOND:.0f} requests a second of one user, try again", RETRY_SECONDS)
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Holds a place for a watch; raises ApiRefusal (429)."""
        if self._watches >= WATCHES:
            self.refused["watches"] += 1
            raise too_many(f"there are {WATCHES} watches already, try again", RETRY_SECONDS)
        self._watches += 1
        try:
            yield
        finally:
            self._watches -= 1

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until no other question is being answered, and until the pause after the last one is over."""
        async with self._turn:
            await asyncio.sleep(max(0.0, self._free_at - self._now()))
            began = self._now()
            try:
                yield
            finally:
                ended = self._now()
                self._free_at = ended + min(REST * (ended - began), LONGEST_REST_SECONDS)

    def _take(self, user: str) -> bool:
        left, since = self._buckets.pop(user, (BURST, self._now()))
        left = min(BURST, left + A_SECOND * (self._now() - since))
        is_enough = left >= 1.0
        self._buckets[user] = (left - 1.0 if is_enough else left, self._now())
        if len(self._buckets) > MOST_USERS:
            self._buckets.popitem(last=False)
        return is_enough

    def statistics(self) -> dict[str, Any]:
        return {"requests": self._requests, "watches": self._watches, "refused": dict(self.refused)}
