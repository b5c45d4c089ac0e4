"""What follows from a list that was read in bulk: what is known and not in it is gone, if that is proven."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from berth.cluster import listing as listing_module
from berth.cluster.listing import ListInProgress
from berth.cluster.resources import RESOURCES
from berth.sim.resources import NAMESPACES, NODES, PODS
from cluster.harness import GRACE, Harness
from cluster.server import until
from support.builders import Body, make_node, make_pod


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(tmp_path)
    for number in range(10):
        harness.make(make_node(f"n{number}"))
    await harness.start()
    yield harness
    await harness.stop()


def list_in_bulk(
    harness: Harness, kind: str, bodies: Iterable[Body], version: int, *, pages: int = 1, ends: bool = True
) -> ListInProgress:
    listed = harness.runtime.watch_intake.begin_list(kind)
    bodies = list(bodies)
    for page in range(pages):
        token = "next" if page < pages - 1 else ""
        listed.begin_page({"resourceVersion": str(version), "continue": token}, is_first=page == 0)
        harness.runtime.watch_intake.on_list(listed, bodies[page::pages])
    if ends:
        harness.runtime.watch_intake.end_list(listed)
    return listed


def nodes(harness: Harness) -> list[Body]:
    return harness.store.list(NODES).items


def known(harness: Harness) -> set[str]:
    return set(harness.cache.known("Node").values())


async def settled(harness: Harness) -> None:
    """Until everything that the lists set off has ended, on the time that it is."""
    await until(lambda: not harness.runtime.components.cache_sync.proofs)
    await harness.clock.advance(0)


@pytest.mark.parametrize("pages", [1, 3])
@pytest.mark.parametrize("count", [1, 4, 9])
async def test_what_a_list_lacks_is_gone_at_once(harness: Harness, count: int, pages: int) -> None:
    """One at a time is read, many are listed a second time."""
    for number in range(count):
        harness.store.delete(NODES, "", f"n{number}")
    list_in_bulk(harness, "Node", nodes(harness), harness.store.revision, pages=pages)
    await settled(harness)
    assert known(harness) == {f"n{number}" for number in range(count, 10)}
    assert harness.drift() == {}


@pytest.mark.parametrize("there", [0, 1, 5, 7, 9])
async def test_what_a_list_lacks_and_the_server_has_stays(harness: Harness, there: int) -> None:
    list_in_bulk(harness, "Node", nodes(harness)[:there], harness.store.revision)
    await settled(harness)
    assert len(known(harness)) == 10


@pytest.mark.parametrize("trouble", ["nameless", "unfinished", "another page", "from the past", "no version"])
async def test_a_list_that_proves_nothing_removes_nothing(harness: Harness, trouble: str) -> None:
    bodies, version = nodes(harness)[1:], harness.store.revision
    harness.store.delete(NODES, "", "n0")
    if trouble == "nameless":
        list_in_bulk(harness, "Node", [*bodies, {"metadata": {"name": "x"}}], version + 1)
    elif trouble == "unfinished":
        list_in_bulk(harness, "Node", bodies, version + 1, ends=False)
    elif trouble == "another page":
        listed = harness.runtime.watch_intake.begin_list("Node")
        listed.begin_page({"resourceVersion": str(version + 1)}, is_first=False)
        harness.runtime.watch_intake.on_list(listed, bodies)
        harness.runtime.watch_intake.end_list(listed)
    elif trouble == "from the past":
        list_in_bulk(harness, "Node", bodies, 3)
    else:
        listed = list_in_bulk(harness, "Node", bodies, version, ends=False)
        listed.version = "latest"
        harness.runtime.watch_intake.end_list(listed)
    await settled(harness)
    assert len(known(harness)) == 10


async def test_what_the_watch_shows_after_a_list_is_there_whatever_the_list_lacks(harness: Harness) -> None:
    body = next(body for body in nodes(harness) if body["metadata"]["name"] == "n0")
    version = harness.store.revision
    harness.store.delete(NODES, "", "n0")
    listed = list_in_bulk(harness, "Node", nodes(harness), version, ends=False)
    later = {**body, "metadata": {**body["metadata"], "resourceVersion": str(version + 5)}}
    harness.runtime.watch_intake.end_list(listed)
    harness.runtime.watch_intake.on_changes("Node", [("MODIFIED", later)])
    await settled(harness)
    assert "n0" in known(harness)


async def test_changes_are_taken_in_their_order(harness: Harness) -> None:
    pods = [harness.make(make_pod(f"p{number}", scheduler="somebody-else")) for number in range(3)]
    bound = harness.bind("p1", "n1")
    harness.store.delete(PODS, "default", "p2", grace_period_seconds=0)
    harness.runtime.watch_intake.on_changes(
        "Pod", [*(("ADDED", pod) for pod in pods), ("MODIFIED", bound), ("DELETED", pods[2])]
    )
    assert set(harness.cache.pending) == {pods[0]["metadata"]["uid"]}
    assert harness.on("n1") == ["p1"]


@pytest.mark.parametrize("body", [{}, {"metadata": None}, {"metadata": {"uid": "x"}}, [], None])
async def test_objects_without_a_name_are_left_out_and_the_others_are_not(harness: Harness, body: Any) -> None:
    pod = harness.make(make_pod("web", scheduler="somebody-else"))
    harness.runtime.watch_intake.on_changes("Pod", [("ADDED", body), ("ADDED", pod), ("DELETED", body)])
    listed = list_in_bulk(harness, "Pod", [body, pod], harness.store.revision)
    await settled(harness)
    assert set(harness.cache.known("Pod").values()) == {"default/web"}
    assert not listed.is_sound


async def test_nothing_is_heard_between_the_end_of_a_watch_and_the_next(harness: Harness) -> None:
    harness.runtime.watch_control.ignore_events()
    harness.store.delete(NODES, "", "n0")
    listed = list_in_bulk(harness, "Node", nodes(harness), harness.store.revision)
    harness.runtime.watch_intake.on_changes("Node", [("DELETED", body) for body in nodes(harness)])
    assert not listed.is_sound
    assert len(known(harness)) == 10
    harness.runtime.watch_control.resume()


# --- how a kind becomes synced ---------------------------------------------------------------------------------------


class Beginning(Harness):
    """Whose lists of ours have two objects a page at the start."""

    async def start(self) -> None:
        await self.server.start()
        self.server.write_kubeconfig(self._kubeconfig)
        self.begin()
        await self.runtime.start()
        others = {resource.kind for resource in RESOURCES} - {"Node"}
        self.relist(but="Node")
        namespaces = self.store.list(NAMESPACES).items
        list_in_bulk(self, "Namespace", namespaces, self.store.revision)
        await until(lambda: all(self.runtime.readiness().kinds[kind] == "ok" for kind in others))

    @property
    def is_synced(self) -> bool:
        return self.runtime.readiness().is_ready


@pytest.fixture
async def beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Beginning]:
    monkeypatch.setattr(listing_module, "SAMPLE", 2)
    harness = Beginning(tmp_path)
    for number in range(5):
        harness.make(make_node(f"n{number}"))
    await harness.start()
    yield harness
    await harness.stop()


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_kind_is_synced_by_a_complete_list_without_a_second_one(beginning: Beginning) -> None:
    listed = list_in_bulk(beginning, "Node", nodes(beginning), beginning.store.revision, ends=False)
    await turns()
    assert not beginning.is_synced
    beginning.runtime.watch_intake.end_list(listed)
    await until(lambda: beginning.is_synced)
    assert len(known(beginning)) == 5


async def test_a_list_that_lacks_what_ours_has_does_not_sync_a_kind(beginning: Beginning) -> None:
    list_in_bulk(beginning, "Node", nodes(beginning)[2:], beginning.store.revision)
    await turns()
    assert not beginning.is_synced
    beginning.runtime.watch_intake.on_changes("Node", [("ADDED", body) for body in nodes(beginning)])
    await until(lambda: beginning.is_synced)


async def test_where_no_list_can_be_read_in_bulk_ours_are_compared_in_full(beginning: Beginning) -> None:
    for body in nodes(beginning):
        beginning.tell(body, None)
    await turns()
    assert not beginning.is_synced
    await beginning.pass_time(GRACE)
    await until(lambda: beginning.is_synced)


async def test_the_full_comparison_follows_and_finds_what_the_list_lacked(beginning: Beginning) -> None:
    list_in_bulk(beginning, "Node", nodes(beginning)[:4], beginning.store.revision)
    await until(lambda: beginning.is_synced)
    assert len(known(beginning)) == 4
    await beginning.pass_time(4 * GRACE)
    await until(lambda: len(known(beginning)) == 5)
    assert beginning.drift() == {"Node": {"missing": 1}}
