"""Explanations as the chart installs them: its account, its roles, its Service, and replicas that come and go.

On a real API server that resolves Services by their EndpointSlices itself, as no proxy runs here. These must not have
loopback addresses, so the machine needs another one. The controller that aggregates roles does not run either, so that
`view` gets its rules here as that controller would give them.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart.applying import ACCOUNT, account_token, apply_in_two_steps, wait_allowed, write_kubeconfig
from control_plane.client import ApiError, Client, Object
from control_plane.launcher import ControlPlane
from control_plane.programs import MissingPrograms, find_programs
from control_plane.replicas import Replicas
from support.builders import make_node, make_pod

pytestmark = pytest.mark.cluster

API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.explain.berth.dev"
CLUSTER_VIEW = "/apis/explain.berth.dev/v1alpha1/clusterviews/current"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
TO_VIEW = "rbac.authorization.k8s.io/aggregate-to-view"
EXPLANATIONS = "explanations.explain.berth.dev"
SHOP, OTHER = "shop", "other"
VIEWER, NOBODY = "viewer", "nobody"
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
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the chart in it, and a cluster with a pod in each of two namespaces that fits nowhere."""
    if not own_address():
        pytest.skip("this machine has loopback addresses only")
    try:
        plane = ControlPlane(find_programs(), logs=tmp_path_factory.mktemp("control-plane"), routes_by_endpoints=True)
    except MissingPrograms as error:
        pytest.exit(f"control plane: {error}", returncode=2)
    with plane:
        apply_in_two_steps(plane, {})
        plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(things()))
        yield plane


def things() -> list[Object]:
    pods = [make_pod("big", namespace=SHOP, cpu="8"), make_pod("huge", namespace=OTHER, cpu="64")]
    for pod in pods:
        del pod["metadata"]["uid"], pod["status"]
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (SHOP, OTHER)]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": VIEWER, "namespace": SHOP},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": VIEWER}],
    }
    return [*namespaces, binding, *pods]


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(plane.url, plane.token) as client:
        yield client


@pytest.fixture(autouse=True)
async def empty_cluster() -> None:
    """This module has a cluster of its own, which goes with it."""


def replicas_of(plane: ControlPlane, folder: Path, count: int) -> Replicas:
    """Replicas with the chart's account, which advertise this machine's address."""
    token = account_token(plane, ACCOUNT)

    def kubeconfig(number: int, port: int) -> Path:
        return write_kubeconfig(folder / f"{number}.kubeconfig", f"https://127.0.0.1:{port}", token)

    arguments = [
        "--explain-address=0.0.0.0:0",
        "--explain-service=berth-system/berth-explain",
        f"--advertise-address={own_address()}",
    ]
    seconds = LIFETIME_SECONDS
    return Replicas(plane, folder, count=count, lifetime_seconds=seconds, kubeconfig=kubeconfig, arguments=arguments)


# --- who sees what ---------------------------------------------------------------------------------------------------


async def test_kubectl_answers_everybody_as_far_as_the_charts_roles_allow(
    plane: ControlPlane, client: Client, tmp_path: Path
) -> None:
    await client.create(make_node("small", cpu="1"))
    await aggregate_to_view(client)
    with replicas_of(plane, tmp_path, 1) as replicas:
        await answered(client, time.monotonic() + WAIT_SECONDS)
        await wait_listed(plane)
        await asyncio.to_thread(wait_allowed, plane, VIEWER, "list", EXPLANATIONS, "-n", SHOP)
        await asyncio.to_thread(check_administrator, plane)
        await asyncio.to_thread(check_viewer, plane)
        await asyncio.to_thread(check_nobody, plane)
        waiting = ("wait", "why/big", "-n", SHOP, "--for=jsonpath={.status.state}=Bound", "--timeout=60s")
        waited = asyncio.create_task(asyncio.to_thread(plane.kubectl, *waiting, f"--as={VIEWER}"))
        await client.create(make_node("large", cpu="16"))
        assert "condition met" in (await waited).stdout
        await asyncio.to_thread(replicas.finish)


async def aggregate_to_view(client: Client) -> None:
    """Gives `view` the rules of the roles that are labelled for it, as the controller of the control plane does."""
    roles = await client.list(ROLES)
    labelled = [role for role in roles if role["metadata"].get("labels", {}).get(TO_VIEW) == "true"]
    assert "berth-explain-view" in [role["metadata"]["name"] for role in labelled]
    await client.patch(f"{ROLES}/view", {"rules": [rule for role in labelled for rule in role["rules"]]})


async def wait_listed(plane: ControlPlane) -> None:
    """Until both pods have been tried."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            done = await asyncio.to_thread(plane.kubectl, "get", "why", "-A", check=False)
            if done.stdout.count("InsufficientResource") == 2:
                return
            await asyncio.sleep(0.2)


def check_administrator(plane: ControlPlane) -> None:
    table = plane.kubectl("get", "why", "-n", SHOP).stdout.splitlines()
    assert table[0].split() == ["NAME", "STATE", "REASON", "SINCE", "ATTEMPTS", "NEXT"]
    assert table[1].split()[:3] == ["big", "Unschedulable", "InsufficientResource"]
    assert "1 Insufficient cpu" in plane.kubectl("get", "why", "big", "-n", SHOP, "-o", "wide").stdout
    assert "Outlook:" in plane.kubectl("describe", "why", "big", "-n", SHOP).stdout
    body = yaml.safe_load(plane.kubectl("get", "why", "big", "-n", SHOP, "-o", "yaml").stdout)
    assert (body["kind"], body["status"]["prospect"]["outlook"]) == ("Explanation", "Never")
    assert plane.kubectl("get", "nodeviews", "-o", "name").stdout == "nodeview.explain.berth.dev/small\n"


def check_viewer(plane: ControlPlane) -> None:
    own = plane.kubectl("get", "why", "-n", SHOP, f"--as={VIEWER}").stdout
    assert "big" in own
    assert "Outlook:" in plane.kubectl("describe", "why", "big", "-n", SHOP, f"--as={VIEWER}").stdout
    assert "kind: Explanation" in plane.kubectl("get", "why", "big", "-n", SHOP, "-o", "yaml", f"--as={VIEWER}").stdout
    for what in (("why", "-n", OTHER), ("why", "huge", "-n", OTHER), ("why", "-A"), ("nodeviews",), ("clusterviews",)):
        check_refused(plane, VIEWER, *what)


def check_nobody(plane: ControlPlane) -> None:
    for what in (("why", "-n", SHOP), ("why", "big", "-n", SHOP), ("decisions", "-A"), ("clusterviews",)):
        check_refused(plane, NOBODY, *what)


def check_refused(plane: ControlPlane, user: str, *what: str) -> None:
    refused = plane.kubectl("get", *what, f"--as={user}", check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Forbidden" in refused.stderr


# --- replicas that come and go ---------------------------------------------------------------------------------------


async def test_explanations_are_available_again_within_ten_seconds_after_the_leader_is_killed(
    plane: ControlPlane, client: Client, tmp_path: Path
) -> None:
    with replicas_of(plane, tmp_path, 2) as replicas:
        leader = await asyncio.to_thread(replicas.wait_leader)
        first = await answered(client, time.monotonic() + WAIT_SECONDS)
        assert first["status"]["leads"] is True

        killed = time.monotonic()
        await asyncio.to_thread(leader.kill)
        again = await answered(client, killed + WAIT_SECONDS)
        seconds = time.monotonic() - killed
        assert again["status"]["leads"] is True
        await wait_available(client, killed + WAIT_SECONDS)
        available_seconds = time.monotonic() - killed
        print(f"\nanswered again after {seconds:.1f} s, APIService available after {available_seconds:.1f} s")
        assert available_seconds < AGAIN_SECONDS
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


async def wait_available(client: Client, deadline: float) -> None:
    """Until the API server itself says that the API is available."""
    while time.monotonic() < deadline:
        status = (await client.get(API_SERVICE)).get("status", {})
        if any(one["type"] == "Available" and one["status"] == "True" for one in status.get("conditions", [])):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the APIService is not available")
