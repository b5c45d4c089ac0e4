"""Binding and eviction: Kubernetes' rules, in its words."""

from __future__ import annotations

from typing import Any

import pytest

from berth.sim.errors import StatusError
from berth.sim.resources import BUDGETS, PODS
from sim.world import World, binding, told


def refusal(world: World, name: str, **metadata: str) -> StatusError:
    with pytest.raises(StatusError) as refused:
        world.store.bind("default", name, binding(name, "node-2", **metadata))
    return refused.value


def test_a_bound_pod_is_on_its_node_and_says_so(world: World) -> None:
    world.add_node("node-1", **{"topology.kubernetes.io/zone": "a", "other": "b"})
    world.add_pod("web")
    status = {"status": {"nominatedNodeName": "node-9"}}
    world.store.patch(PODS, "default", "web", status, "merge", subresource="status")
    answer = world.store.bind("default", "web", binding("web", "node-1"))
    assert (answer["status"], answer["code"]) == ("Success", 201)
    pod = world.pod("web")
    assert pod["spec"]["nodeName"] == "node-1"
    assert pod["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    assert "nominatedNodeName" not in pod["status"]
    assert pod["metadata"]["labels"] == {"topology.kubernetes.io/zone": "a"}
    assert pod["metadata"]["generation"] == 1


def test_a_second_bind_is_refused(world: World) -> None:
    world.add_bound_pod("web")
    error = refusal(world, "web")
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == (
        'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "node-1"'
    )
    assert error.details == {"name": "web", "kind": "pods/binding"}


def test_a_pod_that_is_being_deleted_is_not_bound(world: World) -> None:
    world.add_pod("web", metadata={"finalizers": ["example.com/a"]})
    world.store.delete(PODS, "default", "web")
    error = refusal(world, "web")
    assert error.code == 409
    assert error.message.endswith("pod web is being deleted, cannot be assigned to a host")


def test_a_gated_pod_is_not_bound(world: World) -> None:
    world.add_pod("web", schedulingGates=[{"name": "quota"}])
    error = refusal(world, "web")
    assert error.code == 409
    assert error.message.endswith("pod web has non-empty .spec.schedulingGates")


def test_a_namesake_is_not_bound(world: World) -> None:
    uid = world.add_pod("web")["metadata"]["uid"]
    error = refusal(world, "web", uid="other")
    assert error.code == 409
    assert error.message == (
        'Operation cannot be fulfilled on pods "web": StorageError: invalid object, Code: 4, '
        "Key: /registry/pods/default/web, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: other, UID in object meta: {uid}"
    )
    world.store.bind("default", "web", binding("web", "node-1", uid=uid))


def test_binding_needs_a_pod_a_target_and_the_right_name(world: World) -> None:
    assert refusal(world, "no").message == 'pods "no" not found'
    world.add_pod("web")
    with pytest.raises(StatusError, match=r"target\.name: Required value"):
        world.store.bind("default", "web", {"target": {}})
    with pytest.raises(StatusError, match="name in URL does not match name in Binding object"):
        world.store.bind("default", "web", binding("db", "node-1"))


# -- eviction ----------------------------------------------------------------------------------------------------------


def add_running(world: World, name: str, *, ready: str = "True") -> None:
    world.add_bound_pod(name, labels={"app": "web"})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    world.store.patch(PODS, "default", name, {"status": status}, "merge", subresource="status")


def add_budget(world: World, name: str = "web", **status: int) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    world.store.create(BUDGETS, {"metadata": {"name": name}, "spec": spec}, namespace="default")
    patch = {"status": {"observedGeneration": 1, **status}}
    world.store.patch(BUDGETS, "default", name, patch, "merge", subresource="status")


def evict(world: World, name: str, **eviction: Any) -> None:
    world.store.evict("default", name, {"metadata": {"name": name}, **eviction})


def test_a_pod_without_a_budget_is_evicted_with_its_grace(world: World) -> None:
    add_running(world, "web")
    evict(world, "web")
    pod = world.pod("web")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    condition = pod["status"]["conditions"][-1]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")


def test_a_budget_that_allows_none_refuses_with_429(world: World) -> None:
    add_running(world, "web")
    add_budget(world, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    with pytest.raises(StatusError) as refused:
        evict(world, "web")
    assert (refused.value.code, refused.value.reason) == (429, "TooManyRequests")
    assert refused.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refused.value.details == {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 1 healthy pods and has 1 currently",
            }
        ]
    }


def test_a_budget_is_used_up_by_evictions(world: World) -> None:
    add_running(world, "a")
    add_running(world, "b")
    add_budget(world, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    evict(world, "a", deleteOptions={"dryRun": ["All"]})
    assert "deletionTimestamp" not in world.pod("a")["metadata"]
    evict(world, "a")
    status = world.store.get(BUDGETS, "default", "web")["status"]
    assert (status["disruptionsAllowed"], status["disruptedPods"]) == (0, {"a": "2026-01-01T00:00:00Z"})
    with pytest.raises(StatusError, match="Cannot evict pod"):
        evict(world, "b")
    evict(world, "a")  # it ends already: nothing more is disturbed


def test_a_budget_without_a_status_refuses(world: World) -> None:
    add_running(world, "web")
    add_budget(world, observedGeneration=0, disruptionsAllowed=5)
    with pytest.raises(StatusError) as refused:
        evict(world, "web")
    assert refused.value.details is not None
    assert refused.value.details["retryAfterSeconds"] == 10


def test_two_budgets_for_one_pod_are_an_error(world: World) -> None:
    add_running(world, "web")
    add_budget(world, "one")
    add_budget(world, "two")
    with pytest.raises(StatusError, match="more than one PodDisruptionBudget") as refused:
        evict(world, "web")
    assert refused.value.code == 500


def test_a_pod_that_is_not_ready_does_not_count_while_enough_others_are(world: World) -> None:
    add_running(world, "web", ready="False")
    add_budget(world, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    evict(world, "web")
    assert "deletionTimestamp" in world.pod("web")["metadata"]


def test_a_pending_pod_is_evicted_whatever_its_budget_says(world: World) -> None:
    world.add_pod("web", labels={"app": "web"})
    add_budget(world, disruptionsAllowed=0)
    watch = world.store.watch(PODS, resource_version=str(world.store.revision))
    evict(world, "web")
    assert told(watch) == [("MODIFIED", "web"), ("MODIFIED", "web"), ("DELETED", "web")]
