"""VolumeRestrictions: disks that cannot be shared, and claims for one pod only."""

from collections.abc import Sequence

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Placement
from engine.expecting import as_diagnosis
from engine.storage import NODES, decide, fits, make_claim, pod_with
from support.builders import Body, make_pod


def gce(name: str = "disk", read_only: bool = False) -> Body:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str = "disk", read_only: bool = False) -> Body:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn: str = "target", read_only: bool = False, lun: int = 0) -> Body:
    return {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": iqn, "lun": lun, "readOnly": read_only}}


def rbd(
    monitors: Sequence[str] = ("m1", "m2"), image: str = "image", pool: str = "rbd", read_only: bool = False
) -> Body:
    return {"rbd": {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": read_only}}


@pytest.mark.parametrize(
    ("there", "wanted", "left"),
    [
        (gce(), gce(), {"b"}),
        (gce(), gce("other"), {"a", "b"}),
        (gce(read_only=True), gce(), {"b"}),
        (gce(read_only=True), gce(read_only=True), {"a", "b"}),
        (ebs(), ebs(), {"b"}),
        (ebs(read_only=True), ebs(read_only=True), {"b"}),
        (ebs("one"), gce("one"), {"a", "b"}),
        (iscsi(), iscsi(lun=1), {"b"}),
        (iscsi(read_only=True), iscsi(read_only=True), {"a", "b"}),
        (iscsi(), iscsi("other"), {"a", "b"}),
        (rbd(), rbd(("m2", "m3")), {"b"}),
        (rbd(), rbd(("m3",)), {"a", "b"}),
        (rbd(), rbd(image="other"), {"a", "b"}),
        (rbd(), rbd(pool="other"), {"a", "b"}),
        (rbd(read_only=True), rbd(read_only=True), {"a", "b"}),
        (rbd(read_only=True), rbd(), {"b"}),
    ],
)
def test_a_disk_is_shared_only_where_that_does_no_harm(there: Body, wanted: Body, left: set[str]) -> None:
    objects = [*NODES, pod_with(there, name="holder", node="a")]
    assert fits("VolumeRestrictions", objects, pod_with(wanted)) == left


def test_a_node_with_a_disk_that_is_taken_says_so() -> None:
    objects = [NODES[0], pod_with(gce(), name="holder", node="a")]
    assert (
        "1 node(s) had no available disk"
        in as_diagnosis(decide("VolumeRestrictions", objects, pod_with(gce()))).message
    )


ONE_POD = make_claim("data", modes=["ReadWriteOncePod"])


def test_a_claim_for_one_pod_keeps_the_second_from_every_node() -> None:
    objects = [*NODES, ONE_POD, pod_with("data", name="holder", node="a")]
    diagnosis = decide("VolumeRestrictions", objects, pod_with("data"))
    assert isinstance(diagnosis, Diagnosis)
    assert "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode" in diagnosis.message


@pytest.mark.parametrize(
    "others",
    [
        [],
        [pod_with("data", name="elsewhere", namespace="other", node="a")],
        [pod_with("data", name="waiting")],
        [pod_with("data", name="lost", node="a-node-that-nobody-knows")],
    ],
)
def test_a_claim_for_one_pod_is_free_while_no_placed_pod_uses_it(others: list[Body]) -> None:
    assert isinstance(decide("VolumeRestrictions", [*NODES, ONE_POD, *others], pod_with("data")), Placement)


def test_a_claim_for_many_pods_keeps_nobody_away() -> None:
    objects = [*NODES, make_claim("data"), pod_with("data", name="holder", node="a")]
    assert isinstance(decide("VolumeRestrictions", objects, pod_with("data")), Placement)


def test_a_claim_that_is_not_there_stops_the_pod() -> None:
    message = as_diagnosis(decide("VolumeRestrictions", NODES, pod_with("data"))).message
    assert 'persistentvolumeclaim "data" not found' in message


def test_a_pod_without_volumes_is_not_looked_at() -> None:
    objects = [*NODES, pod_with(gce(), name="holder", node="a")]
    assert fits("VolumeRestrictions", objects, make_pod("p")) == {"a", "b"}
