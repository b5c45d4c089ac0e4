"""The actors' world: an API server, a client for the test, and a way to have actors act in it.

    server      where the API server is: the embedded one, or a real one in tests that carry the marker `cluster`
    client      what the test itself reads and writes with
    act         call it with an actor: it acts until the test ends

Time is real here, but no test waits for it: delays are set to almost nothing, and tests wait for what they expect.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from berth.cluster.clock import RealClock
from berth.sim.actors import Controller, HttpApi
from berth.sim.server import SimServer
from berth.sim.store import Store
from control_plane.cleaning import remove_everything
from control_plane.client import Client
from control_plane.launcher import ControlPlane
from control_plane.process import unverified_tls

SERVERS = ("embedded", pytest.param("real", marks=pytest.mark.cluster))
LEFT_OVER = (
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/daemonsets",
    "/apis/apps/v1/namespaces/default/controllerrevisions",
    "/apis/batch/v1/namespaces/default/cronjobs",
    "/apis/batch/v1/namespaces/default/jobs",
)


@dataclass(frozen=True)
class Address:
    url: str
    token: str
    tls: ssl.SSLContext | None = None


Act = Callable[[Controller], Controller]


@pytest.fixture(scope="session")
def real() -> Iterator[ControlPlane]:
    with ControlPlane() as control_plane:
        yield control_plane


@pytest.fixture(params=SERVERS)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Address]:
    async with _real(request) if request.param == "real" else _embedded() as address:
        yield address


@asynccontextmanager
async def _embedded() -> AsyncIterator[Address]:
    server = SimServer(Store(lambda: datetime.now(UTC)), token="secret")
    await server.start()
    try:
        yield Address(server.url, "secret")
    finally:
        await server.stop()


@asynccontextmanager
async def _real(request: pytest.FixtureRequest) -> AsyncIterator[Address]:
    control_plane: ControlPlane = request.getfixturevalue("real")
    yield Address(control_plane.url, control_plane.token, unverified_tls())
    async with Client(control_plane.url, control_plane.token) as client:
        for path in LEFT_OVER:
            await client.request("DELETE", path, {"propagationPolicy": "Background"})
        await remove_everything(client)


@pytest.fixture
async def client(server: Address) -> AsyncIterator[Client]:
    async with Client(server.url, server.token) as client:
        yield client


@pytest.fixture
async def api(server: Address) -> AsyncIterator[HttpApi]:
    async with HttpApi(server.url, token=server.token, tls=server.tls) as api:
        yield api


@pytest.fixture
def clock() -> RealClock:
    return RealClock()


@pytest.fixture
async def act(api: HttpApi) -> AsyncIterator[Act]:
    """After `api`, so that the actors are gone before their connections are."""
    running: list[tuple[Controller, asyncio.Task[None]]] = []

    def start(actor: Controller) -> Controller:
        running.append((actor, asyncio.create_task(actor.run())))
        return actor

    yield start
    for actor, task in running:
        await actor.stop()
        await task
