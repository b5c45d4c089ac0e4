"""Which workloads are chosen, and what is done to their parameters."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from bench.perf.operations import (
    Barrier,
    Churn,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    DeletePods,
    Sleep,
    StartMeasuring,
    StopMeasuring,
    Unsupported,
    UpdateAny,
    parse_duration,
    parse_operations,
)
from bench.perf.workloads import Case, Workload, choose, default_workload, read_cases, read_gates

GATES = {"AsyncCalls": False}

CONFIGURATION = """
- name: Basic
  defaultPodTemplatePath: ../templates/pod.yaml
  workloadTemplate:
  - opcode: createNodes
    countParam: $initNodes
  - opcode: createPods
    countParam: $initPods
  - opcode: createPods
    countParam: $measurePods
    collectMetrics: true
  workloads:
  - name: small
    labels: [integration-test]
    params: {initNodes: 5, initPods: 5, measurePods: 10}
  - name: hints_off
    featureGates: {Hints: false}
    labels: [performance]
    threshold: 100
    params: {initNodes: 50, initPods: 100, measurePods: 100}
  - name: async
    featureGates: {AsyncCalls: true}
    labels: [performance]
    threshold: 100
    params: {initNodes: 50, initPods: 100, measurePods: 100}
  - name: huge
    featureGates: {Hints: true, AsyncCalls: false}
    labels: [performance]
    params: {initNodes: 50, initPods: 100, measurePods: 90}
  - name: usual
    featureGates: {Hints: true}
    labels: [performance]
    threshold: 100
    params: {initNodes: 50, initPods: 100, measurePods: 200}
- name: Devices
  workloadTemplate:
  - opcode: createResourceDriver
  workloads:
  - name: any
    params: {}
"""


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    folder = tmp_path / "misc"
    folder.mkdir()
    (folder / "performance-config.yaml").write_text(CONFIGURATION)
    return read_cases(tmp_path)


def operations(text: str, folder: Path = Path("/perf/misc"), **parameters: object) -> list[object]:
    return list(parse_operations(yaml.safe_load(dedent(text)), parameters, folder, Path("/perf/templates/pod.yaml")))


def test_the_default_is_what_kubernetes_tests_its_performance_by(cases: list[Case]) -> None:
    assert default_workload(cases[0], GATES).name == "usual"


def test_workloads_are_chosen_by_name_size_and_glob(cases: list[Case]) -> None:
    assert [one.title for one in choose(cases, ["B*"], GATES)[0]] == ["Basic/usual"]
    assert [one.title for one in choose(cases, ["Basic/small", "Basic/s*", "Basic"], GATES)[0]] == [
        "Basic/small",
        "Basic/usual",
    ]


def test_a_workload_that_cannot_be_run_is_skipped_with_the_reason(cases: list[Case]) -> None:
    chosen, skipped = choose(cases, ["Devices", "Basic/hints_off"], GATES)
    assert chosen == []
    reasons = {one.title: one.reason for one in skipped}
    assert "opcode createResourceDriver is not interpreted" in reasons["Devices/any"]
    assert "cannot switch off Hints" in reasons["Basic/hints_off"]


@pytest.mark.parametrize("pattern", ["Nothing", "Basic/none"])
def test_a_name_that_nothing_has_is_an_error(cases: list[Case], pattern: str) -> None:
    with pytest.raises(Unsupported, match=r"no test case|has no workload"):
        choose(cases, [pattern], GATES)


def test_rescaling_keeps_pods_per_node_and_says_what_changed(cases: list[Case]) -> None:
    usual = default_workload(cases[0], GATES).rescaled(nodes=10, pods=50)
    assert usual.parameters == {"initNodes": 10, "initPods": 20, "measurePods": 50}
    assert usual.changed == {"initNodes": (50, 10), "initPods": (100, 20), "measurePods": (200, 50)}
    assert usual.nodes == 10


def test_more_pods_are_never_measured_than_the_file_says(cases: list[Case]) -> None:
    assert default_workload(cases[0], GATES).rescaled(nodes=None, pods=5000).changed == {}


def test_parameters_that_depend_on_each_other_are_left_alone(tmp_path: Path) -> None:
    workload = Workload("Events", "any", {"nodes": 2, "measurePods": 20}, [], tmp_path)
    assert workload.rescaled(nodes=100, pods=5) is workload


def test_pods_are_read_with_the_template_and_namespace_of_the_operation() -> None:
    first, second = operations(
        """
        - opcode: createPods
          count: 3
        - opcode: createPods
          countParam: $many
          namespace: there
          podTemplatePath: ../templates/other.yaml
          collectMetrics: true
          skipWaitToCompletion: false
        """,
        many=7,
    )
    assert first == CreatePods(0, 3, "namespace-0", Path("/perf/templates/pod.yaml"))
    assert second == CreatePods(1, 7, "there", Path("/perf/templates/other.yaml"), measured=True)


def test_a_set_of_pods_in_each_namespace_becomes_one_operation_each() -> None:
    found = operations(
        """
        - opcode: createPodSets
          count: 2
          namespacePrefix: ns
          createPodsOp: {opcode: createPods, countParam: $each}
        """,
        each=4,
    )
    assert [(one.namespace, one.count) for one in found if isinstance(one, CreatePods)] == [("ns-0", 4), ("ns-1", 4)]


def test_all_other_operations_are_read() -> None:
    found = operations(
        """
        - opcode: createNodes
          count: 2
          labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}
        - opcode: createNodes
          count: 2
          uniqueNodeLabelStrategy: {labelKey: rack}
        - opcode: createNamespaces
          prefix: ns
          count: 2
        - opcode: updateAny
          count: 2
          templatePath: node.yaml
          updatePerSecond: 100
          subresources: [resize]
        - opcode: deletePods
          namespace: ns-0
          deletePodsPerSecond: 50
          skipWaitToCompletion: true
        - opcode: churn
          mode: recreate
          number: 1
          templatePaths: [../templates/node.yaml]
        - opcode: barrier
          stageRequirement: Attempted
          labelSelector: {type: unsched}
        - opcode: sleep
          duration: 1m30s
        - opcode: startCollectingMetrics
          name: pods
          namespaces: [ns-0]
        - opcode: stopCollectingMetrics
        """
    )
    assert found == [
        CreateNodes(0, 2, label="zone", values=["a", "b"]),
        CreateNodes(1, 2, label="rack"),
        CreateNamespaces("ns", 2),
        UpdateAny(Path("/perf/misc/node.yaml"), 2, "", 100, ["resize"]),
        DeletePods("ns-0", {}, 50, waits=False),
        Churn(True, 1, 0.5, "namespace-5", [Path("/perf/templates/node.yaml")]),
        Barrier((), {"type": "unsched"}, attempted=True),
        Sleep(90.0),
        StartMeasuring(["ns-0"], {}),
        StopMeasuring(),
    ]


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ("{opcode: allocResourceClaims}", "opcode allocResourceClaims"),
        ("{opcode: createPods, count: 1, steadyState: true}", "steadyState"),
        ("{opcode: createPods, countParam: $none}", "parameter \\$none"),
        ("{opcode: createNodes, count: 1, newStrategy: {}}", "createNodes with newStrategy"),
        ("{opcode: barrier, stageRequirement: Dreamt}", "Dreamt"),
        ("{opcode: churn, mode: recreate}", "churn"),
        ("{opcode: sleep, duration: soon}", "duration soon"),
    ],
)
def test_what_is_not_interpreted_is_said(definition: str, said: str) -> None:
    with pytest.raises(Unsupported, match=said):
        operations(f"- {definition}")


def test_durations_are_those_of_go() -> None:
    assert parse_duration("250ms") == 0.25
    assert parse_duration("1h0m2s") == 3602


def test_gates_are_read_from_the_help_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "kube-scheduler"
    lines = ("kube:One=true|false (BETA - default=true)", "kube:Two=true|false (ALPHA - default=false)")
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    program.chmod(0o755)
    assert read_gates(program) == {"One": True, "Two": False}
