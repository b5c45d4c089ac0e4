"""When label selectors and node selectors match, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from berth.model import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement, build_node_affinity
from berth.model.affinity import PREFERRED, REQUIRED
from berth.model.fields import FieldError
from berth.model.selectors import build_label_selector, build_node_selector, parse_int64

LABELS = {"app": "web", "gen": "5", "size": "x", "empty": ""}


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("app", "In", ("db", "web"), True),
        ("app", "In", ("db",), False),
        ("absent", "In", ("web",), False),
        ("empty", "In", ("",), True),
        ("app", "NotIn", ("db",), True),
        ("app", "NotIn", ("web",), False),
        ("absent", "NotIn", ("web",), True),
        ("app", "Exists", (), True),
        ("empty", "Exists", (), True),
        ("absent", "Exists", (), False),
        ("app", "DoesNotExist", (), False),
        ("absent", "DoesNotExist", (), True),
        ("gen", "Gt", ("4",), True),
        ("gen", "Gt", ("5",), False),
        ("gen", "Gt", ("10",), False),
        ("gen", "Lt", ("10",), True),
        ("gen", "Lt", ("-1",), False),
        ("size", "Gt", ("1",), False),
        ("size", "Lt", ("1",), False),
        ("absent", "Gt", ("1",), False),
        ("gen", "Gt", ("x",), False),
        ("gen", "Lt", ("1.5",), False),
    ],
)
def test_each_operator(key: str, operator: str, values: tuple[str, ...], matches: bool) -> None:
    assert Requirement(key, operator, values).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("007", 7),
        ("", None),
        ("+", None),
        ("1_0", None),
        (" 1", None),
        ("1.0", None),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("٣", None),
        ("²", None),
        ("9" * 5000, None),
    ],
)
def test_integers_are_read_as_go_reads_them(text: str, number: int | None) -> None:
    assert parse_int64(text) == number


def test_an_empty_label_selector_matches_everything() -> None:
    selector = build_label_selector({})
    assert selector.matches({})
    assert selector.matches(LABELS)


def test_all_parts_of_a_label_selector_must_match() -> None:
    body = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "gen", "operator": "In", "values": ["5"]}]}
    assert build_label_selector(body).matches(LABELS)
    assert not build_label_selector(body).matches({"app": "web"})


def test_selectors_that_ask_for_the_same_are_equal() -> None:
    one = build_label_selector({"matchLabels": {"a": "1", "b": "2"}})
    other = build_label_selector(
        {
            "matchLabels": {"b": "2"},
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "1"]}, _expression("a", "In", ["1"])],
        }
    )
    assert one == other
    assert hash(one) == hash(other)


def test_a_node_selector_term_that_asks_for_nothing_matches_no_node() -> None:
    assert not NodeSelectorTerm((), ()).matches("n1", LABELS)
    assert not NodeSelector(()).matches("n1", LABELS)
    assert not build_node_selector({"nodeSelectorTerms": [{}, {"matchExpressions": None}]}).matches("n1", LABELS)


def test_one_term_of_a_node_selector_is_enough() -> None:
    selector = build_node_selector(
        {"nodeSelectorTerms": [_term(_expression("app", "In", ["db"])), _term(_expression("gen", "Gt", ["4"]))]}
    )
    assert selector.matches("n1", LABELS)
    assert not selector.matches("n1", {"gen": "4"})


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
@pytest.mark.parametrize("bound", ["abc", "1.5", "", "99999999999999999999", "-1", "+9"])
def test_a_comparison_with_no_integer_or_a_sign_matches_no_node_and_leaves_the_other_terms_alone(
    operator: str, bound: str
) -> None:
    beyond = _term(_expression("gen", operator, [bound]))
    assert not build_node_selector({"nodeSelectorTerms": [beyond]}).matches("n1", LABELS)
    selector = build_node_selector({"nodeSelectorTerms": [beyond, _term(_expression("absent", "DoesNotExist", []))]})
    assert selector.matches("n1", LABELS)


@pytest.mark.parametrize(
    ("affinity", "path"),
    [
        (
            {
                REQUIRED: {
                    "nodeSelectorTerms": [{}, {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}]
                }
            },
            f"{REQUIRED}.nodeSelectorTerms[1].matchExpressions[0].values",
        ),
        (
            {
                PREFERRED: [
                    {
                        "weight": 1,
                        "preference": {"matchExpressions": [{"key": "a", "operator": "Lt", "values": ["1.5"]}]},
                    }
                ]
            },
            f"{PREFERRED}[0].preference.matchExpressions[0].values",
        ),
    ],
)
def test_a_comparison_with_no_integer_is_refused_in_a_configuration(affinity: Any, path: str) -> None:
    with pytest.raises(FieldError) as refused:
        build_node_affinity(affinity)
    assert refused.value.path == path


@pytest.mark.parametrize(("operator", "matches"), [("In", True), ("NotIn", False)])
def test_a_node_is_selected_by_its_name(operator: str, matches: bool) -> None:
    field = _expression("metadata.name", operator, ["n1"])
    selector = build_node_selector({"nodeSelectorTerms": [{"matchFields": [field]}]})
    assert selector.matches("n1", {}) is matches
    assert selector.matches("n2", {}) is not matches


def test_expressions_and_fields_of_a_term_must_both_match() -> None:
    term = {
        "matchExpressions": [_expression("app", "Exists", [])],
        "matchFields": [_expression("metadata.name", "In", ["n1"])],
    }
    selector = build_node_selector({"nodeSelectorTerms": [term]})
    assert selector.matches("n1", LABELS)
    assert not selector.matches("n2", LABELS)
    assert not selector.matches("n1", {})


@pytest.mark.parametrize(
    ("expression", "field"),
    [
        ({"key": "a", "operator": "Is", "values": ["1"]}, "operator"),
        ({"key": "a", "values": ["1"]}, "operator"),
        ({"key": "a", "operator": ["In"], "values": ["1"]}, "operator"),
        ({"operator": "Exists"}, "key"),
        ({"key": 5, "operator": "Exists"}, "key"),
        ({"key": "a", "operator": "In"}, "values"),
        ({"key": "a", "operator": "NotIn", "values": []}, "values"),
        ({"key": "a", "operator": "In", "values": "1"}, "values"),
        ({"key": "a", "operator": "In", "values": ["1", 1]}, "values[1]"),
        ({"key": "a", "operator": "Exists", "values": ["1"]}, "values"),
        ({"key": "a", "operator": "Lt", "values": ["1", "2"]}, "values"),
        ({"key": "a", "operator": "Gt"}, "values"),
    ],
)
def test_an_expression_that_makes_no_sense_is_refused_by_its_field(expression: Any, field: str) -> None:
    with pytest.raises(FieldError) as refused:
        build_node_selector({"nodeSelectorTerms": [_term(_expression("b", "Exists", [])), _term(expression)]})
    assert refused.value.path == f"nodeSelectorTerms[1].matchExpressions[0].{field}"


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_labels_of_pods_are_not_compared_as_numbers(operator: str) -> None:
    with pytest.raises(FieldError, match="operator"):
        build_label_selector({"matchExpressions": [_expression("a", operator, ["1"])]})


@pytest.mark.parametrize(
    "field",
    [
        {"key": "metadata.namespace", "operator": "In", "values": ["n1"]},
        {"key": "metadata.name", "operator": "Exists"},
        {"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]},
        {"key": "metadata.name", "operator": "In", "values": ["n1", "n1"]},
    ],
)
def test_only_one_name_of_a_node_can_be_asked_for(field: Any) -> None:
    with pytest.raises(FieldError):
        build_node_selector({"nodeSelectorTerms": [{"matchFields": [field]}]})


def test_null_is_the_same_as_absent() -> None:
    assert build_label_selector({"matchLabels": None, "matchExpressions": None}) == LabelSelector(())


def _expression(key: str, operator: str, values: list[str]) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": values}


def _term(expression: dict[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": [expression]}
