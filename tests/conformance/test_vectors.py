"""Berth's verdicts are kube-scheduler's: code by code, reason by reason, score by score, victim by victim."""

import json

import pytest

from berth.judge import judge_lines
from conformance.agreement import differences
from conformance.cases import some_of_each_theme, theme, vectors

THEMES = (
    "resources",
    "resize",
    "taints",
    "nodeaffinity",
    "interpod",
    "spread",
    "defaultspread",
    "ports",
    "images",
    "volumes",
    "preempt",
    "mix",
    "config",
    "legacy",
)


@pytest.mark.parametrize("name", THEMES)
def test_every_vector_of_a_theme_agrees_with_the_oracle(name: str) -> None:
    cases = list(vectors(name))
    verdicts = judge_lines(map(json.dumps, cases))
    found = {c["id"]: list(differences(c["expect"], v)) for c, v in zip(cases, verdicts, strict=True)}
    assert len(found) == 150
    assert {case: said for case, said in found.items() if said} == {}


def test_the_themes_are_all_there_are() -> None:
    assert {theme(vector) for vector in vectors()} == set(THEMES)


def test_the_order_of_events_does_not_change_a_verdict() -> None:
    lines = [json.dumps(case) for case in some_of_each_theme(15)]
    assert list(judge_lines(lines, seed=1)) == list(judge_lines(lines, seed=2))
