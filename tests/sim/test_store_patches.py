"""Patches through the store."""

from __future__ import annotations

import pytest

from berth.sim.errors import StatusError
from berth.sim.resources import CONFIG_MAPS, NODES, PODS
from sim.world import World


def test_a_patch_with_an_old_version_is_refused(world: World) -> None:
    version = world.add_node("n")["metadata"]["resourceVersion"]
    fresh = {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}
    world.store.patch(NODES, "", "n", fresh, "merge")
    with pytest.raises(StatusError, match="the object has been modified") as refused:
        world.store.patch(NODES, "", "n", fresh, "merge")
    assert refused.value.code == 409


def test_a_patch_that_changes_nothing_has_no_new_version_and_no_event(world: World) -> None:
    world.add_node("n", a="b")
    watch = world.store.watch(NODES, resource_version=str(world.store.revision))
    after, made = world.store.patch(NODES, "", "n", {"metadata": {"labels": {"a": "b"}}}, "merge")
    assert (made, watch.take_ready()) == (False, [])
    assert after is world.store.get(NODES, "", "n")


def test_name_and_uid_do_not_change(world: World) -> None:
    world.add_pod("web")
    with pytest.raises(StatusError, match=r"the name of the object \(x\) does not match the name on the URL \(web\)"):
        world.store.patch(PODS, "default", "web", {"metadata": {"name": "x"}}, "merge")
    with pytest.raises(StatusError, match=r'metadata\.uid: Invalid value: "x": field is immutable'):
        world.store.patch(PODS, "default", "web", {"metadata": {"uid": "x"}}, "merge")


@pytest.mark.parametrize("kind", ["json", "merge", "strategic"])
def test_patching_what_is_missing_is_refused(world: World, kind: str) -> None:
    with pytest.raises(StatusError, match='pods "no" not found'):
        world.store.patch(PODS, "default", "no", [] if kind == "json" else {}, kind)  # type: ignore[arg-type]


def test_a_json_patch_goes_through(world: World) -> None:
    world.add_node("n")
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    after, _ = world.store.patch(NODES, "", "n", operations, "json")
    assert after["metadata"]["labels"] == {"a": "b"}


def test_a_merge_patch_must_be_an_object(world: World) -> None:
    world.add_node("n")
    with pytest.raises(StatusError, match="error decoding patch: json: cannot unmarshal array") as refused:
        world.store.patch(NODES, "", "n", [], "merge")
    assert refused.value.code == 400


def test_the_condition_of_a_pod_is_patched_strategically(world: World) -> None:
    world.add_bound_pod("web")
    condition = {"type": "Ready", "status": "True"}
    patch = {"status": {"conditions": [condition]}}
    after, _ = world.store.patch(PODS, "default", "web", patch, "strategic", subresource="status")
    assert [found["type"] for found in after["status"]["conditions"]] == ["Ready", "PodScheduled"]
    assert after["status"]["conditions"][0]["lastTransitionTime"] is None


def test_apply_makes_what_is_missing_and_needs_a_manager(world: World) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}}
    with pytest.raises(StatusError, match="fieldManager: Required value: is required for apply patch"):
        world.store.patch(CONFIG_MAPS, "default", "c", body, "apply")
    _, made = world.store.patch(CONFIG_MAPS, "default", "c", body, "apply", field_manager="me")
    assert made
    after, made = world.store.patch(
        CONFIG_MAPS, "default", "c", {**body, "data": {"a": "9"}}, "apply", field_manager="me"
    )
    assert (made, after["data"]) == (False, {"a": "9"})
    after, _ = world.store.patch(
        CONFIG_MAPS, "default", "c", {**body, "data": {"z": "0"}}, "apply", field_manager="other"
    )
    assert after["data"] == {"a": "9", "z": "0"}


def test_an_unknown_subresource_is_refused(world: World) -> None:
    world.add_pod("web")
    with pytest.raises(StatusError, match="pods/ephemeralcontainers is not served") as refused:
        world.store.patch(PODS, "default", "web", {}, "merge", subresource="ephemeralcontainers")
    assert refused.value.code == 501
