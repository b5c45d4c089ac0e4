"""Who is let in: a bearer token that the API server knows, whose owner may do this with that path.

    no token, or nothing that could be one ............. 401, and nobody is asked
    TokenReview says no, fails, or takes too long ....... 401
    SubjectAccessReview says no, fails, takes too long .. 403
    both say yes ....................................... the user

Answers, yes and no alike, are kept for ten seconds; failures are not kept. Requests that want to know the same at the
same time share one review, and only so many reviews are on their way at once: whoever tries tokens can neither fill our
memory nor send more than that to the API server. Tokens themselves are not kept: an answer is found by the hash of what
was asked.
"""

import asyncio
import hashlib
import logging
import re
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from berth.scheduler.access import ReviewFailed, Reviews, User
from berth.serving.bridge import Bridge, Stuck

KEPT_SECONDS = 10.0
KEPT = 1000
REVIEWS_AT_ONCE = 16
REVIEW_SECONDS = 10.0
LONGEST_TOKEN = 8000
_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9\-._~+/]+=*) *")

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Refusal:
    """401 or 403, and what to say."""

    status: int
    text: str


class Gate:
    """Lives in the serving loop; `reviews` are asked over the bridge."""

    def __init__(self, reviews: Reviews, bridge: Bridge, now: Callable[[], float]) -> None:
        self._reviews = reviews
        self._bridge = bridge
        self._identities: _Answers[User | None] = _Answers(now)
        self._rights: _Answers[bool] = _Answers(now)
        self._slots = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._counts: Counter[str] = Counter()

    async def admit(self, authorization: str, verb: str, path: str) -> User | Refusal:
        """Who asks, if they may; `authorization` is the header's value, "" for none."""
        outcome = await self._judge(authorization, verb, path)
        self._counts["admitted" if isinstance(outcome, User) else str(outcome.status)] += 1
        return outcome

    async def _judge(self, authorization: str, verb: str, path: str) -> User | Refusal:
        token = read_token(authorization)
        if token is None:
            return Refusal(401, "a bearer token is needed")
        try:
            user = await self._identify(token)
        except ReviewFailed as error:
            return self._fail(Refusal(401, "the token could not be reviewed"), error)
        if user is None:
            return Refusal(401, "the token is not valid")
        try:
            allowed = await self._is_allowed(token, user, verb, path)
        except ReviewFailed as error:
            return self._fail(Refusal(403, "the right could not be reviewed"), error)
        return user if allowed else Refusal(403, f'{user.name} may not "{verb}" this path')

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
            except Stuck:
                raise ReviewFailed("no answer in time") from None
            except ReviewFailed:
                raise
            except Exception as error:
                raise ReviewFailed(f"{type(error).__name__}: {error}") from error

    def _fail(self, refusal: Refusal, error: ReviewFailed) -> Refusal:
        self._counts["failed"] += 1
        _log.debug("%s: %s", refusal.text, error)
        return refusal

    def statistics(self) -> dict[str, int]:
        """Who was let in and who was not, and what was asked of the API server for it."""
        return {"kept": len(self._identities) + len(self._rights), **self._counts}


class _Answers(Generic[Answer]):
    """Answers that are kept for a while, so many at most, and asked for once at a time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: OrderedDict[bytes, tuple[float, Answer]] = OrderedDict()
        self._asked: dict[bytes, asyncio.Task[Answer]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: bytes, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        self._drop_old()
        if key in self._kept:
            return self._kept[key][1]
        if key not in self._asked:
            task = asyncio.create_task(self._find_out(key, ask))
            # Whoever waits for it may have gone: then nobody else reads the error.
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            self._asked[key] = task
        # A client that goes away ends its own waiting, not that of the others.
        return await asyncio.shield(self._asked[key])

    async def _find_out(self, key: bytes, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            answer = await ask()
        finally:
            del self._asked[key]
        self._kept[key] = (self._now() + KEPT_SECONDS, answer)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return answer

    def _drop_old(self) -> None:
        """They are in the order of their ends."""
        now = self._now()
        while self._kept:
            key, (end_seconds, _) = next(iter(self._kept.items()))
            if end_seconds > now:
                return
            del self._kept[key]


def read_token(authorization: str) -> str | None:
    """The bearer token of an Authorization header; None where there is none, or what is there cannot be one."""
    match = _BEARER.fullmatch(authorization)
    return match[1] if match and len(match[1]) <= LONGEST_TOKEN else None


def _digest(*parts: str) -> bytes:
    """What is asked, so that nobody can read it out of our memory; lengths keep parts apart."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode(errors="surrogatepass")).digest()
