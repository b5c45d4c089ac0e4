"""Pods: every field that scheduling looks at."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any, cast

import pytest

from berth.model import HostPort, InvalidObject, LabelSelector, OwnerReference, PodAffinity, Requirement, parse_pod
from berth.model.selectors import selector_from_labels
from support.builders import make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def test_a_pod_with_nothing_but_a_container_has_defaults_for_the_rest() -> None:
    pod = parse_pod({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}})
    assert (pod.uid, pod.namespace, pod.name, pod.key) == ("u", "ns", "p", "ns/p")
    assert (pod.scheduler_name, pod.node_name, pod.nominated_node_name) == ("default-scheduler", "", "")
    assert (pod.priority, pod.preemption_policy, pod.phase) == (0, "PreemptLowerPriority", "Pending")
    assert (pod.labels, pod.requests, pod.node_selector, pod.required_node_affinity) == ({}, {}, None, None)
    assert not any((pod.gates, pod.owners, pod.tolerations, pod.host_ports, pod.images, pod.volumes))
    assert pod.pod_affinity == pod.pod_anti_affinity == PodAffinity()
    assert (pod.deleting, pod.scheduled_condition, pod.container_count) == (False, None, 1)


def test_nobody_can_put_anything_into_what_all_pods_without_it_share() -> None:
    labels = cast(dict[str, str], parse_pod(make_pod("a", labels=None)).labels)
    for change in (lambda: labels.setdefault("app", "web"), lambda: labels.update(app="web")):
        with pytest.raises(TypeError, match="must not be modified"):
            change()
    with pytest.raises(TypeError):
        labels["app"] = "web"
    assert parse_pod(make_pod("b", labels=None)).labels == {}


def test_plain_fields_are_read() -> None:
    pod = parse_pod(
        make_pod(
            "p",
            node="n1",
            priority=-5,
            gates=["one", "two"],
            deleting=True,
            nominated="n2",
            created="2026-01-01T00:00:00Z",
            preemptionPolicy="Never",
            status={"startTime": "2026-01-01T00:00:01Z"},
        )
    )
    assert (pod.node_name, pod.nominated_node_name, pod.phase, pod.deleting) == ("n1", "n2", "Running", True)
    assert (pod.priority, pod.preemption_policy, pod.gates) == (-5, "Never", ("one", "two"))
    assert (pod.created, pod.start_time) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z")


def test_null_is_the_same_as_absent_everywhere() -> None:
    body = make_pod("p")
    spec_fields = ["nodeName", "priority", "schedulingGates", "tolerations", "nodeSelector", "affinity", "volumes"]
    spec_fields += ["initContainers", "overhead", "resources", "topologySpreadConstraints", "preemptionPolicy"]
    bare = parse_pod(body)
    body["spec"] |= dict.fromkeys(spec_fields)
    body["spec"]["containers"][0] |= {"resources": None, "ports": None, "restartPolicy": None}
    body["metadata"] |= {"labels": None, "ownerReferences": None, "deletionTimestamp": None}
    body["status"] |= {"conditions": None, "containerStatuses": None, "resources": None}
    assert parse_pod(body) == bare


def test_unknown_fields_are_ignored() -> None:
    body = make_pod("p")
    bare = parse_pod(body)
    body |= {"future": 1}
    body["spec"] |= {"future": [{}], "containers": [{**body["spec"]["containers"][0], "future": {"a": [1]}}]}
    assert parse_pod(body) == bare


def test_a_record_does_not_change_with_the_body_it_was_read_from() -> None:
    body = make_pod("p", labels={"app": "web"}, node_selector={"disk": "ssd"})
    pod = parse_pod(body)
    body["metadata"]["labels"]["app"] = "db"
    body["spec"]["nodeSelector"].clear()
    assert (pod.labels, pod.node_selector) == ({"app": "web"}, {"disk": "ssd"})
    with pytest.raises(FrozenInstanceError):
        pod.node_name = "n1"  # type: ignore[misc]


def test_the_controller_is_the_owner_that_manages_the_pod() -> None:
    body = make_pod("p")
    own = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u2", "controller": True}
    body["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}, own]
    pod = parse_pod(body)
    assert pod.controller == OwnerReference("apps/v1", "ReplicaSet", "web", "u2", True)
    assert [owner.kind for owner in pod.owners] == ["Node", "ReplicaSet"]


def test_the_current_scheduled_condition_is_known() -> None:
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"},
    ]
    pod = parse_pod(make_pod("p", status={"conditions": conditions}))
    assert pod.scheduled_condition == ("False", "Unschedulable", "0/1 nodes")


def test_host_ports_of_containers_and_sidecars_are_taken() -> None:
    ports = [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]
    init = [
        {"name": "sidecar", "restartPolicy": "Always", "ports": ports},
        {"name": "init", "ports": [{"hostPort": 99}]},
    ]
    pod = parse_pod(make_pod("p", ports=[80, {"containerPort": 81}, {"hostPort": 0}], initContainers=init))
    assert pod.host_ports == (HostPort("10.0.0.1", "UDP", 53), HostPort("0.0.0.0", "TCP", 80))


def test_images_are_named_as_nodes_name_them() -> None:
    digest = "registry.example:5000/a@sha256:" + "0" * 64
    pod = parse_pod(
        make_pod(
            "p",
            image="registry.example:5000/app",
            initContainers=[{"name": "i", "image": digest}, {"name": "j", "image": "app"}],
            volumes=[{"name": "v", "image": {"reference": "data:v1"}}],
        )
    )
    assert pod.images == (digest, "app:latest", "registry.example:5000/app:latest", "data:v1")
    assert pod.container_count == 3


def test_an_affinity_term_means_the_pods_own_namespace_unless_it_names_others() -> None:
    terms: list[dict[str, Any]] = [
        {"topologyKey": "zone", "labelSelector": {}},
        {"topologyKey": "zone", "namespaces": ["a", "b"]},
        {"topologyKey": "zone", "namespaceSelector": {}},
        {"topologyKey": "zone", "namespaces": ["a"], "namespaceSelector": {"matchLabels": {"t": "1"}}},
    ]
    required = parse_pod(make_pod("p", affinity={"podAffinity": {REQUIRED: terms}})).pod_affinity.required
    assert [term.namespaces for term in required] == [{"default"}, {"a", "b"}, set(), {"a"}]
    assert [term.selector for term in required] == [LabelSelector(()), None, None, None]
    assert required[2].namespace_selector == LabelSelector(())
    assert required[3].namespace_selector == selector_from_labels({"t": "1"})


def test_preferred_terms_have_weights() -> None:
    affinity = {
        "podAntiAffinity": {
            PREFERRED: [{"weight": 7, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}]
        },
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]},
            PREFERRED: [{"weight": 3, "preference": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}],
        },
    }
    pod = parse_pod(make_pod("p", affinity=affinity))
    assert [(w.weight, w.term.topology_key) for w in pod.pod_anti_affinity.preferred] == [(7, "zone")]
    assert [(w.weight, w.term.expressions[0].key) for w in pod.preferred_node_affinity] == [(3, "gpu")]
    assert pod.required_node_affinity is not None
    assert pod.required_node_affinity.matches("n1", {"disk": "ssd"})


def test_match_label_keys_become_part_of_the_selector() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["rev", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }
    labels = {"app": "web", "rev": "r1", "tenant": "t1"}
    pod = parse_pod(make_pod("p", labels=labels, affinity={"podAffinity": {REQUIRED: [term]}}))
    assert pod.pod_affinity.required[0].selector == LabelSelector(
        (Requirement("app", "In", ("web",)), Requirement("rev", "In", ("r1",)), Requirement("tenant", "NotIn", ("t1",)))
    )


def test_match_label_keys_that_the_api_server_has_merged_are_not_merged_again() -> None:
    merged = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "rev", "operator": "In", "values": ["r1"]}]}
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["rev"]}
    labels = {"app": "web", "rev": "r1"}
    raw = {"matchLabels": {"app": "web"}}
    pods = [
        parse_pod(make_pod("p", labels=labels, topologySpreadConstraints=[{**constraint, "labelSelector": selector}]))
        for selector in (merged, raw)
    ]
    assert pods[0] == pods[1]


def test_a_missing_selector_stays_missing_whatever_label_keys_say() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["rev"]}
    pod = parse_pod(make_pod("p", labels={"rev": "r1"}, topologySpreadConstraints=[constraint]))
    assert pod.spread_constraints[0].selector is None


def test_spread_constraints_have_defaults() -> None:
    constraint = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    pod = parse_pod(make_pod("p", topologySpreadConstraints=[constraint, {**constraint, "minDomains": 3}]))
    first, second = pod.spread_constraints
    assert (first.max_skew, first.min_domains, second.min_domains) == (2, None, 3)
    assert (first.node_affinity_policy, first.node_taints_policy) == ("Honor", "Ignore")


def test_volumes_that_decisions_can_depend_on_are_kept() -> None:
    volumes = [
        {"name": "kube-api-access-x", "projected": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-0", "readOnly": True}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "disk", "gcePersistentDisk": {"pdName": "d1"}},
        {"name": "ceph", "rbd": {"monitors": ["m1"], "image": "i1"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    data, scratch, disk, ceph = parse_pod(make_pod("web", volumes=volumes)).volumes
    assert (data.claim, data.ephemeral, data.source) == ("data-0", False, "persistentVolumeClaim")
    assert (scratch.claim, scratch.ephemeral) == ("web-scratch", True)
    assert (disk.claim, disk.details) == (None, {"pdName": "d1", "readOnly": False})
    assert ceph.details == {"monitors": ("m1",), "pool": "rbd", "image": "i1", "readOnly": False}


def test_features_that_a_node_must_declare() -> None:
    rules = [{"action": "RestartAllContainers"}]
    restarting = {"name": "c", "restartPolicyRules": rules}
    assert parse_pod(make_pod("p", containers=[restarting], hostNetwork=True, hostUsers=False)).required_features == (
        "RestartAllContainersOnContainerExits",
        "UserNamespacesHostNetworkSupport",
    )
    assert parse_pod(make_pod("p", hostNetwork=True)).required_features == ()
    assert parse_pod(make_pod("p", hostUsers=False)).required_features == ()


def test_dynamic_resources_are_named() -> None:
    assert parse_pod(make_pod("p", resourceClaims=[{"name": "gpu"}])).resource_claims == ("gpu",)


NONSENSE: list[tuple[str, Any]] = [
    ("metadata.name", None),
    ("metadata.name", 5),
    ("metadata.uid", ""),
    ("metadata.namespace", None),
    ("metadata.labels", ["a"]),
    ("metadata.labels.app", 1),
    ("metadata.ownerReferences[0].kind", None),
    ("metadata.ownerReferences[0].controller", "yes"),
    ("spec", "x"),
    ("spec.containers", {}),
    ("spec.containers[0]", "main"),
    ("spec.containers[0].image", 1),
    ("spec.containers[0].resources", []),
    ("spec.containers[0].resources.requests", "1"),
    ("spec.containers[0].resources.requests.cpu", "1x"),
    ("spec.containers[0].resources.requests.cpu", "-1"),
    ("spec.containers[0].resources.requests.cpu", True),
    ("spec.containers[0].resources.requests.unknown", "many"),
    ("spec.containers[0].ports[0].hostPort", 65536),
    ("spec.containers[0].ports[0].hostPort", -1),
    ("spec.containers[0].ports[0].hostPort", "80"),
    ("spec.containers[0].ports[0].hostPort", True),
    ("spec.containers[0].ports[0].protocol", "ICMP"),
    ("spec.overhead.cpu", "lots"),
    ("spec.resources.requests.memory", "-1"),
    ("spec.priority", 2**31),
    ("spec.priority", 1.5),
    ("spec.preemptionPolicy", "Maybe"),
    ("spec.schedulingGates[0].name", ""),
    ("spec.tolerations[0].operator", "Like"),
    ("spec.tolerations[0].effect", "Never"),
    ("spec.nodeSelector.disk", {}),
    (f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight", 0),
    (f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight", 101),
    (f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].operator", "Is"),
    (f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference", [1]),
    (f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey", None),
    (f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].values", ["x"]),
    (f"spec.affinity.podAffinity.{REQUIRED}[0].namespaces[0]", 1),
    (f"spec.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm", None),
    ("spec.topologySpreadConstraints[0].maxSkew", 0),
    ("spec.topologySpreadConstraints[0].whenUnsatisfiable", "Hope"),
    ("spec.topologySpreadConstraints[0].minDomains", 0),
    ("spec.topologySpreadConstraints[0].nodeTaintsPolicy", "Maybe"),
    ("spec.volumes[0].persistentVolumeClaim.claimName", ""),
    ("spec.volumes[0].name", None),
    ("status.conditions[0].type", None),
    ("status.containerStatuses[0].resources.requests.cpu", "x"),
    ("status.phase", []),
]


def full_pod() -> dict[str, Any]:
    """A pod with something in every field that is read."""
    expressions = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    term = {"topologyKey": "zone", "labelSelector": expressions, "namespaces": ["a"]}
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 1}
    body = make_pod(
        "web",
        cpu="1",
        labels={"app": "web"},
        owner={"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True},
        priority=1,
        gates=["g"],
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        node_selector={"disk": "ssd"},
        affinity={
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [expressions]},
                PREFERRED: [{"weight": 1, "preference": expressions}],
            },
            "podAffinity": {REQUIRED: [term]},
            "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]},
        },
        ports=[80],
        overhead={"cpu": "1m"},
        resources={"requests": {"memory": "1Gi"}},
        topologySpreadConstraints=[{**constraint, "nodeTaintsPolicy": "Honor"}],
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        initContainers=[{"name": "init", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        status={
            "conditions": [{"type": "PodScheduled", "status": "False"}],
            "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        },
    )
    body["spec"]["containers"][0]["ports"][0] |= {"protocol": "TCP"}
    # A copy of its own for each place, so that spoiling one leaves the others as they are.
    return cast("dict[str, Any]", json.loads(json.dumps(body)))


def put(body: dict[str, Any], path: str, value: Any) -> None:
    """Set the field at a dotted path with indices."""
    *parents, last = path.replace("[", ".").replace("]", "").split(".")
    target: Any = body
    for step in parents:
        target = target[int(step)] if isinstance(target, list) else target[step]
    target[int(last) if isinstance(target, list) else last] = value


@pytest.mark.parametrize(("path", "value"), NONSENSE)
def test_a_field_that_makes_no_sense_is_named(path: str, value: Any) -> None:
    body = full_pod()
    put(body, path, value)
    with pytest.raises(InvalidObject) as refused:
        parse_pod(body)
    assert (refused.value.kind, refused.value.field) == ("Pod", path)
    assert refused.value.name.endswith("web") or path.startswith("metadata.")
    assert str(refused.value) == f"Pod {refused.value.name}: {path}: {refused.value.problem}"


def test_the_message_has_object_field_and_value() -> None:
    with pytest.raises(InvalidObject) as refused:
        parse_pod(make_pod("web", cpu="1x"))
    assert str(refused.value) == 'Pod default/web: spec.containers[0].resources.requests.cpu: "1x" is not a quantity'


@pytest.mark.parametrize("body", [None, 1, "pod", [], {}, {"metadata": []}, {"metadata": {"name": 5}}])
def test_what_is_no_pod_at_all_is_refused(body: Any) -> None:
    with pytest.raises(InvalidObject):
        parse_pod(body)
