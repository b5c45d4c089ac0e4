"""Deleting: grace, finalizers, preconditions, namespaces, collections."""

from __future__ import annotations

import pytest

from berth.sim.errors import StatusError
from berth.sim.resources import CLAIMS, CONFIG_MAPS, JOBS, NAMESPACES, NODES, PODS
from sim.world import World, names, told


def test_an_unbound_pod_goes_at_once(world: World) -> None:
    world.add_pod("web")
    watch = world.store.watch(PODS, resource_version=str(world.store.revision))
    left, gone = world.store.delete(PODS, "default", "web")
    assert gone
    assert left["metadata"]["deletionGracePeriodSeconds"] == 0
    assert told(watch) == [("MODIFIED", "web"), ("DELETED", "web")]
    assert not world.exists(PODS, "default", "web")


def test_a_bound_pod_stays_until_it_is_deleted_without_grace(world: World) -> None:
    world.add_bound_pod("web")
    left, gone = world.store.delete(PODS, "default", "web")
    assert not gone
    assert left["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert left["metadata"]["deletionGracePeriodSeconds"] == 30
    assert left["metadata"]["generation"] == 2
    _, gone = world.store.delete(PODS, "default", "web", grace_period_seconds=0)
    assert gone


def test_the_grace_of_a_pod_that_ends_can_only_be_shortened(world: World) -> None:
    world.add_bound_pod("web")
    marked, _ = world.store.delete(PODS, "default", "web")
    assert world.store.delete(PODS, "default", "web") == (marked, False)
    assert world.store.delete(PODS, "default", "web", grace_period_seconds=60) == (marked, False)
    shorter, gone = world.store.delete(PODS, "default", "web", grace_period_seconds=5)
    assert not gone
    assert shorter["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:05Z"


def test_a_finished_pod_has_no_grace(world: World) -> None:
    world.add_bound_pod("web")
    world.store.patch(PODS, "default", "web", {"status": {"phase": "Succeeded"}}, "merge", subresource="status")
    _, gone = world.store.delete(PODS, "default", "web")
    assert gone


def test_finalizers_hold_an_object_until_the_last_is_removed(world: World) -> None:
    world.add_pod("web", metadata={"finalizers": ["example.com/a", "example.com/b"]})
    left, gone = world.store.delete(PODS, "default", "web")
    assert not gone
    assert left["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    with pytest.raises(StatusError, match="no new finalizers can be added if the object is being deleted"):
        world.store.patch(PODS, "default", "web", {"metadata": {"finalizers": ["example.com/c"]}}, "merge")
    world.store.patch(PODS, "default", "web", {"metadata": {"finalizers": ["example.com/b"]}}, "merge")
    assert world.exists(PODS, "default", "web")
    watch = world.store.watch(PODS, resource_version=str(world.store.revision))
    world.store.patch(PODS, "default", "web", {"metadata": {"finalizers": None}}, "merge")
    assert told(watch) == [("DELETED", "web")]
    assert not world.exists(PODS, "default", "web")


def test_a_claim_is_protected_until_its_finalizer_is_removed(world: World) -> None:
    world.store.create(CLAIMS, {"metadata": {"name": "data"}, "spec": {}}, namespace="default")
    assert world.store.delete(CLAIMS, "default", "data")[1] is False
    world.store.patch(CLAIMS, "default", "data", {"metadata": {"finalizers": None}}, "merge")
    assert not world.exists(CLAIMS, "default", "data")


def test_preconditions_protect_a_namesake(world: World) -> None:
    made = world.add_pod("web")["metadata"]
    with pytest.raises(StatusError) as refused:
        world.store.delete(PODS, "default", "web", preconditions={"uid": "other"})
    assert refused.value.code == 409
    assert refused.value.message == (
        'Operation cannot be fulfilled on Pod "web": the UID in the precondition (other) does not match the UID in '
        f"record ({made['uid']}). The object might have been deleted and then recreated"
    )
    with pytest.raises(StatusError, match=r"the ResourceVersion in the precondition \(1\) does not match"):
        world.store.delete(PODS, "default", "web", preconditions={"resourceVersion": "1"})
    assert world.store.delete(PODS, "default", "web", preconditions={"uid": made["uid"]})[1]


def test_a_namespace_ends_when_it_has_been_finalized(world: World) -> None:
    world.store.create(NAMESPACES, {"metadata": {"name": "shop"}})
    left, gone = world.store.delete(NAMESPACES, "", "shop")
    assert not gone
    assert left["status"]["phase"] == "Terminating"
    body = {"metadata": {"name": "shop"}, "spec": {"finalizers": []}}
    world.store.replace(NAMESPACES, "", "shop", body, subresource="finalize")
    assert not world.exists(NAMESPACES, "", "shop")


def test_the_namespace_default_cannot_be_deleted(world: World) -> None:
    with pytest.raises(StatusError, match='namespaces "default" is forbidden: this namespace may not be deleted'):
        world.store.delete(NAMESPACES, "", "default")


@pytest.mark.parametrize(("propagation", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_propagation_leaves_a_finalizer_for_the_garbage_collector(
    world: World, propagation: str, finalizer: str
) -> None:
    world.store.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, namespace="default")
    left, gone = world.store.delete(CONFIG_MAPS, "default", "c", propagation=propagation)
    assert not gone
    assert left["metadata"]["finalizers"] == [finalizer]
    assert world.store.delete(CONFIG_MAPS, "default", "c", propagation="Background")[1]


def test_jobs_orphan_their_pods_unless_told_otherwise(world: World) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "app"}]}}
    world.store.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}}, namespace="default")
    assert world.store.delete(JOBS, "default", "j")[0]["metadata"]["finalizers"] == ["orphan"]


def test_a_collection_is_deleted_by_selector(world: World) -> None:
    for name in ("a", "b", "c"):
        world.add_pod(name, labels={"app": "web" if name != "c" else "db"})
    page = world.store.delete_collection(PODS, "default", label_selector="app=web", grace_period_seconds=0)
    assert names(page.items) == ["a", "b"]
    assert names(world.store.list(PODS).items) == ["c"]


def test_deleting_what_is_missing_is_refused(world: World) -> None:
    with pytest.raises(StatusError, match='nodes "no" not found'):
        world.store.delete(NODES, "", "no")
