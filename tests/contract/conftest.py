"""Contract tests: behaviours of an API server that Berth relies on, asked of the embedded one and of the real one.

Each test runs twice, unchanged: on the embedded server in `make test`, and, carrying the marker `cluster`, on a real
kube-apiserver in `make cluster-test`.

    server   where it is, and how to make it forget its history
    api      a client for it
    policies SchedulingPolicies are defined
    peerings ClusterKopfPeerings are
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest

from berth.sim.server import SimServer
from berth.sim.store import Store
from contract.asking import Server
from control_plane.cleaning import remove_everything
from control_plane.client import Client
from control_plane.launcher import ControlPlane
from control_plane.programs import MissingPrograms, find_programs
from support.crds import PEERINGS, POLICIES, crd

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="session")
def real_server() -> Iterator[ControlPlane]:
    try:
        programs = find_programs()
    except MissingPrograms as error:
        pytest.exit(f"control plane: {error}", returncode=2)
    with ControlPlane(programs) as plane:
        yield plane


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("real_server")
        yield Server(plane.url, plane.token, lambda: None)
        async with Client(plane.url, plane.token) as client:
            await remove_everything(client)
        return
    store = Store(lambda: datetime.now(UTC))
    embedded = SimServer(store)
    await embedded.start()
    yield Server(embedded.url, "", store.compact, embedded.accounts)
    await embedded.stop()


@pytest.fixture
async def api(server: Server) -> AsyncIterator[Client]:
    async with Client(server.url, server.token) as client:
        yield client


@pytest.fixture
async def policies(api: Client) -> None:
    """Defined once on the real server, where they stay."""
    await _define(api, POLICIES)


@pytest.fixture
async def peerings(api: Client) -> None:
    """The same."""
    await _define(api, PEERINGS)


async def _define(api: Client, name: str) -> None:
    if not await api.exists(f"{DEFINITIONS}/{name}"):
        await api.create(crd(name))
    await api.wait_until(DEFINITIONS, lambda found: _established(found[name]), timeout_seconds=30)


def _established(definition: dict[str, object]) -> bool:
    status = definition.get("status")
    conditions = status.get("conditions") or [] if isinstance(status, dict) else []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
