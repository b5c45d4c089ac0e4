"""Medians, ratios, tables and the picture."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.drawing import draw
from bench.results import (
    NoReport,
    Round,
    make_report,
    markdown,
    pods_per_second,
    quantile,
    read_report,
    rounds_of,
    summarise,
    table,
)


def a_round(scheduler: str, speed: float, workload: str = "Basic/5000", **more: Any) -> Round:
    values: dict[str, Any] = {
        "workload": workload,
        "scheduler": scheduler,
        "nodes": 5000,
        "pods": 1000,
        "pods_per_second": speed,
        "p50_seconds": 0.5,
        "p99_seconds": 1.5,
        "cpu_seconds": 2.0,
        "start_cpu_seconds": 1.0,
        "peak_memory_mb": 100.0,
        "client_cpu_seconds": 1.0,
        "ready_seconds": 1.0,
        "events": 1000,
    }
    return Round(**{**values, **more})


def test_speed_is_that_of_the_middle_nine_tenths() -> None:
    steady = [number / 100 for number in range(5, 96)]
    assert pods_per_second([0.0] * 5 + steady + [100.0] * 5) == pytest.approx(100.0)


def test_the_speed_of_one_pod_is_nothing() -> None:
    assert pods_per_second([1.0]) == 0.0
    assert pods_per_second([]) == 0.0


def test_quantiles_are_values_that_were_seen() -> None:
    assert quantile([3.0, 1.0, 2.0, 4.0], 0.5) == 3.0
    assert quantile([1.0], 0.99) == 1.0
    assert quantile([], 0.5) == 0.0


def test_rows_are_medians_with_the_ratio_to_kube_scheduler() -> None:
    rounds = [a_round("kube-scheduler", 100), a_round("berth", 300), a_round("berth", 100), a_round("berth", 200)]
    kube, berth = summarise(rounds)
    assert (kube.pods_per_second, kube.ratio, kube.rounds) == (100, 1.0, 1)
    assert (berth.pods_per_second, berth.ratio, berth.rounds) == (200, 2.0, 3)
    assert berth.cpu_ms_a_pod == 2.0


def test_without_kube_scheduler_there_is_no_ratio() -> None:
    (row,) = summarise([a_round("berth", 300)])
    assert row.ratio is None
    assert " - " in markdown([row])


def test_rows_of_one_workload_lie_together_whenever_they_were_measured() -> None:
    rounds = [a_round("kube-scheduler", 1), a_round("berth", 1, "Other/1"), a_round("berth", 1)]
    assert [(row.workload, row.scheduler) for row in summarise(rounds)] == [
        ("Basic/5000", "kube-scheduler"),
        ("Basic/5000", "berth"),
        ("Other/1", "berth"),
    ]


def test_reports_of_several_runs_are_put_together(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, name in zip(paths, ("kube-scheduler", "berth"), strict=True):
        path.write_text(json.dumps(make_report([a_round(name, 1)], cores=2)))
    report = read_report(paths)
    assert report["cores"] == 2
    assert rounds_of(report) == [a_round("kube-scheduler", 1), a_round("berth", 1)]
    assert report["rounds"][0] == asdict(a_round("kube-scheduler", 1))


@pytest.mark.parametrize("text", [None, "nothing"])
def test_a_file_that_is_no_report_is_said(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(NoReport, match="is not a report of this benchmark"):
        read_report([path])


def test_tables_name_the_workload_once() -> None:
    rows = summarise([a_round("kube-scheduler", 100), a_round("berth", 250)])
    assert table(rows).count("Basic/5000") == 1
    assert markdown(rows).count("Basic") == 1
    assert "2.50" in table(rows)


def test_a_table_says_what_is_not_as_in_the_file() -> None:
    rows = summarise([a_round("berth", 1, changed={"measurePods": [10_000, 1000]})])
    assert "measurePods 1,000 instead of 10,000" in table(rows)


def test_a_table_says_when_the_machine_was_not_quiet() -> None:
    assert "other programs took up to 30% of the machine" in table(summarise([a_round("berth", 1, others_share=0.3)]))
    assert "other programs" not in table(summarise([a_round("berth", 1, others_share=0.05)]))


def test_the_picture_is_well_formed_and_has_a_bar_for_each_row() -> None:
    rows = summarise([a_round("kube-scheduler", 100), a_round("berth", 250), a_round("<odd>", 10, "Other/1")])
    picture = ElementTree.fromstring(draw(rows))
    namespace = "{http://www.w3.org/2000/svg}"
    bars = [one for one in picture.iter(f"{namespace}rect") if one.get("height") == "12" and one.get("x") == "300"]
    texts = [one.text for one in picture.iter(f"{namespace}text")]
    assert len(bars) == 3 + 1  # and the first of the legend
    assert "250 (2.5x)" in texts
    assert "<odd>" in texts
