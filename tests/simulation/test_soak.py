"""A few minutes of production at a small size; `make soak` runs the hour."""

from __future__ import annotations

import pytest

from berth.model import Pod
from simulation.soak import Soak


def short() -> Soak:
    return Soak(seed=3, minutes=6.0, nodes=40, arrivals=0.5)


def test_some_minutes_of_production_end_without_drift_and_leave_nothing_behind() -> None:
    assert short().run() == []


def test_a_sum_that_is_off_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    soak = short()
    shipped = soak._check_drift

    def check() -> None:
        table = soak.runtime._cache.state.table
        table.used[0, 0] += 1
        shipped()
        table.used[0, 0] -= 1

    monkeypatch.setattr(soak, "_check_drift", check)
    assert [problem for problem in soak.run() if "differ from a rebuild" in problem]


def test_pods_that_are_forgotten_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    soak = short()
    shipped = soak.runtime._queue.add

    def add(pod: Pod) -> None:
        if not pod.name.startswith("app-1"):
            shipped(pod)

    monkeypatch.setattr(soak.runtime._queue, "add", add)
    assert [problem for problem in soak.run() if problem.startswith("liveness")]
