"""What the server fills in."""

from __future__ import annotations

import pytest

from berth.sim.errors import StatusError
from berth.sim.resources import (
    CLAIMS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    STORAGE_CLASSES,
)
from sim.world import World, names, pod


def test_a_pod_gets_the_defaults_that_a_scheduler_reads(world: World) -> None:
    made = world.add_pod("web")
    spec = made["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}


def test_a_gated_pod_says_so(world: World) -> None:
    condition = world.add_pod("web", schedulingGates=[{"name": "quota"}])["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_what_is_limited_is_requested(world: World) -> None:
    container = {"name": "main", "image": "app:1", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
    made = world.add_pod("web", containers=[container])
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert made["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert made["status"]["qosClass"] == "Guaranteed"


@pytest.mark.parametrize(
    ("requests", "limits", "quality"),
    [
        ({}, {}, "BestEffort"),
        ({"cpu": "1000m"}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": "500m"}, {"cpu": "1", "memory": "1Gi"}, "Burstable"),
        ({"cpu": "0"}, {}, "BestEffort"),
    ],
)
def test_the_quality_of_service_compares_amounts(
    world: World, requests: dict[str, str], limits: dict[str, str], quality: str
) -> None:
    container = {"name": "main", "image": "app", "resources": {"requests": requests, "limits": limits}}
    assert world.add_pod("web", containers=[container])["status"]["qosClass"] == quality


def test_containers_have_different_names(world: World) -> None:
    container = {"name": "main", "image": "app"}
    with pytest.raises(StatusError, match=r'spec\.containers\[1\]\.name: Duplicate value: "main"'):
        world.add_pod("web", containers=[container, container])


def test_a_pod_has_the_priority_of_its_class(world: World) -> None:
    body = {"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "Never"}
    world.store.create(PRIORITY_CLASSES, body)
    spec = world.add_pod("web", priorityClassName="high")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (100, "Never")
    with pytest.raises(StatusError, match=r"the integer value of priority \(5\) must not be provided in pod spec"):
        world.add_pod("cheat", priorityClassName="high", priority=5)


def test_a_pod_without_a_class_has_that_of_the_global_default(world: World) -> None:
    world.store.create(PRIORITY_CLASSES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    spec = world.add_pod("web")["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (7, "usual")


def test_a_quantity_that_is_none_is_refused(world: World) -> None:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1x"}}}
    with pytest.raises(StatusError, match="cannot be handled as a Pod: quantities must match") as refused:
        world.store.create(PODS, pod("web", containers=[container]), namespace="default")
    assert refused.value.code == 400


def test_a_node_can_allocate_its_capacity(world: World) -> None:
    made = world.store.create(NODES, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})
    assert made["status"]["allocatable"] == {"cpu": "4"}
    assert "generation" not in made["metadata"]


def test_an_empty_cluster_has_its_namespaces_and_priority_classes(world: World) -> None:
    assert names(world.store.list(NAMESPACES).items) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert names(world.store.list(PRIORITY_CLASSES).items) == ["system-cluster-critical", "system-node-critical"]


def test_a_namespace_is_labelled_with_its_name(world: World) -> None:
    made = world.store.create(NAMESPACES, {"metadata": {"name": "shop"}})
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "shop"}
    assert made["status"] == {"phase": "Active"}


def test_a_claim_without_a_class_gets_the_default_one(world: World) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    world.store.create(STORAGE_CLASSES, {"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "x"})
    made = world.store.create(CLAIMS, {"metadata": {"name": "data"}, "spec": {}}, namespace="default")
    assert made["spec"]["storageClassName"] == "fast"
    assert made["status"] == {"phase": "Pending"}
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    chosen = {"metadata": {"name": "none"}, "spec": {"storageClassName": ""}}
    assert world.store.create(CLAIMS, chosen, namespace="default")["spec"]["storageClassName"] == ""


def test_a_deployment_and_its_template_are_completed(world: World) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    made = world.store.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, namespace="default")
    assert made["spec"]["replicas"] == 1
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert made["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
    wrong = {"metadata": {"name": "x"}, "spec": {**spec, "selector": {"matchLabels": {"app": "other"}}}}
    with pytest.raises(StatusError, match="`selector` does not match template `labels`"):
        world.store.create(DEPLOYMENTS, wrong, namespace="default")


def test_a_job_selects_its_pods_by_its_uid(world: World) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "app"}], "restartPolicy": "Never"}}
    made = world.store.create(JOBS, {"metadata": {"name": "job"}, "spec": {"template": template}}, namespace="default")
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "job"


def test_services_get_different_addresses_and_keep_them(world: World) -> None:
    def made(name: str) -> str:
        body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
        return str(world.store.create(SERVICES, body, namespace="default")["spec"]["clusterIP"])

    first, second = made("a"), made("b")
    assert first != second
    after = world.store.replace(SERVICES, "default", "a", {"metadata": {"name": "a"}, "spec": {"selector": {"x": "y"}}})
    assert after["spec"]["clusterIP"] == first


def test_a_secret_stores_its_texts_encoded(world: World) -> None:
    made = world.store.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "b"}}, namespace="default")
    assert made["data"] == {"a": "Yg=="}
    assert "stringData" not in made
