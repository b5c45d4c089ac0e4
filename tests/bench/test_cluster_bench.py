"""Small forms of the benchmarks on a real API server: they prove that the benchmarks work, not how fast anything is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import cluster, scale
from bench.perf.running import split
from bench.perf.workloads import default_workload, find_folder, read_cases, read_gates, why_not
from control_plane.programs import MissingPrograms, find_programs

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def own_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("cluster", "scale", "cold_start"):
        monkeypatch.setattr(f"bench.{module}.LOGS", tmp_path / "logs")


@pytest.fixture
def sources() -> None:
    try:
        find_folder()
    except MissingPrograms as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("sources")
def test_every_test_case_has_a_workload_that_can_be_run_but_those_of_devices_and_declared_features() -> None:
    program = find_programs(with_scheduler=True).kube_scheduler
    assert program is not None
    gates = read_gates(program)
    cases = [case for case in read_cases(find_folder()) if "dra" not in case.workloads[0].folder.parts]
    reasons = {case.name: why_not(default_workload(case, gates), gates) for case in cases}
    assert {name for name, reason in reasons.items() if reason} == {"NodeDeclaredFeaturesEnabled"}
    assert len(reasons) > 30
    for case in cases:
        split(default_workload(case, gates).operations())  # reads the templates of initial pods


@pytest.mark.usefixtures("sources")
def test_the_smallest_workloads_run_with_every_scheduler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, picture = tmp_path / "report.json", tmp_path / "picture.svg"
    chosen = "SchedulingBasic/5Nodes_QueueingHintsEnabled"
    arguments = ["--workload", chosen, "--schedulers", "kube-scheduler,berth,bind-only"]
    assert cluster.main([*arguments, "--json", str(report), "--svg", str(picture), "-o", "markdown"]) == 0
    rounds = json.loads(report.read_text())["rounds"]
    assert [one["scheduler"] for one in rounds] == ["kube-scheduler", "berth", "bind-only"]
    assert all(one["pods"] == 10 and one["nodes"] == 5 and one["events"] >= 10 for one in rounds)
    assert all(one["peak_memory_mb"] > 1 for one in rounds)
    assert "| SchedulingBasic | 5, 10 | kube-scheduler |" in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")


@pytest.mark.usefixtures("sources")
def test_a_workload_of_events_runs_with_berth(tmp_path: Path) -> None:
    """Barriers, updates and collected pods, which the first does not have."""
    report = tmp_path / "report.json"
    arguments = ["--workload", "EventHandlingNodeUpdate/2Nodes_20Pods", "--schedulers", "berth"]
    assert cluster.main([*arguments, "--json", str(report)]) == 0
    (only,) = json.loads(report.read_text())["rounds"]
    assert only["pods"] == 120


def test_growth_is_measured_with_both_schedulers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "IDLE_PROBES", 2)
    report = tmp_path / "report.json"
    arguments = ["--nodes", "20", "--seconds", "1", "--schedulers", "kube-scheduler,berth"]
    assert scale.main([*arguments, "--json", str(report)]) == 0
    kube, berth = json.loads(report.read_text())["results"]
    assert kube["loop_seconds"] is None
    assert berth["loop_seconds"] is not None
    assert all(one["events_per_second"] > 0 and one["start"]["first_bind_seconds"] > 0 for one in (kube, berth))
    assert all(one["decision_ms"] > 0 for one in (kube, berth))
