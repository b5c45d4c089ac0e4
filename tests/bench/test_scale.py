"""What is read from metrics pages, and the tables of the start and of growth."""

from __future__ import annotations

import itertools

import orjson
import pytest

from bench import cold_start, scale
from bench.cold_start import ColdStart
from bench.starting import Start, preparation, read_metrics

PAGE = """
# HELP berth_loop_lag_seconds By how much the event loop is late.
berth_loop_lag_seconds 0.25
scheduler_framework_extension_point_duration_seconds_sum{extension_point="Filter",profile="a"} %s
scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter",profile="a"} %s
scheduler_framework_extension_point_duration_seconds_sum{extension_point="Bind",profile="a"} 100.0
scheduler_framework_extension_point_duration_seconds_count{extension_point="Bind",profile="a"} 1.0
"""
START = Start(1.5, 1.4, 2.0, 100.0, 120.0)


def test_samples_are_read_by_the_text_of_their_labels() -> None:
    assert read_metrics(PAGE % (1, 2), "berth_loop_lag_seconds") == {"": 0.25}
    points = read_metrics(PAGE % (1, 2), "scheduler_framework_extension_point_duration_seconds_count")
    assert points == {'extension_point="Filter",profile="a"': 2.0, 'extension_point="Bind",profile="a"': 1.0}


def test_a_decision_is_what_filters_and_scores_took_in_between() -> None:
    assert scale.decision_ms(PAGE % (1.0, 100), PAGE % (1.5, 200)) == pytest.approx(5.0)
    assert scale.decision_ms(PAGE % (1.0, 100), PAGE % (1.0, 100)) == 0.0


def test_a_decision_of_kube_scheduler_is_its_algorithm() -> None:
    name = "scheduler_scheduling_algorithm_duration_seconds"
    before, after = f"{name}_sum 1.0\n{name}_count 10\n", f"{name}_sum 1.2\n{name}_count 20\n"
    assert scale.decision_ms(before, after) == pytest.approx(20.0)


def test_the_cluster_is_full_and_pods_wait_for_each_scheduler() -> None:
    bodies = [orjson.loads(request.body) for (request,) in preparation(2, 4)]
    placed = [body["spec"]["nodeName"] for body in bodies if body["kind"] == "Pod" and "nodeName" in body["spec"]]
    assert placed == ["node-0", "node-1", "node-0", "node-1"]
    waiting = [body["spec"]["schedulerName"] for body in bodies if body["metadata"]["name"].startswith("waiting")]
    assert set(waiting) == {"default-scheduler", "berth"}


def test_changes_go_round_the_pods_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr("bench.scale.time.monotonic", lambda: next(clock))
    paths = [request.path for (request,) in scale.changes(2, until=3)]
    assert paths == [f"/api/v1/namespaces/default/pods/placed-{number}/status" for number in (0, 1, 0)]


def test_cold_starts_are_shown_as_medians_and_survive_the_report() -> None:
    starts = [ColdStart("berth", 5000, 10_000, Start(first, 1.0, 2.0, 100.0, 120.0)) for first in (3.0, 1.0, 2.0)]
    assert cold_start.from_report(cold_start.to_report(starts)) == starts
    assert "| berth | 5,000 | 10,000 | 2.00 s | 2.0 s | 100 MB | 120 MB |" in cold_start.table(starts)


def test_growth_is_a_row_for_each_size() -> None:
    result = scale.Result("berth", 1000, 10_000, START, 0.5, 0.01, 1500.0, 0.02, 0.3, 0.1, 0.4, None)
    assert scale.table([result]).splitlines()[-1] == (
        "| berth | 1,000 | 10,000 | 1.5 s | 100 MB | 0.50 ms | 1,500 | 0.02 s, 0.30 s | 0.10 s | 0.40 | - |"
    )
