"""VolumeBinding: bound claims, unbound ones, those that wait for their first consumer, and what is found for them."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Pipeline, Placement
from berth.engine.plugin import BadArgument, Query
from berth.engine.plugins.volume_binding import VolumeBinding
from berth.engine.state.state import State
from berth.engine.state.volume_reservations import SELECTED_NODE, VolumePlan
from berth.engine.verdict import Code
from berth.model import object_key, parse, parse_node, parse_pod
from engine.expecting import as_diagnosis, make_filter, make_score
from engine.storage import (
    NODES,
    decide,
    fits,
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    pod_with,
)
from engine.worlds import state_of
from support.builders import Body, make_node, make_pod

LATER = make_class()
LOCAL = make_class(provisioner="kubernetes.io/no-provisioner")
NO_MATCH = "2 node(s) didn't find available persistent volumes to bind"
EPHEMERAL: Body = {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def message(objects: Iterable[Body], pod: Body) -> str:
    diagnosis = decide("VolumeBinding", [*NODES, *objects], pod)
    assert isinstance(diagnosis, Diagnosis)
    return diagnosis.message


def plan(objects: Iterable[Body], pod: Body, node: str) -> VolumePlan | None:
    state = state_of([*NODES, *objects])
    return VolumeBinding({}).plan(parse_pod(pod), state, node)


def bindings(objects: Iterable[Body], pod: Body, node: str) -> dict[str, str]:
    found = plan(objects, pod, node)
    return {claim.name: volume.name for claim, volume in found.bindings} if found else {}


def test_a_pod_with_a_bound_claim_goes_where_its_volume_is() -> None:
    placed = decide("VolumeBinding", [*NODES, make_claim("data", "pv1"), make_volume("pv1", "z2")], pod_with("data"))
    assert placed == Placement("b", 2, 1)


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([make_claim("data")], "pod has unbound immediate PersistentVolumeClaims"),
        ([make_claim("data"), make_class(immediate=True)], "pod has unbound immediate PersistentVolumeClaims"),
        ([make_claim("data", storage_class=None)], "pod has unbound immediate PersistentVolumeClaims"),
        (
            [make_claim("data", "pv1", bound=False), make_volume("pv1"), LATER],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            [make_claim("data", "pv1", phase="Lost")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv1"',
        ),
        ([make_claim("data", "pv1", deleting=True)], 'persistentvolumeclaim "data" is being deleted'),
        ([make_claim("data", "pv1")], "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
        (
            [make_claim("data", "pv1"), make_volume("pv1", "z9")],
            "2 node(s) didn't match PersistentVolume's node affinity",
        ),
        ([make_claim("data"), LOCAL], NO_MATCH),
    ],
)
def test_a_pod_whose_claim_is_not_usable_waits_with_the_reason(objects: Sequence[Body], words: str) -> None:
    diagnosis = decide("VolumeBinding", [*NODES, *objects], pod_with("data"))
    assert isinstance(diagnosis, Diagnosis)
    assert words in diagnosis.message
    assert not diagnosis.error


def test_an_ephemeral_volume_waits_for_its_claim() -> None:
    words = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v0"'
    assert words in message([], pod_with(EPHEMERAL))


def test_an_ephemeral_volume_takes_the_claim_of_its_own_pod_only() -> None:
    pod = pod_with(EPHEMERAL)

    def owned_by(uid: str) -> Placement | Diagnosis:
        return decide("VolumeBinding", [*NODES, make_volume("pv1"), make_claim("p-v0", "pv1", owner=uid)], pod)

    assert isinstance(owned_by(pod["metadata"]["uid"]), Placement)
    refused = as_diagnosis(owned_by("another"))
    assert "PVC default/p-v0 was not created for pod default/p (pod is not owner)" in refused.message


def test_the_first_claim_that_keeps_a_pod_from_a_node_gives_the_reason() -> None:
    objects = [make_claim("near", "pv1"), make_volume("pv1", "z2"), make_claim("lost", "nowhere")]
    assert message(objects, pod_with("near", "lost")) == (
        "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, "
        "1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."
    )


def test_each_pod_is_told_about_its_own_claims() -> None:
    made = Pipeline([make_filter("VolumeBinding")], [])
    state = state_of(NODES)
    for name in ("one", "two"):
        assert f'"{name}" not found' in as_diagnosis(made.decide(parse_pod(pod_with(name)), state, Random(0))).message


def test_a_node_hears_of_bound_and_unbound_claims_alike() -> None:
    objects = [make_claim("far", "pv1"), make_volume("pv1", "z9"), make_claim("data"), LOCAL]
    assert message(objects, pod_with("far", "data")) == (
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind, "
        "2 node(s) didn't match PersistentVolume's node affinity."
    )


def test_the_name_of_a_node_in_a_volumes_affinity_is_passed_over_as_kube_scheduler_does() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    nowhere_else = make_volume("pv1", terms=[{"matchFields": fields}])
    assert fits("VolumeBinding", [*NODES, make_claim("data", "pv1"), nowhere_else], pod_with("data")) == {"a", "b"}
    in_zone = [{"key": "zone", "operator": "In", "values": ["z2"]}]
    elsewhere = make_volume("pv1", terms=[{"matchFields": fields, "matchExpressions": in_zone}])
    assert fits("VolumeBinding", [*NODES, make_claim("data", "pv1"), elsewhere], pod_with("data")) == {"b"}


# --- finding volumes -------------------------------------------------------------------------------------------------


def test_a_claim_gets_the_smallest_volume_that_is_large_enough_and_can_be_reached() -> None:
    volumes = [
        make_volume("small", "z1", size="1Gi"),
        make_volume("right", "z1", size="6Gi"),
        make_volume("large", "z1", size="9Gi"),
        make_volume("huge", size="90Gi"),
    ]
    objects = [make_claim("data", size="5Gi"), LOCAL, *volumes]
    assert bindings(objects, pod_with("data"), "a") == {"data": "right"}
    assert bindings(objects, pod_with("data"), "b") == {"data": "huge"}


def test_of_volumes_of_one_size_the_same_is_taken_whichever_came_first() -> None:
    volumes = [make_volume(f"v{number}") for number in range(5)]
    objects = [make_claim("data"), LOCAL]
    assert bindings([*objects, *volumes], pod_with("data"), "a") == bindings(
        [*objects, *reversed(volumes)], pod_with("data"), "a"
    )


@pytest.mark.parametrize(
    "volume",
    [
        make_volume("v", phase="Released"),
        make_volume("v", storage_class="fast"),
        make_volume("v", volumeMode="Block"),
        make_volume("v", volumeAttributesClassName="gold"),
        make_volume("v", claim="other"),
        make_volume("v", "z9"),
        make_volume("v", size="1Mi"),
        make_volume("v", labels={"tier": "b"}),
        make_volume("v", accessModes=["ReadOnlyMany"], labels={"tier": "a"}),
    ],
)
def test_a_volume_that_does_not_suit_is_not_given_away(volume: Body) -> None:
    claim = make_claim("data", selector={"matchLabels": {"tier": "a"}} if volume["metadata"]["labels"] else None)
    assert NO_MATCH in message([claim, LOCAL, volume], pod_with("data"))


def test_claims_of_one_pod_get_different_volumes_the_smaller_claim_first() -> None:
    volumes = [make_volume("v1", size="2Gi"), make_volume("v2", size="3Gi"), make_volume("v3", size="4Gi")]
    objects = [make_claim("large", size="2Gi"), make_claim("small", size="1Gi"), LOCAL]
    pod = pod_with("large", "small")
    assert bindings([*objects, *volumes], pod, "a") == {"small": "v1", "large": "v2"}
    assert NO_MATCH in message([*objects, volumes[0]], pod)


def test_what_one_claim_takes_on_a_node_is_still_there_on_another() -> None:
    volumes = [make_volume("here", "z1", size="2Gi"), make_volume("anywhere", size="3Gi")]
    objects = [make_claim("one"), make_claim("two"), LOCAL, *volumes]
    assert bindings(objects, pod_with("one", "two"), "a") == {"one": "here", "two": "anywhere"}
    assert fits("VolumeBinding", [*NODES, *objects], pod_with("one", "two")) == {"a"}


def test_a_volume_that_is_kept_for_a_claim_is_the_only_one_it_gets() -> None:
    objects = [make_claim("data"), LOCAL, make_volume("free"), make_volume("kept", "z2", size="9Gi", claim="data")]
    assert bindings(objects, pod_with("data"), "b") == {"data": "kept"}
    assert fits("VolumeBinding", [*NODES, *objects], pod_with("data")) == {"b"}


def test_a_volume_that_another_pod_has_reserved_is_not_found_again() -> None:
    state = state_of([*NODES, make_claim("one"), make_claim("two"), LOCAL, make_volume("v")])
    plugin = VolumeBinding({})
    second = Query(parse_pod(pod_with("two")), state.table)
    reserved = plugin.plan(parse_pod(pod_with("one")), state, "a")
    assert reserved is not None
    state.volumes.reservations.reserve("first", reserved)
    assert (plugin.filter(second, state, state.table.rows).codes > 0).all()
    state.volumes.reservations.release("first")
    second.memo.clear()
    assert not plugin.filter(second, state, state.table.rows).codes.any()


def test_a_volume_that_is_being_deleted_is_not_found() -> None:
    leaving = make_volume("v")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert NO_MATCH in message([make_claim("data"), LOCAL, leaving], pod_with("data"))


def test_a_volume_that_is_kept_for_a_claim_that_is_gone_is_not_its_namesakes() -> None:
    kept = make_volume("v", claim="data")
    kept["spec"]["claimRef"]["uid"] = "the claim before"
    assert NO_MATCH in message([make_claim("data"), LOCAL, kept], pod_with("data"))


def test_of_pods_that_share_a_claim_the_last_one_says_where_its_volume_is_made() -> None:
    state = state_of([*NODES, make_claim("data"), LATER])
    reservations, claim = state.volumes.reservations, state.claim("default", "data")
    assert claim is not None

    def selected_node() -> str:
        reserved = reservations.claim("default", "data")
        assert reserved is not None
        return reserved.annotations[SELECTED_NODE]

    for uid, node in (("first", "a"), ("second", "b")):
        reservations.reserve(uid, VolumePlan(node, provisions=(claim,)))
        assert selected_node() == node
    reservations.release("second")
    assert selected_node() == "a"


# --- volumes and capacities that come and go --------------------------------------------------------------------------


def put(state: State, *bodies: Body) -> None:
    for body in bodies:
        state.put(body["kind"], object_key(body), parse(body["kind"], body))


def reached(state: State, pod: Body) -> set[str]:
    """The nodes that the filter leaves to the pod in this state, which goes on from question to question."""
    plugin, query = make_filter("VolumeBinding"), Query(parse_pod(pod), state.table)
    assert plugin.pre_filter(query, state).code is Code.FITS
    codes = plugin.filter(query, state, state.table.rows_by_name).codes
    return {name for name, code in zip(state.table.sorted_names, codes.tolist(), strict=True) if not code}


def test_the_number_of_a_place_that_is_used_again_is_another_place() -> None:
    state = state_of([*NODES, make_claim("data"), LOCAL, make_volume("old", "z1"), make_volume("tiny", "z9", size="1")])
    assert reached(state, pod_with("data")) == {"a"}
    state.drop("PersistentVolume", "old")
    put(state, make_volume("new", "z2"))
    assert reached(state, pod_with("data")) == {"b"}


def test_a_volume_is_reached_from_a_zone_that_joins_later() -> None:
    state = state_of([*NODES, make_claim("data"), LOCAL, make_volume("v", "z3")])
    assert reached(state, pod_with("data")) == set()
    state.table.set_node(parse_node(make_node("c", labels={"zone": "z3"})))
    assert reached(state, pod_with("data")) == {"c"}


def test_capacity_that_a_driver_does_not_tell_of_any_more_is_not_there() -> None:
    there, gone = (make_capacity(zone, "9Gi", {"matchLabels": {"zone": zone}}) for zone in ("z1", "z2"))
    state = state_of([*NODES, make_claim("data", size="5Gi"), LATER, make_driver(), there, gone])
    assert reached(state, pod_with("data")) == {"a", "b"}
    state.drop("CSIStorageCapacity", object_key(gone))
    assert reached(state, pod_with("data")) == {"a"}


# --- making volumes --------------------------------------------------------------------------------------------------


def test_a_claim_that_no_volume_fits_is_made_where_its_class_can() -> None:
    topologies = [{"matchLabelExpressions": [{"key": "zone", "values": ["z2", "z3"]}]}]
    objects = [make_claim("data"), make_class(allowedTopologies=topologies), make_volume("v", "z9")]
    assert fits("VolumeBinding", [*NODES, *objects], pod_with("data")) == {"b"}
    found = plan(objects, pod_with("data"), "b")
    assert found is not None
    assert (found.bindings, [claim.name for claim in found.provisions]) == ((), ["data"])


def test_a_claim_that_was_given_a_node_is_made_there_and_nowhere_else() -> None:
    claim = make_claim("data", annotations={"volume.kubernetes.io/selected-node": "b"})
    assert fits("VolumeBinding", [*NODES, claim, LATER, make_volume("v")], pod_with("data")) == {"b"}
    assert bindings([claim, LATER, make_volume("v")], pod_with("data"), "b") == {}


@pytest.mark.parametrize(
    ("capacities", "left"),
    [
        ([], set()),
        ([make_capacity("c", "9Gi", {"matchLabels": {"zone": "z1"}})], {"a"}),
        ([make_capacity("c", "1Gi", {"matchLabels": {"zone": "z1"}})], set()),
        ([make_capacity("c", "9Gi", {"matchLabels": {"zone": "z1"}}, maximumVolumeSize="1Gi")], set()),
        ([make_capacity("c", "9Gi", {"matchLabels": {"zone": "z1"}}, "another")], set()),
        ([make_capacity("c", "9Gi", None)], set()),
        ([make_capacity("c", "9Gi", {})], {"a", "b"}),
        (
            [make_capacity("c", "9Gi", {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["z1"]}]})],
            {"b"},
        ),
        (
            [
                make_capacity("c", "1Gi", {"matchLabels": {"zone": "z1"}}),
                make_capacity("d", "9Gi", {"matchLabels": {"zone": "z1"}}),
            ],
            {"a"},
        ),
    ],
)
def test_a_volume_is_made_where_the_driver_says_that_there_is_space(capacities: list[Body], left: set[str]) -> None:
    objects = [make_claim("data", size="5Gi"), LATER, *capacities]
    assert fits("VolumeBinding", [*NODES, *objects, make_driver()], pod_with("data")) == left
    assert fits("VolumeBinding", [*NODES, *objects, make_driver(capacity=False)], pod_with("data")) == {"a", "b"}
    assert fits("VolumeBinding", [*NODES, *objects], pod_with("data")) == {"a", "b"}


def test_want_of_space_is_told_apart_from_want_of_volumes() -> None:
    objects = [make_claim("data", size="5Gi"), LATER, make_driver()]
    assert "2 node(s) did not have enough free storage" in message(objects, pod_with("data"))


# --- in-tree volumes -------------------------------------------------------------------------------------------------

EBS = {"awsElasticBlockStore": {"volumeID": "aws://z1/vol-1"}}
EBS_NODES = [
    make_node("old", labels={"topology.kubernetes.io/zone": "z1"}),
    make_node("new", labels={"topology.ebs.csi.aws.com/zone": "z1"}),
]


def test_the_zone_of_an_in_tree_volume_is_looked_up_under_its_successors_label_where_that_is_at_work() -> None:
    zone = [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]
    objects = [*EBS_NODES, make_claim("data", "v"), make_volume("v", source=EBS, terms=[{"matchExpressions": zone}])]
    assert fits("VolumeBinding", objects, pod_with("data")) == {"old"}
    taken_over = [make_csi_node(name, "kubernetes.io/aws-ebs") for name in ("old", "new")]
    assert fits("VolumeBinding", [*objects, *taken_over], pod_with("data")) == {"new"}


def test_an_in_tree_volume_without_a_successors_form_is_an_error_where_the_successor_is_at_work() -> None:
    bad = make_volume("v", source={"awsElasticBlockStore": {"volumeID": "aws://z1/disk"}})
    objects = [*EBS_NODES[:1], make_claim("data", "v"), bad]
    assert isinstance(decide("VolumeBinding", objects, pod_with("data")), Placement)
    diagnosis = as_diagnosis(
        decide("VolumeBinding", [*objects, make_csi_node("old", "kubernetes.io/aws-ebs")], pod_with("data"))
    )
    assert 'running "VolumeBinding" filter plugin: could not translate pv' in diagnosis.message


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"bindTimeoutSeconds": -1}, "bindTimeoutSeconds"),
        ({"bindTimeoutSeconds": "5s"}, "bindTimeoutSeconds"),
        ({"shape": [{"utilization": 0, "score": 0}]}, "shape"),
        ({"bindTimeout": 5}, "bindTimeout"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused_with_its_field(args: Mapping[str, Any], field: str) -> None:
    with pytest.raises(BadArgument) as refusal:
        make_filter("VolumeBinding", args)
    assert refusal.value.field == field


def test_pods_wait_ten_minutes_for_their_volumes_unless_told_otherwise() -> None:
    assert VolumeBinding({}).bind_timeout_seconds == 600
    assert VolumeBinding({"bindTimeoutSeconds": 5, "shape": None}).bind_timeout_seconds == 5


def test_volumes_do_not_score() -> None:
    state = state_of([*NODES, make_claim("data"), LOCAL, make_volume("v")])
    assert not make_score("VolumeBinding").pre_score(Query(parse_pod(pod_with("data")), state.table), state)
    assert make_filter("VolumeBinding").pre_filter(Query(parse_pod(make_pod("p")), state.table), state).skip
