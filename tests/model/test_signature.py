"""Signatures: equal for replicas, different for everything that a filter or score looks at."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Hashable
from typing import Any

import pytest

from berth.model import Pod, parse_pod
from support.builders import make_pod

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b", "uid": "u", "controller": True}
ANTI = {
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", "labelSelector": {}}]}
}


def replica(name: str = "web-7d4b-abcde", **changes: Any) -> Pod:
    token = {"name": f"kube-api-access-{name[-5:]}", "projected": {"sources": []}}
    fields: dict[str, Any] = {
        "cpu": "1",
        "memory": "1Gi",
        "labels": {"app": "web", "rev": "1"},
        "owner": OWNER,
        "affinity": ANTI,
        "volumes": [token],
        "ports": [80],
    }
    return parse_pod(make_pod(name, **(fields | changes)))


def test_replicas_have_equal_signatures() -> None:
    one = replica("web-7d4b-abcde", created="2026-01-01T00:00:00Z")
    other = replica("web-7d4b-fghij", created="2026-01-02T00:00:00Z", labels={"rev": "1", "app": "web"})
    assert one.signature == other.signature
    assert hash(one.signature) == hash(other.signature)
    assert len({one.signature, other.signature}) == 1


def test_a_signature_is_worked_out_once() -> None:
    pod = replica()
    assert pod.signature is pod.signature


@pytest.mark.parametrize(
    "change",
    [
        {"priority": 7},
        {"preemptionPolicy": "Never"},
        {"gates": ["g"]},
        {"nominated": "n1"},
        {"deleting": True},
        {"phase": "Running"},
        {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}},
        {"volumes": [{"name": "other", "configMap": {"name": "c"}}]},
    ],
    ids=str,
)
def test_what_no_filter_or_score_looks_at_does_not_change_it(change: dict[str, Any]) -> None:
    assert replica(**change).signature == replica().signature


REQUESTS = {"requests": {"cpu": "1", "memory": "1Gi"}}
CONTAINER = make_pod("web", ports=[80])["spec"]["containers"][0]
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
PREFERENCE = {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
REQUIREMENT = {"nodeSelectorTerms": [PREFERENCE["preference"]]}


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "other"},
        {"labels": {"app": "web", "rev": "2"}},
        {"scheduler": "another"},
        {"node": "n1"},
        {"cpu": "2"},
        {"requests": {"example.com/gpu": "1"}},
        {"overhead": {"cpu": "1m"}},
        {"status": {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}},
        {"memory": None},
        {"containers": [{**CONTAINER, "resources": {**REQUESTS, "limits": {"memory": "2Gi"}}}]},
        {"ports": [81]},
        {"image": "registry.example/app:v2"},
        {"initContainers": [{"name": "i"}]},
        {"tolerations": [{"operator": "Exists"}]},
        {"node_selector": {"disk": "ssd"}},
        {"affinity": None},
        {"affinity": {**ANTI, "podAffinity": ANTI["podAntiAffinity"]}},
        {"affinity": {**ANTI, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": REQUIREMENT}}},
        {"affinity": {**ANTI, "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERENCE]}}},
        {"topologySpreadConstraints": [SPREAD]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]},
        {"volumes": [{"name": "v", "ephemeral": {}}]},
        {"resourceClaims": [{"name": "gpu"}]},
        {"hostNetwork": True, "hostUsers": False},
        {"owner": {**OWNER, "name": "db"}},
        {"owner": {**OWNER, "kind": "StatefulSet"}},
        {"owner": {**OWNER, "uid": "another"}},
        {"owner": None},
    ],
    ids=str,
)
def test_what_a_filter_or_score_looks_at_changes_it(change: dict[str, Any]) -> None:
    assert replica(**change).signature != replica().signature


def test_overhead_alone_leaves_a_pod_best_effort_and_requests_of_the_same_size_do_not() -> None:
    bare: dict[str, Any] = {"cpu": None, "memory": None}
    assert replica(**bare, overhead={"cpu": "1"}).signature != replica(**bare, requests={"cpu": "1"}).signature


def test_the_details_of_a_disk_are_part_of_it() -> None:
    disks = [[{"name": "v", "gcePersistentDisk": {"pdName": "d", "readOnly": flag}}] for flag in (True, False)]
    assert replica(volumes=disks[0]).signature != replica(volumes=disks[1]).signature


def test_namesakes_with_an_ephemeral_volume_differ_because_their_claims_do() -> None:
    volumes = [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    one, same, other = (replica("web-0", uid=uid, volumes=volumes).signature for uid in ("u1", "u1", "u2"))
    assert one == same
    assert one != other


def test_a_signature_is_equal_to_nothing_else() -> None:
    assert replica().signature != "web"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_of_a_signature_is_the_same_one(copied: Callable[[Hashable], Hashable]) -> None:
    pod = parse_pod(make_pod("p", labels={"app": "web"}))
    assert copied(pod.signature) is pod.signature
