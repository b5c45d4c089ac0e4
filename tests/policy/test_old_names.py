"""Old names, names of an entry's own, and the order of predicates."""

from collections.abc import Mapping
from typing import Any

import pytest

from berth.engine.legacy import OLD_PLUGINS
from berth.engine.legacy.aliases import PREDICATES, PRIORITIES
from berth.policy import BUILT_IN, Policy, PolicyError, load_policy, parse_policy
from berth.policy.defaults import PREDICATE_ORDER
from policy.builders import make_policy


def problems_of(**spec: Any) -> dict[str, str]:
    with pytest.raises(PolicyError) as caught:
        load_policy(make_policy(**spec))
    return {problem.field: problem.message for problem in caught.value.problems}


def predicates_of(*entries: Mapping[str, Any], **spec: Any) -> list[str]:
    pipeline = load_policy(make_policy(predicates=list(entries), **spec)).pipeline
    return [plugin.name for plugin in pipeline.filters]


def only(*entries: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """These entries, and everything else of the default profile switched off."""
    about = {plugin for entry in entries for plugin in _plugins(str(entry["name"]))}
    return [*entries, *({"name": e.name, "enabled": False} for e in BUILT_IN.predicates if e.name not in about)]


def _plugins(name: str) -> tuple[str, ...]:
    return PREDICATES[name].plugins if name in PREDICATES else (name,)


def weights_of(policy: Policy) -> dict[str, int]:
    return {entry.name: entry.weight for entry in policy.priorities}


NAMES = [entry.name for entry in BUILT_IN.predicates]


class TestAliases:
    @pytest.mark.parametrize("name", [name for name, alias in PREDICATES.items() if len(alias.plugins) == 1])
    def test_an_old_predicate_takes_the_place_of_the_new_one_and_keeps_its_name(self, name: str) -> None:
        [plugin] = PREDICATES[name].plugins
        assert predicates_of({"name": name}) == [name if other == plugin else other for other in NAMES]
        assert predicates_of({"name": name, "enabled": False}) == [other for other in NAMES if other != plugin]

    @pytest.mark.parametrize("name", sorted(PRIORITIES))
    def test_an_old_priority_keeps_the_weight_of_the_new_one_unless_it_has_its_own(self, name: str) -> None:
        [plugin] = PRIORITIES[name].plugins
        policy = parse_policy(make_policy(priorities=[{"name": name}]))
        assert weights_of(policy)[name] == weights_of(BUILT_IN)[plugin]
        assert plugin not in weights_of(policy)
        assert weights_of(parse_policy(make_policy(priorities=[{"name": name, "weight": 7}])))[name] == 7

    @pytest.mark.parametrize(
        ("name", "strategy"),
        [
            ("LeastRequestedPriority", "LeastAllocated"),
            ("MostRequestedPriority", "MostAllocated"),
            ("RequestedToCapacityRatioPriority", "RequestedToCapacityRatio"),
        ],
    )
    def test_a_strategy_comes_with_the_name(self, name: str, strategy: str) -> None:
        resources = [{"name": "cpu", "weight": 3}]
        for args in (None, {}, {"scoringStrategy": {"resources": resources}}, {"scoringStrategy": {"type": strategy}}):
            policy = load_policy(make_policy(priorities=[{"name": name, "args": args}])).policy
            chosen: Any = next(entry for entry in policy.priorities if entry.name == name).args["scoringStrategy"]
            assert chosen["type"] == strategy
            assert chosen.get("resources") == (args or {}).get("scoringStrategy", {}).get("resources")
            assert ("requestedToCapacityRatio" in chosen) == (strategy == "RequestedToCapacityRatio")

    def test_another_strategy_than_the_name_means_is_refused(self) -> None:
        entry = {"name": "MostRequestedPriority", "args": {"scoringStrategy": {"type": "LeastAllocated"}}}
        assert problems_of(priorities=[entry]) == {
            "spec.priorities[0].args.scoringStrategy.type": "MostRequestedPriority means MostAllocated"
        }

    def test_two_names_of_one_plugin_are_refused_with_what_to_do(self) -> None:
        found = problems_of(priorities=[{"name": "LeastRequestedPriority"}, {"name": "NodeResourcesFit"}])
        assert found == {
            "spec.priorities[1].name": "NodeResourcesFit is the same plugin as LeastRequestedPriority, at "
            "spec.priorities[0]: leave one out, or give this one a name of its own and plugin: NodeResourcesFit"
        }

    def test_general_predicates_stand_for_their_parts(self) -> None:
        parts = ["NodeName", "NodeAffinity", "NodePorts", "NodeResourcesFit"]
        assert predicates_of({"name": "GeneralPredicates"}) == NAMES
        assert predicates_of(*only({"name": "GeneralPredicates"})) == parts
        off = predicates_of({"name": "GeneralPredicates", "enabled": False})
        assert off == [name for name in NAMES if name not in parts]

    def test_general_predicates_may_stand_beside_their_parts_which_run_once(self) -> None:
        part = {"name": "PodFitsResources", "args": {"ignoredResources": ["example.com/fpga"]}}
        for entries in ([{"name": "GeneralPredicates"}, part], [part, {"name": "GeneralPredicates"}]):
            policy = parse_policy(make_policy(predicates=entries))
            [fit] = [entry for entry in policy.predicates if entry.plugin == "NodeResourcesFit"]
            assert (fit.name, fit.args) == ("PodFitsResources", part["args"])
        assert predicates_of(*only({"name": "GeneralPredicates", "enabled": False}, {"name": "HostName"})) == [
            "HostName"
        ]

    def test_general_predicates_take_no_arguments(self) -> None:
        found = problems_of(predicates=[{"name": "GeneralPredicates", "args": {"ignoredResources": []}}])
        assert found == {"spec.predicates[0].args": "GeneralPredicates takes none: give them to one of its parts"}

    def test_an_old_name_in_the_wrong_list_or_with_a_typo_is_reported(self) -> None:
        found = problems_of(
            predicates=[{"name": "MostRequestedPriority"}, {"name": "PodFitsResource"}],
            priorities=[{"name": "HostName"}],
        )
        assert found == {
            "spec.predicates[0].name": "MostRequestedPriority only scores nodes: it belongs into spec.priorities",
            "spec.predicates[1].name": '"PodFitsResource" is not a plugin; did you mean PodFitsResources?',
            "spec.priorities[0].name": "HostName only filters nodes: it belongs into spec.predicates",
        }


class TestOldPlugins:
    def test_avoiding_pods_outweighs_everything_unless_told_otherwise(self) -> None:
        name = "NodePreferAvoidPodsPriority"
        assert weights_of(parse_policy(make_policy(priorities=[{"name": name}])))[name] == 10000
        assert weights_of(parse_policy(make_policy(priorities=[{"name": name, "weight": 2}])))[name] == 2

    def test_any_other_old_priority_weighs_one(self) -> None:
        policy = parse_policy(make_policy(priorities=[{"name": "SelectorSpreadPriority"}, {"name": "EqualPriority"}]))
        assert (weights_of(policy)["SelectorSpreadPriority"], weights_of(policy)["EqualPriority"]) == (1, 1)

    def test_an_argument_that_is_missing_is_named(self) -> None:
        found = problems_of(predicates=[{"name": "CheckServiceAffinity"}], priorities=[{"name": "ServiceAntiAffinity"}])
        assert found == {
            "spec.predicates[0].args.labels": "is required: keys of node labels",
            "spec.priorities[0].args.label": "is required: the key of a node label",
        }


class TestNamesOfAnEntrysOwn:
    def test_a_policy_has_several_of_one_plugin(self) -> None:
        policy = load_policy(
            make_policy(
                predicates=[
                    {"name": "not-retiring", "plugin": "CheckNodeLabelPresence", "args": {"labels": ["retiring"]}},
                    {
                        "name": "has-disk",
                        "plugin": "CheckNodeLabelPresence",
                        "args": {"labels": ["d"], "presence": True},
                    },
                ],
                priorities=[
                    {"name": "rack-spread", "plugin": "ServiceAntiAffinity", "weight": 2, "args": {"label": "rack"}},
                    {"name": "zone-spread", "plugin": "ServiceAntiAffinity", "args": {"label": "zone"}},
                    {"name": "pack", "plugin": "MostRequestedPriority", "weight": 3},
                ],
            )
        )
        names = [plugin.name for plugin in policy.pipeline.filters]
        assert names[names.index("VolumeRestrictions") :][:3] == ["VolumeRestrictions", "not-retiring", "has-disk"]
        assert [(plugin.name, weight) for plugin, weight in policy.pipeline.scores][-3:] == [
            ("rack-spread", 2),
            ("zone-spread", 1),
            ("pack", 3),
        ]
        assert weights_of(policy.policy)["NodeResourcesFit"] == 1
        assert policy.policy.priorities[-1].args == {"scoringStrategy": {"type": "MostAllocated"}}

    def test_an_old_name_may_be_an_entrys_own_beside_the_plugin(self) -> None:
        entries = [{"name": "LeastRequestedPriority"}, {"name": "MostRequestedPriority", "plugin": "NodeResourcesFit"}]
        assert {"LeastRequestedPriority", "MostRequestedPriority"} < set(
            weights_of(parse_policy(make_policy(priorities=entries)))
        )

    def test_saying_the_plugin_that_the_name_says_already_changes_nothing(self) -> None:
        entry = {"name": "NodeResourcesFit", "plugin": "NodeResourcesFit", "weight": 4}
        policy = parse_policy(make_policy(priorities=[entry]))
        assert policy.priorities == parse_policy(make_policy(priorities=[{**entry, "plugin": None}])).priorities
        assert weights_of(policy)["NodeResourcesFit"] == 4

    def test_an_entry_that_is_off_is_left_out(self) -> None:
        entry = {"name": "pack", "plugin": "NodeResourcesFit", "enabled": False}
        assert parse_policy(make_policy(priorities=[entry])).priorities == BUILT_IN.priorities

    @pytest.mark.parametrize(
        ("entry", "field", "message"),
        [
            ({"name": "NodePorts", "plugin": "NodeName"}, "name", "NodePorts is the name of another plugin"),
            ({"name": "HostName", "plugin": "NodePorts"}, "name", "HostName is the name of another plugin"),
            ({"name": "mine", "plugin": "NodeNam"}, "plugin", '"NodeNam" is not a plugin; did you mean NodeName?'),
            ({"name": "mine", "plugin": 7}, "plugin", "7 is not a plugin name"),
            ({"name": "mine", "plugin": "ImageLocality"}, "plugin", "ImageLocality only scores nodes"),
            ({"name": "mine", "plugin": "GeneralPredicates"}, "plugin", "stands for several plugins"),
            ({"plugin": "NodeName"}, "name", "is required"),
        ],
    )
    def test_an_invalid_name_or_plugin_is_reported(self, entry: Any, field: str, message: str) -> None:
        found = problems_of(predicates=[entry])
        assert list(found) == [f"spec.predicates[0].{field}"]
        assert message in found[f"spec.predicates[0].{field}"]

    def test_names_are_there_once(self) -> None:
        entry = {"name": "mine", "plugin": "NodeName"}
        assert problems_of(predicates=[entry, entry]) == {
            "spec.predicates[1].name": "mine is there already, at spec.predicates[0]"
        }

    def test_a_refused_argument_is_named_where_it_is(self) -> None:
        found = problems_of(priorities=[{"name": "mine", "plugin": "LabelPreference", "args": {"lable": "x"}}])
        assert list(found) == ["spec.priorities[0].args.lable", "spec.priorities[0].args.label"]  # and that it lacks


class TestTheOrder:
    def test_every_predicate_has_its_place_and_todays_are_in_todays_order(self) -> None:
        assert set(PREDICATE_ORDER) == {*NAMES, *(plugin.name for plugin in OLD_PLUGINS if plugin.filters)}
        assert [name for name in PREDICATE_ORDER if name in NAMES] == NAMES

    def test_old_ones_run_where_they_used_to_in_whatever_order_they_are_written(self) -> None:
        entries = [
            {"name": "CheckNodePIDPressure"},
            {"name": "MaxCinderVolumeCount"},
            {"name": "PodToleratesNodeNoExecuteTaints"},
            {"name": "CheckNodeCondition"},
        ]
        assert predicates_of(*entries) == [
            "CheckNodeCondition",
            *NAMES[: NAMES.index("NodeVolumeLimits")],
            "PodToleratesNodeNoExecuteTaints",
            "NodeVolumeLimits",
            "MaxCinderVolumeCount",
            "VolumeBinding",
            "VolumeZone",
            "CheckNodePIDPressure",
            *NAMES[NAMES.index("PodTopologySpread") :],
        ]

    def test_a_policy_puts_some_first(self) -> None:
        first = ["InterPodAffinity", "NodePorts"]
        assert predicates_of(predicateOrder=first) == [*first, *(name for name in NAMES if name not in first)]

    def test_names_in_the_order_may_be_old_or_the_entrys_own(self) -> None:
        mine = {"name": "mine", "plugin": "CheckNodeLabelPresence", "args": {"labels": ["x"]}}
        old = {"name": "PodFitsResources"}
        order = ["mine", "NodeResourcesFit", "CheckVolumeBinding"]
        assert predicates_of(mine, old, predicateOrder=order)[:3] == ["mine", "PodFitsResources", "VolumeBinding"]
        assert predicates_of(predicateOrder=["VolumeZone", "GeneralPredicates"])[:5] == [
            "VolumeZone",
            "NodeName",
            "NodePorts",
            "NodeAffinity",
            "NodeResourcesFit",
        ]

    @pytest.mark.parametrize(
        ("order", "problem"),
        [
            (["NodePort"], ("[0]", '"NodePort" is not among the predicates of this policy; did you mean NodePorts?')),
            (["NodeName"], ("[0]", '"NodeName" is not among the predicates of this policy')),
            (["NodePorts", 7], ("[1]", "7 is not among the predicates of this policy")),
            (["NodePorts", "PodFitsHostPorts"], ("[1]", '"PodFitsHostPorts" has its place already')),
            ("NodePorts", ("", '"NodePorts" is not a list')),
            (["NodePorts"] * 65, ("", "has 65 names, may have 64")),
        ],
        ids=str,
    )
    def test_an_invalid_order_is_reported(self, order: object, problem: tuple[str, str]) -> None:
        found = problems_of(predicates=[{"name": "NodeName", "enabled": False}], predicateOrder=order)
        [(field, message)] = found.items()
        assert field == f"spec.predicateOrder{problem[0]}"
        assert message.startswith(problem[1])
