"""Watches: what is reported, in what form, from when on, and until when."""

from __future__ import annotations

import asyncio

import pytest

from contract.asking import Server, plain
from control_plane.client import POLICIES, ApiError, Client, Events
from support.builders import make_node, make_pod

PODS = "/api/v1/pods"
POD = "/api/v1/namespaces/default/pods/web"
LIMIT_SECONDS = 60


async def seen(api: Client, count: int, version: str, **parameters: str) -> Events:
    """The first `count` events of a watch of pods."""
    events: Events = []
    async with asyncio.timeout(LIMIT_SECONDS):
        async for batch in api.watch(PODS, version, **parameters):
            events += batch
            if len(events) >= count:
                return events
    raise AssertionError(f"the watch ended after {events}")


def outline(events: Events) -> list[tuple[str, str]]:
    return [(kind, body["metadata"]["name"]) for kind, body in events]


async def test_changes_after_a_list_are_reported_in_order_with_their_versions(api: Client) -> None:
    _, version = await api.list_with_version(PODS)
    await api.create(plain(make_pod("web")))
    changed = await api.patch(POD, {"metadata": {"labels": {"a": "1"}}})
    await api.delete(POD)
    events = await seen(api, 4, version)
    # The pod is marked as being deleted before it goes, also if it goes at once.
    assert outline(events) == [("ADDED", "web"), ("MODIFIED", "web"), ("MODIFIED", "web"), ("DELETED", "web")]
    assert events[2][1]["metadata"]["deletionGracePeriodSeconds"] == 0
    assert events[1][1]["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
    versions = [int(body["metadata"]["resourceVersion"]) for _, body in events]
    assert versions == sorted(set(versions))
    assert events[0][1]["kind"] == "Pod"


async def test_a_change_arrives_while_watching(api: Client) -> None:
    _, version = await api.list_with_version(PODS)
    watching = asyncio.create_task(seen(api, 1, version))
    await asyncio.sleep(0)
    await api.create(plain(make_pod("web")))
    assert outline(await watching) == [("ADDED", "web")]


async def test_what_begins_to_match_is_added_and_what_ceases_to_is_deleted(api: Client) -> None:
    _, version = await api.list_with_version(PODS)
    await api.create(plain(make_pod("web")))
    await api.patch(POD, {"metadata": {"labels": {"app": "x"}}})
    await api.patch(POD, {"metadata": {"labels": {"app": "x", "b": "1"}}})
    last = await api.patch(POD, {"metadata": {"labels": {"app": None}}})
    events = await seen(api, 3, version, labelSelector="app=x")
    assert outline(events) == [("ADDED", "web"), ("MODIFIED", "web"), ("DELETED", "web")]
    gone = events[2][1]["metadata"]
    assert (gone["labels"], gone["resourceVersion"]) == (
        {"app": "x", "b": "1"},
        last["metadata"]["resourceVersion"],
    )


async def test_a_pod_that_finishes_leaves_the_watch_that_kopf_keeps(api: Client) -> None:
    await api.create(plain(make_node("n1")))
    _, version = await api.list_with_version(PODS)
    await api.create(plain(make_pod("web", node="n1")))
    await api.patch(f"{POD}/status", {"status": {"phase": "Succeeded"}})
    selector = "status.phase!=Succeeded,status.phase!=Failed"
    assert outline(await seen(api, 2, version, fieldSelector=selector)) == [("ADDED", "web"), ("DELETED", "web")]


async def test_a_bind_is_reported_with_the_node(api: Client) -> None:
    await api.create(plain(make_node("n1")))
    await api.create(plain(make_pod("web")))
    _, version = await api.list_with_version(PODS)
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    await api.request("POST", f"{POD}/binding", {"metadata": {"name": "web"}, "target": target})
    ((kind, body),) = (await seen(api, 1, version))[:1]
    assert (kind, body["spec"]["nodeName"]) == ("MODIFIED", "n1")


async def test_a_watch_ends_when_its_time_is_over(api: Client) -> None:
    _, version = await api.list_with_version(PODS)
    async with asyncio.timeout(LIMIT_SECONDS):
        events = [event async for batch in api.watch(PODS, version, timeoutSeconds="1") for event in batch]
    assert events == []


async def test_a_watch_without_a_version_begins_with_what_is_there(api: Client) -> None:
    await api.create(plain(make_pod("web")))
    for version in ("", "0"):
        assert outline(await seen(api, 1, version)) == [("ADDED", "web")]


async def test_initial_events_need_the_match_and_bookmarks(api: Client) -> None:
    with pytest.raises(ApiError) as caught:
        await seen(api, 1, "", sendInitialEvents="true")
    assert caught.value.status == 422


@pytest.mark.usefixtures("policies")
async def test_a_version_from_before_all_memory_is_told_410_in_the_stream(api: Client, server: Server) -> None:
    body = {"apiVersion": "berth.dev/v1alpha1", "kind": "SchedulingPolicy", "metadata": {"name": "mine"}}
    await api.create({**body, "spec": {"schedulerName": "mine"}})
    server.forget_history()
    with pytest.raises(ApiError, match="too old resource version: 1 ") as caught:
        async for _ in api.watch(POLICIES, "1"):
            pass
    assert caught.value.status == 410


async def test_a_watch_of_one_namespace_tells_nothing_of_others(api: Client) -> None:
    _, version = await api.list_with_version(PODS)
    await api.create(plain(make_pod("elsewhere", namespace="kube-system")))
    await api.create(plain(make_pod("web")))
    events: Events = []
    async with asyncio.timeout(LIMIT_SECONDS):
        async for batch in api.watch("/api/v1/namespaces/default/pods", version):
            events += batch
            break
    assert outline(events) == [("ADDED", "web")]


async def test_a_watch_in_table_form_names_its_columns_once(api: Client) -> None:
    _, version = await api.list_with_version(PODS)
    await api.create(plain(make_pod("web")))
    await api.patch(POD, {"metadata": {"labels": {"a": "1"}}})
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
    async with api.session.get(PODS, params=query, headers=headers) as answer:
        text = await answer.text()
    tables = [line for line in text.splitlines() if '"Table"' in line]
    assert ["Readiness Gates" in line for line in tables] == [True, False]
