"""What single plugins promise beyond the contract and the vectors: arguments, claims, and refusals in words."""

from random import Random

import pytest

from berth.engine.pipeline import Diagnosis, Pipeline, Placement
from berth.engine.plugin import BadArgument
from berth.engine.registry import UnknownPlugin, make_plugin
from berth.model import parse_pod
from engine.worlds import state_of
from support.builders import make_node, make_pod


def decide(name, objects, pod, args=None):
    return Pipeline([make_plugin(name, args or {}, "filter")], []).decide(parse_pod(pod), state_of(objects), Random(0))


def claim(name, phase="Bound", volume="pv1", storage_class="slow", modes=("ReadWriteOnce",), **metadata):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"claim-{name}", **metadata},
        "spec": {"volumeName": volume, "storageClassName": storage_class, "accessModes": list(modes)},
        "status": {"phase": phase},
    }


def volume(name, zone=None, labels=None):
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": name},
    }
    if zone:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": name, "labels": labels or {}},
        "spec": spec,
        "status": {"phase": "Bound"},
    }


def storage_class(name, mode):
    meta = {"name": name, "uid": name}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": meta,
        "provisioner": "d",
        "volumeBindingMode": mode,
    }


def pod_with_claim(name="data", **kw):
    return make_pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}], **kw)


NODES = [make_node("a", labels={"zone": "z1"}), make_node("b", labels={"zone": "z2"})]


def test_a_pod_with_a_bound_claim_goes_where_its_volume_is():
    placed = decide("VolumeBinding", [*NODES, claim("data"), volume("pv1", "z2")], pod_with_claim())
    assert placed == Placement("b", 2, 1)


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([claim("data", "Pending", "")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("data", "Pending", "pv1"), volume("pv1")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("data", "Lost")], 'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv1"'),
        ([claim("data", deletionTimestamp="2026-01-01T00:00:00Z")], 'persistentvolumeclaim "data" is being deleted'),
        ([claim("data")], "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
        ([claim("data"), volume("pv1", "z9")], "2 node(s) didn't match PersistentVolume's node affinity"),
        (
            [claim("data", "Pending", ""), storage_class("slow", "WaitForFirstConsumer")],
            "its storage class slow waits for the first consumer, which this version of Berth cannot bind",
        ),
    ],
)
def test_a_pod_whose_claim_is_not_usable_waits_with_the_reason(objects, words):
    diagnosis = decide("VolumeBinding", [*NODES, *objects], pod_with_claim())
    assert isinstance(diagnosis, Diagnosis)
    assert words in diagnosis.message
    assert not diagnosis.error


def test_an_ephemeral_volume_waits_for_its_claim():
    pod = make_pod("p", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    assert (
        'ephemeral volume controller to create the persistentvolumeclaim "p-v"'
        in decide("VolumeBinding", NODES, pod).message
    )


def test_an_ephemeral_volume_takes_the_claim_of_its_own_pod_only():
    pod = make_pod("p", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])

    def owned_by(uid):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
        return decide("VolumeBinding", [*NODES, volume("pv1"), claim("p-v", ownerReferences=[owner])], pod)

    assert isinstance(owned_by(pod["metadata"]["uid"]), Placement)
    assert "PVC default/p-v was not created for pod default/p (pod is not owner)" in owned_by("another").message


ANTI_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
        ]
    }
}
SPREAD = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
CSI_NODE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSINode",
    "metadata": {"name": "a", "uid": "a"},
    "spec": {"drivers": [{"name": "d", "nodeID": "a", "allocatable": {"count": 2}}]},
}


@pytest.mark.parametrize(
    ("plugin", "objects", "pod", "words"),
    [
        ("InterPodAffinity", [], make_pod("p", affinity=ANTI_AFFINITY), "pod asks for pod affinity or anti-affinity"),
        (
            "InterPodAffinity",
            [make_pod("other", node="a", affinity=ANTI_AFFINITY)],
            make_pod("p", labels={"app": "web"}),
            "pods that are already placed have anti-affinity to it",
        ),
        (
            "PodTopologySpread",
            [],
            make_pod("p", topologySpreadConstraints=SPREAD),
            "pod has topology spread constraints",
        ),
        ("VolumeRestrictions", [claim("data", modes=["ReadWriteOncePod"])], pod_with_claim(), "ReadWriteOncePod"),
        (
            "VolumeZone",
            [claim("data"), volume("pv1", labels={"topology.kubernetes.io/zone": "z"})],
            pod_with_claim(),
            "zone labels",
        ),
        ("NodeVolumeLimits", [claim("data"), volume("pv1"), CSI_NODE], pod_with_claim(), "CSI driver d"),
        (
            "DynamicResources",
            [],
            make_pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]),
            "resource claims",
        ),
        (
            "NodeDeclaredFeatures",
            [],
            make_pod("p", hostNetwork=True, hostUsers=False),
            "UserNamespacesHostNetworkSupport",
        ),
    ],
)
def test_a_pod_that_needs_what_this_version_cannot_judge_is_refused_in_words_that_name_the_plugin(
    plugin, objects, pod, words
):
    diagnosis = decide(plugin, [*NODES, *objects], pod)
    assert isinstance(diagnosis, Diagnosis)
    assert words in diagnosis.message
    assert f"(plugin {plugin})" in diagnosis.message


@pytest.mark.parametrize(
    "plugin", ["InterPodAffinity", "PodTopologySpread", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits"]
)
def test_a_pod_that_does_not_need_them_is_not_kept_from_its_node(plugin):
    others = [make_pod("other", node="a", affinity=ANTI_AFFINITY), claim("data"), volume("pv1")]
    assert isinstance(decide(plugin, [*NODES, *others], pod_with_claim(labels={"app": "db"})), Placement)


@pytest.mark.parametrize(
    ("plugin", "args", "field"),
    [
        ("NodeResourcesFit", {"scoringStrategy": {"type": "Fullest"}}, "scoringStrategy.type"),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "scoringStrategy.resources[0].weight",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"name": "cpu"}, {"name": "cpu"}]}},
            "scoringStrategy.resources[1].name",
        ),
        ("NodeResourcesFit", {"scoringStrategy": {"resources": "cpu"}}, "scoringStrategy.resources"),
        ("NodeResourcesFit", {"scoringStrategy": []}, "scoringStrategy"),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "scoringStrategy.requestedToCapacityRatio.shape",
        ),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {
                        "shape": [{"utilization": 5, "score": 1}, {"utilization": 5, "score": 2}]
                    },
                }
            },
            "scoringStrategy.requestedToCapacityRatio.shape[1].utilization",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"requestedToCapacityRatio": {}}},
            "scoringStrategy.requestedToCapacityRatio",
        ),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["example.com/gpu"]}, "ignoredResourceGroups[0]"),
        ("NodeResourcesFit", {"ignoredResources": [7]}, "ignoredResources[0]"),
        ("NodeAffinity", {"addedAffinity": "x"}, "addedAffinity"),
        (
            "NodeAffinity",
            {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]}},
            "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
        ),
        ("InterPodAffinity", {"hardPodAffinityWeight": 50}, "hardPodAffinityWeight"),
        ("VolumeBinding", {"bindTimeoutSeconds": 5}, "bindTimeoutSeconds"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused_with_its_field(plugin, args, field):
    with pytest.raises(BadArgument) as refusal:
        make_plugin(plugin, args, "filter")
    assert refusal.value.field == field


def test_balanced_allocation_takes_no_weights():
    with pytest.raises(BadArgument, match="from 1 to 1"):
        make_plugin("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]}, "score")


def test_the_defaults_that_kube_scheduler_writes_out_are_taken_as_they_are():
    make_plugin("InterPodAffinity", {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False}, "filter")
    make_plugin("PodTopologySpread", {"defaultingType": "System"}, "filter")
    make_plugin("VolumeBinding", {"bindTimeoutSeconds": 600}, "filter")
    make_plugin("NodeAffinity", {"addedAffinity": None}, "filter")


def test_an_unknown_plugin_is_refused_with_the_names_that_are_known():
    with pytest.raises(UnknownPlugin, match="NodeResourcesFit"):
        make_plugin("NodeResourceFit", {}, "filter")


def test_a_plugin_serves_only_at_its_points():
    with pytest.raises(BadArgument, match="ImageLocality does not filter nodes"):
        make_plugin("ImageLocality", {}, "filter")


def test_ignored_resources_are_not_looked_at():
    pod = make_pod("p", requests={"example.com/gpu": "1"})
    assert isinstance(decide("NodeResourcesFit", NODES, pod), Diagnosis)
    assert isinstance(decide("NodeResourcesFit", NODES, pod, {"ignoredResources": ["example.com/gpu"]}), Placement)
    assert isinstance(decide("NodeResourcesFit", NODES, pod, {"ignoredResourceGroups": ["example.com"]}), Placement)
    cpu = make_pod("p", cpu="99")
    assert isinstance(decide("NodeResourcesFit", NODES, cpu, {"ignoredResources": ["cpu"]}), Diagnosis)


def test_a_node_that_is_short_of_one_of_many_resources_is_refused_with_its_name():
    names = [f"example.com/r{number:02}" for number in range(80)]
    nodes = [
        make_node("all", extended=dict.fromkeys(names, 1)),
        make_node("most", extended=dict.fromkeys(names[:-1], 1)),
    ]
    pod = make_pod("p", requests=dict.fromkeys(names, "1"))
    assert decide("NodeResourcesFit", nodes, pod) == Placement("all", 2, 1)
    assert decide("NodeResourcesFit", nodes[1:], pod).message == (
        "0/1 nodes are available: 1 Insufficient example.com/r79."
    )


def test_the_first_claim_that_keeps_a_pod_from_a_node_gives_the_reason():
    pod = make_pod("p", volumes=[{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in ("near", "lost")])
    objects = [*NODES, claim("near", volume="pv1"), volume("pv1", "z2"), claim("lost", volume="nowhere")]
    assert decide("VolumeBinding", objects, pod).message == (
        "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, "
        "1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."
    )


def test_each_pod_is_told_about_its_own_claims():
    made = Pipeline([make_plugin("VolumeBinding", {}, "filter")], [])
    state = state_of(NODES)
    for name in ("one", "two"):
        assert f'"{name}" not found' in made.decide(parse_pod(pod_with_claim(name)), state, Random(0)).message
