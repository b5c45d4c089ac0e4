"""The API with a made-up port, and a front proxy in front of it: what these tests share."""

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from berth.explain_api.endpoint import ExplainEndpoint
from berth.explain_api.front_proxy import FrontProxy, read_front_proxy
from berth.explain_api.requests import PREFIX
from berth.scheduler.access_review import ResourceReviews
from berth.serving.addresses import ListenAddress
from berth.serving.certificates import Pair
from berth.serving.loop_watchdog import LoopWatchdog
from berth.serving.server import Server, ServingPlan
from berth.serving.serving_certificate import SelfMadeCertificate
from explain_api.authority import Authority, make_authority
from explain_api.fakes import FakeExplanations, FakeReviews
from serving import harness as serving_harness

NAME = "front-proxy-client"
MASTERS = ("system:masters",)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

certificate = SelfMadeCertificate("localhost")
authority = make_authority()


def front_proxy_data(signer: Authority, *names: str) -> dict[str, str]:
    """What the API server publishes in ConfigMap extension-apiserver-authentication."""
    return {
        "client-ca-file": "",
        "requestheader-allowed-names": json.dumps(names),
        "requestheader-client-ca-file": signer.pem,
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class RunningApi:
    """The API, and clients of it: the front proxy, or others."""

    server: Server
    endpoint: ExplainEndpoint
    port: FakeExplanations
    reviews: FakeReviews
    folder: Path
    proxy: list[FrontProxy | None]
    """What is known of the front proxy: the last entry counts."""
    sessions: list[aiohttp.ClientSession] = field(default_factory=list)
    _session: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.endpoint.port}"

    def session(self, pair: Pair | None) -> aiohttp.ClientSession:
        """Of a client with this certificate."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        self.sessions.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)))
        return self.sessions[-1]

    async def get(
        self,
        path: str,
        *,
        user: str = "admin",
        groups: tuple[str, ...] = MASTERS,
        accept: str = "",
        method: str = "GET",
        session: aiohttp.ClientSession | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request as the front proxy does; a path without a slash in front is below the group's."""
        if session is None:
            session = self._session = self._session or self.session(authority.write_client(self.folder, NAME))
        sent = [("X-Remote-User", user), *(("X-Remote-Group", group) for group in groups)]
        sent += [*(headers or {}).items(), *([("Accept", accept)] if accept else [])]
        address = self.url + (path if path.startswith("/") else PREFIX + path)
        async with session.request(method, address, headers=sent) as answer:
            return Answer(answer.status, answer.headers, await answer.text())


@asynccontextmanager
async def running(
    folder: Path,
    port: FakeExplanations | None = None,
    reviews: FakeReviews | None = None,
    *,
    names: tuple[str, ...] = (NAME,),
    known: bool = True,
) -> AsyncIterator[RunningApi]:
    """`names`: common names of the front proxy's certificate; `known`: its authority is known."""
    port, reviews = port or FakeExplanations(), reviews or FakeReviews()
    proxy = [read_front_proxy(front_proxy_data(authority, *names)) if known else None]
    asked: ResourceReviews = reviews
    endpoint = ExplainEndpoint(ListenAddress("127.0.0.1", 0), port, asked, certificate, lambda: proxy[-1])
    server = Server(
        ServingPlan(),
        serving_harness.make_state(),
        serving_harness.FakeReviews(),
        LoopWatchdog(),
        endpoints=[endpoint],
    )
    await server.start()
    api = RunningApi(server, endpoint, port, reviews, folder, proxy)
    try:
        yield api
    finally:
        for session in api.sessions:
            await session.close()
        await server.stop()
