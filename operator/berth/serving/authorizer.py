"""Authentication and authorization: a bearer token that the API server knows, whose user may do this with that path.

    no token, or not a valid one ........................ 401, without a review
    TokenReview says no, fails, or takes too long ....... 401
    SubjectAccessReview says no, fails, takes too long .. 403
    both say yes ........................................ the user

Results, positive and negative, are cached for ten seconds; failures are not. Equal requests at the same time share one
review, and the number of reviews at once is limited. So a client that tries tokens can neither fill our memory nor
flood the API server. Tokens themselves are not stored: results are found by a hash.
"""

import asyncio
import hashlib
import logging
import re
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from berth.scheduler.access_review import ReviewFailed, Reviews, User
from berth.serving.bridge import Bridge, BridgeTimeout

CACHE_SECONDS = 10.0
CACHE_SIZE = 1000
REVIEWS_AT_ONCE = 16
REVIEW_SECONDS = 10.0
LONGEST_TOKEN = 8000
_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9\-._~+/]+=*) *")

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class AccessDenied:
    """401 or 403, with the text of the response."""

    status: int
    text: str


class Authorizer:
    """Reviews requests. Lives in the serving loop; `reviews` are called over the bridge."""

    def __init__(self, reviews: Reviews, bridge: Bridge, now: Callable[[], float]) -> None:
        self._reviews = reviews
        self._bridge = bridge
        self._identities: _ReviewCache[User | None] = _ReviewCache(now)
        self._rights: _ReviewCache[bool] = _ReviewCache(now)
        self._slots = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._counts: Counter[str] = Counter()

    async def admit(self, authorization: str, verb: str, path: str) -> User | AccessDenied:
        """Returns the user, or why access is denied; `authorization` is the header's value, "" for none."""
        outcome = await self._judge(authorization, verb, path)
        self._counts["admitted" if isinstance(outcome, User) else str(outcome.status)] += 1
        return outcome

    async def _judge(self, authorization: str, verb: str, path: str) -> User | AccessDenied:
        token = read_token(authorization)
        if token is None:
            return AccessDenied(401, "a bearer token is needed")
        try:
            user = await self._identify(token)
        except ReviewFailed as error:
            return self._fail(AccessDenied(401, "the token could not be reviewed"), error)
        if user is None:
            return AccessDenied(401, "the token is not valid")
        try:
            allowed = await self._is_allowed(token, user, verb, path)
        except ReviewFailed as error:
            return self._fail(AccessDenied(403, "the right could not be reviewed"), error)
        return user if allowed else AccessDenied(403, f'{user.name} may not "{verb}" this path')

    async def _identify(self, token: str) -> User | None:
        return await self._identities.get(_digest(token), lambda: self._ask(lambda: self._reviews.identify(token)))

    async def _is_allowed(self, token: str, user: User, verb: str, path: str) -> bool:
        key = _digest(token, verb, path)
        return await self._rights.get(key, lambda: self._ask(lambda: self._reviews.allows(user, verb, path)))

    async def _ask(self, review: Callable[[], Awaitable[Answer]]) -> Answer:
        async def ask() -> Answer:
            return await review()

        async with self._slots:
            self._counts["reviews"] += 1
            try:
                return await self._bridge.run(ask, REVIEW_SECONDS)
            except BridgeTimeout:
                raise ReviewFailed("no answer in time") from None
            except ReviewFailed:
                raise
            except Exception as error:
                raise ReviewFailed(f"{type(error).__name__}: {error}") from error

    def _fail(self, refusal: AccessDenied, error: ReviewFailed) -> AccessDenied:
        self._counts["failed"] += 1
        _log.debug("%s: %s", refusal.text, error)
        return refusal

    def statistics(self) -> dict[str, int]:
        """Returns the requests by outcome, the reviews, and the size of the cache."""
        return {"kept": len(self._identities) + len(self._rights), **self._counts}


class _ReviewCache(Generic[Answer]):
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


def read_token(authorization: str) -> str | None:
    """Returns the bearer token of an Authorization header; None if it is missing or invalid."""
    match = _BEARER.fullmatch(authorization)
    return match[1] if match and len(match[1]) <= LONGEST_TOKEN else None


def _digest(*parts: str) -> bytes:
    """Returns the key of a result; a hash, so that no token is in our memory. Lengths keep parts apart."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode(errors="surrogatepass")).digest()
