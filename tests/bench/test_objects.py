"""The nodes, pods and volumes of a workload."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.perf import objects
from bench.perf.operations import CreateNodes, CreatePods

POD = """
apiVersion: v1
kind: Pod
metadata:
  generateName: web-
spec:
  containers:
  - name: main
    image: example.com/web
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    numbers = itertools.count()

    def file(text: str) -> Path:
        path = tmp_path / f"{next(numbers)}.yaml"
        path.write_text(text)
        return path

    return file


def bodies(requests: objects.PodRequests) -> list[dict[str, Any]]:
    return [orjson.loads(sequence[-1].body) for sequence in requests.sequences]


def test_nodes_have_their_host_name_and_labels_in_turn() -> None:
    nodes = list(objects.node_objects(CreateNodes(0, 3, label="zone", values=["a", "b"])))
    assert [node["metadata"]["labels"]["zone"] for node in nodes] == ["a", "b", "a"]
    assert all(node["metadata"]["labels"]["kubernetes.io/hostname"] == node["metadata"]["name"] for node in nodes)


def test_a_label_without_values_is_another_one_on_each_node() -> None:
    nodes = objects.node_objects(CreateNodes(0, 3, label="rack"))
    assert len({node["metadata"]["labels"]["rack"] for node in nodes}) == 3


def test_what_is_allocatable_is_added_to_the_capacity(write: Any) -> None:
    template = write("{apiVersion: v1, kind: Node, metadata: {generateName: n-}, status: {capacity: {cpu: '4'}}}")
    operation = CreateNodes(0, 1, template, allocatable={"disks": "39"}, csi_drivers={"ebs": {"count": 39}})
    (node,) = objects.node_objects(operation)
    assert node["status"]["allocatable"] == {"cpu": "4", "disks": "39"}
    node_request, csi_request = next(objects.node_requests(operation))
    assert node_request.path == "/api/v1/nodes"
    assert csi_request.path == "/apis/storage.k8s.io/v1/csinodes"
    drivers = orjson.loads(csi_request.body)["spec"]["drivers"]
    assert drivers == [{"name": "ebs", "nodeID": node["metadata"]["name"], "allocatable": {"count": 39}}]


def test_pods_are_numbered_and_name_their_scheduler(write: Any) -> None:
    requests = objects.pod_requests(CreatePods(2, 3, "ns", write(POD)), "berth")
    assert requests.names == ["web-2-0", "web-2-1", "web-2-2"]
    pods = bodies(requests)
    assert [pod["metadata"]["name"] for pod in pods] == requests.names
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"berth"}
    assert {sequence[-1].path for sequence in requests.sequences} == {"/api/v1/namespaces/ns/pods"}


def test_a_template_is_rendered_for_each_pod(write: Any) -> None:
    template = write(POD.replace("example.com/web", "example.com/{{ .Index }}-of-{{ .Count }}"))
    pods = bodies(objects.pod_requests(CreatePods(0, 2, "ns", template), "berth"))
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == ["example.com/0-of-2", "example.com/1-of-2"]


def test_placed_pods_are_on_the_nodes_given(write: Any) -> None:
    requests = objects.pod_requests(CreatePods(0, 3, "ns", write(POD)), "x", iter(["a", "b", "a"]))
    assert [pod["spec"]["nodeName"] for pod in bodies(requests)] == ["a", "b", "a"]


def test_fields_begin_with_a_small_letter_and_the_users_keys_are_left_alone(write: Any) -> None:
    constraint = "{NodeTaintsPolicy: Honor, labelSelector: {matchLabels: {App: x}}}"
    body = objects.load(write(f"{POD}  topologySpreadConstraints: [{constraint}]"), 0, 1)
    expected = [{"nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"App": "x"}}}]
    assert body["spec"]["topologySpreadConstraints"] == expected


def test_a_pod_with_a_claim_comes_after_its_claim_and_volume_which_are_bound(write: Any) -> None:
    claim = write("{apiVersion: v1, kind: PersistentVolumeClaim, spec: {}}")
    volume = write("{apiVersion: v1, kind: PersistentVolume, spec: {csi: {driver: ebs}}}")
    operation = CreatePods(1, 2, "ns", None, volume_template=volume, claim_template=claim)
    sequence = objects.pod_requests(operation, "berth").sequences[1]
    assert [(request.method, request.path) for request in sequence] == [
        ("POST", "/api/v1/namespaces/ns/persistentvolumeclaims"),
        ("PATCH", "/api/v1/namespaces/ns/persistentvolumeclaims/pvc-1/status"),
        ("POST", "/api/v1/persistentvolumes"),
        ("PATCH", "/api/v1/persistentvolumes/ns-vol-1/status"),
        ("POST", "/api/v1/namespaces/ns/pods"),
    ]
    assert orjson.loads(sequence[0].body)["spec"]["volumeName"] == "ns-vol-1"
    made = orjson.loads(sequence[2].body)["spec"]
    assert made["claimRef"]["name"] == "pvc-1"
    assert made["csi"]["volumeHandle"] == "ns-vol-1"
    pod = orjson.loads(sequence[4].body)
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "pvc-1"


@pytest.mark.parametrize(
    ("more", "placed"),
    [
        ("", True),
        ("  schedulingGates: [{name: hold}]", False),
        ("    ports: [{containerPort: 80}]", True),
        ("    ports: [{hostPort: 80, containerPort: 80}]", False),
        ("  topologySpreadConstraints: [{whenUnsatisfiable: ScheduleAnyway}]", True),
        ("  topologySpreadConstraints: [{whenUnsatisfiable: DoNotSchedule}]", False),
        (
            "  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "{nodeSelectorTerms: [{matchFields: []}]}}}",
            False,
        ),
    ],
)
def test_only_pods_that_may_be_anywhere_are_placed_without_a_scheduler(write: Any, more: str, placed: bool) -> None:
    template = write(POD + more + "\n")
    assert objects.can_be_placed(CreatePods(0, 1, "ns", template)) is placed


def test_pods_that_are_measured_or_not_waited_for_are_never_placed() -> None:
    assert not objects.can_be_placed(CreatePods(0, 1, "ns", measured=True))
    assert not objects.can_be_placed(CreatePods(0, 1, "ns", waits=False))
