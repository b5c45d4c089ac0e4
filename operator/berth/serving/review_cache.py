"""Results of reviews, cached: a client that tries tokens can neither fill our memory nor flood the API server."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from berth.scheduler.access_review import ReviewFailed
from berth.serving.bridge import Bridge, BridgeTimeout

CACHE_SECONDS = 10.0
CACHE_SIZE = 1000
REVIEW_SECONDS = 10.0

Answer = TypeVar("Answer")


class ReviewCache(Generic[Answer]):
    """Results of reviews, for CACHE_SECONDS and CACHE_SIZE at most; equal reviews run once at a time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._cached: OrderedDict[bytes, tuple[float, Answer]] = OrderedDict()
        self._asked: dict[bytes, asyncio.Task[Answer]] = {}

    def __len__(self) -> int:
        return len(self._cached)

    async def get(self, key: bytes, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        self._drop_old()
        if key in self._cached:
            return self._cached[key][1]
        if key not in self._asked:
            task = asyncio.create_task(self._find_out(key, ask))
            # If all clients that wait for it are gone, nothing else reads the error.
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            self._asked[key] = task
        # A client that disconnects cancels its own waiting, not that of the others.
        return await asyncio.shield(self._asked[key])

    async def _find_out(self, key: bytes, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            answer = await ask()
        finally:
            del self._asked[key]
        self._cached[key] = (self._now() + CACHE_SECONDS, answer)
        self._cached.move_to_end(key)
        while len(self._cached) > CACHE_SIZE:
            self._cached.popitem(last=False)
        return answer

    def _drop_old(self) -> None:
        """Drops expired results; they are ordered by expiry."""
        now = self._now()
        while self._cached:
            key, (end_seconds, _) = next(iter(self._cached.items()))
            if end_seconds > now:
                return
            del self._cached[key]


async def ask_over(bridge: Bridge, review: Callable[[], Awaitable[Answer]]) -> Answer:
    """Returns what a review in the scheduler's loop says. Raises ReviewFailed, whatever goes wrong."""

    async def ask() -> Answer:
        return await review()

    try:
        return await bridge.run(ask, REVIEW_SECONDS)
    except BridgeTimeout:
        raise ReviewFailed("no answer in time") from None
    except ReviewFailed:
        raise
    except Exception as error:
        raise ReviewFailed(f"{type(error).__name__}: {error}") from error


def digest(*parts: str) -> bytes:
    """Returns the key of a result; a hash, so that no token is in our memory. Lengths keep parts apart."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode(errors="surrogatepass")).digest()
