"""A policy becomes a pipeline, or an error that names the argument."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from berth.engine.state.state import State
from berth.model import parse_node, parse_pod
from berth.policy import BUILT_IN, PolicyError, Predicate, Priority, compile_policy, load_policy, parse_policy
from policy.builders import make_policy
from support.builders import make_node, make_pod


def test_the_built_in_policy_compiles_to_its_plugins_in_order() -> None:
    pipeline = compile_policy(BUILT_IN)
    assert [plugin.name for plugin in pipeline.filters] == [entry.name for entry in BUILT_IN.predicates]
    assert [(plugin.name, weight) for plugin, weight in pipeline.scores] == [
        (entry.name, entry.weight) for entry in BUILT_IN.priorities
    ]
    assert pipeline.tie_break is BUILT_IN.tie_break


def test_a_policy_without_any_plugin_compiles() -> None:
    pipeline = compile_policy(replace(BUILT_IN, predicates=(), priorities=()))
    assert (pipeline.filters, pipeline.scores) == ((), ())


def test_a_refused_argument_is_named_with_its_path_in_the_manifest() -> None:
    policy = parse_policy(
        make_policy(
            predicates=[{"name": "NodePorts"}, {"name": "NodeResourcesFit", "args": {"ignoredResource": ["a/b"]}}]
        )
    )
    with pytest.raises(PolicyError) as caught:
        compile_policy(policy)
    assert [problem.field for problem in caught.value.problems] == ["spec.predicates[1].args.ignoredResource"]


def test_every_refused_argument_is_listed() -> None:
    wrong = {"scoringStrategy": {"type": "Fullest"}}
    manifest = make_policy(
        predicates=[{"name": "NodeResourcesFit", "args": wrong}],
        priorities=[{"name": "ImageLocality", "args": {"size": 1}}, {"name": "NodeResourcesFit", "args": wrong}],
    )
    with pytest.raises(PolicyError) as caught:
        load_policy(manifest)
    assert sorted(problem.field for problem in caught.value.problems) == [
        "spec.predicates[0].args.scoringStrategy.type",
        "spec.priorities[0].args.size",
        "spec.priorities[1].args.scoringStrategy.type",
    ]


def refused(**spec: Any) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load_policy(make_policy(**spec))
    return [f"{problem.field}: {problem.message}" for problem in caught.value.problems]


def test_arguments_that_a_plugin_does_not_know_are_told_all_at_once_with_the_first_that_it_refuses() -> None:
    args = {"a": 1, "b": 2, "ignoredResources": "x"}
    known = "unknown argument; known are ignoredResourceGroups, ignoredResources, scoringStrategy"
    assert refused(predicates=[{"name": "NodeResourcesFit", "args": args}]) == [
        f"spec.predicates[0].args.a: {known}",
        f"spec.predicates[0].args.b: {known}",
        "spec.predicates[0].args.ignoredResources: must be a list",
    ]
    assert len(refused(predicates=[{"name": "NodePorts", "args": dict.fromkeys(map(str, range(99)), 1)}])) == 16


def test_a_number_that_can_be_only_one_is_named() -> None:
    args = {"resources": [{"name": "cpu", "weight": 2}]}
    assert refused(priorities=[{"name": "NodeResourcesBalancedAllocation", "args": args}]) == [
        "spec.priorities[0].args.resources[0].weight: must be 1"
    ]


def test_a_base_of_berth_in_other_letters_is_named() -> None:
    assert refused(base="empty") == ["spec.base: there is no valid SchedulingPolicy empty; did you mean Empty?"]


@pytest.mark.parametrize(
    ("expression", "places"),
    [
        ("node.label.zone == 'a' && (pod.nmae == 'x' || pod.name.matches('('))", [(1, 5), (1, 31), (1, 64)]),
        ("nod.name == 'a' ||\npods.name == 'b'", [(1, 4), (2, 5)]),
    ],
)
def test_what_is_wrong_with_an_expression_is_told_all_at_once(expression: str, places: list[tuple[int, int]]) -> None:
    told = refused(predicates=[{"name": "rule", "expression": expression}])
    heads = [f"spec.predicates[0].expression: line {line}, column {column}: " for line, column in places]
    assert len(told) == len(heads)
    assert all(text.startswith(head) for text, head in zip(told, heads, strict=True)), told


def test_a_policy_made_by_hand_with_an_unknown_plugin_is_refused_by_name() -> None:
    policy = replace(BUILT_IN, predicates=(Predicate("Astrology"),), priorities=(Priority("Palmistry", 2),))
    with pytest.raises(PolicyError) as caught:
        compile_policy(policy)
    assert [str(problem) for problem in caught.value.problems] == [
        'spec.predicates[Astrology].name: "Astrology" is not a plugin',
        'spec.priorities[Palmistry].name: "Palmistry" is not a plugin',
    ]


def test_of_a_plugin_that_is_pre_filter_only_counts_what_it_says_before_any_node_is_looked_at() -> None:
    only = {"name": "NodeAffinity", "preFilterOnly": True}
    pipeline = load_policy(make_policy(predicates=[only])).pipeline
    state = State()
    for name in ("a", "b"):
        state.table.set_node(parse_node(make_node(name)))
    field = {"key": "metadata.name", "operator": "In", "values": ["b"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    named = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    selecting = parse_pod(make_pod("selecting", node_selector={"disk": "ssd"}))
    naming = parse_pod(make_pod("naming", affinity=named))
    assert pipeline.decide(selecting, state, Random(0)).feasible == 2  # type: ignore[union-attr]
    assert pipeline.decide(naming, state, Random(0)).node == "b"  # type: ignore[union-attr]
