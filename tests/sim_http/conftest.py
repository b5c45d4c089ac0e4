"""An embedded server for a test, with its store, a client, and Berth's custom resources defined."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from berth.sim.resources import CRDS
from berth.sim.server import SimServer
from berth.sim.store import Store
from control_plane.client import Client
from support.crds import crds


@pytest.fixture
def store() -> Store:
    store = Store(lambda: datetime.now(UTC))
    for definition in crds():
        store.create(CRDS, definition)
    return store


@pytest.fixture
async def server(store: Store) -> AsyncIterator[SimServer]:
    server = SimServer(store)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def api(server: SimServer) -> AsyncIterator[Client]:
    async with Client(server.url, "") as client:
        yield client
