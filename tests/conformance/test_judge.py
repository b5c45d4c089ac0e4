"""`berth judge` as a command: every line gets an answer, whatever is in it."""

import gzip
import io
import json

import pytest

from berth.judge import judge_lines, run_judge
from conformance.cases import VECTORS, vectors
from support.builders import make_node, make_pod


def answer(case):
    [verdict] = judge_lines([json.dumps(case)])
    return verdict


def a_case(**changes):
    return {**next(vectors("taints")), "id": "c", **changes}


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (a_case(objects={}), None),
        (a_case(objects="many"), "objects: must be a list"),
        (a_case(objects=[7]), "objects[0].kind: None is not one of"),
        (a_case(objects=[make_node("n"), {"kind": "ConfigMap"}]), "objects[1].kind: 'ConfigMap' is not one of"),
        (a_case(objects=[{"kind": "Node", "metadata": {"name": "n"}}]), "Node n: metadata.uid"),
        (
            a_case(objects=[make_pod("p", node="n", cpu="lots")]),
            "Pod default/p: spec.containers[0].resources.requests.cpu",
        ),
        (a_case(pod=None), "Pod ?: metadata"),
        (a_case(config=None), "KubeSchedulerConfiguration"),
        ([1], "line 1 is not a case"),
    ],
)
def test_a_broken_case_is_answered_with_what_is_wrong(case, words):
    verdict = answer(case)
    assert ("error" in verdict) == (words is not None)
    assert words is None or words in verdict["error"]


def test_a_node_without_status_is_judged():
    for number in range(8):
        node = {"kind": "Node", "metadata": {"name": "n", "uid": "n"}}
        assert answer(a_case(id=f"c{number}", objects=[node]))["feasible"] == []


def test_a_line_that_is_not_json_does_not_end_the_run(tmp_path):
    file, out = tmp_path / "cases", io.StringIO()
    file.write_text("{broken\n\n" + json.dumps(a_case()) + "\n")
    assert run_judge(str(file), out) == 1
    first, second = map(json.loads, out.getvalue().splitlines())
    assert "line 1 is not JSON" in first["error"]
    assert second["id"] == "c"


def test_a_packed_file_is_read_as_it_is(tmp_path):
    out, packed = io.StringIO(), tmp_path / "cases.jsonl.gz"
    with gzip.open(VECTORS, "rt") as lines, gzip.open(packed, "wt") as file:
        file.write(next(lines))
    assert run_judge(str(packed), out) == 0
    assert json.loads(out.getvalue())["id"] == "resources-public-0"


def test_soft_wishes_of_the_pod_are_named_when_only_their_predicate_is_switched_off():
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]
    off = {"filter": {"disabled": [{"name": "PodTopologySpread"}]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "s", "plugins": off}],
    }
    pod = make_pod("p", topologySpreadConstraints=spread)
    verdict = answer({"id": "c", "config": config, "objects": [make_node("a"), make_node("b")], "pod": pod})
    assert "the spreading that the pod asks for is not scored yet (plugin PodTopologySpread)" in verdict["error"]
