"""A policy that is based on another one: what it inherits, what it changes, and what is said where it cannot be."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.policy import BUILT_IN, Policy, PolicyError, base_of, load_policy, parse_policy
from berth.policy.records import BackoffSettings, Mode, PreemptionSettings
from policy.builders import make_policy

RETIRING = {"name": "not-retiring", "plugin": "CheckNodeLabelPresence", "args": {"labels": ["retiring"]}}
GOLD = {
    "name": "gold",
    "expression": "node.labels['tier'] == policy.parameters.tier",
    "message": "node(s) are not gold",
}
SPOT = {"name": "spot", "weight": 5, "expression": "node.labels['spot'] == 'true' ? 100 : 0"}


def lay(base: dict[str, Any], **spec: Any) -> Policy:
    """The policy "batch" with this spec, over the policy "common" with that one."""
    under = load_policy(make_policy("common", **base)).policy
    return load_policy(make_policy(base="common", **spec), {"common": under}).policy


def problems_of(base: dict[str, Any] | None, **spec: Any) -> dict[str, str]:
    bases = {} if base is None else {"common": load_policy(make_policy("common", **base)).policy}
    with pytest.raises(PolicyError) as caught:
        load_policy(make_policy(base="common", **spec), bases)
    return {problem.field: problem.message for problem in caught.value.problems}


def names(policy: Policy) -> list[str]:
    return [entry.name for entry in policy.predicates]


def weights(policy: Policy) -> dict[str, int]:
    return {entry.name: entry.weight for entry in policy.priorities}


class TestTheBasesThatBerthHas:
    def test_the_default_is_the_profile_of_kubernetes(self) -> None:
        assert parse_policy(make_policy(base="KubernetesDefault")) == parse_policy(make_policy())

    def test_empty_has_no_predicates_and_no_priorities_and_otherwise_the_defaults(self) -> None:
        policy = parse_policy(make_policy(base="Empty"))
        assert policy == replace(parse_policy(make_policy()), predicates=(), priorities=())

    def test_over_empty_a_plugin_has_its_usual_place_and_weight(self) -> None:
        policy = parse_policy(
            make_policy(
                base="Empty",
                predicates=[{"name": "NodeResourcesFit"}, {"name": "NodeName"}],
                priorities=[{"name": "TaintToleration"}, {"name": "EqualPriority"}],
            )
        )
        assert names(policy) == ["NodeName", "NodeResourcesFit"]
        assert weights(policy) == {"TaintToleration": 3, "EqualPriority": 1}


@pytest.mark.parametrize(
    ("base", "name"),
    [(None, None), ("KubernetesDefault", None), ("Empty", None), ("common", "common"), (7, None), ("", None)],
)
def test_the_base_of_a_manifest_is_the_name_of_another_policy_or_none(base: object, name: str | None) -> None:
    assert base_of(make_policy(base=base)) == name
    assert base_of({}) is None
    assert base_of({"spec": "x"}) is None


class TestWhatIsInherited:
    def test_everything_but_name_pods_and_mode(self) -> None:
        spec: dict[str, Any] = {
            "parameters": {"tier": "gold"},
            "extenders": [{"urlPrefix": "http://extender.example", "filterVerb": "filter"}],
            "preemption": {"enabled": False, "minCandidateNodesAbsolute": 7},
            "tieBreak": "First",
            "backoff": {"initialSeconds": 2, "maxSeconds": 60},
            "flushSeconds": 60,
            "bindTimeoutSeconds": 7,
            "percentageOfNodesToScore": 50,
            "alwaysCheckAllPredicates": True,
            "defaultConstraints": {"type": "None"},
            "annotatePods": True,
            "shadow": {"samplePercent": 10},
            "predicates": [{"name": "NodePorts", "enabled": False}, RETIRING, GOLD],
            "priorities": [{"name": "ImageLocality", "weight": 9}, SPOT],
            "predicateOrder": ["gold"],
        }
        head: dict[str, Any] = {"mode": "Shadow", "podSelector": {}, "namespaceSelector": {}}
        under = load_policy(make_policy("common", schedulerName="other", **head, **spec)).policy
        policy = load_policy(make_policy(base="common", generation=3), {"common": under}).policy
        mine = {"name": "batch", "uid": "uid-batch", "generation": 3, "scheduler_name": "berth"}
        chosen = {"mode": Mode.ACTIVE, "namespace_selector": None, "pod_selector": None}
        assert policy == replace(under, **mine, **chosen)  # type: ignore[arg-type]

    def test_objects_are_laid_over_key_by_key_and_extenders_as_a_whole(self) -> None:
        base = {
            "parameters": {"tier": "gold", "hours": 8},
            "preemption": {"minCandidateNodesPercentage": 20},
            "backoff": {"initialSeconds": 2, "maxSeconds": 60},
            "extenders": [{"urlPrefix": "http://extender.example", "filterVerb": "filter"}],
        }
        policy = lay(
            base,
            parameters={"tier": "silver"},
            preemption={"minCandidateNodesAbsolute": 7},
            backoff={"maxSeconds": 30},
            extenders=[],
        )
        assert policy.parameters == {"tier": "silver", "hours": 8}
        assert policy.preemption == PreemptionSettings(True, 20, 7)
        assert policy.backoff == BackoffSettings(2, 30, 300)
        assert policy.extenders == ()

    def test_what_the_base_has_for_spreading_holds_for_entries_with_other_arguments(self) -> None:
        base: dict[str, Any] = {"defaultConstraints": {"type": "None"}, "bindTimeoutSeconds": 7}
        active = load_policy(
            make_policy(base="common", predicates=[{"name": "VolumeBinding", "args": {}}]),
            {"common": parse_policy(make_policy("common", **base))},
        )
        [binding] = [plugin for plugin in active.pipeline.filters if plugin.name == "VolumeBinding"]
        assert binding.bind_timeout_seconds == 7  # type: ignore[attr-defined]


class TestEntries:
    def test_an_entry_changes_only_what_it_says(self) -> None:
        args = {"scoringStrategy": {"type": "MostAllocated"}}
        policy = lay(
            {"priorities": [{"name": "NodeResourcesFit", "weight": 20, "args": args}]},
            priorities=[{"name": "NodeResourcesFit", "weight": 7}],
        )
        [fit] = [entry for entry in policy.priorities if entry.name == "NodeResourcesFit"]
        assert (fit.weight, fit.args) == (7, args)

    def test_an_old_name_in_the_base_is_the_same_plugin(self) -> None:
        policy = lay(
            {"priorities": [{"name": "MostRequestedPriority", "weight": 4}]},
            priorities=[{"name": "NodeResourcesFit", "weight": 7}],
        )
        assert "MostRequestedPriority" not in weights(policy)
        [fit] = [entry for entry in policy.priorities if entry.name == "NodeResourcesFit"]
        assert (fit.weight, fit.args) == (7, {"scoringStrategy": {"type": "MostAllocated"}})

    def test_pre_filter_only_is_kept_unless_said_otherwise(self) -> None:
        base = {"predicates": [{"name": "NodeAffinity", "preFilterOnly": True}]}
        for entry, only in (({}, True), ({"preFilterOnly": False}, False), ({"preFilterOnly": True}, True)):
            policy = lay(base, predicates=[{"name": "NodeAffinity", **entry}])
            assert next(e for e in policy.predicates if e.name == "NodeAffinity").pre_filter_only is only

    def test_a_dropped_entry_can_be_had_again(self) -> None:
        policy = lay({"priorities": [{"name": "TaintToleration", "enabled": False}]}, priorities=[])
        assert "TaintToleration" not in weights(policy)
        again = lay(
            {"priorities": [{"name": "TaintToleration", "enabled": False}]}, priorities=[{"name": "TaintToleration"}]
        )
        assert weights(again)["TaintToleration"] == 3

    @pytest.mark.parametrize("entry", [RETIRING, GOLD], ids=["plugin", "expression"])
    def test_an_entry_with_its_own_name_is_dropped_by_it(self, entry: dict[str, Any]) -> None:
        base = {"parameters": {"tier": "x"}, "predicates": [entry]}
        assert names(lay(base))[-1] == "gold" or "not-retiring" in names(lay(base))
        assert names(lay(base, predicates=[{"name": entry["name"], "enabled": False}])) == names(BUILT_IN)

    def test_an_entry_with_its_own_name_is_changed_by_it(self) -> None:
        base = {"parameters": {"tier": "x"}, "predicates": [RETIRING, GOLD], "priorities": [SPOT]}
        policy = lay(
            base,
            predicates=[{"name": "not-retiring", "args": {"labels": ["gone"]}}, {"name": "gold", "message": "no gold"}],
            priorities=[{"name": "spot", "weight": 9, "normalize": True}],
        )
        entries = {entry.name: entry for entry in policy.predicates}
        assert entries["not-retiring"].args == {"labels": ["gone"]}
        assert entries["not-retiring"].plugin == "CheckNodeLabelPresence"
        assert (entries["gold"].expression, entries["gold"].message) == (GOLD["expression"], "no gold")
        spot = policy.priorities[-1]
        assert (spot.expression, spot.weight, spot.normalized) == (SPOT["expression"], 9, True)

    def test_another_rule_under_the_same_name_takes_its_place_and_inherits_nothing(self) -> None:
        base = {"parameters": {"tier": "x"}, "predicates": [RETIRING, GOLD]}
        policy = lay(
            base,
            predicates=[
                {"name": "not-retiring", "expression": "true"},
                {"name": "gold", "plugin": "NodeName"},
            ],
        )
        entries = {entry.name: entry for entry in policy.predicates}
        assert (entries["not-retiring"].expression, entries["not-retiring"].args) == ("true", {})
        assert (entries["gold"].expression, entries["gold"].message, entries["gold"].plugin) == ("", "", "NodeName")

    def test_an_old_name_that_is_an_entrys_own_in_the_base_means_that_entry(self) -> None:
        base = {"priorities": [{"name": "MostRequestedPriority", "plugin": "NodeResourcesFit", "weight": 2}]}
        policy = lay(base, priorities=[{"name": "MostRequestedPriority", "weight": 8}])
        assert (weights(policy)["MostRequestedPriority"], weights(policy)["NodeResourcesFit"]) == (8, 1)

    def test_arguments_do_not_go_with_an_expression_of_the_base_nor_messages_with_its_plugins(self) -> None:
        base = {"parameters": {"tier": "x"}, "predicates": [RETIRING, GOLD]}
        found = problems_of(
            base,
            predicates=[{"name": "gold", "args": {"labels": ["x"]}}, {"name": "not-retiring", "message": "it retires"}],
        )
        assert list(found) == ["spec.predicates[0].args", "spec.predicates[1].message"]

    def test_a_misspelt_name_of_the_base_is_reported(self) -> None:
        found = problems_of({"predicates": [RETIRING]}, predicates=[{"name": "not-retirin", "enabled": False}])
        assert found == {"spec.predicates[0].name": '"not-retirin" is not a plugin; did you mean not-retiring?'}


class TestTheOrder:
    def test_the_order_of_the_base_holds(self) -> None:
        policy = lay({"predicateOrder": ["InterPodAffinity", "NodePorts"]}, predicates=[RETIRING])
        assert names(policy)[:3] == ["InterPodAffinity", "NodePorts", "NodeUnschedulable"]
        assert "not-retiring" in names(policy)

    def test_what_is_dropped_loses_its_place(self) -> None:
        off = [{"name": "NodePorts", "enabled": False}]
        assert names(lay({"predicateOrder": ["NodePorts", "VolumeZone"]}, predicates=off))[0] == "VolumeZone"

    def test_another_order_replaces_it(self) -> None:
        assert names(lay({"predicateOrder": ["NodePorts"]}, predicateOrder=["VolumeZone"]))[:2] == [
            "VolumeZone",
            "NodeUnschedulable",
        ]
        assert names(lay({"predicateOrder": ["NodePorts"]}, predicateOrder=[])) == names(BUILT_IN)


class TestABaseThatCannotBe:
    def test_a_missing_one_is_reported_and_nothing_that_depends_on_it(self) -> None:
        found = problems_of(
            None,
            predicates=[{"name": "gold", "enabled": False}, {"name": "gold-2", "message": "x"}],
            predicateOrder=["gold"],
            tieBreak="Coin",
        )
        assert list(found) == ["spec.base", "spec.tieBreak"]
        assert found["spec.base"].startswith("there is no valid SchedulingPolicy common")

    @pytest.mark.parametrize(
        ("base", "message"),
        [
            ("Default", '"Default" is not KubernetesDefault, Empty or the name of a policy'),
            ("kubernetesdefault", "there is no valid SchedulingPolicy kubernetesdefault"),
            ("", '"" is not KubernetesDefault, Empty or the name of a policy'),
            (["Empty"], "a list is not KubernetesDefault, Empty or the name of a policy"),
            ("batch", "a policy cannot be based on itself"),
        ],
    )
    def test_an_invalid_one_is_reported(self, base: object, message: str) -> None:
        with pytest.raises(PolicyError) as caught:
            load_policy(make_policy(base=base), {"batch": BUILT_IN})
        [problem] = caught.value.problems
        assert problem.field == "spec.base"
        assert message in problem.message

    def test_what_is_wrong_with_an_entry_of_the_base_names_the_entry(self) -> None:
        base = {"predicates": [{"name": "PodTopologySpread", "args": {"defaultingType": "System"}}]}
        found = problems_of(base, defaultConstraints={"type": "None"})
        assert list(found) == ["spec.predicates[PodTopologySpread].args.defaultingType"]

    def test_expressions_of_the_base_count(self) -> None:
        many = [{"name": f"e{n}", "expression": "true"} for n in range(10)]
        points = [{"name": f"p{n}", "expression": "1"} for n in range(7)]
        assert problems_of({"predicates": many}, priorities=points) == {
            "spec": "has 17 expressions, with those of its base, and may have 16"
        }


ENTRY = st.fixed_dictionaries(
    {"name": st.sampled_from(["NodeAffinity", "NodeResourcesFit", "ImageLocality", "EqualPriority"])},
    optional={"weight": st.integers(1, 9), "enabled": st.just(True)},
)
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "priorities": st.lists(ENTRY, max_size=3, unique_by=lambda entry: str(entry["name"])),
        "tieBreak": st.sampled_from(["First", "RoundRobin"]),
        "flushSeconds": st.integers(1, 99),
        "percentageOfNodesToScore": st.integers(0, 100),
        "annotatePods": st.booleans(),
    },
)


@given(base=SPEC, own=SPEC)
def test_a_policy_over_another_is_as_if_the_manifests_were_laid_over_each_other(
    base: dict[str, Any], own: dict[str, Any]
) -> None:
    entries = {entry["name"]: dict(entry) for entry in base.get("priorities", [])}
    for entry in own.get("priorities", []):
        entries[entry["name"]] = {**entries.get(entry["name"], {}), **entry}
    merged = {**base, **own, "priorities": list(entries.values())}
    assert lay(base, **own) == parse_policy(make_policy(**merged))
