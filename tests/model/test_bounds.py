"""How many affinity terms, and of what kind, one pod may have."""

from collections.abc import Iterable
from typing import Any

import pytest

from berth.model.bounds import MOST_POD_TERMS, MOST_POD_VALUES, MOST_WIDE_REQUIREMENTS, excesses
from support.builders import Body, make_pod

REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def term(**selector: Any) -> Body:
    return {"labelSelector": selector, "topologyKey": "zone", "namespaceSelector": {}}


def named(number: int) -> Body:
    return term(matchLabels={"app": f"app-{number}"})


def wide(number: int, count: int = 1) -> Body:
    return term(matchExpressions=[{"key": f"k{number}-{i}", "operator": "Exists"} for i in range(count)])


def problems(terms: Iterable[object], preferred: bool = False, direction: str = "podAntiAffinity") -> list[str]:
    listed = [{"weight": 1, "podAffinityTerm": each} for each in terms] if preferred else list(terms)
    affinity = {direction: {PREFERRED if preferred else REQUIRED: listed}}
    return [excess.problem for excess in excesses(make_pod("p", affinity=affinity))]


@pytest.mark.parametrize("preferred", [False, True])
@pytest.mark.parametrize("direction", ["podAffinity", "podAntiAffinity"])
def test_a_pod_may_have_hundreds_of_terms_that_name_a_label(preferred: bool, direction: str) -> None:
    assert not problems(map(named, range(MOST_POD_TERMS)), preferred, direction)
    [problem] = problems(map(named, range(MOST_POD_TERMS + 1)), preferred, direction)
    assert problem == "has 257 terms, and a pod may have 256"


@pytest.mark.parametrize("preferred", [False, True])
def test_terms_that_every_pod_may_meet_may_have_few_requirements_together(preferred: bool) -> None:
    assert not problems(map(wide, range(MOST_WIDE_REQUIREMENTS)), preferred)
    assert not problems([wide(0, MOST_WIDE_REQUIREMENTS - 1), term()], preferred)
    for terms in (map(wide, range(65)), [wide(0, 65)], [wide(0, 64), term()]):
        [problem] = problems(terms, preferred)
        assert problem == "has 65 requirements, and a pod may have 64 in terms that name no value of a label"


def test_a_term_that_names_a_value_may_have_more_requirements() -> None:
    expressions: list[Body] = [{"key": f"k{i}", "operator": "DoesNotExist"} for i in range(200)]
    expressions.append({"key": "app", "operator": "In", "values": ["web"]})
    assert not problems([term(matchExpressions=expressions)])


def test_values_are_counted_at_all_depths() -> None:
    values = [f"v{i}" for i in range(MOST_POD_VALUES)]
    [problem] = problems([term(matchExpressions=[{"key": "app", "operator": "In", "values": values}])])
    assert problem == "has more than 2,000 values, and a pod may have no more"
    assert not problems([term(matchExpressions=[{"key": "app", "operator": "In", "values": values[:-3]}])])


@pytest.mark.parametrize("terms", [[None], ["x"], [{"labelSelector": 1}], [{"labelSelector": {"matchExpressions": 1}}]])
def test_what_is_no_term_is_for_the_readers_to_refuse(terms: Iterable[object]) -> None:
    assert not problems(terms)
    assert not problems(terms, preferred=True)
