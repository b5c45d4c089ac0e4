"""Claims, volumes, classes and CSI objects."""

from __future__ import annotations

from typing import Any

import pytest

from berth.model import (
    ClaimReference,
    CSINodeDriver,
    InvalidObject,
    parse_claim,
    parse_csi_driver,
    parse_csi_node,
    parse_csi_storage_capacity,
    parse_storage_class,
    parse_volume,
)
from berth.model.selectors import selector_from_labels
from support.builders import make_object

Gi = 1024**3
ZONE = {"key": "zone", "operator": "In", "values": ["z1"]}


def make_claim(**changes: Any) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
        "selector": {"matchLabels": {"a": "b"}},
    }
    return make_object(
        "PersistentVolumeClaim", "c", namespace="default", spec=spec | changes, status={"phase": "Bound"}
    )


def make_volume(**changes: Any) -> dict[str, Any]:
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "claimRef": {"namespace": "default", "name": "c", "uid": "u"},
        "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}},
    }
    return make_object("PersistentVolume", "v", spec=spec | changes, status={"phase": "Bound"})


def test_a_claim_is_read() -> None:
    claim = parse_claim(make_claim(volumeName="v", storageClassName="fast"))
    assert (claim.namespace, claim.name, claim.phase, claim.volume_name) == ("default", "c", "Bound", "v")
    assert (claim.storage_class, claim.access_modes, claim.requested_bytes) == ("fast", ("ReadWriteOnce",), 5 * Gi)
    assert (claim.selector, claim.volume_mode) == (selector_from_labels({"a": "b"}), "Filesystem")


def test_a_claim_knows_the_owner_that_manages_it() -> None:
    body = make_claim()
    assert parse_claim(body).controller_uid == ""
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "u1"},
        {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u2", "controller": True},
    ]
    assert parse_claim(body).controller_uid == "u2"


def test_a_volume_kept_for_half_a_claim_is_kept_for_it() -> None:
    assert parse_volume(make_volume(claimRef={"name": "c"})).claim_ref == ClaimReference("", "c", "")


def test_a_claim_without_a_class_differs_from_one_that_asks_for_none() -> None:
    assert parse_claim(make_claim()).storage_class is None
    assert parse_claim(make_claim(storageClassName="")).storage_class == ""


def test_the_old_annotation_names_the_class_before_the_field_does() -> None:
    body = make_claim(storageClassName="new")
    body["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert parse_claim(body).storage_class == "old"


def test_a_volume_is_read() -> None:
    volume = parse_volume(make_volume())
    assert (volume.name, volume.phase, volume.capacity_bytes, volume.storage_class) == ("v", "Bound", 10 * Gi, "fast")
    assert (volume.claim_ref, volume.source) == (ClaimReference("default", "c", "u"), "csi")
    assert (volume.csi_driver, volume.csi_handle) == ("csi.example.com", "h")
    assert volume.node_affinity is not None
    assert volume.node_affinity.matches("n1", {"zone": "z1"})


def test_a_volume_of_another_source_keeps_what_identifies_it() -> None:
    volume = parse_volume(make_volume(csi=None, claimRef=None, nodeAffinity=None, gcePersistentDisk={"pdName": "d"}))
    assert (volume.source, volume.details["pdName"], volume.csi_driver) == ("gcePersistentDisk", "d", "")
    assert (volume.claim_ref, volume.node_affinity) == (None, None)


def test_a_storage_class_is_read() -> None:
    body = make_object(
        "StorageClass",
        "fast",
        provisioner="csi.example.com",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["z1", "z2"]}]}, {}],
    )
    found = parse_storage_class(body)
    assert (found.name, found.provisioner, found.binding_mode) == ("fast", "csi.example.com", "WaitForFirstConsumer")
    assert [term.matches("n", {"zone": "z2"}) for term in found.allowed_topologies] == [True, False]


def test_a_storage_class_binds_at_once_unless_it_says_otherwise() -> None:
    assert parse_storage_class(make_object("StorageClass", "s", provisioner="p")).binding_mode == "Immediate"


def test_csi_objects_are_read() -> None:
    drivers = [
        {"name": "a", "nodeID": "n1", "topologyKeys": ["zone"], "allocatable": {"count": 0}},
        {"name": "b", "nodeID": "n1", "topologyKeys": None},
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"}
    node = parse_csi_node(
        make_object("CSINode", "n1", metadata={"annotations": annotations}, spec={"drivers": drivers})
    )
    assert node.drivers == (CSINodeDriver("a", "n1", ("zone",), 0), CSINodeDriver("b", "n1", (), None))
    assert node.migrated_plugins == {"kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"}
    assert parse_csi_driver(make_object("CSIDriver", "a", spec={"storageCapacity": True})).storage_capacity
    assert not parse_csi_driver(make_object("CSIDriver", "a", spec={})).storage_capacity


def test_a_largest_volume_below_zero_which_the_api_server_accepts_is_read() -> None:
    body = make_object("CSIStorageCapacity", "x", namespace="default", storageClassName="fast", maximumVolumeSize="-1")
    assert parse_csi_storage_capacity(body).maximum_volume_bytes == -1


def test_a_storage_capacity_is_read() -> None:
    body = make_object("CSIStorageCapacity", "x", namespace="default", storageClassName="fast", capacity="1Gi")
    body["nodeTopology"] = {"matchLabels": {"zone": "z1"}}
    capacity = parse_csi_storage_capacity(body)
    assert (capacity.storage_class, capacity.capacity_bytes, capacity.maximum_volume_bytes) == ("fast", Gi, None)
    assert capacity.node_topology == selector_from_labels({"zone": "z1"})


@pytest.mark.parametrize(
    ("parse", "body", "path"),
    [
        (parse_claim, make_claim(resources={"requests": {"storage": "x"}}), "spec.resources.requests.storage"),
        (parse_claim, make_claim(storageClassName=1), "spec.storageClassName"),
        (parse_volume, make_volume(capacity={"storage": "-1"}), "spec.capacity.storage"),
        (parse_volume, make_volume(csi={"driver": 1}), "spec.csi.driver"),
        (parse_volume, make_volume(claimRef={"name": 1}), "spec.claimRef.name"),
        (parse_storage_class, make_object("StorageClass", "s"), "provisioner"),
        (
            parse_storage_class,
            make_object("StorageClass", "s", provisioner="p", volumeBindingMode="Later"),
            "volumeBindingMode",
        ),
        (
            parse_csi_node,
            make_object("CSINode", "n", spec={"drivers": [{"name": "a", "allocatable": {"count": -1}}]}),
            "spec.drivers[0].allocatable.count",
        ),
    ],
)
def test_a_field_that_makes_no_sense_is_named(parse: Any, body: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        parse(body)
    assert refused.value.field == path
