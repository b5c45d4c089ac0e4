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
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from berth.scheduler.access_review import ReviewFailed, Reviews, User
from berth.serving.bridge import Bridge
from berth.serving.review_cache import ReviewCache, ask_over, digest

REVIEWS_AT_ONCE = 16
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
        self._identities: ReviewCache[User | None] = ReviewCache(now)
        self._rights: ReviewCache[bool] = ReviewCache(now)
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
        return await self._identities.get(digest(token), lambda: self._ask(lambda: self._reviews.identify(token)))

    async def _is_allowed(self, token: str, user: User, verb: str, path: str) -> bool:
        key = digest(token, verb, path)
        return await self._rights.get(key, lambda: self._ask(lambda: self._reviews.allows(user, verb, path)))

    async def _ask(self, review: Callable[[], Awaitable[Answer]]) -> Answer:
        async with self._slots:
            self._counts["reviews"] += 1
            return await ask_over(self._bridge, review)

    def _fail(self, refusal: AccessDenied, error: ReviewFailed) -> AccessDenied:
        self._counts["failed"] += 1
        _log.debug("%s: %s", refusal.text, error)
        return refusal

    def statistics(self) -> dict[str, int]:
        """Returns the requests by outcome, the reviews, and the size of the cache."""
        return {"cached": len(self._identities) + len(self._rights), **self._counts}


def read_token(authorization: str) -> str | None:
    """Returns the bearer token of an Authorization header; None if it is missing or invalid."""
    match = _BEARER.fullmatch(authorization)
    return match[1] if match and len(match[1]) <= LONGEST_TOKEN else None
