"""Watches: what they tell, from which version, and when they end."""

from __future__ import annotations

import asyncio

import pytest

from berth.sim.errors import StatusError
from berth.sim.resources import EVENTS, EVENTS_V1, NAMESPACES, NODES, PODS
from sim.world import World, binding, told


async def test_a_watch_tells_what_happens_after_its_version(world: World) -> None:
    world.add_pod("old")
    watch = world.store.watch(PODS, resource_version=str(world.store.revision))
    world.add_pod("web")
    world.add_node("node-1")
    world.store.bind("default", "web", binding("web", "node-1"))
    world.store.delete(PODS, "default", "web", grace_period_seconds=0)
    seen = [await anext(watch) for _ in range(4)]
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    versions = [int(body["metadata"]["resourceVersion"]) for _, body in seen]
    assert versions == sorted(set(versions))
    assert versions[-1] == world.store.revision


async def test_a_watch_that_begins_late_is_told_what_it_missed(world: World) -> None:
    version = str(world.store.revision)
    world.add_pod("web")
    world.store.patch(PODS, "default", "web", {"metadata": {"labels": {"a": "b"}}}, "merge")
    assert told(world.store.watch(PODS, resource_version=version)) == [("ADDED", "web"), ("MODIFIED", "web")]


@pytest.mark.parametrize("version", ["", "0"])
def test_a_watch_without_a_version_begins_with_what_there_is(world: World, version: str) -> None:
    world.add_pod("a")
    world.add_pod("b")
    watch = world.store.watch(PODS, resource_version=version)
    world.add_pod("c")
    assert told(watch) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_initial_events_end_with_a_bookmark(world: World) -> None:
    world.add_pod("a")
    watch = world.store.watch(PODS, send_initial_events=True, bookmarks=True)
    (first, _), (kind, bookmark) = watch.take_ready()
    assert (first, kind) == ("ADDED", "BOOKMARK")
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert bookmark["metadata"]["resourceVersion"] == str(world.store.revision)


def test_a_watch_from_a_version_in_the_future_gets_no_bookmark_before_it(world: World) -> None:
    watch = world.store.watch(PODS, resource_version=str(world.store.revision + 1), bookmarks=True)
    watch.bookmark()
    assert watch.take_ready() == []
    world.add_node("n")
    watch.bookmark()
    [(kind, bookmark)] = watch.take_ready()
    assert kind == "BOOKMARK"
    assert bookmark["metadata"]["resourceVersion"] == str(world.store.revision)


def test_a_bookmark_comes_behind_what_it_stands_for(world: World) -> None:
    watch = world.store.watch(PODS, resource_version=str(world.store.revision), bookmarks=True)
    world.add_pod("a")
    world.add_node("n")
    watch.bookmark()
    (_, _), (kind, bookmark) = watch.take_ready()
    assert (kind, bookmark["kind"]) == ("BOOKMARK", "Pod")
    assert bookmark["metadata"]["resourceVersion"] == str(world.store.revision)
    silent = world.store.watch(PODS, resource_version=str(world.store.revision))
    silent.bookmark()
    assert silent.take_ready() == []


def test_an_object_that_begins_or_ceases_to_match_is_added_or_deleted(world: World) -> None:
    world.add_pod("web", labels={"tier": "front"})
    watch = world.store.watch(PODS, label_selector="tier=front", resource_version=str(world.store.revision))
    unbound = world.store.watch(PODS, field_selector="spec.nodeName=", resource_version=str(world.store.revision))

    def relabel(tier: str) -> None:
        world.store.patch(PODS, "default", "web", {"metadata": {"labels": {"tier": tier}}}, "merge")

    relabel("back")
    (kind, body), *_ = watch.take_ready()
    assert (kind, body["metadata"]["labels"]) == ("DELETED", {"tier": "front"})
    assert body["metadata"]["resourceVersion"] == str(world.store.revision)
    relabel("middle")
    relabel("front")
    world.store.bind("default", "web", binding("web", "node-1"))
    assert told(watch) == [("ADDED", "web"), ("MODIFIED", "web")]
    assert told(unbound) == [("MODIFIED", "web")] * 3 + [("DELETED", "web")]


def test_a_watch_of_a_namespace_hears_of_no_other(world: World) -> None:
    world.store.create(NAMESPACES, {"metadata": {"name": "default-b"}})
    watch = world.store.watch(PODS, "default", resource_version=str(world.store.revision))
    world.add_pod("far", namespace="default-b")
    world.add_pod("near")
    assert told(watch) == [("ADDED", "near")]


def test_a_version_that_is_forgotten_is_refused_with_410(world: World) -> None:
    version = str(world.store.revision)
    world.add_pod("web")
    open_watch = world.store.watch(PODS, resource_version=version)
    world.store.compact()
    with pytest.raises(StatusError) as refused:
        world.store.watch(PODS, resource_version=version)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert refused.value.message == f"too old resource version: {version} ({world.store.revision})"
    world.add_pod("later")
    assert told(open_watch) == [("ADDED", "web"), ("ADDED", "later")]


def test_the_history_is_bounded_for_each_kind() -> None:
    world = World(history=3)
    version = str(world.store.revision)
    for number in range(3):
        world.add_pod(f"p{number}")
    assert len(told(world.store.watch(PODS, resource_version=version))) == 3
    world.add_pod("p3")
    with pytest.raises(StatusError, match="too old resource version"):
        world.store.watch(PODS, resource_version=version)
    assert told(world.store.watch(NODES, resource_version=version)) == []
    assert world.store.statistics()["remembered_changes"] <= 9


def test_a_version_that_is_no_number_is_refused(world: World) -> None:
    with pytest.raises(StatusError) as refused:
        world.store.watch(PODS, resource_version="abc")
    assert refused.value.code == 500


def test_a_version_of_the_future_hears_of_what_comes_after_it(world: World) -> None:
    watch = world.store.watch(PODS, resource_version=str(world.store.revision + 1))
    world.add_pod("before")
    world.add_pod("after")
    assert told(watch) == [("ADDED", "after")]


async def test_waiting_can_be_cancelled_without_losing_anything(world: World) -> None:
    watch = world.store.watch(PODS, resource_version=str(world.store.revision))
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    world.add_pod("web")
    kind, body = await anext(watch)
    assert (kind, body["metadata"]["name"]) == ("ADDED", "web")


async def test_a_waiting_watch_wakes_up(world: World) -> None:
    watch = world.store.watch(PODS, resource_version=str(world.store.revision))
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    world.add_pod("web")
    assert (await waiting)[0] == "ADDED"


async def test_a_closed_watch_ends_and_is_told_nothing_more(world: World) -> None:
    watch = world.store.watch(PODS, resource_version=str(world.store.revision))
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    watch.close()
    with pytest.raises(StopAsyncIteration):
        await waiting
    world.add_pod("web")
    assert watch.closed
    assert [event async for event in watch] == []
    assert world.store.statistics()["watches"] == 0


def test_watchers_share_the_bodies_of_the_store(world: World) -> None:
    watches = [world.store.watch(PODS, resource_version=str(world.store.revision)) for _ in range(3)]
    world.add_pod("web")
    stored = world.store.list(PODS).items[0]
    assert all(body is stored for watch in watches for _, body in watch.take_ready())


def test_a_watch_of_events_speaks_its_own_version(world: World) -> None:
    watch = world.store.watch(EVENTS_V1, resource_version=str(world.store.revision))
    about = {"kind": "Pod", "name": "web", "namespace": "default"}
    world.store.create(EVENTS, {"metadata": {"name": "e"}, "involvedObject": about}, namespace="default")
    (_, body), *_ = watch.take_ready()
    assert (body["apiVersion"], body["regarding"]) == ("events.k8s.io/v1", about)
