"""A few minutes of production at a small size; `make soak` runs the hour."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from berth.model import Pod
from berth.scheduler.cache import versions
from simulation.soak import LEAST_BOUND, LEAST_SAMPLES, Sample, Soak, bounded, judge_memory


def short() -> Soak:
    return Soak(seed=3, minutes=6.0, nodes=40, arrivals=0.5)


def test_some_minutes_of_production_end_without_drift_and_leave_nothing_behind() -> None:
    assert short().run() == []


def test_a_sum_that_is_off_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    soak = short()
    shipped = soak._check_drift

    def check() -> None:
        table = soak.runtime.components.cache.state.table
        table.used[0, 0] += 1
        shipped()
        table.used[0, 0] -= 1

    monkeypatch.setattr(soak, "_check_drift", check)
    assert [problem for problem in soak.run() if "differ from a rebuild" in problem]


def test_pods_that_are_forgotten_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    soak = short()
    shipped = soak.runtime.components.queue.add

    def add(pod: Pod) -> None:
        if not pod.name.startswith("app-1"):
            shipped(pod)

    monkeypatch.setattr(soak.runtime.components.queue, "add", add)
    assert [problem for problem in soak.run() if problem.startswith("liveness")]


def judged(*kibibytes: float, pods: Sequence[float] = ()) -> list[str]:
    return judge_memory(
        [Sample(pods[number] if pods else 100.0, held) for number, held in enumerate(kibibytes)],
    )


def test_memory_that_grows_is_noticed() -> None:
    assert judged(100, 110, 120, 130, 140, 150) == ["memory: it grows"]


def test_memory_may_grow_with_the_pods_and_go_up_and_down() -> None:
    assert judged(100, 130, 100, 100, 130, 100) == []
    assert judged(100, 100, 100, 150, 150, 150, pods=[10, 10, 10, 15, 15, 15]) == []


def test_memory_is_not_judged_by_a_few_looks(capsys: pytest.CaptureFixture[str]) -> None:
    assert judged(*range(1, LEAST_SAMPLES)) == []
    assert "not judged" in capsys.readouterr().out


def test_bounds_are_lowered_for_a_small_cluster_only_and_put_back() -> None:
    shipped = versions.REMOVED_REMEMBERED
    with bounded(1):
        assert versions.REMOVED_REMEMBERED == LEAST_BOUND
    with bounded(10**9):
        assert shipped == versions.REMOVED_REMEMBERED
    assert shipped == versions.REMOVED_REMEMBERED
