"""What single plugins promise beyond the contract and the vectors: arguments, claims, and refusals in words."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Pipeline, Placement
from berth.engine.plugin import BadArgument, Query
from berth.engine.registry import UnknownPlugin
from berth.model import parse_pod
from engine.expecting import as_diagnosis, make_filter, make_score
from engine.worlds import state_of
from support.builders import Body, make_node, make_pod


def decide(
    name: str, objects: Sequence[Body], pod: Body, args: Mapping[str, Any] | None = None
) -> Placement | Diagnosis:
    return Pipeline([make_filter(name, args or {})], []).decide(parse_pod(pod), state_of(objects), Random(0))


NODES = [make_node("a", labels={"zone": "z1"}), make_node("b", labels={"zone": "z2"})]


@pytest.mark.parametrize(
    ("plugin", "objects", "pod", "words"),
    [
        (
            "DynamicResources",
            [],
            make_pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]),
            "resource claims",
        ),
    ],
)
def test_a_pod_that_needs_what_this_version_cannot_judge_is_refused_in_words_that_name_the_plugin(
    plugin: str, objects: Sequence[Body], pod: Body, words: str
) -> None:
    diagnosis = decide(plugin, [*NODES, *objects], pod)
    assert isinstance(diagnosis, Diagnosis)
    assert words in diagnosis.message
    assert f"(plugin {plugin})" in diagnosis.message


@pytest.mark.parametrize(
    ("plugin", "args", "field"),
    [
        ("NodeResourcesFit", {"scoringStrategy": {"type": "Fullest"}}, "scoringStrategy.type"),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "scoringStrategy.resources[0].weight",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"name": "cpu"}, {"name": "cpu"}]}},
            "scoringStrategy.resources[1].name",
        ),
        ("NodeResourcesFit", {"scoringStrategy": {"resources": "cpu"}}, "scoringStrategy.resources"),
        ("NodeResourcesFit", {"scoringStrategy": []}, "scoringStrategy"),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "scoringStrategy.requestedToCapacityRatio.shape",
        ),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {
                        "shape": [{"utilization": 5, "score": 1}, {"utilization": 5, "score": 2}]
                    },
                }
            },
            "scoringStrategy.requestedToCapacityRatio.shape[1].utilization",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"requestedToCapacityRatio": {}}},
            "scoringStrategy.requestedToCapacityRatio",
        ),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["example.com/gpu"]}, "ignoredResourceGroups[0]"),
        ("NodeResourcesFit", {"ignoredResources": [7]}, "ignoredResources[0]"),
        ("NodeAffinity", {"addedAffinity": "x"}, "addedAffinity"),
        (
            "NodeAffinity",
            {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]}},
            "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
        ),
        ("VolumeBinding", {"bindTimeoutSeconds": -5}, "bindTimeoutSeconds"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused_with_its_field(
    plugin: str, args: Mapping[str, Any], field: str
) -> None:
    with pytest.raises(BadArgument) as refusal:
        make_filter(plugin, args)
    assert refusal.value.field == field


def test_balanced_allocation_takes_no_weights() -> None:
    with pytest.raises(BadArgument, match="must be 1"):
        make_score("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]})


def test_the_defaults_that_kube_scheduler_writes_out_are_taken_as_they_are() -> None:
    make_filter("InterPodAffinity", {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False})
    make_filter("PodTopologySpread", {"defaultingType": "System"})
    make_filter("VolumeBinding", {"bindTimeoutSeconds": 600})
    make_filter("NodeAffinity", {"addedAffinity": None})


def test_an_unknown_plugin_is_refused_with_the_names_that_are_known() -> None:
    with pytest.raises(UnknownPlugin, match="NodeResourcesFit"):
        make_filter("NodeResourceFit")


def test_a_plugin_serves_only_at_its_points() -> None:
    with pytest.raises(BadArgument, match="ImageLocality does not filter nodes"):
        make_filter("ImageLocality")


def test_ignored_resources_are_not_looked_at() -> None:
    pod = make_pod("p", requests={"example.com/gpu": "1"})
    assert isinstance(decide("NodeResourcesFit", NODES, pod), Diagnosis)
    assert isinstance(decide("NodeResourcesFit", NODES, pod, {"ignoredResources": ["example.com/gpu"]}), Placement)
    assert isinstance(decide("NodeResourcesFit", NODES, pod, {"ignoredResourceGroups": ["example.com"]}), Placement)
    cpu = make_pod("p", cpu="99")
    assert isinstance(decide("NodeResourcesFit", NODES, cpu, {"ignoredResources": ["cpu"]}), Diagnosis)


def test_a_node_that_is_short_of_one_of_many_resources_is_refused_with_its_name() -> None:
    names = [f"example.com/r{number:02}" for number in range(80)]
    nodes = [
        make_node("all", extended=dict.fromkeys(names, 1)),
        make_node("most", extended=dict.fromkeys(names[:-1], 1)),
    ]
    pod = make_pod("p", requests=dict.fromkeys(names, "1"))
    assert decide("NodeResourcesFit", nodes, pod) == Placement("all", 2, 1)
    assert as_diagnosis(decide("NodeResourcesFit", nodes[1:], pod)).message == (
        "0/1 nodes are available: 1 Insufficient example.com/r79."
    )


def test_a_plugin_that_is_in_a_pipeline_twice_goes_by_the_arguments_of_each() -> None:
    state = state_of([make_node("a", cpu="8", memory="1Gi"), make_node("b", cpu="1", memory="64Gi")])
    pod = parse_pod(make_pod("p", cpu="1", memory="512Mi"))
    query = Query(pod, state.table)
    for resource in ("cpu", "memory"):
        strategy = {"type": "MostAllocated", "resources": [{"name": resource}]}
        plugin = make_score("NodeResourcesFit", {"scoringStrategy": strategy})
        alone = plugin.score(Query(pod, state.table), state, state.table.rows)
        assert plugin.score(query, state, state.table.rows).tolist() == alone.tolist()


def test_the_balance_of_many_resources_is_the_same_for_one_node_as_for_all() -> None:
    """A cut to whole numbers shows in which order floats were added up."""
    names = ["cpu", "memory", "example.com/a", "example.com/b", "example.com/c"]
    node = make_node("a", cpu=20, memory=20, extended=dict.fromkeys(names[2:], 20))
    plugin = make_score("NodeResourcesBalancedAllocation", {"resources": [{"name": name} for name in names]})
    random = Random(0)
    for amounts in [(6, 2, 20, 18, 6), (5, 19, 17, 15, 2)] + [random.choices(range(1, 21), k=5) for _ in range(500)]:
        state = state_of([node])
        query = Query(parse_pod(make_pod("p", requests=dict(zip(names, amounts, strict=True)))), state.table)
        assert plugin.score_row(query, state, 0) == plugin.score(query, state, state.table.rows)[0]
