"""The packed vectors are what the generator makes of their seed, so the oracle of another version can be asked anew."""

from conformance.cases import theme, vectors
from conformance.oracle.generator import LEGACY, current_cases, legacy_cases
from conformance.oracle.generator.themes import THEMES


def test_the_packed_cases_are_those_of_the_generator() -> None:
    made = [*current_cases("public", 150, 10), *legacy_cases("public", 150, 10)]
    packed = [{field: vector[field] for field in case} for vector, case in zip(vectors(), made, strict=True)]
    assert packed == made


def test_a_case_is_the_same_however_many_are_made_with_it() -> None:
    few, many = (list(current_cases("any", count, 12)) for count in (1, 3))
    assert few == [case for case in many if case["id"].endswith("-0")]


def test_every_theme_is_among_the_packed_vectors() -> None:
    assert {theme(vector) for vector in vectors()} == {*THEMES, LEGACY}


def test_no_case_has_more_nodes_than_asked_for() -> None:
    for case in [*current_cases("any", 5, 80), *legacy_cases("any", 5, 80)]:
        assert 3 <= sum(body["kind"] == "Node" for body in case["objects"]) <= 80
