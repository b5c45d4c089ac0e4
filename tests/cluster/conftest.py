"""A server and a client connected to it, for every test of the edge."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from berth.cluster.api import Api, OpenTransport, open_transport
from berth.cluster.gate import WriteGate
from cluster.manual_clock import ManualClock
from cluster.server import Server, connected, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest.fixture
def transport() -> OpenTransport:
    """The usual one; a module that is about both has a fixture of this name that gives each in turn."""
    return open_transport


@pytest.fixture
async def api(server: Server, tmp_path: Path, transport: OpenTransport) -> AsyncIterator[Api]:
    async with connected(tmp_path, server, open_transport=transport) as api:
        yield api


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def gate(clock: ManualClock) -> AsyncIterator[WriteGate]:
    """Through which nobody but the test sends binds."""
    gate = WriteGate(clock)
    gate.start()
    yield gate
    await gate.stop()
