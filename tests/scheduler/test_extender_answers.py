"""What of an extender's answer may be shown to people: short texts on one line, and few of them."""

import pytest

from berth.policy.records import Extender
from berth.scheduler.extenders.extender_protocol import (
    OTHER_REASON,
    REASONS_MAX,
    SHOWN_MAX_LENGTH,
    ExtenderFailed,
    read_bound,
    read_filtered,
    read_points,
    read_victims,
)

EXTENDER = Extender("http://a", node_cache_capable=True)
HOSTILE = "a\nFAKE line\x1b[31m\u202e\x00" + "x" * 10_000
URL_AND_WORDS = 200


def check(text: str, longest: int = SHOWN_MAX_LENGTH) -> None:
    assert text.isprintable()
    assert len(text) <= longest


def test_an_error_is_shown_on_one_line_and_cut() -> None:
    for read in (read_bound, lambda answer: read_filtered(EXTENDER, answer, ())):
        with pytest.raises(ExtenderFailed) as failure:
            read({"Error": HOSTILE})
        check(str(failure.value))
        assert str(failure.value).startswith("a\\nFAKE line")


def test_reasons_are_shown_on_one_line_and_cut() -> None:
    said = read_filtered(EXTENDER, {"FailedNodes": {"n": HOSTILE}, "FailedAndUnresolvableNodes": {"m": HOSTILE}}, "nm")
    for refusal in said.refused.values():
        check(refusal.reason)


def test_an_ordinary_reason_is_shown_as_it_is() -> None:
    said = read_filtered(EXTENDER, {"FailedNodes": {"n": "no licence: 3 of 3 in use"}}, "n")
    assert said.refused["n"].reason == "no licence: 3 of 3 in use"


def test_an_answer_has_few_different_reasons() -> None:
    nodes = [f"n{number}" for number in range(5000)]
    said = read_filtered(EXTENDER, {"FailedNodes": {node: f"why {node}" for node in nodes}}, nodes)
    reasons = {refusal.reason for refusal in said.refused.values()}
    assert len(said.refused) == 5000
    assert len(reasons) == REASONS_MAX + 1
    assert OTHER_REASON in reasons


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_filtered(EXTENDER, {"NodeNames": [HOSTILE]}, "n"),
        lambda: read_filtered(EXTENDER, {"FailedNodes": {HOSTILE: 1}}, "n"),
        lambda: read_points(EXTENDER, [{"Host": HOSTILE, "Score": 2**62}]),
        lambda: read_victims({"NodeNameToMetaVictims": {HOSTILE: 1}}),
    ],
)
def test_names_of_nodes_that_nobody_knows_are_shown_on_one_line_and_cut(read: object) -> None:
    assert callable(read)
    with pytest.raises(ExtenderFailed) as failure:
        read()
    check(str(failure.value), SHOWN_MAX_LENGTH + URL_AND_WORDS)
