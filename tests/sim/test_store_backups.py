"""A store that goes back to a backup, as an etcd does that is restored from one."""

from __future__ import annotations

import pytest

from berth.sim.errors import StatusError
from berth.sim.resources import CRDS, NODES
from berth.sim.store import Store
from scheduler.virtual_clock import START
from support.builders import make_node


def new_store() -> Store:
    return Store(lambda: START)


def test_objects_and_versions_are_those_of_the_backup() -> None:
    store = new_store()
    before = store.create(NODES, make_node("old"))
    backup = store.back_up()
    store.patch(NODES, "", "old", {"spec": {"unschedulable": True}}, "merge")
    store.create(NODES, make_node("new"))
    store.restore(backup)
    assert store.list(NODES).items == [before]
    assert store.revision == backup.revision
    assert int(store.create(NODES, make_node("next"))["metadata"]["resourceVersion"]) == backup.revision + 1


def test_a_backup_can_be_restored_twice() -> None:
    store = new_store()
    backup = store.back_up()
    for _ in range(2):
        store.create(NODES, make_node("new"))
        store.restore(backup)
    assert store.list(NODES).items == []


def test_kinds_that_were_defined_later_are_served_no_more_and_those_that_were_deleted_are() -> None:
    store = new_store()
    group = {"group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    without = store.back_up()
    store.create(CRDS, {"metadata": {"name": "things.example.com"}, "spec": {**group, "versions": [version]}})
    with_it = store.back_up()
    store.restore(without)
    assert store.find("example.com", "v1", "things") is None
    store.restore(with_it)
    assert store.find("example.com", "v1", "things") is not None


async def test_a_watch_ends_and_one_from_the_time_that_is_undone_is_silent_until_it_is_reached_again() -> None:
    store = new_store()
    backup = store.back_up()
    store.create(NODES, make_node("a"))
    later = str(store.revision)
    watch = store.watch(NODES, resource_version=later)
    store.restore(backup)
    assert watch.closed
    watch = store.watch(NODES, resource_version=later)
    store.create(NODES, make_node("b"))
    assert watch.take_ready() == []
    store.create(NODES, make_node("c"))
    assert [body["metadata"]["name"] for _, body in watch.take_ready()] == ["c"]


def test_what_happened_before_the_backup_cannot_be_watched() -> None:
    store = new_store()
    version = str(store.revision)
    store.create(NODES, make_node("a"))
    store.restore(store.back_up())
    with pytest.raises(StatusError, match="too old resource version"):
        store.watch(NODES, resource_version=version)
