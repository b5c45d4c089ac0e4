"""Berth's verdicts are kube-scheduler's: code by code, reason by reason, score by score."""

import json

import pytest

from berth.judge import judge_lines
from conformance.agreement import differences
from conformance.cases import theme, vectors

AGREEING = ("resources", "resize", "taints", "nodeaffinity", "ports", "images")
NOT_JUDGED = ("interpod", "spread", "defaultspread", "volumes", "preempt", "mix", "config", "legacy")


def _judged(themes: tuple[str, ...], seed: int = 0):
    cases = list(vectors(*themes))
    return zip(cases, judge_lines(map(json.dumps, cases), seed), strict=True)


@pytest.mark.parametrize("name", AGREEING)
def test_every_vector_of_a_theme_agrees_with_the_oracle(name):
    found = {case["id"]: list(differences(case["expect"], verdict)) for case, verdict in _judged((name,))}
    assert len(found) == 150
    assert {case: said for case, said in found.items() if said} == {}


def test_the_order_of_events_does_not_change_a_verdict():
    themes = ("resources", "taints", "ports", "images")
    first = {case["id"]: verdict for case, verdict in _judged(themes, seed=1)}
    again = {case["id"]: verdict for case, verdict in _judged(themes, seed=2)}
    assert first == again


def test_a_case_of_another_theme_agrees_or_says_that_it_cannot_be_judged():
    wrong, agreed = {}, 0
    for case, verdict in _judged(NOT_JUDGED):
        said = list(differences(case["expect"], verdict))
        agreed += not said
        if said and "error" not in verdict:
            wrong[case["id"]] = said
    assert wrong == {}
    assert agreed > 0


def test_what_cannot_be_judged_is_named():
    interpod = [v for case, v in _judged(("interpod",)) if "error" in v]
    assert interpod
    assert all("InterPodAffinity" in v["error"] for v in interpod)


def test_every_theme_is_either_judged_or_known_not_to_be():
    assert {theme(vector) for vector in vectors()} == {*AGREEING, *NOT_JUDGED}
