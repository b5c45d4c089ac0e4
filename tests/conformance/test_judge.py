"""`berth judge` as a command: every line gets an answer, whatever is in it, and a summary says what became of all."""

import gzip
import io
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from berth.judge import judge_lines, run_judge
from berth.judge.agreement import differences
from conformance.cases import VECTORS, vectors
from support.builders import Body, make_node, make_pod

DEFAULTS = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "s"}],
}


def answer(case: Any, **options: Any) -> Body:
    [verdict] = judge_lines([json.dumps(case)], **options)
    return verdict


def a_case(**changes: Any) -> Body:
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
def test_a_broken_case_is_answered_with_what_is_wrong(case: Any, words: str | None) -> None:
    verdict = answer(case)
    assert ("error" in verdict) == (words is not None)
    assert words is None or words in verdict["error"]


def test_a_node_without_status_is_judged() -> None:
    for number in range(8):
        node = {"kind": "Node", "metadata": {"name": "n", "uid": "n"}}
        assert answer(a_case(id=f"c{number}", objects=[node]))["feasible"] == []


def test_a_line_that_is_not_json_does_not_end_the_run(tmp_path: Path) -> None:
    file, out = tmp_path / "cases", io.StringIO()
    file.write_text("{broken\n\n" + json.dumps(a_case()) + "\n")
    assert run_judge(str(file), out) == 1
    first, second = map(json.loads, out.getvalue().splitlines())
    assert "line 1 is not JSON" in first["error"]
    assert second["id"] == "c"


def test_a_packed_file_is_read_as_it_is(tmp_path: Path) -> None:
    out, packed = io.StringIO(), tmp_path / "cases.jsonl.gz"
    with gzip.open(VECTORS, "rt") as lines, gzip.open(packed, "wt") as file:
        file.write(next(lines))
    assert run_judge(str(packed), out) == 0
    assert json.loads(out.getvalue())["id"] == "resources-public-0"


def test_a_pod_that_needs_a_plugin_which_is_not_there_is_answered_with_its_name() -> None:
    pod = make_pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    verdict = answer({"id": "c", "config": DEFAULTS, "objects": [make_node("a")], "pod": pod})
    assert "DynamicResources" in verdict["error"]


# --- nominated pods and preemption -----------------------------------------------------------------------------------


def crowded(*others: Body) -> Body:
    objects = [make_node("a", cpu=2), make_node("b", cpu=2), make_pod("low", node="a", cpu=2, priority=1), *others]
    return {"id": "c", "config": DEFAULTS, "objects": objects, "pod": make_pod("new", cpu=2, priority=10)}


def test_nominated_pods_count_on_request() -> None:
    case = crowded(make_pod("rival", cpu=2, priority=10, nominated="b"))
    assert answer(case)["feasible"] == ["b"]
    verdict = answer(case, nominated=True)
    assert verdict["feasible"] == []
    assert verdict["preemption"] == {
        "candidates": {"a": {"victims": ["default/low"], "pdbViolations": 0}},
        "selected": ["a"],
    }


def test_every_node_that_the_choice_can_fall_on_is_selected() -> None:
    case = crowded(make_pod("other", node="b", cpu=2, priority=1), make_node("c", cpu=2, unschedulable=True))
    assert answer(case)["preemption"]["selected"] == ["a", "b"]


def test_a_configuration_without_preemption_gives_no_candidates() -> None:
    off = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
    config = DEFAULTS | {"profiles": [{"schedulerName": "s", "plugins": off}]}
    case = crowded(make_pod("other", node="b", cpu=2, priority=1))
    assert "preemption" in answer(case)
    assert "preemption" not in answer(case | {"config": config})


def test_a_configuration_with_extenders_is_not_judged_without_them() -> None:
    config = DEFAULTS | {"extenders": [{"urlPrefix": "http://x", "filterVerb": "filter"}]}
    assert answer(crowded() | {"config": config})["error"].startswith("config.extenders: extenders are not asked here")


# --- the summary -----------------------------------------------------------------------------------------------------


def summarised(tmp_path: Path, *cases: Body) -> tuple[int, str]:
    file, told = tmp_path / "cases", io.StringIO()
    file.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return run_judge(str(file), io.StringIO(), summarise=told), told.getvalue()


def test_the_summary_counts_by_theme_what_is_as_expected(tmp_path: Path) -> None:
    cases = [*list(vectors("taints"))[:3], *list(vectors("ports"))[:2]]
    code, told = summarised(tmp_path, *cases)
    assert code == 0
    assert told.startswith("5 cases in ")
    assert "0 without a verdict; 5 of 5 as expected\n" in told
    lines = [line.split() for line in told.splitlines()]
    assert ["taints", "3", "3", "0", "3/3"] in lines
    assert ["ports", "2", "2", "0", "2/2"] in lines


def test_the_summary_shows_the_first_differences_and_errors(tmp_path: Path) -> None:
    different = deepcopy(next(vectors("taints")))
    different["expect"]["feasible"] = ["elsewhere"]
    code, told = summarised(tmp_path, different, a_case(id="odd-1", objects="many", expect=None))
    assert code == 1
    assert "1 without a verdict; 0 of 1 as expected" in told
    assert "  taints-public-0: feasible: the oracle says ['elsewhere']" in told
    assert "  odd-1: error: objects: must be a list" in told


def test_without_anything_expected_nothing_is_compared(tmp_path: Path) -> None:
    code, told = summarised(tmp_path, a_case(expect=None))
    assert code == 0
    assert "expected\n" not in told.splitlines()[0]
    assert ["c", "1", "1", "0", "-"] in [line.split() for line in told.splitlines()]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"feasible": ["x"]}, "feasible"),
        ({"filter": {"NodePorts": {"n": {"code": "Unschedulable", "reasons": ["r"]}}}}, "filter"),
        ({"preFilter": {"NodePorts": {"code": "Unschedulable"}}}, "preFilter"),
        ({"score": {"ImageLocality": {"n": 3}}}, "score"),
        ({"total": {"n": 3}}, "total"),
        ({"best": ["n"]}, "best"),
        ({"preemption": {"candidates": {"n": {"victims": ["a/b"]}}}}, "candidates"),
        ({"preemption": {"selected": ["n"]}}, "selected"),
        ({"error": "no"}, "error"),
    ],
)
def test_a_difference_is_named(change: Body, name: str) -> None:
    assert [said.split(":")[0] for said in differences({}, change)] == [name]


def test_what_makes_no_difference_is_not_named() -> None:
    want = {"score": {"A": {"n": 0}}, "filter": {}, "preemption": {"candidates": {}, "selected": ["a", "b"]}}
    got = {"preFilter": {"B": {"code": "Success", "nodes": ["n"]}}, "preemption": {"selected": ["b"]}}
    assert list(differences(want, got)) == []
