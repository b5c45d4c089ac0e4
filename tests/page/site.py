"""The page as a user has it: `berth ui` in front of the API, with a made-up cluster behind it.

browser --> Loopback (of berth ui) --> FrontProxyUpstream (the API server's part) --> ExplainApi --> FakeExplanations
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from yarl import URL

from berth.cluster.errors import Unreachable
from berth.scheduler.access_review import ResourceAccess, User
from berth.ui.loopback import PAGE, Loopback
from explain_api.fakes import FakeExplanations, FakeReviews
from explain_api.harness import NAME, RunningApi, authority, running


@dataclass
class FrontProxyUpstream:
    """Passes requests on as the API server does. `is_away`: nothing answers."""

    api: RunningApi
    session: aiohttp.ClientSession
    user: str = "admin"
    is_away: bool = False
    asked: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        self.asked.append(path)
        if self.is_away:
            raise Unreachable("the API server cannot be reached: connection refused")
        sent = [*headers.items(), ("X-Remote-User", self.user), ("X-Remote-Group", "people")]
        return await self.session.request(method, URL(self.api.url + path, encoded=True), headers=sent)


@dataclass
class Site:
    """The running page, and what tests change of the world behind it."""

    port: FakeExplanations
    reviews: FakeReviews
    upstream: FrontProxyUpstream
    loopback: Loopback

    @property
    def url(self) -> str:
        return self.loopback.url.rstrip("/") + PAGE

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.loopback.port}/"

    def may_not(self, *plurals: str, namespaced: bool = False) -> None:
        """From now on the user may not read these; with `namespaced` not in all namespaces, but in each."""

        def rights(_: User, access: ResourceAccess | str) -> bool:
            if isinstance(access, str) or access.resource not in plurals:
                return True
            return namespaced and bool(access.namespace)

        self.reviews.rights = rights


@asynccontextmanager
async def running_site(folder: Path) -> AsyncIterator[Site]:
    async with running(folder) as api:
        session = api.session(authority.write_client(folder, NAME))
        upstream = FrontProxyUpstream(api, session)
        loopback = Loopback(upstream)
        await loopback.start()
        try:
            yield Site(api.port, api.reviews, upstream, loopback)
        finally:
            await loopback.stop()
