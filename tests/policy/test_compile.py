"""A policy becomes a pipeline, or an error that names the argument."""

from dataclasses import replace
from random import Random

import pytest

from berth.engine.state import State
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
