"""Pods of one template are read once, and the record is the one that reading in full would give."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from berth.model import InvalidObject, Node, Pod, parse_node, parse_pod
from berth.scheduler.cache import templates
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.templates import NodeReader, PodReader
from mutated.mutating import mutate
from mutated.samples import samples
from support.builders import make_node, make_pod

Body = dict[str, Any]
MUTATIONS = 3000
SEED = 20261118


def replica(number: int, *, node: str = "", **more: Any) -> Body:
    """A pod of a Deployment as an API server shows it, with the volume of its token."""
    token = f"kube-api-access-{number:05}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
    body = make_pod(f"web-{number}", cpu="100m", labels={"app": "web"}, owner=owner, node=node, **more)
    body["metadata"]["resourceVersion"] = str(number)
    body["metadata"]["managedFields"] = [{"manager": "m"}]
    sources = [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]
    body["spec"]["volumes"] = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": token, "projected": {"sources": sources}},
    ]
    for container in body["spec"]["containers"]:
        container["volumeMounts"] = [{"name": token, "mountPath": "/var/run/secrets", "readOnly": True}]
    return body


def is_as_in_full(reader: PodReader, body: Body) -> bool:
    """Whether the record has every field as it would be read, and the same answers to what is asked of it."""
    read, full = reader.read(body), parse_pod(body)
    assert read == full
    assert (read.signature, read.crowd, read.carried) == (full.signature, full.crowd, full.carried)
    return True


def shares(reader: PodReader, body: Body) -> bool:
    before = reader.shared
    assert is_as_in_full(reader, body)
    return reader.shared > before


@pytest.mark.parametrize("node", ["", "n1"])
def test_replicas_share_what_was_read_of_their_spec(node: str) -> None:
    reader = PodReader()
    first = reader.read(replica(1, node=node))
    second = reader.read(replica(2, node=node and "n2"))
    assert reader.shared == 1
    assert second == parse_pod(replica(2, node=node and "n2"))
    assert second.requests is first.requests
    assert second.tolerations is first.tolerations


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"uid": "another", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"annotations": {"a": "b"}, "managedFields": []}},
        {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "podIP": "10.0.0.1"}},
        {"status": {"nominatedNodeName": "n9"}},
        {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}},
        {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}},
        {"status": {"containerStatuses": [{"name": "main", "ready": True, "restartCount": 5}]}},
    ],
)
def test_what_is_a_pods_own_is_read_and_no_more(change: Body) -> None:
    reader = PodReader()
    reader.read(replica(1))
    body = replica(2)
    for section, fields in change.items():
        body[section] = {**body.get(section, {}), **fields}
    assert shares(reader, body)


def test_the_echo_of_a_bind_shares_with_other_bound_replicas_and_has_its_node() -> None:
    reader = PodReader()
    for number in (1, 2):
        reader.read(replica(number))
        reader.read(replica(number, node="n1"))
    assert reader.shared == 2
    assert reader.read(replica(3, node="n7")).node_name == "n7"


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["metadata"]["labels"].update(app="other"),
        lambda body: body["metadata"].update(namespace="other"),
        lambda body: body["metadata"]["ownerReferences"][0].update(uid="rs-2"),
        lambda body: body["spec"].update(priority=5),
        lambda body: body["spec"].update(tolerations=[{"operator": "Exists"}]),
        lambda body: body["spec"].update(nodeSelector={"name": "kube-api-access-00002"}),
        lambda body: body["spec"]["containers"][0]["resources"]["requests"].update(cpu="200m"),
        lambda body: body["spec"]["volumes"][0].update(name="kube-api-access-00002"),
        lambda body: body["spec"]["volumes"][0]["persistentVolumeClaim"].update(claimName="claim-2"),
        lambda body: body["spec"]["volumes"].append({"name": "own", "ephemeral": {}}),
        lambda body: body.update(
            status={
                "containerStatuses": [
                    {"name": "main", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}
                ]
            }
        ),
    ],
)
def test_pods_that_differ_in_what_is_read_do_not_share(change: Any) -> None:
    reader = PodReader()
    reader.read(replica(1))
    body = replica(2)
    body = copy.deepcopy(body)
    change(body)
    assert not shares(reader, body)


def test_resizes_that_the_kubelet_reports_are_told_apart() -> None:
    reader = PodReader()

    def resized(number: int, cpu: str, *conditions: Body) -> Body:
        report = {"name": "main", "resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
        return replica(number, node="n") | {"status": {"containerStatuses": [report], "conditions": list(conditions)}}

    infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    assert not shares(reader, resized(1, "50m"))
    assert not shares(reader, resized(2, "2"))
    assert not shares(reader, resized(3, "50m", infeasible))
    assert shares(reader, resized(4, "50m"))
    assert shares(reader, resized(5, "50m", infeasible))


def outcome(read: Any, body: Any) -> Pod | Node | str:
    try:
        record: Pod | Node = read(body)
    except InvalidObject as problem:
        return str(problem)
    return record


@pytest.mark.parametrize("kind", ["Pod", "Node"])
def test_whatever_an_object_looks_like_it_is_read_as_in_full(kind: str) -> None:
    """Among many that are alike, each with a few places that are not."""
    fate = random.Random(SEED)
    reader: PodReader | NodeReader = PodReader() if kind == "Pod" else NodeReader()
    parse = parse_pod if kind == "Pod" else parse_node
    bodies = [body for label, body in samples(1, 1).items() if label.startswith(kind)]
    bodies += [replica(1), replica(2, node="n")] if kind == "Pod" else []
    for body in bodies:
        reader.read(body)
    for _ in range(MUTATIONS):
        body = mutate(fate.choice(bodies), fate)
        read, full = outcome(reader.read, body), outcome(parse, body)
        if isinstance(read, Node) and isinstance(full, Node):
            full = parse_node({**body, "metadata": {**body["metadata"], "resourceVersion": read.resource_version}})
        assert read == full
        if isinstance(read, Pod) and isinstance(full, Pod):
            assert read.signature is full.signature


def test_texts_are_forgotten_when_no_pod_has_had_them_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST_TEXTS", 10)
    reader = PodReader()
    for number in range(100):
        reader.read(make_pod(f"p{number}", labels={"n": str(number)}))
        assert shares(reader, replica(number)) or number == 0
        assert len(reader) <= 20


def test_a_long_spec_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "LONGEST", 100)
    reader = PodReader()
    reader.read(replica(1))
    assert len(reader) == 0


# --- nodes -----------------------------------------------------------------------------------------------------------


def beating(seconds: int, **more: Any) -> Body:
    body = make_node("n", images={"app": 5}, labels={"zone": "a"}, **more)
    body["metadata"]["resourceVersion"] = str(seconds)
    body["status"]["conditions"][0]["lastHeartbeatTime"] = f"2026-01-01T00:00:{seconds:02}Z"
    return body


def test_a_heartbeat_is_recognised_and_anything_else_is_read() -> None:
    reader = NodeReader()
    first = reader.read(beating(1))
    assert reader.read(beating(2)) is first
    for changed in (beating(3, ready=False), beating(4, cpu="5"), beating(5, unschedulable=True)):
        assert reader.read(changed) == parse_node(changed)


def test_a_heartbeat_is_no_change_and_a_node_that_is_gone_is_forgotten() -> None:
    cache = Cache()
    cache.observe("Node", beating(1))
    assert cache.observe("Node", beating(2)) == ()
    assert cache.statistics()["node_templates"] == 1
    cache.remove("Node", beating(3))
    assert cache.statistics()["node_templates"] == 0
    cache.observe("Node", {**beating(4), "metadata": {**beating(4)["metadata"], "uid": "new"}})
    assert cache.state.table.node("n") is not None
