"""An etcd that is restored from a backup: noticed by itself, and everything starts over from fresh lists."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from berth.sim.resources import NODES, PODS
from berth.sim.store import Backup
from edge.house import House
from edge.test_lists import NAMES, PLURALS, bodies_of
from policy.builders import make_policy
from support.builders import Body, make_node, make_pod

NOTICED = 15  # seconds: the next look at the cluster, and a list of everything


class Rewinding(House):
    """Its watches begin anew when they are asked to."""

    is_patient = False
    beginnings = 0

    async def start(self) -> None:
        await super().start()
        self.runtime.rewatch = lambda: self._tasks.append(asyncio.create_task(self._watch_anew()))
        self._tasks: list[asyncio.Task[None]] = []

    async def _watch_anew(self) -> None:
        await self.runtime.watch_ended()
        self.beginnings += 1
        if not self.is_patient:
            self.relist()

    async def restore(self, backup: Backup) -> None:
        await self.server.restore(backup)
        await self.pass_time(NOTICED)

    def make_and_tell(self, body: Body) -> Body:
        made = self.make(body)
        self.tell(made, "ADDED")
        return made

    async def place(self, body: Body) -> None:
        """A pod of ours comes, and is bound."""
        name = self.make_and_tell(body)["metadata"]["name"]
        await self.pass_time(2)
        self.tell(self.store.get(PODS, "default", name))

    def node_of(self, name: str) -> str:
        return str(self.store.get(PODS, "default", name)["spec"].get("nodeName") or "")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[Rewinding]:
    house = Rewinding(tmp_path)
    house.make(make_node("a", cpu="2"))
    await house.start()
    yield house
    await house.stop()


async def test_a_restored_store_is_noticed_and_everything_is_listed_again(
    house: Rewinding, caplog: pytest.LogCaptureFixture
) -> None:
    backup = house.store.back_up()
    house.make_and_tell(make_node("b", cpu="2"))
    await house.pass_time(12)
    await house.restore(backup)
    assert house.beginnings == 1
    assert set(house.cache.known("Node").values()) == {"a"}
    assert house.runtime.readiness().is_ready
    assert sum(counts.get("rewound", 0) for counts in house.drift().values()) >= 1
    assert sum("gone back in time" in message for message in caplog.messages) == 1


async def test_a_pod_that_was_bound_after_the_backup_is_bound_again(house: Rewinding) -> None:
    house.make_and_tell(make_pod("web", cpu="1", gates=["wait"]))
    backup = house.store.back_up()
    house.tell(house.change(PODS, "web", {"spec": {"schedulingGates": None}}))
    await house.pass_time(2)
    house.tell(house.store.get(PODS, "default", "web"))
    assert house.on("a") == ["web"]
    await house.pass_time(12)
    await house.restore(backup)
    assert house.on("a") == []
    assert len(house.cache.pending) == 1
    house.tell(house.change(PODS, "web", {"spec": {"schedulingGates": None}}))
    await house.pass_time(2)
    assert house.node_of("web") == "a"


async def test_a_pod_that_was_deleted_after_the_backup_takes_its_room_again(house: Rewinding) -> None:
    await house.place(make_pod("old", cpu="2"))
    backup = house.store.back_up()
    old = house.store.delete(PODS, "default", "old", grace_period_seconds=0)[0]
    house.tell(old, "DELETED")
    house.make_and_tell(make_node("b", cpu="1"))
    await house.pass_time(12)
    await house.restore(backup)
    assert house.on("a") == ["old"]
    house.make_and_tell(make_pod("new", cpu="1"))
    await house.pass_time(2)
    assert house.node_of("new") == ""


async def test_nothing_is_decided_until_everything_that_is_there_was_shown_again(house: Rewinding) -> None:
    backup = house.store.back_up()
    for number in range(5):
        house.tell(house.change(NODES, "a", {"metadata": {"labels": {"round": str(number)}}}))
    await house.pass_time(12)
    house.is_patient = True
    await house.restore(backup)
    house.make_and_tell(make_pod("web"))
    readiness = house.runtime.readiness()
    assert not readiness.is_ready
    assert "listed objects have not arrived yet" in readiness.kinds["Node"]
    assert house.node_of("web") == ""
    house.relist()
    await house.pass_time(2)
    assert house.runtime.readiness().is_ready
    assert house.node_of("web") == "a"


async def test_a_restore_is_noticed_by_the_objects_when_versions_have_passed_those_before_it(house: Rewinding) -> None:
    house.make_and_tell(make_pod("gone", scheduler="other"))
    house.bind("gone", "a")
    house.tell(house.store.get(PODS, "default", "gone"))
    backup = house.store.back_up()
    house.tell(house.store.delete(PODS, "default", "gone", grace_period_seconds=0)[0], "DELETED")
    await house.pass_time(1)
    await house.server.restore(backup)
    for number in range(20):
        house.change(NODES, "a", {"metadata": {"labels": {"round": str(number)}}})
    house.runtime._census.want()
    await house.pass_time(5)
    assert house.beginnings == 1
    assert house.on("a") == ["gone"]


async def test_a_policy_is_what_it_was_when_the_backup_was_made(house: Rewinding) -> None:
    house.make_and_tell(make_policy("batch", schedulerName="batch"))
    backup = house.store.back_up()
    policies = house._resource(make_policy())
    house.tell(house.change(policies, "batch", {"spec": {"schedulerName": "other"}}))
    assert house.runtime._book.serves("other")
    await house.pass_time(12)
    await house.restore(backup)
    assert house.runtime._book.serves("batch")
    assert not house.runtime._book.serves("other")


async def test_one_list_that_is_older_than_what_was_seen_is_no_restore(house: Rewinding) -> None:
    old: list[bytes] = []
    shipped = house.server._encode_outcome

    def once_old(*arguments: object) -> bytes:
        raw = shipped(*arguments)  # type: ignore[arg-type]
        if old or b'"kind":"PartialObjectMetadataList"' not in raw:
            return raw
        old.append(re.sub(rb'"resourceVersion":"\d+"', b'"resourceVersion":"1"', raw, count=1))
        return old[0]

    house.server._encode_outcome = once_old  # type: ignore[method-assign]
    house.runtime._census.want("Node")
    await house.pass_time(20)
    assert len(old) == 1
    assert house.beginnings == 0
    assert house.runtime.readiness().is_ready


@pytest.mark.parametrize("kind", PLURALS)
async def test_every_kind_is_known_as_it_was_when_the_backup_was_made(tmp_path: Path, kind: str) -> None:
    house = Rewinding(tmp_path)
    for name in NAMES:
        for body in bodies_of(name):
            house.make(body)
    await house.start()
    await house.pass_time(1)
    house.relist()
    resource = next(each for each in house.store.resources() if each.plural == PLURALS[kind])
    backup, before = house.store.back_up(), house.store.list(resource).items
    namespace = "default" if resource.namespaced else ""
    house.tell(house.change(resource, "one", {"metadata": {"labels": {"after": "backup"}}}))
    house.tell(house.store.get(resource, namespace, "two"), "DELETED")
    (third,) = (body for body in bodies_of("three") if body["kind"] == kind)
    house.make_and_tell(third)
    await house.pass_time(12)
    await house.restore(backup)
    known = house.runtime._view.known(kind)
    assert set(known) == {body["metadata"]["uid"] for body in before}
    versions = {body["metadata"]["uid"]: int(body["metadata"]["resourceVersion"]) for body in before}
    if kind != "SchedulingPolicy":  # whose statuses are written again
        assert house.runtime._view.behind(kind, {uid: version + 1 for uid, version in versions.items()}) == [*versions]
    assert house.runtime._view.behind(kind, versions) == []
    assert house.runtime.readiness().is_ready
    await house.stop()
