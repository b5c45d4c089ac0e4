"""What a policy says besides predicates and priorities: read, bounded, and laid over the base."""

from random import Random
from typing import Any

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import TieBreak
from berth.engine.plugins.pod_topology_spread import PodTopologySpread
from berth.engine.plugins.volume_binding import VolumeBinding
from berth.engine.state.state import State
from berth.model import parse_node, parse_pod
from berth.policy import BUILT_IN, Policy, PolicyError, load_policy, parse_policy
from berth.policy.records import BackoffSettings, Mode, PreemptionSettings
from policy.builders import make_policy
from support.builders import make_node, make_pod

BIND = "bindTimeoutSeconds"
ZONES = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}


def problems_of(*bases: Policy, **spec: Any) -> dict[str, str]:
    with pytest.raises(PolicyError) as caught:
        load_policy(make_policy(**spec), {base.name: base for base in bases})
    return {problem.field: problem.message for problem in caught.value.problems}


def test_a_policy_that_says_nothing_has_the_defaults() -> None:
    policy = parse_policy(make_policy())
    assert (policy.mode, policy.namespace_selector, policy.pod_selector) == (Mode.ACTIVE, None, None)
    assert (policy.preemption, policy.backoff) == (PreemptionSettings(True, 10, 100), BackoffSettings(1, 10, 300))
    assert (policy.node_percentage, policy.check_all, policy.annotates) == (100, False, False)
    assert (policy.extenders, policy.parameters, policy.shadow_percentage) == ((), {}, 100)
    assert (policy.spread_defaults, policy.bind_timeout_seconds) == (None, None)


def test_every_setting_is_read() -> None:
    policy = parse_policy(
        make_policy(
            mode="Shadow",
            parameters={"tier": "gold", "hours": [1, 2]},
            extenders=[{"urlPrefix": "http://extender.example:8888", "filterVerb": "filter"}],
            preemption={"enabled": False, "minCandidateNodesPercentage": 20, "minCandidateNodesAbsolute": 5},
            tieBreak="First",
            backoff={"initialSeconds": 0.5, "maxSeconds": 60},
            flushSeconds=30,
            bindTimeoutSeconds=5,
            percentageOfNodesToScore=0,
            alwaysCheckAllPredicates=True,
            annotatePods=True,
            shadow={"samplePercent": 10},
        )
    )
    assert policy.mode is Mode.SHADOW
    assert policy.parameters == {"tier": "gold", "hours": [1, 2]}
    assert [extender.url_prefix for extender in policy.extenders] == ["http://extender.example:8888"]
    assert policy.preemption == PreemptionSettings(False, 20, 5)
    assert policy.tie_break is TieBreak.FIRST
    assert policy.backoff == BackoffSettings(0.5, 60, 30)
    assert (policy.bind_timeout_seconds, policy.node_percentage, policy.shadow_percentage) == (5, 0, 10)
    assert policy.check_all
    assert policy.annotates


def test_parameters_do_not_change_with_the_manifest_they_were_read_from() -> None:
    manifest = make_policy(parameters={"hours": [1]})
    policy = parse_policy(manifest)
    manifest["spec"]["parameters"]["hours"].append(2)
    assert policy.parameters == {"hours": [1]}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"mode": "Off"}, "spec.mode", '"Off" is not one of Active, Shadow, Disabled'),
        ({"mode": ["Active"]}, "spec.mode", "a list is not one of"),
        ({"parameters": [1]}, "spec.parameters", "a list is not a mapping"),
        ({"parameters": {str(key): 0 for key in range(65)}}, "spec.parameters", "has 65 keys, may have 64"),
        ({"preemption": True}, "spec.preemption", "true is not a mapping"),
        ({"preemption": {"enable": False}}, "spec.preemption.enable", "did you mean enabled?"),
        ({"preemption": {"enabled": "no"}}, "spec.preemption.enabled", '"no" is not true or false'),
        (
            {"preemption": {"minCandidateNodesPercentage": 101}},
            "spec.preemption.minCandidateNodesPercentage",
            "101 is not from 0 to 100",
        ),
        (
            {"preemption": {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}},
            "spec.preemption.minCandidateNodesPercentage",
            "cannot be 0 together with minCandidateNodesAbsolute; write enabled: false",
        ),
        ({"backoff": {"initialSeconds": 0}}, "spec.backoff.initialSeconds", "0 is not from 0.1 to 604800"),
        ({"backoff": {"maxSeconds": "10"}}, "spec.backoff.maxSeconds", '"10" is not a number'),
        ({"backoff": {"maxSeconds": True}}, "spec.backoff.maxSeconds", "true is not a number"),
        ({"backoff": {"initialSeconds": 20}}, "spec.backoff.initialSeconds", "is 20 and maxSeconds 10"),
        ({"backoff": {"maxSeconds": 0.5}}, "spec.backoff.maxSeconds", "is 1 and maxSeconds 0.5"),
        ({"flushSeconds": 604801}, "spec.flushSeconds", "604801 is not from 0.1 to 604800"),
        ({"bindTimeoutSeconds": -1}, "spec.bindTimeoutSeconds", "-1 is not from 0 to 604800"),
        ({"bindTimeoutSeconds": 1.5}, "spec.bindTimeoutSeconds", "1.5 is not a whole number"),
        ({"percentageOfNodesToScore": 101}, "spec.percentageOfNodesToScore", "101 is not from 0 to 100"),
        ({"alwaysCheckAllPredicates": "yes"}, "spec.alwaysCheckAllPredicates", '"yes" is not true or false'),
        ({"annotatePods": 1}, "spec.annotatePods", "1 is not true or false"),
        (
            {"shadow": {"samplePercent": 10}},
            "spec.shadow",
            "goes with mode: Shadow only, not with Active: leave it out",
        ),
        ({"mode": "Shadow", "shadow": {"samplePercent": 0}}, "spec.shadow.samplePercent", "0 is not from 1 to 100"),
        ({"mode": "Shadow", "shadow": {"percent": 5}}, "spec.shadow.percent", "unknown field"),
        ({"extenders": [{"urlPrefix": "ftp://x", "filterVerb": "f"}]}, "spec.extenders[0].urlPrefix", "is not a URL"),
    ],
    ids=str,
)
def test_an_invalid_setting_is_reported(spec: Any, field: str, message: str) -> None:
    found = problems_of(**spec)
    assert list(found) == [field]
    assert message in found[field]


class TestWhatIsMadeOfThem:
    def test_preemption_has_the_limits_of_the_policy(self) -> None:
        limits = {"minCandidateNodesPercentage": 20, "minCandidateNodesAbsolute": 5}
        preemption = load_policy(make_policy(preemption=limits)).preemption
        assert preemption is not None
        assert (preemption.percentage, preemption.absolute) == (20, 5)

    def test_preemption_that_is_switched_off_is_not_there(self) -> None:
        assert load_policy(make_policy(preemption={"enabled": False})).preemption is None

    def test_the_pipeline_looks_at_as_many_nodes_as_the_policy_says(self) -> None:
        assert load_policy(make_policy(percentageOfNodesToScore=30)).pipeline.node_percentage == 30

    def test_a_message_counts_every_refusal_where_the_policy_says_so(self) -> None:
        state = State()
        state.table.set_node(parse_node(make_node("a", unschedulable=True)))
        pod = parse_pod(make_pod("p", node_selector={"disk": "ssd"}))
        said = []
        for every in (False, True):
            answer = load_policy(make_policy(alwaysCheckAllPredicates=every)).pipeline.decide(pod, state, Random(0))
            assert isinstance(answer, Diagnosis)
            said.append("affinity/selector" in answer.message)
        assert said == [False, True]

    def test_the_bind_timeout_is_that_of_volume_binding(self) -> None:
        pipeline = load_policy(make_policy(bindTimeoutSeconds=7)).pipeline
        [binding] = [plugin for plugin in pipeline.filters if isinstance(plugin, VolumeBinding)]
        assert binding.bind_timeout_seconds == 7

    def test_the_bind_timeout_is_given_in_one_place(self) -> None:
        entry = {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 5}}
        assert problems_of(predicates=[entry], bindTimeoutSeconds=7) == {
            "spec.predicates[0].args.bindTimeoutSeconds": f"spec.{BIND} says it too: leave one of the two out"
        }

    def test_resources_that_an_extender_alone_looks_at_are_ignored(self) -> None:
        resource = {"name": "example.com/fpga", "ignoredByScheduler": True}
        extender = {"urlPrefix": "http://fpga.example", "filterVerb": "f", "managedResources": [resource]}
        state = State()
        state.table.set_node(parse_node(make_node("a")))
        pod = parse_pod(make_pod("p", requests={"example.com/fpga": "1"}))
        assert isinstance(load_policy(make_policy()).pipeline.decide(pod, state, Random(0)), Diagnosis)
        placed = load_policy(make_policy(extenders=[extender])).pipeline.decide(pod, state, Random(0))
        assert placed.node == "a"  # type: ignore[union-attr]


class TestDefaultConstraints:
    def test_a_list_becomes_the_arguments_of_spreading_as_predicate_and_priority(self) -> None:
        given = {"type": "List", "constraints": [ZONES]}
        active = load_policy(make_policy(defaultConstraints=given))
        same = [{"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [ZONES]}}]
        longhand = load_policy(make_policy(predicates=same, priorities=same))
        for ours, theirs in (
            (active.pipeline.filters, longhand.pipeline.filters),
            ([plugin for plugin, _ in active.pipeline.scores], [plugin for plugin, _ in longhand.pipeline.scores]),
        ):
            [[mine], [his]] = ([p for p in plugins if p.name == "PodTopologySpread"] for plugins in (ours, theirs))
            for plugin in (mine, his):
                del plugin.dependencies  # functions of the plugin itself
            assert vars(mine) == vars(his)
            by_default = PodTopologySpread({})
            del by_default.dependencies
            assert vars(mine) != vars(by_default)

    def test_none_spreads_nothing(self) -> None:
        policy = parse_policy(make_policy(defaultConstraints={"type": "None"}))
        assert policy.spread_defaults == {"defaultingType": "List", "defaultConstraints": []}

    def test_system_is_what_kube_scheduler_does(self) -> None:
        assert parse_policy(make_policy(defaultConstraints={"type": "System"})).spread_defaults == {
            "defaultingType": "System"
        }

    @pytest.mark.parametrize(
        ("given", "field", "message"),
        [
            ([], "", "a list is not a mapping"),
            ({}, ".type", "is required: one of System, List, None"),
            ({"type": "All"}, ".type", '"All" is not one of System, List, None'),
            ({"type": "List"}, ".constraints", "is required with type: List; write type: None"),
            ({"type": "List", "constraints": {}}, ".constraints", "a mapping is not a list"),
            ({"type": "List", "constraints": [ZONES] * 17}, ".constraints", "has 17 constraints, may have 16"),
            ({"type": "None", "constraints": [ZONES]}, ".constraints", "goes with type: List only, not with None"),
            ({"type": "List", "constraints": [{**ZONES, "maxSkew": 0}]}, ".constraints[0].maxSkew", ""),
            ({"type": "List", "constraints": [{**ZONES, "skew": 1}]}, ".constraints[0].skew", "no such field"),
            ({"type": "List", "constraints": [ZONES, ZONES]}, ".constraints[1]", "repeats"),
            ({"type": "List", "constraints": [{**ZONES, "labelSelector": {}}]}, ".constraints[0].labelSelector", ""),
            ({"kind": "List"}, ".kind", "unknown field"),
        ],
        ids=str,
    )
    def test_invalid_fields_are_reported(self, given: object, field: str, message: str) -> None:
        found = problems_of(defaultConstraints=given)
        assert message in found[f"spec.defaultConstraints{field}"]

    @pytest.mark.parametrize("field", ["defaultingType", "defaultConstraints"])
    def test_they_are_given_in_one_place(self, field: str) -> None:
        value: Any = "System" if field == "defaultingType" else []
        entry = {"name": "EvenPodsSpread", "args": {field: value}}
        assert problems_of(predicates=[entry], defaultConstraints={"type": "System"}) == {
            f"spec.predicates[0].args.{field}": "spec.defaultConstraints says it too: leave one of the two out"
        }


def test_the_built_in_policy_is_what_an_empty_manifest_says() -> None:
    policy = parse_policy(make_policy())
    for field in ("preemption", "backoff", "node_percentage", "check_all", "tie_break", "spread_defaults"):
        assert getattr(policy, field) == getattr(BUILT_IN, field)
