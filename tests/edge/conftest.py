"""A server and a client connected to it, for every test of the edge."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from berth.cluster.api import Api
from edge.manual_clock import ManualClock
from edge.server import Server, connected, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest.fixture
async def api(server: Server, tmp_path: Path) -> AsyncIterator[Api]:
    async with connected(tmp_path, server) as api:
        yield api


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
