"""The table of kinds, and that no body whatsoever makes parsing raise anything but InvalidObject."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.model import KIND, KINDS, InvalidObject, object_key, parse
from support.builders import make_node, make_object, make_pod

SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["1", "2"]}]}
TERM = {
    "matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
}
POD_TERM = {
    "labelSelector": SELECTOR,
    "topologyKey": "zone",
    "namespaces": ["a"],
    "namespaceSelector": SELECTOR,
    "matchLabelKeys": ["a"],
    "mismatchLabelKeys": ["b"],
}
POD_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": POD_TERM}],
}
CONTAINER = {
    "name": "side",
    "image": "side",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    "ports": [{"hostPort": 80, "hostIP": "10.0.0.1", "protocol": "UDP"}],
    "restartPolicyRules": [{"action": "Restart"}],
}
REPORT = {"name": "main", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "2"}}}


def valid_bodies() -> dict[str, dict[str, Any]]:
    """For every kind a body with something in every field that is read."""
    pod = make_pod(
        "p",
        cpu="1",
        labels={"a": "b"},
        owner={"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "u", "controller": True},
        priority=1,
        gates=["g"],
        tolerations=[{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
        node_selector={"a": "b"},
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": TERM}],
            },
            "podAffinity": POD_AFFINITY,
            "podAntiAffinity": POD_AFFINITY,
        },
        ports=[80],
        created="2026-01-01T00:00:00Z",
        deleting=True,
        nominated="n",
        initContainers=[CONTAINER],
        overhead={"cpu": "1m"},
        resources={"requests": {"cpu": "2"}},
        hostNetwork=True,
        hostUsers=False,
        preemptionPolicy="Never",
        resourceClaims=[{"name": "r"}],
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
                "minDomains": 1,
                "nodeAffinityPolicy": "Honor",
                "nodeTaintsPolicy": "Ignore",
                "matchLabelKeys": ["a"],
            }
        ],
        volumes=[
            {"name": "a", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
            {"name": "b", "rbd": {"monitors": ["m"], "pool": "p", "image": "i", "readOnly": False}},
            {"name": "c", "iscsi": {"targetPortal": "t", "iqn": "q", "lun": 0}},
            {"name": "d", "image": {"reference": "r"}},
        ],
        status={
            "startTime": "2026-01-01T00:00:00Z",
            "resources": {"requests": {"cpu": "1"}},
            "allocatedResources": {"cpu": "1"},
            "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}, {"type": "PodScheduled"}],
            "containerStatuses": [REPORT],
            "initContainerStatuses": [{**REPORT, "name": "side"}],
        },
    )
    node = make_node(
        "n",
        labels={"a": "b"},
        annotations={"a": "b"},
        taints=[("k", "v", "NoSchedule")],
        unschedulable=True,
        images={"i": 1},
        extended={"example.com/gpu": 1},
        declared_features=["F"],
    )
    claim_spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "selector": SELECTOR,
        "storageClassName": "s",
        "volumeName": "v",
        "volumeMode": "Block",
    }
    volume_spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "a", "name": "c", "uid": "u"},
        "csi": {"driver": "d", "volumeHandle": "h"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [TERM]}},
        "storageClassName": "s",
    }
    driver = {"name": "d", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 1}}
    others = [
        make_object("Namespace", "x", metadata={"labels": {"a": "b"}}),
        make_object("PersistentVolumeClaim", "x", namespace="a", spec=claim_spec, status={"phase": "Bound"}),
        make_object("PersistentVolume", "x", spec=volume_spec, status={"phase": "Bound"}),
        make_object(
            "StorageClass",
            "x",
            provisioner="p",
            volumeBindingMode="Immediate",
            allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["z"]}]}],
        ),
        make_object("CSINode", "x", metadata={"annotations": {"a": "b"}}, spec={"drivers": [driver]}),
        make_object("CSIDriver", "x", spec={"storageCapacity": True}),
        make_object(
            "CSIStorageCapacity",
            "x",
            namespace="a",
            storageClassName="s",
            capacity="1Gi",
            maximumVolumeSize="1Gi",
            nodeTopology=SELECTOR,
        ),
        make_object(
            "PodDisruptionBudget",
            "x",
            namespace="a",
            spec={"selector": SELECTOR},
            status={"disruptionsAllowed": 1, "disruptedPods": {"p": "t"}},
        ),
        make_object("Service", "x", namespace="a", spec={"selector": {"a": "b"}}),
        make_object("ReplicationController", "x", namespace="a", spec={"selector": {"a": "b"}}),
        make_object("ReplicaSet", "x", namespace="a", spec={"selector": SELECTOR}),
        make_object("StatefulSet", "x", namespace="a", spec={"selector": SELECTOR}),
    ]
    return {body["kind"]: body for body in (pod, node, *others)}


BODIES = valid_bodies()


def test_every_kind_is_in_the_table_once() -> None:
    assert len(KIND) == len(KINDS) == 14
    assert set(BODIES) == set(KIND)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_valid_body_of_every_kind_is_read(kind: Any) -> None:
    body = BODIES[kind.name]
    record = parse(kind.name, body)
    assert parse(kind.name, copy.deepcopy(body)) == record
    hash(record)


def test_keys_have_a_namespace_where_there_is_one() -> None:
    assert object_key({"metadata": {"name": "n"}}) == "n"
    assert object_key({"metadata": {"name": "p", "namespace": "a"}}) == "a/p"


@pytest.mark.parametrize("body", [None, 5, [], {}, {"metadata": None}, {"metadata": {"name": None, "namespace": 3}}])
def test_a_key_of_nonsense_is_a_question_mark(body: Any) -> None:
    assert object_key(body) == "?"


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**63) - 1, 10**4000, -1, 0])
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["", "1x", "In", "Exists", "Always", "1e999999999", "-1", "\ud800", "x" * 300, "9" * 5000])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


@st.composite
def spoilt_bodies(draw: st.DrawFn) -> tuple[str, Any]:
    """A valid body with arbitrary JSON in one to three random places."""
    kind = draw(st.sampled_from(["Pod", "Pod", "Node", *sorted(KIND)]))
    body = copy.deepcopy(BODIES[kind])
    for _ in range(draw(st.integers(1, 3))):
        _spoil(draw, body)
    return kind, body


def _spoil(draw: st.DrawFn, body: Any) -> None:
    place = body
    while True:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = draw(st.sampled_from(list(keys)))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or draw(st.integers(0, 4)) == 0:
            place[key] = draw(JSON)
            return
        place = inner


@given(spoilt_bodies())
def test_a_spoilt_body_is_read_or_refused_and_nothing_else(spoilt: tuple[str, Any]) -> None:
    kind, body = spoilt
    _parse_or_refuse(kind, body)


@given(st.sampled_from(sorted(KIND)), JSON)
def test_any_json_at_all_is_read_or_refused(kind: str, body: Any) -> None:
    _parse_or_refuse(kind, body)


def test_numbers_that_python_does_not_print_are_refused_all_the_same() -> None:
    body = copy.deepcopy(BODIES["Pod"])
    body["spec"]["priority"] = 10**5000
    with pytest.raises(InvalidObject, match="a number beyond 64 bits is not between"):
        parse("Pod", body)


def _parse_or_refuse(kind: str, body: Any) -> None:
    before = repr(body)
    refused = None
    try:
        record = parse(kind, body)
        hash(record)
        hash(getattr(record, "signature", None))
    except InvalidObject as error:
        refused = error
    assert repr(body) == before
    if refused is not None:
        assert refused.kind == kind
        assert str(refused).startswith(f"{kind} ")
        assert refused.problem
