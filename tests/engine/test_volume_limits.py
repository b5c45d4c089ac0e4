"""NodeVolumeLimits: how many volumes of a driver a node can hold."""

from typing import Any

import pytest

from berth.engine.diagnosis import Diagnosis
from engine.expecting import as_diagnosis
from engine.storage import decide, fits, make_claim, make_class, make_csi_node, make_volume, pod_with
from support.builders import Body, make_node, make_object

NODES = [make_node("a"), make_node("b")]
CLAIMS = [body for i in range(4) for body in (make_claim(f"c{i}", f"v{i}"), make_volume(f"v{i}"))]
HOLDER = pod_with("c0", "c1", name="holder", node="a")
EBS_DRIVER, EBS_PLUGIN = "ebs.csi.aws.com", "kubernetes.io/aws-ebs"


def ebs(name: str) -> Body:
    return {"awsElasticBlockStore": {"volumeID": name}}


def limited(driver: str = "d", count: int = 2, node: str = "a") -> Body:
    drivers: dict[str, Any] = {driver: count}
    return make_csi_node(node, **drivers)


@pytest.mark.parametrize(
    ("csi_nodes", "left"),
    [
        ([], {"a", "b"}),
        ([make_csi_node("a", d=None)], {"a", "b"}),
        ([limited(count=3)], {"a", "b"}),
        ([limited(count=2)], {"b"}),
        ([limited(count=2), limited(count=0, node="b")], set()),
        ([limited("another", count=0)], {"a", "b"}),
    ],
)
def test_a_node_takes_no_more_volumes_of_a_driver_than_it_can_hold(csi_nodes: list[Body], left: set[str]) -> None:
    assert fits("NodeVolumeLimits", [*NODES, *CLAIMS, HOLDER, *csi_nodes], pod_with("c2")) == left


def test_a_volume_that_is_there_already_takes_no_more_room() -> None:
    objects = [*NODES, *CLAIMS, HOLDER, limited(count=2), limited(count=0, node="b")]
    assert fits("NodeVolumeLimits", objects, pod_with("c1")) == {"a"}
    assert fits("NodeVolumeLimits", objects, pod_with("c1", "c2")) == set()


def test_a_node_that_holds_too_much_lets_a_pod_in_only_while_it_shares_what_is_there() -> None:
    over = [limited(count=1), pod_with("c2", name="another", node="a")]
    assert fits("NodeVolumeLimits", [NODES[0], *CLAIMS, HOLDER, *over], pod_with("c2")) == {"a"}
    assert fits("NodeVolumeLimits", [NODES[0], *CLAIMS, HOLDER, over[0]], pod_with("c2")) == set()


def test_a_volume_that_several_pods_use_counts_once() -> None:
    others = [pod_with("c0", name=f"user{i}", node="a") for i in range(3)]
    assert fits("NodeVolumeLimits", [NODES[0], *CLAIMS, *others, limited(count=2)], pod_with("c2")) == {"a"}


def test_an_unbound_claim_counts_for_the_driver_of_its_class() -> None:
    waiting = [make_claim("w0"), make_claim("w1"), make_class(provisioner="d")]
    holder = pod_with("w0", name="holder", node="a")
    objects = [NODES[0], *waiting, holder]
    assert fits("NodeVolumeLimits", [*objects, limited(count=2)], pod_with("w1")) == {"a"}
    assert fits("NodeVolumeLimits", [*objects, limited(count=1)], pod_with("w1")) == set()
    assert fits("NodeVolumeLimits", [*objects, limited(count=1)], pod_with("w0")) == {"a"}


def test_a_claim_whose_class_is_unknown_is_not_counted() -> None:
    objects = [NODES[0], make_claim("w0"), make_claim("bare", storage_class=None), limited(count=0)]
    assert fits("NodeVolumeLimits", objects, pod_with("w0", "bare")) == {"a"}


@pytest.mark.parametrize("wanted", [ebs("vol-2"), "tree", "made"])
def test_in_tree_disks_count_for_the_driver_that_took_them_over(wanted: str | Body) -> None:
    objects = [
        NODES[0],
        make_claim("tree", "v"),
        make_volume("v", source=ebs("vol-3")),
        make_claim("made", storage_class="ebs"),
        make_class("ebs", provisioner=EBS_PLUGIN),
        pod_with(ebs("vol-1"), name="holder", node="a"),
    ]
    assert fits("NodeVolumeLimits", [*objects, limited(EBS_DRIVER, 2)], pod_with(wanted)) == {"a"}
    assert fits("NodeVolumeLimits", [*objects, limited(EBS_DRIVER, 1)], pod_with(wanted)) == set()
    assert fits("NodeVolumeLimits", [*objects, limited(EBS_DRIVER, 1)], pod_with(ebs("aws://z/vol-1"))) == {"a"}


def test_a_claim_that_is_not_there_keeps_the_pod_from_every_node() -> None:
    diagnosis = decide("NodeVolumeLimits", NODES, pod_with("missing"))
    assert isinstance(diagnosis, Diagnosis)
    assert '2 looking up PVC default/missing: persistentvolumeclaim "missing" not found' in diagnosis.message


def test_a_disk_that_the_driver_cannot_know_is_an_error_where_there_is_a_csi_node() -> None:
    shared = {"azureDisk": {"diskName": "x", "diskURI": "y", "kind": "Shared"}}
    objects = [*NODES, make_csi_node("a")]
    assert fits("NodeVolumeLimits", objects, pod_with(shared)) == {"b"}
    message = as_diagnosis(decide("NodeVolumeLimits", objects[:1] + objects[2:], pod_with(shared))).message
    assert 'running "NodeVolumeLimits" filter plugin: converting volume(v0) from inline to csi: kind(Shared)' in message


def test_a_placed_pod_that_cannot_be_counted_is_an_error_on_a_node_with_limits() -> None:
    ephemeral: Body = {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    foreign = [pod_with(ephemeral, name="holder", node="a"), make_claim("holder-v0", "v0", owner="somebody")]
    objects = [*NODES, *CLAIMS, *foreign]
    assert fits("NodeVolumeLimits", [*objects, limited(count=9)], pod_with("c2")) == {"b"}
    assert fits("NodeVolumeLimits", [*objects, make_csi_node("a", d=None)], pod_with("c2")) == {"a", "b"}


def test_a_pod_without_such_volumes_is_not_looked_at() -> None:
    other = make_object("CSINode", "b", spec={"drivers": []})
    assert fits("NodeVolumeLimits", [*NODES, limited(count=0), other], pod_with({"nfs": {}})) == {"a", "b"}
