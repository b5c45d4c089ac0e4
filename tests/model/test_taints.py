"""Which tolerations tolerate which taints."""

from __future__ import annotations

import pytest

from berth.model import InvalidObject, Taint, Toleration, parse_node, parse_pod
from support.builders import make_node, make_pod

TAINT = Taint("dedicated", "gpu", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (("dedicated", "Equal", "gpu", "NoSchedule"), True),
        (("dedicated", "Equal", "gpu", ""), True),
        (("dedicated", "Equal", "cpu", "NoSchedule"), False),
        (("dedicated", "Equal", "", "NoSchedule"), False),
        (("dedicated", "Equal", "gpu", "NoExecute"), False),
        (("dedicated", "Exists", "", "NoSchedule"), True),
        (("other", "Exists", "", ""), False),
        (("", "Exists", "", ""), True),
        (("", "Exists", "", "NoExecute"), False),
        (("", "Equal", "gpu", ""), True),
    ],
)
def test_a_toleration_tolerates_by_key_value_and_effect(toleration: tuple[str, str, str, str], tolerates: bool) -> None:
    assert Toleration(*toleration).tolerates(TAINT) is tolerates


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
def test_comparisons_are_read_but_tolerate_nothing(operator: str) -> None:
    (toleration,) = parse_pod(make_pod("p", tolerations=[{"key": "n", "operator": operator, "value": "5"}])).tolerations
    assert toleration.operator == operator
    assert not any(toleration.tolerates(Taint("n", value, "NoSchedule")) for value in ("4", "5", "6"))


def test_without_an_operator_values_must_be_equal() -> None:
    (toleration,) = parse_pod(make_pod("p", tolerations=[{"key": "dedicated", "value": "gpu"}])).tolerations
    assert toleration == Toleration("dedicated", "Equal", "gpu", "")


def test_taints_are_read() -> None:
    node = parse_node(make_node("n", taints=[("dedicated", "gpu", "NoSchedule"), {"key": "k", "effect": "NoExecute"}]))
    assert node.taints == (TAINT, Taint("k", "", "NoExecute"))


@pytest.mark.parametrize("taint", [("k", "v", "Sometimes"), ("k", "v", ""), ("", "v", "NoSchedule")])
def test_a_taint_that_makes_no_sense_is_refused(taint: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidObject, match=r"Node n: spec\.taints\[0\]"):
        parse_node(make_node("n", taints=[taint]))
