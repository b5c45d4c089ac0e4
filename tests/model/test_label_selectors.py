"""Label selectors as text: what they select, and what is refused in the API server's words."""

from collections.abc import Mapping

import pytest

from berth.model.label_selectors import SelectorError, parse_label_selector
from berth.model.selectors import EVERYTHING

WEB = {"app": "web", "tier": "front", "weight": "4"}


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("app=web", WEB, True),
        ("app==web,tier!=front", WEB, False),
        ("tier in (front, back)", WEB, True),
        ("tier notin (front, back)", {}, True),
        ("zone in (a,)", {"zone": ""}, True),
        ("zone in ()", {"zone": ""}, True),
        ("!canary", WEB, True),
        ("app", {}, False),
        ("weight>3", WEB, True),
        ("weight<4", WEB, False),
        ("weight>3", {"weight": "many"}, False),
        ("app=", {"app": ""}, True),
    ],
)
def test_a_text_selects_labels(text: str, labels: Mapping[str, str], selected: bool) -> None:
    assert parse_label_selector(text).matches(labels) is selected


def test_an_empty_text_selects_everything() -> None:
    assert parse_label_selector(" ") is EVERYTHING


def test_texts_of_the_same_meaning_are_equal() -> None:
    assert parse_label_selector("b in (2,1),a=1") == parse_label_selector("a==1, b in (1, 2, 2)")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a=1,", "found '', expected: identifier after ','"),
        ("a=1 b=2", "found 'b', expected: ',' or 'end of string'"),
        ("a in b", "found 'b' expected: '('"),
        ("a in (b c)", "found 'c', expected: ',' or ')'"),
        ("a in (b,=)", "found '=', expected: ',' or ')'"),
        ("a=(", "found '(', expected: identifier"),
        (",a", "found ',', expected: identifier"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("/a=1", '<nil>: Invalid value: "/a": prefix part'),
        ("a=-b", '<nil>: Invalid value: "-b": a valid label must be an empty string'),
        ("a>b", "values[0][a]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a>99999999999999999999", "for 'Gt', 'Lt' operators, the value must be an integer"),
    ],
)
def test_what_cannot_be_parsed_is_refused_in_the_api_servers_words(text: str, problem: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse_label_selector(text)
    assert str(refused.value).startswith("unable to parse requirement: ")
    assert problem in str(refused.value)
