"""kubectl get why: explanations through the API server, with the rights of whoever asks."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest

from berth.cluster.credentials import Credentials, Source
from berth.ui.loopback import Loopback
from berth.ui.opening import check_page
from berth.ui.upstream import UserUpstream
from control_plane.client import Client
from end_to_end.explained import (
    GROUP,
    OTHER,
    SHOP,
    WAIT_SECONDS,
    World,
    explained_world,
    make_viewer,
    pod,
    wait_explained,
)
from end_to_end.watching import Plane, StartBerth
from support.builders import make_node


@pytest.fixture
async def world(control_plane: Plane, api: Client, berth_process: StartBerth) -> AsyncIterator[World]:
    async with explained_world(control_plane, api, berth_process) as world:
        yield world


# --- kubectl ---------------------------------------------------------------------------------------------------------


async def test_kubectl_lists_describes_and_shows_explanations(world: World) -> None:
    table = await asyncio.to_thread(world.kubectl, "get", "why", "-n", SHOP)
    heading, row = table.stdout.splitlines()
    assert heading.split() == ["NAME", "STATE", "REASON", "SINCE", "ATTEMPTS", "NEXT"]
    assert row.split()[:3] == ["big", "Unschedulable", "InsufficientResource"]
    assert "tried when the cluster changes" in row

    wide = await asyncio.to_thread(world.kubectl, "get", "why", "big", "-n", SHOP, "-o", "wide")
    assert "0/1 nodes are available: 1 Insufficient cpu." in wide.stdout
    everywhere = await asyncio.to_thread(world.kubectl, "get", "explanations", "-A")
    assert [line.split()[:2] for line in everywhere.stdout.splitlines()[1:]] == [[OTHER, "huge"], [SHOP, "big"]]
    chosen = await asyncio.to_thread(world.kubectl, "get", "why", "-A", "-l", "app=big", "-o", "name")
    assert chosen.stdout.split() == ["explanation.explain.berth.dev/big"]

    described = (await asyncio.to_thread(world.kubectl, "describe", "why", "big", "-n", SHOP)).stdout
    assert "Outlook:" in described
    assert "InsufficientResource" in described
    yaml = (await asyncio.to_thread(world.kubectl, "get", "why", "big", "-n", SHOP, "-o", "yaml")).stdout
    assert "kind: Explanation" in yaml
    assert "outlook: Never" in yaml


async def test_kubectl_explains_the_fields(world: World) -> None:
    async def explain() -> str:
        said = await asyncio.to_thread(world.kubectl, "explain", "why.status.prospect", check=False)
        return said.stdout

    async with asyncio.timeout(WAIT_SECONDS):
        while "outlook" not in await explain():  # noqa: ASYNC110 - the API server reads it a moment later
            await asyncio.sleep(1)


async def test_kubectl_shows_nodes_the_cluster_and_decisions(world: World) -> None:
    await world.api.create(pod("web", SHOP, cpu="500m"))
    await wait_explained(world.api, SHOP, "web", "Bound")
    nodes = (await asyncio.to_thread(world.kubectl, "get", "nodeviews")).stdout
    assert nodes.splitlines()[1].split()[0] == "small"
    assert "(50%)" in nodes
    cluster = (await asyncio.to_thread(world.kubectl, "get", "clusterview", "current", "-o", "wide")).stdout
    assert "Unschedulable: 2" in cluster
    decisions = (await asyncio.to_thread(world.kubectl, "get", "decisions", "-n", SHOP)).stdout
    assert decisions.splitlines()[1].split()[1:3] == ["web", "small"]


async def test_kubectl_waits_for_a_pod_to_be_placed(world: World) -> None:
    waiting = asyncio.create_task(
        asyncio.to_thread(
            world.kubectl,
            *("wait", "why/big", "-n", SHOP, "--for=jsonpath={.status.state}=Bound", f"--timeout={WAIT_SECONDS:.0f}s"),
        )
    )
    await asyncio.sleep(0.5)  # it may begin before or after: both have to do
    await world.api.create(make_node("large", cpu="16"))
    assert "condition met" in (await waiting).stdout


async def test_kubectl_waits_for_a_pod_that_is_placed_already(world: World) -> None:
    await world.api.create(make_node("large", cpu="16"))
    await wait_explained(world.api, SHOP, "big", "Bound")
    arguments = ("wait", "why/big", "-n", SHOP, "--for=jsonpath={.status.state}=Bound", "--timeout=30s")
    assert "condition met" in (await asyncio.to_thread(world.kubectl, *arguments)).stdout


# --- who may see it --------------------------------------------------------------------------------------------------


async def test_who_may_view_a_namespace_sees_its_explanations_and_no_others(world: World) -> None:
    user = await make_viewer(world, "viewer", SHOP)
    own = await asyncio.to_thread(world.kubectl, "get", "why", "-n", SHOP, user=user)
    assert "big" in own.stdout
    described = await asyncio.to_thread(world.kubectl, "describe", "why", "big", "-n", SHOP, user=user)
    assert "InsufficientResource" in described.stdout
    for arguments in (
        ("get", "why", "-n", OTHER),
        ("get", "why", "huge", "-n", OTHER),
        ("get", "why", "-A"),
        ("get", "nodeviews"),
        ("get", "clusterview", "current"),
    ):
        refused = await asyncio.to_thread(world.kubectl, *arguments, user=user, check=False)
        assert refused.returncode != 0
        assert "Forbidden" in refused.stderr
        assert "huge" not in refused.stdout


async def test_without_rights_nothing_is_seen(world: World) -> None:
    for arguments in (("get", "why", "-n", SHOP), ("describe", "why", "big", "-n", SHOP), ("get", "decisions", "-A")):
        refused = await asyncio.to_thread(world.kubectl, *arguments, user="nobody", check=False)
        assert refused.returncode != 0
        assert "Forbidden" in refused.stderr


async def test_forged_headers_without_the_front_proxys_certificate_are_refused(world: World) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    forged = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        for path in (f"{GROUP}/explanations", "/apis", f"{GROUP}/nodeviews/small"):
            async with session.get(f"https://127.0.0.1:{world.port}{path}", headers=forged) as answer:
                assert answer.status == 401
                assert json.loads(await answer.text())["reason"] == "Unauthorized"
    # Nor does the API server pass such headers on from its own clients.
    headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters", "Impersonate-User": "nobody"}
    async with world.api.session.get(f"{GROUP}/namespaces/{SHOP}/explanations", headers=headers) as answer:
        assert answer.status == 403


# --- the page --------------------------------------------------------------------------------------------------------


async def test_the_page_is_served_below_the_api(world: World) -> None:
    async with world.api.session.get(f"{GROUP}/ui/") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        known = {"If-None-Match": answer.headers["ETag"]}
    async with world.api.session.get(f"{GROUP}/ui/", headers=known) as answer:
        assert answer.status == 304
    async with world.api.session.get(f"{GROUP}/ui") as answer:
        assert answer.status == 200
        assert "url=ui/" in await answer.text()
    async with world.api.session.get(f"{GROUP}/ui/", headers={"Impersonate-User": "nobody"}) as answer:
        assert answer.status == 403


async def test_berth_ui_shows_the_page_with_the_credentials_of_the_user(world: World) -> None:
    upstream = UserUpstream(Credentials(Source(str(world.plane.kubeconfig))))
    loopback = Loopback(upstream)
    await upstream.open()
    await loopback.start()
    try:
        await check_page(upstream)
        async with aiohttp.ClientSession() as session:
            async with session.get(loopback.url) as answer:
                assert "<title>Berth</title>" in await answer.text()
            async with session.get(f"{loopback.url.rstrip('/')}{GROUP}/namespaces/{SHOP}/explanations/big") as answer:
                assert (await answer.json())["status"]["state"] == "Unschedulable"
    finally:
        await loopback.stop()
        await upstream.close()
