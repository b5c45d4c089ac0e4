"""An etcd that is restored from a backup: noticed by itself, and everything starts over from fresh lists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from berth.sim.resources import NODES, PODS
from berth.sim.store import Backup
from cluster.harness import Harness
from cluster.test_lists import NAMES, PLURALS, LyingServer, bodies_of, sent
from policy.builders import make_policy
from support.builders import Body, make_node, make_pod

NOTICED = 15  # seconds: the next look at the cluster, and a list of everything


class Rewinding(Harness):
    """Its watches begin anew when they are asked to."""

    is_patient = False
    beginnings = 0

    async def start(self) -> None:
        await super().start()
        self._watching = asyncio.create_task(self._watch_anew())

    async def stop(self) -> None:
        self._watching.cancel()
        await super().stop()

    async def _watch_anew(self) -> None:
        control = self.runtime.watch_control
        with control.watched():
            while True:
                await control.restart_wanted.wait()
                await control.watch_ended()
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
async def harness(tmp_path: Path) -> AsyncIterator[Rewinding]:
    harness = Rewinding(tmp_path)
    harness.make(make_node("a", cpu="2"))
    await harness.start()
    yield harness
    await harness.stop()


async def test_a_restored_store_is_noticed_and_everything_is_listed_again(
    harness: Rewinding, caplog: pytest.LogCaptureFixture
) -> None:
    backup = harness.store.back_up()
    harness.make_and_tell(make_node("b", cpu="2"))
    await harness.pass_time(12)
    await harness.restore(backup)
    assert harness.beginnings == 1
    assert set(harness.cache.known("Node").values()) == {"a"}
    assert harness.runtime.readiness().is_ready
    assert sum(counts.get("rewound", 0) for counts in harness.drift().values()) >= 1
    assert sum("gone back in time" in message for message in caplog.messages) == 1


async def test_a_pod_that_was_bound_after_the_backup_is_bound_again(harness: Rewinding) -> None:
    harness.make_and_tell(make_pod("web", cpu="1", gates=["wait"]))
    backup = harness.store.back_up()
    harness.tell(harness.change(PODS, "web", {"spec": {"schedulingGates": None}}))
    await harness.pass_time(2)
    harness.tell(harness.store.get(PODS, "default", "web"))
    assert harness.on("a") == ["web"]
    await harness.pass_time(12)
    await harness.restore(backup)
    assert harness.on("a") == []
    assert len(harness.cache.pending) == 1
    harness.tell(harness.change(PODS, "web", {"spec": {"schedulingGates": None}}))
    await harness.pass_time(2)
    assert harness.node_of("web") == "a"


async def test_a_pod_that_was_deleted_after_the_backup_takes_its_room_again(harness: Rewinding) -> None:
    await harness.place(make_pod("old", cpu="2"))
    backup = harness.store.back_up()
    old = harness.store.delete(PODS, "default", "old", grace_period_seconds=0)[0]
    harness.tell(old, "DELETED")
    harness.make_and_tell(make_node("b", cpu="1"))
    await harness.pass_time(12)
    await harness.restore(backup)
    assert harness.on("a") == ["old"]
    harness.make_and_tell(make_pod("new", cpu="1"))
    await harness.pass_time(2)
    assert harness.node_of("new") == ""


async def test_nothing_is_decided_until_everything_that_is_there_was_shown_again(harness: Rewinding) -> None:
    backup = harness.store.back_up()
    for number in range(5):
        harness.tell(harness.change(NODES, "a", {"metadata": {"labels": {"round": str(number)}}}))
    await harness.pass_time(12)
    harness.is_patient = True
    await harness.restore(backup)
    harness.make_and_tell(make_pod("web"))
    readiness = harness.runtime.readiness()
    assert not readiness.is_ready
    assert "listed objects have not arrived yet" in readiness.kinds["Node"]
    assert harness.node_of("web") == ""
    harness.relist()
    await harness.pass_time(2)
    assert harness.runtime.readiness().is_ready
    assert harness.node_of("web") == "a"


async def test_a_restore_is_noticed_by_the_objects_when_versions_have_passed_those_before_it(
    harness: Rewinding,
) -> None:
    harness.make_and_tell(make_pod("gone", scheduler="other"))
    harness.bind("gone", "a")
    harness.tell(harness.store.get(PODS, "default", "gone"))
    backup = harness.store.back_up()
    harness.tell(harness.store.delete(PODS, "default", "gone", grace_period_seconds=0)[0], "DELETED")
    await harness.pass_time(1)
    await harness.server.restore(backup)
    for number in range(20):
        harness.change(NODES, "a", {"metadata": {"labels": {"round": str(number)}}})
    harness.runtime.components.cache_sync.want()
    await harness.pass_time(5)
    assert harness.beginnings == 1
    assert harness.on("a") == ["gone"]


async def test_a_policy_is_what_it_was_when_the_backup_was_made(harness: Rewinding) -> None:
    harness.make_and_tell(make_policy("batch", schedulerName="batch"))
    backup = harness.store.back_up()
    policies = harness.resource_of(make_policy())
    harness.tell(harness.change(policies, "batch", {"spec": {"schedulerName": "other"}}))
    assert harness.runtime.components.policies.serves("other")
    await harness.pass_time(12)
    await harness.restore(backup)
    assert harness.runtime.components.policies.serves("batch")
    assert not harness.runtime.components.policies.serves("other")


async def test_one_list_that_is_older_than_what_was_seen_is_no_restore(tmp_path: Path) -> None:
    old: list[Body] = []

    def once_old(true: Body) -> web.Response:
        if old:
            return sent(true)
        old.append({**true, "metadata": {**true["metadata"], "resourceVersion": "1"}})
        return sent(old[0])

    harness = Rewinding(tmp_path, LyingServer)
    assert isinstance(harness.server, LyingServer)
    harness.make(make_node("a", cpu="2"))
    await harness.start()
    harness.server.lies["nodes"] = once_old
    harness.runtime.components.cache_sync.want("Node")
    await harness.pass_time(20)
    assert len(old) == 1
    assert harness.beginnings == 0
    assert harness.runtime.readiness().is_ready
    await harness.stop()


@pytest.mark.parametrize("kind", PLURALS)
async def test_every_kind_is_known_as_it_was_when_the_backup_was_made(tmp_path: Path, kind: str) -> None:
    harness = Rewinding(tmp_path)
    for name in NAMES:
        for body in bodies_of(name):
            harness.make(body)
    await harness.start()
    await harness.pass_time(1)
    harness.relist()
    resource = next(each for each in harness.store.resources() if each.plural == PLURALS[kind])
    backup, before = harness.store.back_up(), harness.store.list(resource).items
    namespace = "default" if resource.namespaced else ""
    harness.tell(harness.change(resource, "one", {"metadata": {"labels": {"after": "backup"}}}))
    harness.tell(harness.store.get(resource, namespace, "two"), "DELETED")
    (third,) = (body for body in bodies_of("three") if body["kind"] == kind)
    harness.make_and_tell(third)
    await harness.pass_time(12)
    await harness.restore(backup)
    known = harness.runtime.components.fanout.known(kind)
    assert set(known) == {body["metadata"]["uid"] for body in before}
    versions = {body["metadata"]["uid"]: int(body["metadata"]["resourceVersion"]) for body in before}
    if kind != "SchedulingPolicy":  # whose statuses are written again
        assert harness.runtime.components.fanout.behind(
            kind, {uid: version + 1 for uid, version in versions.items()}
        ) == [*versions]
    assert harness.runtime.components.fanout.behind(kind, versions) == []
    assert harness.runtime.readiness().is_ready
    await harness.stop()
