"""Explanations while replicas come and go: requests are passed on to the leader, and to the next one when it dies.

On a real API server that resolves Services by their EndpointSlices itself, as no proxy runs here. These must not have
loopback addresses, so the machine needs another one.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from chart.rendering import NAMESPACE, render
from control_plane.client import ApiError, Client, Object
from control_plane.launcher import ControlPlane
from control_plane.programs import MissingPrograms, find_programs
from control_plane.replicas import Replicas
from end_to_end.conftest import CRDS

pytestmark = pytest.mark.cluster

CLUSTER_VIEW = "/apis/explain.berth.dev/v1alpha1/clusterviews/current"
WAIT_SECONDS = 120.0
LIFETIME_SECONDS = 5
AGAIN_SECONDS = 10.0


def own_address() -> str:
    """One of this machine's addresses by which it reaches others; "" if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.99", 9))  # sends nothing
        except OSError:
            return ""
        address = str(probe.getsockname()[0])
    return "" if address.startswith("127.") else address


@pytest.fixture(scope="module")
def routing_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    if not own_address():
        pytest.skip("this machine has loopback addresses only")
    try:
        plane = ControlPlane(find_programs(), logs=tmp_path_factory.mktemp("control-plane"), routes_by_endpoints=True)
    except MissingPrograms as error:
        pytest.exit(f"control plane: {error}", returncode=2)
    with plane:
        plane.apply_crds(CRDS)
        yield plane


@pytest.fixture
async def client(routing_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(routing_plane.url, routing_plane.token) as client:
        yield client


@pytest.fixture(autouse=True)
async def empty_cluster() -> None:
    """This module has a cluster of its own, which goes with it."""


async def test_explanations_are_available_again_within_ten_seconds_after_the_leader_is_killed(
    routing_plane: ControlPlane, client: Client, tmp_path: Path
) -> None:
    chart = render()
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    kinds = ("APIService", "EndpointSlice", "ClusterKopfPeering")
    for manifest in [*(chart.one(kind) for kind in kinds), chart.one("Service", "berth-explain")]:
        await client.create(manifest)
    arguments = [
        "--explain-address=0.0.0.0:0",
        f"--explain-service={NAMESPACE}/berth-explain",
        f"--advertise-address={own_address()}",
    ]
    with Replicas(routing_plane, tmp_path, count=2, lifetime_seconds=LIFETIME_SECONDS, arguments=arguments) as replicas:
        leader = await asyncio.to_thread(replicas.wait_leader)
        first = await answered(client, time.monotonic() + WAIT_SECONDS)
        assert first["status"]["leads"] is True

        killed = time.monotonic()
        await asyncio.to_thread(leader.kill)
        again = await answered(client, killed + WAIT_SECONDS)
        seconds = time.monotonic() - killed
        assert again["status"]["leads"] is True
        print(f"explanations were away for {seconds:.1f} s")
        assert seconds < AGAIN_SECONDS
        await asyncio.to_thread(replicas.finish)


async def answered(client: Client, deadline: float) -> Object:
    """Returns the first answer, asking again and again."""
    problem: Any = None
    while time.monotonic() < deadline:
        try:
            return await client.get(CLUSTER_VIEW)
        except (ApiError, OSError) as error:
            problem = error
        await asyncio.sleep(0.1)
    raise AssertionError(f"nobody explains anything: {problem}")
