"""Hints may delay, never lose: a few seeds of what `--compare-hints` runs by the hundred."""

import pytest

from berth.engine.plugins.node_resources_fit import NodeResourcesFit
from simulation.comparing import compare_seed, problems
from simulation.fates import Course

SEEDS = range(3)


def test_with_hints_every_pod_comes_to_the_same_end_after_fewer_attempts() -> None:
    assert problems(map(compare_seed, SEEDS)) == []


def test_a_hint_that_loses_a_pod_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeResourcesFit, "hint", lambda *_: False)
    courses = [Course(seed, hints=True) for seed in range(4)]
    results = [course.run() for course in courses]
    assert any(result.violation for result in results) or any(course.fates != course.meant for course in courses)


def test_what_is_meant_comes_about_without_hints() -> None:
    course = Course(5, hints=False)
    assert not course.run().violation
    assert course.fates == course.meant
    assert len(set(course.meant.values())) == 2
