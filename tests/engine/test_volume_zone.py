"""VolumeZone: the zones and regions that the labels of volumes name."""

from collections.abc import Mapping, Sequence

import pytest

from berth.engine.diagnosis import Diagnosis
from engine.expecting import as_diagnosis
from engine.storage import decide, fits, make_claim, make_class, make_volume, pod_with
from support.builders import Body, make_node

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
NODES = [
    make_node("one", labels={ZONE: "z1", REGION: "r"}),
    make_node("two", labels={ZONE: "z2", REGION: "r"}),
    make_node("older", labels={OLD_ZONE: "z1"}),
    make_node("nowhere"),
]


@pytest.mark.parametrize(
    ("labels", "left"),
    [
        ({}, {"one", "two", "older", "nowhere"}),
        ({ZONE: "z1"}, {"one", "nowhere"}),
        ({OLD_ZONE: "z1"}, {"one", "older", "nowhere"}),
        ({ZONE: "z1__z2"}, {"one", "two", "nowhere"}),
        ({ZONE: "z1__"}, {"one", "two", "older", "nowhere"}),
        ({ZONE: "z9"}, {"nowhere"}),
        ({ZONE: "z2", REGION: "r"}, {"two", "nowhere"}),
        ({OLD_REGION: "r"}, {"one", "two", "nowhere"}),
        ({REGION: "elsewhere"}, {"nowhere"}),
    ],
)
def test_a_node_that_names_a_zone_must_name_one_of_the_volumes(labels: Mapping[str, str], left: set[str]) -> None:
    objects = [*NODES, make_claim("data", "v"), make_volume("v", labels=labels)]
    assert fits("VolumeZone", objects, pod_with("data")) == left


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([make_claim("data", "v")], 'persistentvolume "v" not found'),
        ([make_claim("data", storage_class=None)], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([make_claim("data")], 'storageclass.storage.k8s.io "slow" not found'),
        ([make_claim("data"), make_class(immediate=True)], "PersistentVolume had no name"),
    ],
)
def test_a_claim_without_its_volume_stops_the_pod(objects: Sequence[Body], words: str) -> None:
    diagnosis = decide("VolumeZone", [*NODES, *objects], pod_with("data"))
    assert isinstance(diagnosis, Diagnosis)
    assert words in diagnosis.message


def test_a_claim_that_waits_for_its_first_consumer_has_no_zone_yet() -> None:
    objects = [*NODES, make_claim("data"), make_class()]
    assert fits("VolumeZone", objects, pod_with("data")) == {"one", "two", "older", "nowhere"}


def test_a_wrong_zone_is_told_in_words() -> None:
    objects = [NODES[0], make_claim("data", "v"), make_volume("v", labels={ZONE: "z9"})]
    assert (
        "1 node(s) had no available volume zone"
        in as_diagnosis(decide("VolumeZone", objects, pod_with("data"))).message
    )
