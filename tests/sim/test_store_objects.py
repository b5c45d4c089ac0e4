"""Creating, reading and replacing: names, versions, generations, and the words of refusals."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from berth.sim.errors import StatusError
from berth.sim.resources import BUDGETS, CONFIG_MAPS, DEPLOYMENTS, LEASES, NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from sim.world import World, pod


def test_a_created_object_has_uid_version_time_and_generation(world: World) -> None:
    made = world.add_pod("web")
    assert made["metadata"] == {
        "name": "web",
        "namespace": "default",
        "uid": made["metadata"]["uid"],
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1,
        "resourceVersion": str(world.store.revision),
    }
    assert world.pod("web") == made


def test_the_same_seed_gives_the_same_uids_and_names() -> None:
    def made(seed: int) -> tuple[str, str]:
        body = World(seed=seed).store.create(PODS, pod("", metadata={"generateName": "web-"}), namespace="default")
        return body["metadata"]["uid"], body["metadata"]["name"]

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_a_generated_name_is_the_prefix_and_five_letters(world: World) -> None:
    made = world.store.create(PODS, pod("", metadata={"generateName": "web-"}), namespace="default")
    name = made["metadata"]["name"]
    assert name.startswith("web-")
    assert len(name) == 9


def test_creating_twice_is_refused(world: World) -> None:
    world.add_pod("web")
    with pytest.raises(StatusError) as refused:
        world.add_pod("web")
    assert refused.value.to_status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "web" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "web", "kind": "pods"},
        "code": 409,
    }


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (pod(""), 422, 'Pod "" is invalid: metadata.name: Required value: name or generateName is required'),
        (
            pod("web", metadata={"resourceVersion": "1"}),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (pod("web", metadata={"namespace": "other"}), 400, "does not match the namespace sent on the request"),
        (pod("web", containers=[]), 422, 'Pod "web" is invalid: spec.containers: Required value'),
        (pod("web", priorityClassName="no"), 403, 'pods "web" is forbidden: no PriorityClass with name no was found'),
        ({"kind": "Node", "metadata": {"name": "web"}}, 400, 'Node in version "v1" cannot be handled as a Pod'),
        (pod("Web"), 422, 'metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of'),
        (pod("web", labels={"a b": "c"}), 422, 'metadata.labels: Invalid value: "a b": name part must consist of'),
        (
            pod("web", nodeName="n", schedulingGates=[{"name": "g"}]),
            422,
            "spec.nodeName: Forbidden: cannot be set until",
        ),
    ],
)
def test_what_must_not_be_created_is_refused(world: World, body: dict[str, object], code: int, words: str) -> None:
    with pytest.raises(StatusError) as refused:
        world.store.create(PODS, body, namespace="default")
    assert refused.value.code == code
    assert words in refused.value.message
    assert not world.store.list(PODS).items


def test_a_namespace_must_exist_and_must_not_be_ending(world: World) -> None:
    with pytest.raises(StatusError, match='namespaces "shop" not found'):
        world.add_pod("web", namespace="shop")
    world.store.create(NAMESPACES, {"metadata": {"name": "shop"}})
    world.add_pod("web", namespace="shop")
    world.store.delete(NAMESPACES, "", "shop")
    with pytest.raises(
        StatusError, match="unable to create new content in namespace shop because it is being terminated"
    ):
        world.add_pod("late", namespace="shop")


@pytest.mark.parametrize("resource", [PODS, DEPLOYMENTS])
def test_what_is_missing_is_named_with_its_group(world: World, resource: object) -> None:
    with pytest.raises(StatusError) as refused:
        world.store.get(resource, "default", "no")  # type: ignore[arg-type]
    assert refused.value.code == 404
    assert refused.value.message in ('pods "no" not found', 'deployments.apps "no" not found')


def test_every_write_has_the_next_version_across_kinds(world: World) -> None:
    first, second = world.add_pod("web"), world.add_node("node-1")
    assert int(second["metadata"]["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1


def test_a_replacement_of_an_old_version_is_refused(world: World) -> None:
    made = world.add_node("node-1")
    world.store.patch(NODES, "", "node-1", {"metadata": {"labels": {"a": "b"}}}, "merge")
    with pytest.raises(StatusError) as refused:
        world.store.replace(NODES, "", "node-1", made)
    assert refused.value.code == 409
    assert refused.value.message == (
        'Operation cannot be fulfilled on nodes "node-1": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


def test_a_replacement_that_changes_nothing_has_no_new_version(world: World) -> None:
    made = world.add_pod("web")
    assert world.store.replace(PODS, "default", "web", made) == made
    assert world.store.revision == int(made["metadata"]["resourceVersion"])


def test_a_replacement_of_a_namesake_is_refused(world: World) -> None:
    old = world.add_pod("web")
    world.store.delete(PODS, "default", "web")
    new = world.add_pod("web")
    body = {**old, "metadata": {**old["metadata"], "resourceVersion": new["metadata"]["resourceVersion"]}}
    with pytest.raises(StatusError, match="Precondition failed: UID in precondition: "):
        world.store.replace(PODS, "default", "web", body)


def test_a_lease_is_replaced_with_its_version_only_and_may_be_made_so(world: World) -> None:
    body = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a"}}
    made = world.store.replace(LEASES, "default", "leader", body)
    with pytest.raises(StatusError) as refused:
        world.store.replace(LEASES, "default", "leader", body)
    assert refused.value.code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in refused.value.message
    changed = {**made, "spec": {"holderIdentity": "b"}}
    assert world.store.replace(LEASES, "default", "leader", changed)["spec"] == {"holderIdentity": "b"}


def test_the_generation_counts_changes_of_the_spec_only(world: World) -> None:
    budget = world.store.create(BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1}}, namespace="default")
    assert budget["metadata"]["generation"] == 1

    def patched(patch: dict[str, object], subresource: str = "") -> int:
        after, _ = world.store.patch(BUDGETS, "default", "b", patch, "merge", subresource=subresource)
        return int(after["metadata"]["generation"])

    assert patched({"metadata": {"labels": {"a": "b"}}}) == 1
    assert patched({"status": {"disruptionsAllowed": 1}}, "status") == 1
    assert patched({"spec": {"minAvailable": 2}}) == 2


def test_a_status_is_written_by_its_subresource_only(world: World) -> None:
    world.add_pod("web")
    world.store.patch(PODS, "default", "web", {"status": {"phase": "Running"}}, "merge")
    assert world.pod("web")["status"]["phase"] == "Pending"
    patch = {"spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}}
    world.store.patch(PODS, "default", "web", patch, "merge", subresource="status")
    after = world.pod("web")
    assert after["status"] == {"phase": "Running", "qosClass": "Burstable"}
    assert "nodeName" not in after["spec"]
    assert after["metadata"]["labels"] == {"a": "b"}


def test_a_pod_keeps_its_spec_but_for_images_gates_and_more_tolerations(world: World) -> None:
    kept = [{"key": "own", "operator": "Exists"}, {"key": "other", "operator": "Exists"}]
    world.add_pod("web", schedulingGates=[{"name": "quota"}], tolerations=kept)
    opened = {"spec": {"containers": [{"name": "main", "image": "other"}], "schedulingGates": None}}
    after, _ = world.store.patch(PODS, "default", "web", opened, "strategic")
    assert after["spec"]["containers"][0]["image"] == "other"
    assert after["metadata"]["generation"] == 2
    more = {"spec": {"tolerations": [*kept, {"key": "more", "operator": "Exists"}]}}
    after, _ = world.store.patch(PODS, "default", "web", more, "merge")
    assert len(after["spec"]["tolerations"]) == 5
    changes: list[dict[str, Any]] = [{"nodeName": "node-1"}, {"tolerations": [kept[1]]}, {"priority": 7}]
    for change in changes:
        with pytest.raises(StatusError, match="spec: Forbidden: pod updates may not change fields other than"):
            world.store.patch(PODS, "default", "web", {"spec": change}, "merge")
    with pytest.raises(StatusError, match="only deletion is allowed, but found new scheduling gate 'b'"):
        world.store.patch(PODS, "default", "web", {"spec": {"schedulingGates": [{"name": "b"}]}}, "merge")


def test_the_value_of_a_priority_class_does_not_change(world: World) -> None:
    world.store.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
    with pytest.raises(StatusError, match=r"value: Forbidden: may not be changed in an update\."):
        world.store.patch(PRIORITY_CLASSES, "", "high", {"value": 5}, "merge")


def test_a_dry_run_changes_nothing(world: World) -> None:
    before = world.store.revision
    made = world.store.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, namespace="default", dry_run=True)
    assert "resourceVersion" not in made["metadata"]
    world.store.create(NODES, {"metadata": {"name": "node-1"}})
    world.store.patch(NODES, "", "node-1", {"spec": {"unschedulable": True}}, "merge", dry_run=True)
    world.store.delete(NODES, "", "node-1", dry_run=True)
    assert world.store.revision == before + 1
    assert world.store.get(NODES, "", "node-1")["spec"] == {}


def test_what_was_handed_out_is_never_changed(world: World) -> None:
    sent = pod("web", labels={"a": "b"})
    made = world.store.create(PODS, sent, namespace="default")
    kept = copy.deepcopy(made)
    sent["metadata"]["labels"]["a"] = "z"
    world.add_node("node-1")
    world.store.bind("default", "web", {"target": {"name": "node-1"}})
    world.store.patch(PODS, "default", "web", {"metadata": {"labels": {"a": "c"}}}, "merge")
    world.store.patch(PODS, "default", "web", {"status": {"phase": "Running"}}, "merge", subresource="status")
    world.store.delete(PODS, "default", "web")
    assert made == kept
