"""Entries with an expression: what goes with one, and where what is wrong with it is told."""

from random import Random
from typing import Any

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.state.state import State
from berth.model import parse_node, parse_pod
from berth.policy import BUILT_IN, PolicyError, load_policy, parse_policy
from policy.builders import make_policy
from support.builders import make_node, make_pod

GOLD = {
    "name": "gold",
    "expression": "node.labels['tier'] == policy.parameters.tier",
    "message": "node(s) are not gold",
}


def problems_of(**spec: Any) -> dict[str, str]:
    with pytest.raises(PolicyError) as caught:
        load_policy(make_policy(**spec))
    return {problem.field: problem.message for problem in caught.value.problems}


def test_expressions_run_last_and_decide_with_the_parameters_of_the_policy() -> None:
    points = {"name": "spot", "weight": 50, "expression": "node.labels['spot'] == 'true' ? 100 : 0"}
    active = load_policy(make_policy(predicates=[GOLD], priorities=[points], parameters={"tier": "gold"}))
    assert [plugin.name for plugin in active.pipeline.filters] == [*(e.name for e in BUILT_IN.predicates), "gold"]
    assert (active.pipeline.scores[-1][0].name, active.pipeline.scores[-1][1]) == ("spot", 50)
    state = State()
    for name, tier, spot in (("a", "gold", "false"), ("b", "gold", "true"), ("c", "iron", "true")):
        state.table.set_node(parse_node(make_node(name, labels={"tier": tier, "spot": spot})))
    placed = active.pipeline.decide(parse_pod(make_pod("p")), state, Random(0))
    assert (placed.node, placed.feasible) == ("b", 2)  # type: ignore[union-attr]


def test_a_predicate_refuses_in_its_own_words() -> None:
    active = load_policy(make_policy(predicates=[GOLD], parameters={"tier": "gold"}))
    state = State()
    state.table.set_node(parse_node(make_node("a", labels={"tier": "iron"})))
    said = active.pipeline.decide(parse_pod(make_pod("p")), state, Random(0))
    assert isinstance(said, Diagnosis)
    assert said.message == "0/1 nodes are available: 1 node(s) are not gold."


def test_one_that_is_off_is_left_out() -> None:
    policy = parse_policy(make_policy(predicates=[{**GOLD, "enabled": False}]))
    assert policy.predicates == BUILT_IN.predicates


def test_predicate_order_knows_it_by_its_name() -> None:
    policy = parse_policy(make_policy(predicates=[GOLD], parameters={"tier": "x"}, predicateOrder=["gold"]))
    assert policy.predicates[0].name == "gold"


ALONE = "does not go with an expression: leave one of the two out"
ONLY = "goes with an expression only: a plugin does it by itself"


@pytest.mark.parametrize(
    ("entry", "field", "message"),
    [
        ({"name": "e", "expression": "true", "plugin": "NodeName"}, "plugin", ALONE),
        ({"name": "e", "expression": "true", "args": {"a": 1}}, "args", ALONE),
        ({"name": "e", "expression": "true", "preFilterOnly": False}, "preFilterOnly", ALONE),
        ({"name": "NodeName", "message": "x"}, "message", ONLY),
        ({"name": "e", "plugin": "NodeName", "message": "x"}, "message", ONLY),
        ({"name": "NodeName", "expression": "true"}, "name", "NodeName is the name of a plugin"),
        ({"name": "ImageLocality", "expression": "true"}, "name", "ImageLocality is the name of a plugin"),
        ({"name": "HostName", "expression": "true"}, "name", "HostName is the name of a plugin"),
        ({"expression": "true"}, "name", "is required"),
        ({"name": "e", "expression": ""}, "expression", "is empty"),
        ({"name": "e", "expression": 7}, "expression", "7 is not a text"),
        ({"name": "e", "expression": "true" + " " * 2045}, "expression", "has 2049 characters, may have 2048"),
        ({"name": "e", "expression": "true", "message": ""}, "message", "is empty"),
        ({"name": "e", "expression": "true", "message": "x" * 257}, "message", "has 257 characters, may have 256"),
        ({"name": "e", "expression": "1"}, "expression", ""),
        ({"name": "e", "expression": "node.labels["}, "expression", ""),
        ({"name": "e", "expression": "node.colour == 'red'"}, "expression", ""),
        ({"name": "e"}, "name", "an entry with a name of its own needs a plugin or an expression"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_told_where_it_is(entry: Any, field: str, message: str) -> None:
    found = problems_of(predicates=[{"name": "NodePorts"}, entry])
    assert list(found) == [f"spec.predicates[1].{field}"]
    assert message in found[f"spec.predicates[1].{field}"]


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"name": "NodeAffinity", "normalize": True}, "normalize"),
        ({"name": "e", "expression": "1", "normalize": "yes"}, "normalize"),
        ({"name": "e", "expression": "true"}, "expression"),
        ({"name": "e", "expression": "1", "args": {}}, "args"),
        ({"name": "e", "expression": "1", "message": "x"}, "message"),
        ({"name": "e", "expression": "1", "weight": 0}, "weight"),
    ],
    ids=str,
)
def test_a_priority_is_told_likewise(entry: Any, field: str) -> None:
    assert list(problems_of(priorities=[entry])) == [f"spec.priorities[0].{field}"]


def test_there_are_sixteen_at_most() -> None:
    many = [{"name": f"e{n}", "expression": "true"} for n in range(9)]
    points = [{"name": f"p{n}", "expression": "1"} for n in range(8)]
    assert list(problems_of(predicates=many, priorities=points)) == ["spec"]
    load_policy(make_policy(predicates=many, priorities=points[:7]))
