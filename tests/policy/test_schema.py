"""A manifest becomes a resolved policy, or an error that lists every problem with its field."""

import copy
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.engine.pipeline import TieBreak
from berth.policy import BUILT_IN, Policy, PolicyError, Predicate, Priority, Problem, load_policy, parse_policy
from berth.policy.schema import SPEC_FIELDS
from policy.builders import make_policy

MISSING_NAME = "is required: the name that pods put into their spec.schedulerName, for example berth"


def problems_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    with pytest.raises(PolicyError) as caught:
        parse_policy(manifest)
    return {problem.field: problem.message for problem in caught.value.problems}


def weights_of(policy: Policy) -> dict[str, int]:
    return {entry.name: entry.weight for entry in policy.priorities}


class TestWhatAPolicyMeans:
    def test_a_policy_with_only_a_scheduler_name_is_the_default_profile(self) -> None:
        policy = parse_policy(make_policy())
        assert policy.predicates == BUILT_IN.predicates
        assert policy.priorities == BUILT_IN.priorities
        assert policy.tie_break is TieBreak.RANDOM

    def test_the_default_profile_has_the_order_and_weights_of_kube_scheduler(self) -> None:
        assert [entry.name for entry in BUILT_IN.predicates] == [
            "NodeUnschedulable",
            "NodeName",
            "TaintToleration",
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "NodeVolumeLimits",
            "VolumeBinding",
            "VolumeZone",
            "PodTopologySpread",
            "InterPodAffinity",
            "DynamicResources",
            "NodeDeclaredFeatures",
        ]
        assert list(weights_of(BUILT_IN).items()) == [
            ("TaintToleration", 3),
            ("NodeAffinity", 2),
            ("NodeResourcesFit", 1),
            ("VolumeBinding", 1),
            ("PodTopologySpread", 2),
            ("InterPodAffinity", 2),
            ("DynamicResources", 2),
            ("NodeResourcesBalancedAllocation", 1),
            ("ImageLocality", 1),
        ]

    def test_name_uid_and_generation_come_from_the_metadata(self) -> None:
        policy = parse_policy(make_policy("gpu", generation=7, uid="u1", schedulerName="berth-gpu"))
        assert (policy.name, policy.uid, policy.generation, policy.scheduler_name) == ("gpu", "u1", 7, "berth-gpu")

    def test_a_file_without_uid_and_generation_is_a_policy_too(self) -> None:
        manifest = make_policy()
        manifest["metadata"] = {"name": "batch"}
        policy = parse_policy(manifest)
        assert (policy.uid, policy.generation) == ("", 0)

    def test_a_weight_replaces_the_default_in_place(self) -> None:
        policy = parse_policy(make_policy(priorities=[{"name": "NodeAffinity", "weight": 9}]))
        assert policy.priorities[1] == Priority("NodeAffinity", 9)
        assert len(policy.priorities) == len(BUILT_IN.priorities)

    def test_an_entry_without_a_weight_keeps_the_default_weight(self) -> None:
        policy = parse_policy(make_policy(priorities=[{"name": "TaintToleration"}]))
        assert weights_of(policy)["TaintToleration"] == 3

    def test_arguments_replace_those_of_one_point_only(self) -> None:
        args = {"ignoredResources": ["example.com/fpga"]}
        policy = parse_policy(make_policy(predicates=[{"name": "NodeResourcesFit", "args": args}]))
        assert Predicate("NodeResourcesFit", args) in policy.predicates
        assert Priority("NodeResourcesFit", 1) in policy.priorities

    def test_a_disabled_entry_is_dropped_and_its_weight_does_not_matter(self) -> None:
        policy = parse_policy(
            make_policy(
                predicates=[{"name": "NodePorts", "enabled": False}],
                priorities=[{"name": "ImageLocality", "enabled": False, "weight": 5}],
            )
        )
        assert "NodePorts" not in [entry.name for entry in policy.predicates]
        assert "ImageLocality" not in weights_of(policy)

    def test_every_plugin_may_be_switched_off(self) -> None:
        policy = parse_policy(
            make_policy(
                predicates=[{"name": entry.name, "enabled": False} for entry in BUILT_IN.predicates],
                priorities=[{"name": entry.name, "enabled": False} for entry in BUILT_IN.priorities],
            )
        )
        assert (policy.predicates, policy.priorities) == ((), ())

    @pytest.mark.parametrize("choice", list(TieBreak))
    def test_a_tie_break_is_read_by_its_name(self, choice: TieBreak) -> None:
        assert parse_policy(make_policy(tieBreak=choice.value)).tie_break is choice

    def test_null_lists_and_fields_mean_the_default(self) -> None:
        manifest = make_policy()
        manifest["spec"] |= {"predicates": None, "priorities": None, "tieBreak": None}
        assert parse_policy(manifest).priorities == BUILT_IN.priorities

    def test_a_policy_does_not_change_with_the_manifest_it_was_read_from(self) -> None:
        manifest = make_policy(predicates=[{"name": "NodeResourcesFit", "args": {"ignoredResources": ["a.example/b"]}}])
        policy = parse_policy(manifest)
        before = copy.deepcopy([dict(entry.args) for entry in policy.predicates])
        manifest["spec"]["predicates"][0]["args"]["ignoredResources"].append("other")
        assert [dict(entry.args) for entry in policy.predicates] == before


class TestWhatIsWrongWithAManifest:
    def test_every_problem_is_listed_at_once(self) -> None:
        manifest = make_policy(
            schedulerName=None,
            tieBreak="Coin",
            predicates=[{"name": "NodePort"}, {"enabled": "no", "name": "NodeName"}],
            priorities=[{"name": "ImageLocality", "weight": 0}, {"name": "NodeName"}, {"name": "ImageLocality"}],
        )
        manifest["spec"]["priority"] = []
        assert problems_of(manifest) == {
            "spec.priority": "unknown field; did you mean priorities?",
            "spec.schedulerName": MISSING_NAME,
            "spec.predicates[0].name": '"NodePort" is not a plugin; did you mean NodePorts?',
            "spec.predicates[1].enabled": '"no" is not true or false',
            "spec.priorities[0].weight": "0 is not from 1 to 2147483647; write enabled: false to leave the plugin out",
            "spec.priorities[1].name": "NodeName only filters nodes: it belongs into spec.predicates",
            "spec.priorities[2].name": "ImageLocality is there already, at spec.priorities[0]",
            "spec.tieBreak": '"Coin" is not one of Random, RoundRobin, First',
        }

    def test_a_refused_argument_is_listed_together_with_a_wrong_structure(self) -> None:
        manifest = make_policy(
            priorities=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Fullest"}}}], tieBreak="Coin"
        )
        with pytest.raises(PolicyError) as caught:
            load_policy(manifest)
        fields = [problem.field for problem in caught.value.problems]
        assert fields == ["spec.tieBreak", "spec.priorities[0].args.scoringStrategy.type"]

    def test_the_error_names_the_policy_and_the_field(self) -> None:
        with pytest.raises(PolicyError, match=r"^SchedulingPolicy batch: spec\.tieBreak: 3 is not one of Random"):
            parse_policy(make_policy(tieBreak=3))

    @pytest.mark.parametrize("weight", [-1, 2**31, pytest.param(10**5000, id="huge"), 1.5, "5", True, [1]])
    def test_an_invalid_weight_is_a_problem(self, weight: object) -> None:
        assert "spec.priorities[0].weight" in problems_of(
            make_policy(priorities=[{"name": "ImageLocality", "weight": weight}])
        )

    def test_a_predicate_has_no_weight(self) -> None:
        found = problems_of(make_policy(predicates=[{"name": "NodeName", "weight": 2}]))
        known = "name, plugin, enabled, preFilterOnly, args, expression, message"
        assert found == {"spec.predicates[0].weight": f"unknown field; known are {known}"}

    def test_a_plugin_that_only_scores_is_no_predicate(self) -> None:
        found = problems_of(make_policy(predicates=[{"name": "ImageLocality"}]))
        assert found == {"spec.predicates[0].name": "ImageLocality only scores nodes: it belongs into spec.priorities"}

    def test_disabling_a_plugin_that_does_not_exist_is_a_typo_to_report(self) -> None:
        found = problems_of(make_policy(priorities=[{"name": "PodTopologySpraed", "enabled": False}]))
        assert found == {
            "spec.priorities[0].name": '"PodTopologySpraed" is not a plugin; did you mean PodTopologySpread?'
        }

    def test_an_object_of_another_kind_is_refused(self) -> None:
        found = problems_of(make_policy() | {"kind": "ConfigMap", "apiVersion": "v1"})
        assert found == {"apiVersion": '"v1" is not berth.dev/v1alpha1', "kind": '"ConfigMap" is not SchedulingPolicy'}

    def test_a_manifest_without_anything_says_what_is_required(self) -> None:
        assert set(problems_of({})) == {"metadata", "metadata.name", "spec", "spec.schedulerName"}

    def test_arguments_that_json_cannot_say_are_refused_where_they_are(self) -> None:
        args = {"scoringStrategy": {"since": date(2026, 1, 1)}}
        found = problems_of(make_policy(priorities=[{"name": "NodeResourcesFit", "args": args}]))
        assert list(found) == ["spec.priorities[0].args.scoringStrategy.since"]

    @pytest.mark.parametrize("number", [2**63, -(2**63) - 1, float("nan"), float("inf")])
    def test_numbers_that_neither_json_nor_an_expression_can_have_are_refused(self, number: float) -> None:
        assert list(problems_of(make_policy(parameters={"most": [number]}))) == ["spec.parameters.most[0]"]
        parse_policy(make_policy(parameters={"most": [2**63 - 1, -(2**63), 0.5]}))

    def test_arguments_without_end_are_refused(self) -> None:
        args: dict[str, Any] = {}
        args["again"] = args
        found = problems_of(make_policy(priorities=[{"name": "NodeResourcesFit", "args": args}]))
        assert list(found.values()) == ["is nested deeper than 32 levels"]

    def test_more_entries_than_the_schema_allows_are_refused(self) -> None:
        found = problems_of(make_policy(predicates=[{"name": "NodeName"}] * 65))
        assert found == {"spec.predicates": "has 65 entries, may have 64"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
FIELDS: dict[str, Any] = {
    "mode": "Shadow",
    "base": "Empty",
    "namespaceSelector": {"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]},
    "podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
    "predicates": [
        {"name": "NodeAffinity", "enabled": True, "preFilterOnly": False, "args": {}},
        {"name": "mine", "expression": "node.name != policy.parameters.x", "message": "no"},
    ],
    "predicateOrder": ["mine"],
    "priorities": [
        {
            "name": "pack",
            "plugin": "NodeResourcesFit",
            "weight": 2,
            "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
        },
        {"name": "points", "expression": "1", "normalize": True},
    ],
    "parameters": {"x": "y"},
    "extenders": [
        {
            "urlPrefix": "https://extender.example",
            "filterVerb": "filter",
            "weight": 2,
            "timeoutSeconds": 1,
            "managedResources": [{"name": "example.com/fpga", "ignoredByScheduler": True}],
            "tls": {"insecure": True},
        }
    ],
    "preemption": {"enabled": True, "minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": 1},
    "tieBreak": "First",
    "backoff": {"initialSeconds": 1, "maxSeconds": 2},
    "flushSeconds": 3,
    "bindTimeoutSeconds": 4,
    "percentageOfNodesToScore": 5,
    "alwaysCheckAllPredicates": True,
    "defaultConstraints": {
        "type": "List",
        "constraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    },
    "annotatePods": True,
    "shadow": {"samplePercent": 6},
}


def paths_of(value: object, *path: str | int) -> list[tuple[str | int, ...]]:
    """Every place in a manifest, and one more of each mapping's keys that nobody knows."""
    found: list[tuple[str | int, ...]] = [path] if path else []
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = [*value.items(), ("surprise", None)]
    elif isinstance(value, list):
        items = list(enumerate(value))
    return found + [deeper for key, item in items for deeper in paths_of(item, *path, key)]


def test_a_manifest_with_every_field_is_a_policy() -> None:
    assert {"schedulerName", *FIELDS} == {*SPEC_FIELDS}
    assert load_policy(make_policy(**FIELDS)).policy == parse_policy(make_policy(**FIELDS))


PATHS = paths_of(make_policy(**FIELDS))


@given(path=st.sampled_from(PATHS), value=JSON)
def test_any_json_anywhere_gives_a_policy_or_a_policy_error(path: tuple[str | int, ...], value: object) -> None:
    manifest = copy.deepcopy(make_policy(**FIELDS))
    place: Any = manifest
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    problems: tuple[Problem, ...] = ()
    try:
        assert load_policy(manifest).policy == parse_policy(manifest)
    except PolicyError as error:
        problems = error.problems or (Problem("", "an error without problems"),)
    assert all(problem.field and problem.message for problem in problems)
