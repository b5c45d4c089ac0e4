"""A server with made-up reviews, and a client for it: what the tests of serving share."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from berth.scheduler.access_review import ReviewFailed, User
from berth.serving.addresses import ListenAddress
from berth.serving.certificates import Pair
from berth.serving.health import Alarm, Readiness
from berth.serving.loop_watchdog import LoopWatchdog
from berth.serving.pages import ServedState
from berth.serving.server import Server, ServingPlan

LOOPBACK = ListenAddress("127.0.0.1", 0)
GUARDED = ("/metrics", "/configz", "/log-level", "/debug/cache", "/debug/queue", "/nothing", "/", "/metrics/")
LIMIT_SECONDS = 60


@dataclass
class FakeReviews:
    """`tokens`: whose they are; `rights`: who may do what with which path. Everything that was asked is in `asked`."""

    tokens: Mapping[str, str] = field(default_factory=lambda: {"admin-token": "admin", "guest-token": "guest"})
    rights: Callable[[str, str, str], bool] = lambda name, verb, path: name == "admin"
    failing: str = ""
    asked: list[tuple[str, ...]] = field(default_factory=list)
    gate: asyncio.Event | None = None
    """Answers wait for it."""

    async def identify(self, token: str) -> User | None:
        self.asked.append(("identify", token))
        if self.gate is not None:
            await self.gate.wait()
        if self.failing == "identify":
            raise ReviewFailed("the API server is away")
        name = self.tokens.get(token)
        return None if name is None else User(name)

    async def allows(self, user: User, verb: str, path: str) -> bool:
        self.asked.append(("allows", user.name, verb, path))
        if self.failing == "allows":
            raise ReviewFailed("the API server is away")
        return self.rights(user.name, verb, path)


def no_lines() -> Iterator[str]:
    return iter(())


def make_state(**changed: Any) -> ServedState:
    shown: dict[str, Any] = {
        "readiness": lambda: Readiness({"Pod": "ok"}, True),
        "statistics": dict,
        "configuration": lambda: {"berth": {}},
        "cache_lines": no_lines,
        "queue_lines": no_lines,
        "alarms": {},
    }
    return ServedState(**(shown | changed))


@dataclass(frozen=True)
class RunningServer:
    """A server that runs; `get` and `send` go over HTTPS unless told otherwise."""

    server: Server
    reviews: FakeReviews
    session: aiohttp.ClientSession

    def url(self, path: str, *, plain: bool = False) -> str:
        if plain:
            return f"http://127.0.0.1:{self.server.http_port}{path}"
        return f"https://127.0.0.1:{self.server.https_port}{path}"

    async def send(
        self, method: str, path: str, token: str = "", *, plain: bool = False, data: bytes | None = None
    ) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.session.request(method, self.url(path, plain=plain), headers=headers, data=data) as answer:
            return answer.status, await answer.text()

    async def get(self, path: str, token: str = "", *, plain: bool = False) -> tuple[int, str]:
        return await self.send("GET", path, token, plain=plain)

    @property
    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = self.server.statistics()["counts"]
        return counts


@asynccontextmanager
async def serving(
    *,
    reviews: FakeReviews | None = None,
    alarms: Mapping[str, Alarm] | None = None,
    pair: Pair | None = None,
    debug: bool = False,
    watchdog: LoopWatchdog | None = None,
    **shown: Any,
) -> AsyncIterator[RunningServer]:
    """Over HTTPS and over plain HTTP."""
    reviews = reviews or FakeReviews()
    subject = make_state(alarms=alarms or {}, **shown)
    server = Server(ServingPlan(LOOPBACK, LOOPBACK, pair, debug), subject, reviews, watchdog or LoopWatchdog())
    await server.start()
    connector = aiohttp.TCPConnector(ssl=trusting(), force_close=True)
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            yield RunningServer(server, reviews, session)
    finally:
        await server.stop()


def trusting(ca: Path | None = None) -> ssl.SSLContext:
    """A client that takes any certificate, or those of `ca` only."""
    context = ssl.create_default_context(cafile=ca)
    if ca is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def until(condition: Callable[[], bool]) -> None:
    """Let both loops run until the condition holds; fails after a while rather than waiting for ever."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the condition is on state of another thread
            await asyncio.sleep(0.001)
