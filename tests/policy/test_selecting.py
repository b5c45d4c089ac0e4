"""The selectors of a policy are read as strictly as the API server reads those of pods."""

from typing import Any

import pytest

from berth.model import LabelSelector
from berth.policy import PolicyError, parse_policy
from policy.builders import make_policy


def read(selector: object) -> LabelSelector | None:
    return parse_policy(make_policy(podSelector=selector)).pod_selector


def test_a_policy_without_selectors_has_none_and_an_empty_one_selects_everything() -> None:
    assert read(None) is None
    selector = read({})
    assert selector is not None
    assert selector.matches({})
    assert selector.requirements == ()


def test_labels_and_expressions_must_all_hold() -> None:
    selector = read(
        {
            "matchLabels": {"team": "research", "example.com/empty": ""},
            "matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["test", "dev", "dev"]},
                {"key": "gpu", "operator": "Exists"},
                {"key": "old", "operator": "DoesNotExist", "values": []},
            ],
        }
    )
    assert selector is not None
    good = {"team": "research", "example.com/empty": "", "gpu": ""}
    assert selector.matches(good)
    assert len(selector.requirements) == 5
    for worse in ({"team": "x"}, {"tier": "dev"}, {"old": "1"}, {"example.com/empty": "x"}):
        assert not selector.matches({**good, **worse})
    assert not selector.matches({key: value for key, value in good.items() if key != "gpu"})


def test_namespaces_are_selected_alike() -> None:
    policy = parse_policy(make_policy(namespaceSelector={"matchLabels": {"team": "a"}}))
    assert policy.namespace_selector == read({"matchLabels": {"team": "a"}})


IN = {"key": "tier", "operator": "In", "values": ["a"]}


@pytest.mark.parametrize(
    ("selector", "field", "message"),
    [
        ("team=a", "", '"team=a" is not a mapping'),
        ({"matchLabel": {}}, ".matchLabel", "did you mean matchLabels?"),
        ({"matchLabels": ["a"]}, ".matchLabels", "a list is not a mapping"),
        ({"matchLabels": {"team": 7}}, ".matchLabels.team", "7 is not a text; put it in quotes"),
        ({"matchLabels": {"te am": "a"}}, ".matchLabels", '"te am" cannot be the key of a label'),
        ({"matchLabels": {"A.com/team": "a"}}, ".matchLabels", '"A.com/team" cannot be the key of a label'),
        ({"matchLabels": {"x" * 64: "a"}}, ".matchLabels", "cannot be the key of a label"),
        ({"matchLabels": {"team": "-a"}}, ".matchLabels.team", '"-a" cannot be the value of a label'),
        ({"matchLabels": {"team": "x" * 64}}, ".matchLabels.team", "cannot be the value of a label"),
        ({"matchLabels": {f"k{n}": "" for n in range(65)}}, ".matchLabels", "has 65 entries, may have 64"),
        ({"matchExpressions": IN}, ".matchExpressions", "a mapping is not a list"),
        ({"matchExpressions": [IN] * 65}, ".matchExpressions", "has 65 entries, may have 64"),
        ({"matchExpressions": ["tier"]}, ".matchExpressions[0]", '"tier" is not a mapping'),
        ({"matchExpressions": [{**IN, "op": "In"}]}, ".matchExpressions[0].op", "unknown field"),
        ({"matchExpressions": [{**IN, "operator": "Gt"}]}, ".matchExpressions[0].operator", '"Gt" is not one of In'),
        ({"matchExpressions": [{**IN, "operator": ["In"]}]}, ".matchExpressions[0].operator", "a list is not one of"),
        ({"matchExpressions": [{"key": "a"}]}, ".matchExpressions[0].operator", "is required: one of In"),
        ({"matchExpressions": [{**IN, "key": None}]}, ".matchExpressions[0].key", "is required"),
        ({"matchExpressions": [{**IN, "key": "a/b/c"}]}, ".matchExpressions[0].key", "cannot be the key"),
        ({"matchExpressions": [{**IN, "values": []}]}, ".matchExpressions[0].values", "must not be empty with In"),
        ({"matchExpressions": [{**IN, "values": None}]}, ".matchExpressions[0].values", "must not be empty with In"),
        ({"matchExpressions": [{**IN, "values": "a"}]}, ".matchExpressions[0].values", '"a" is not a list'),
        ({"matchExpressions": [{**IN, "values": ["a", 1]}]}, ".matchExpressions[0].values[1]", "1 is not a text"),
        ({"matchExpressions": [{**IN, "values": ["a_"]}]}, ".matchExpressions[0].values[0]", "cannot be the value"),
        (
            {"matchExpressions": [{**IN, "operator": "Exists"}]},
            ".matchExpressions[0].values",
            "must be empty with Exists",
        ),
    ],
    ids=str,
)
def test_what_the_api_server_would_refuse_is_refused(selector: Any, field: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read(selector)
    [problem] = caught.value.problems
    assert problem.field == f"spec.podSelector{field}"
    assert message in problem.message
