"""The embedded server as a server: faults on the wire, credentials, outages, initial events, what it does not serve."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from berth.sim.faults import CutAfter, CutBefore, Delay, Double, DropWatch, Expire, Fail, Faults, Rule, StaleList
from berth.sim.resources import PODS
from berth.sim.server import SimServer
from berth.sim.store import Store
from contract.asking import plain, refused
from contract.kubectl_session import DEPLOYMENT
from control_plane.client import ApiError, Client, Events
from support.builders import make_pod

EVERYWHERE = "/api/v1/pods"
DEFAULT = "/api/v1/namespaces/default/pods"
WRITES = frozenset({"create"})
LIMIT_SECONDS = 60


@asynccontextmanager
async def serving(store: Store, *rules: Rule) -> AsyncIterator[tuple[SimServer, Client]]:
    server = SimServer(store, faults=Faults(rules))
    await server.start()
    try:
        async with Client(server.url, "") as client:
            yield server, client
    finally:
        await server.stop()


async def watchers(server: SimServer, count: int) -> None:
    """Wait until so many watches are open."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while server.statistics()["watches"] != count:  # noqa: ASYNC110 - the server is not asked to tell anybody
            await asyncio.sleep(0.001)


async def collect(api: Client, version: str, **parameters: str) -> Events:
    """All events until the watch ends."""
    async with asyncio.timeout(LIMIT_SECONDS):
        return [event async for batch in api.watch(EVERYWHERE, version, **parameters) for event in batch]


# -- life -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_is_accepted_while_the_server_stops_is_closed(store: Store, turns: int) -> None:
    server = SimServer(store)
    await server.start()
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    clients = [socket.create_connection((host, int(port))) for _ in range(4)]
    for _ in range(turns):
        await asyncio.sleep(0)
    await server.stop()
    try:
        for client in clients:
            client.settimeout(LIMIT_SECONDS)
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
    finally:
        for client in clients:
            client.close()
        gc.collect()  # a transport that nobody closed is a warning here, and so an error


# -- faults ---------------------------------------------------------------------------------------------------------


async def test_a_failure_carries_nothing_out_and_says_when_to_come_back(store: Store) -> None:
    async with serving(store, Rule(Fail(429, retry_after=3), verbs=WRITES, limit=1)) as (server, api):
        async with api.session.post(DEFAULT, data=orjson.dumps(plain(make_pod("web")))) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
            assert (await answer.json())["reason"] == "TooManyRequests"
        assert await api.list(EVERYWHERE) == []
        assert server.faults is not None
        assert server.faults.statistics() == {"Fail": 1}


async def test_a_connection_cut_before_leaves_no_trace(store: Store) -> None:
    async with serving(store, Rule(CutBefore(), verbs=WRITES, limit=1)) as (_, api):
        with pytest.raises(aiohttp.ClientConnectionError):
            await api.request("POST", DEFAULT, plain(make_pod("web")))
        assert await api.list(EVERYWHERE) == []


async def test_a_connection_cut_after_has_done_the_work(store: Store) -> None:
    async with serving(store, Rule(CutAfter(), verbs=WRITES, limit=1)) as (_, api):
        with pytest.raises(aiohttp.ClientConnectionError):
            await api.request("POST", DEFAULT, plain(make_pod("web")))
        assert [pod["metadata"]["name"] for pod in await api.list(EVERYWHERE)] == ["web"]


async def test_a_delay_carries_it_out_later(store: Store) -> None:
    async with serving(store, Rule(Delay(0.01), verbs=WRITES)) as (_, api):
        await api.request("POST", DEFAULT, plain(make_pod("web")))
        assert len(await api.list(EVERYWHERE)) == 1


async def test_a_stale_list_shows_the_world_as_it_was(store: Store) -> None:
    async with serving(store, Rule(StaleList(1), verbs=frozenset({"list"}), limit=1)) as (_, api):
        await api.create(plain(make_pod("a")))
        await api.create(plain(make_pod("b")))
        stale, version = await api.list_with_version(EVERYWHERE)
        assert [pod["metadata"]["name"] for pod in stale] == ["a"]
        assert int(version) < store.revision
        assert len(await api.list(EVERYWHERE)) == 2


async def test_an_expired_kind_is_told_410_once_and_then_watched_on(store: Store) -> None:
    async with serving(store, Rule(Expire(0.001), limit=1)) as (_, api):
        _, version = await api.list_with_version(EVERYWHERE)
        await collect(api, version, timeoutSeconds="1")  # draws when it will be due: within a thousandth
        with pytest.raises(ApiError, match="too old resource version") as caught:
            await collect(api, version, timeoutSeconds="1")
        assert caught.value.status == 410
        assert await collect(api, version, timeoutSeconds="1") == []


async def test_a_dropped_watch_breaks_in_the_middle(store: Store) -> None:
    async with serving(store, Rule(DropWatch(0.05, 0.05))) as (_, api):
        _, version = await api.list_with_version(EVERYWHERE)
        await api.create(plain(make_pod("web")))
        with pytest.raises(aiohttp.ClientPayloadError):
            await collect(api, version)


async def test_a_doubled_event_arrives_twice(store: Store) -> None:
    async with serving(store, Rule(Double(0.0, 0.0))) as (_, api):
        _, version = await api.list_with_version(EVERYWHERE)
        await api.create(plain(make_pod("web")))
        events = await collect(api, version, timeoutSeconds="1")
        assert [kind for kind, _ in events] == ["ADDED", "ADDED"]


# -- life -----------------------------------------------------------------------------------------------------------


async def test_after_an_outage_the_port_and_the_objects_are_the_same(server: SimServer, api: Client) -> None:
    await api.create(plain(make_pod("web")))
    url = server.url
    await server.stop()
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.request("GET", EVERYWHERE)
    await server.start()
    assert server.url == url
    assert len(await api.list(EVERYWHERE)) == 1


async def test_stopping_ends_watches_in_order(server: SimServer, api: Client) -> None:
    _, version = await api.list_with_version(EVERYWHERE)
    watching = asyncio.create_task(collect(api, version))
    await watchers(server, 1)
    await server.stop()
    assert await watching == []


async def test_a_watch_is_forgotten_when_its_client_goes(server: SimServer, api: Client) -> None:
    _, version = await api.list_with_version(EVERYWHERE)
    watching = asyncio.create_task(collect(api, version))
    await watchers(server, 1)
    watching.cancel()
    await asyncio.wait([watching])
    await watchers(server, 0)


async def test_without_the_token_requests_are_refused(store: Store, tmp_path: Path) -> None:
    server = SimServer(store, token="secret")
    await server.start()
    try:
        async with Client(server.url, "secret") as known, Client(server.url, "guess") as unknown:
            assert await known.list(EVERYWHERE) == []
            assert await refused(unknown, 401, "GET", EVERYWHERE) == "Unauthorized"
    finally:
        await server.stop()


async def test_one_write_for_many_watchers_is_encoded_once(server: SimServer, api: Client) -> None:
    _, version = await api.list_with_version(EVERYWHERE)
    before = server.statistics()["objects_encoded"]
    await api.create(plain(make_pod("web")))
    watches = (collect(api, version, timeoutSeconds="1") for _ in range(5))
    assert all(len(events) == 1 for events in await asyncio.gather(*watches))
    assert server.statistics()["objects_encoded"] == before + 1


# -- what is served -------------------------------------------------------------------------------------------------


async def test_initial_events_end_with_a_bookmark_that_says_so(api: Client) -> None:
    await api.create(plain(make_pod("web")))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    events = await collect(api, "", timeoutSeconds="1", **query)
    assert [kind for kind, _ in events][:2] == ["ADDED", "BOOKMARK"]
    bookmark = events[1][1]
    assert bookmark["kind"] == "Pod"
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["metadata"]["resourceVersion"]) > 0


async def test_a_watch_ends_with_a_bookmark_where_allowed(api: Client, store: Store) -> None:
    _, version = await api.list_with_version(EVERYWHERE)
    ((kind, body),) = await collect(api, version, timeoutSeconds="1", allowWatchBookmarks="true")
    assert (kind, body["metadata"]["resourceVersion"]) == ("BOOKMARK", str(store.revision))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{DEFAULT}/web/log"),
        ("POST", f"{DEFAULT}/web/exec"),
        ("GET", "/metrics"),
        ("GET", "/api/v1/watch/pods"),
        ("POST", "/apis"),
    ],
)
async def test_what_is_not_served_is_answered_with_a_message(api: Client, method: str, path: str) -> None:
    assert "the embedded API server does not serve" in await refused(api, 501, method, path)


async def test_logs_are_refused_with_the_reason(api: Client) -> None:
    assert "no containers run in the pods of this cluster" in await refused(api, 501, "GET", f"{DEFAULT}/web/log")


async def test_an_object_of_a_kind_that_is_not_served_is_refused_with_its_name(api: Client) -> None:
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    said = await refused(api, 404, "POST", path, {})
    assert said.startswith("the embedded API server does not serve horizontalpodautoscalers.autoscaling (v2)")


async def test_health_and_version(api: Client) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/readyz?verbose"):
        async with api.session.get(path) as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
    assert (await api.get("/version"))["minor"] == "36"


async def test_a_scale_is_read_and_set(api: Client) -> None:
    await api.create(DEPLOYMENT)
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    scale = await api.get(f"{path}/scale")
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 2}, "app=web")
    await api.patch(f"{path}/scale", {"spec": {"replicas": 5}})
    assert (await api.get(path))["spec"]["replicas"] == 5
    assert "spec.replicas" in await refused(api, 400, "PUT", f"{path}/scale", {"spec": {}})


async def test_a_warning_is_sent_for_a_field_that_is_dropped(api: Client) -> None:
    body: dict[str, Any] = {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "mine"},
        "spec": {"schedulerName": "mine", "colour": "red"},
    }
    path = "/apis/berth.dev/v1alpha1/schedulingpolicies"
    async with api.session.post(path, data=orjson.dumps(body)) as answer:
        assert answer.status == 201
        assert answer.headers["Warning"] == '299 - "unknown field \\"spec.colour\\""'


async def test_the_schema_of_a_custom_resource_is_in_its_openapi_document(api: Client) -> None:
    paths = (await api.get("/openapi/v3"))["paths"]
    document = await api.get(paths["apis/berth.dev/v1alpha1"]["serverRelativeURL"])
    (schema,) = document["components"]["schemas"].values()
    assert "priorities" in schema["properties"]["spec"]["properties"]


async def test_objects_of_a_dry_run_are_not_taken_for_stored_ones(store: Store, api: Client) -> None:
    await api.create(plain(make_pod("web")))
    path = f"{DEFAULT}/web"
    dry = {"dryRun": "All"}
    await api.request(
        "PATCH",
        path,
        {"metadata": {"labels": {"dry": "yes"}}},
        parameters=dry,
        content_type="application/merge-patch+json",
    )
    assert "dry" not in (await api.get(path))["metadata"].get("labels", {})
    assert "dry" not in store.get(PODS, "default", "web")["metadata"].get("labels", {})
