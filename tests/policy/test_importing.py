"""A KubeSchedulerConfiguration becomes policies with the plugins, weights and arguments of kube-scheduler."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.policy import BUILT_IN, Imported, Policy, PolicyError, import_configuration, parse_policy
from berth.policy.defaults import POINTS
from berth.policy.importing.expansion import EXTENSION_POINTS
from berth.policy.records import BackoffSettings, PreemptionSettings
from policy.builders import make_configuration, make_profile, plugin_set

MULTI_POINT_MINIMUM = ("PrioritySort", "DefaultBinder")


def imported(*profiles: Mapping[str, Any], **fields: Any) -> Imported:
    return import_configuration(make_configuration(*profiles, **fields))


def policy_of(*profiles: Mapping[str, Any], **fields: Any) -> Policy:
    result = imported(*profiles, **fields)
    assert not result.errors
    return parse_policy(result.manifests[0])


def weights_of(policy: Policy) -> dict[str, int]:
    return {entry.name: entry.weight for entry in policy.priorities}


def filters_of(policy: Policy) -> list[str]:
    return [entry.name for entry in policy.predicates if not entry.pre_filter_only]


def texts(result: Imported) -> list[str]:
    return [str(problem) for problem in result.problems]


DEFAULT_WEIGHTS = {entry.name: entry.weight for entry in BUILT_IN.priorities}


class TestPluginsAndWeights:
    def test_a_configuration_without_profiles_is_the_default_for_the_default_scheduler(self) -> None:
        result = imported()
        assert result.problems == ()
        assert result.manifests == [
            {
                "apiVersion": "berth.dev/v1alpha1",
                "kind": "SchedulingPolicy",
                "metadata": {"name": "default-scheduler"},
                "spec": {"schedulerName": "default-scheduler"},
            }
        ]

    def test_only_what_differs_is_written(self) -> None:
        profile = make_profile(
            score=plugin_set(enabled={"NodeAffinity": 2, "ImageLocality": 7}, disabled=["VolumeBinding"])
        )
        assert imported(profile).manifests[0]["spec"] == {
            "schedulerName": "default-scheduler",
            "priorities": [{"name": "VolumeBinding", "enabled": False}, {"name": "ImageLocality", "weight": 7}],
        }

    def test_a_weight_of_zero_means_one(self) -> None:
        assert weights_of(policy_of(make_profile(score=plugin_set(enabled={"NodeAffinity": 0}))))["NodeAffinity"] == 1

    def test_a_default_enabled_again_without_a_weight_loses_its_default_weight(self) -> None:
        policy = policy_of(make_profile(multiPoint=plugin_set(enabled=["TaintToleration"])))
        assert weights_of(policy) == DEFAULT_WEIGHTS | {"TaintToleration": 1}

    def test_a_weight_at_score_goes_before_the_one_at_multi_point(self) -> None:
        policy = policy_of(
            make_profile(multiPoint=plugin_set({"NodeAffinity": 3}), score=plugin_set({"NodeAffinity": 9}))
        )
        assert weights_of(policy)["NodeAffinity"] == 9

    def test_no_weight_at_score_goes_before_the_one_at_multi_point_too(self) -> None:
        policy = policy_of(make_profile(multiPoint=plugin_set({"NodeAffinity": 3}), score=plugin_set(["NodeAffinity"])))
        assert weights_of(policy)["NodeAffinity"] == 1

    def test_a_star_at_score_leaves_only_what_score_enables(self) -> None:
        policy = policy_of(make_profile(score=plugin_set({"ImageLocality": 4}, disabled="*")))
        assert weights_of(policy) == {"ImageLocality": 4}
        assert filters_of(policy) == filters_of(BUILT_IN)

    def test_a_star_at_multi_point_leaves_only_what_is_enabled(self) -> None:
        enabled = {**dict.fromkeys(MULTI_POINT_MINIMUM), "NodeResourcesFit": 5, "NodeName": None}
        policy = policy_of(make_profile(multiPoint=plugin_set(enabled, disabled="*")))
        assert weights_of(policy) == {"NodeResourcesFit": 5}
        assert filters_of(policy) == ["NodeResourcesFit", "NodeName"]

    def test_another_order_of_filters_is_kept(self) -> None:
        policy = policy_of(make_profile(filter=plugin_set(["NodePorts"])))
        others = [name for name in filters_of(BUILT_IN) if name != "NodePorts"]
        assert filters_of(policy) == ["NodePorts", *others]
        assert "predicateOrder" not in imported(make_profile()).manifests[0]["spec"]  # type: ignore[operator]

    def test_a_plugin_that_is_off_at_filter_alone_keeps_what_it_says_before_any_node_is_looked_at(self) -> None:
        result = imported(make_profile(filter=plugin_set(disabled=["NodeName", "NodeAffinity"])))
        assert texts(result) == []
        assert result.manifests[0]["spec"]["predicates"] == [  # type: ignore[index]
            {"name": "NodeName", "enabled": False},
            {"name": "NodeAffinity", "preFilterOnly": True},
        ]

    def test_a_plugin_that_is_off_at_pre_filter_too_is_left_out(self) -> None:
        off = plugin_set(disabled=["NodeAffinity"])
        [manifest] = imported(make_profile(filter=off, preFilter=off)).manifests
        assert manifest["spec"]["predicates"] == [{"name": "NodeAffinity", "enabled": False}]  # type: ignore[index]

    def test_a_plugin_disabled_at_multi_point_is_off_everywhere(self) -> None:
        policy = policy_of(make_profile(multiPoint=plugin_set(disabled=["InterPodAffinity"])))
        assert "InterPodAffinity" not in filters_of(policy)
        assert "InterPodAffinity" not in weights_of(policy)

    def test_a_plugin_disabled_at_multi_point_may_be_enabled_at_one_point(self) -> None:
        policy = policy_of(
            make_profile(multiPoint=plugin_set(disabled=["InterPodAffinity"]), score=plugin_set(["InterPodAffinity"]))
        )
        assert "InterPodAffinity" not in filters_of(policy)
        assert weights_of(policy)["InterPodAffinity"] == 1

    def test_enabled_goes_before_disabled_at_multi_point(self) -> None:
        policy = policy_of(make_profile(multiPoint=plugin_set({"ImageLocality": 6}, disabled=["ImageLocality"])))
        assert weights_of(policy)["ImageLocality"] == 6

    def test_an_older_version_of_the_configuration_is_read_alike(self) -> None:
        profile = make_profile(multiPoint=plugin_set({"NodeAffinity": 5}, disabled=["EBSLimits"]))
        assert weights_of(policy_of(profile, version="v1beta3"))["NodeAffinity"] == 5
        assert imported(profile, version="v1beta3").problems == ()

    def test_each_profile_becomes_a_policy_with_a_name_of_its_own(self) -> None:
        result = imported(make_profile("team-a"), make_profile("Team_A"), make_profile("ünï"), make_profile("--"))
        assert result.problems == ()
        assert [manifest["metadata"] for manifest in result.manifests] == [
            {"name": "team-a"},
            {"name": "team-a-2"},
            {"name": "n"},
            {"name": "imported"},
        ]
        assert [manifest["spec"]["schedulerName"] for manifest in result.manifests] == ["team-a", "Team_A", "ünï", "--"]  # type: ignore[index]


class TestArguments:
    def test_arguments_go_to_the_plugin_at_both_points_without_their_type(self) -> None:
        strategy = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
        typed = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs", **strategy}
        assert imported(make_profile(args={"NodeResourcesFit": typed})).manifests[0]["spec"] == {
            "schedulerName": "default-scheduler",
            "predicates": [{"name": "NodeResourcesFit", "args": strategy}],
            "priorities": [{"name": "NodeResourcesFit", "args": strategy}],
        }

    def test_arguments_of_a_plugin_that_is_off_are_left_out(self) -> None:
        profile = make_profile(
            args={"NodeResourcesFit": {"ignoredResources": ["example.com/a"]}}, score=plugin_set(disabled="*")
        )
        spec = imported(profile).manifests[0]["spec"]
        assert isinstance(spec, dict)
        assert {"name": "NodeResourcesFit", "enabled": False} in spec["priorities"]

    def test_arguments_that_say_the_defaults_say_nothing(self) -> None:
        resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
        profile = make_profile(
            args={
                "DefaultPreemption": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100},
                "DynamicResources": {"filterTimeout": "10s"},
                "InterPodAffinity": {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
                "NodeAffinity": {"addedAffinity": None},
                "NodeResourcesBalancedAllocation": {"resources": resources},
                "NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}},
                "PodTopologySpread": {"defaultingType": "System"},
                "VolumeBinding": {"bindTimeoutSeconds": 600},
            }
        )
        result = imported(profile)
        assert result.problems == ()
        assert result.manifests == imported().manifests

    def test_arguments_of_another_plugin_are_an_error(self) -> None:
        profile = make_profile(args={"NodeAffinity": {"kind": "NodeResourcesFitArgs"}})
        assert texts(imported(profile)) == [
            'error: profiles[0].pluginConfig[0].args.kind: "NodeResourcesFitArgs" is not NodeAffinityArgs'
        ]

    def test_arguments_that_the_plugin_refuses_are_an_error_at_their_field(self) -> None:
        result = imported(make_profile(args={"NodeResourcesFit": {"scoringStrategy": {"type": "Fullest"}}}))
        assert {problem.field for problem in result.errors} == {"profiles[0].pluginConfig[0].args.scoringStrategy.type"}

    def test_arguments_for_a_plugin_that_takes_none_are_ignored_with_a_warning(self) -> None:
        result = imported(make_profile(args={"TaintToleration": {"x": 1}}))
        assert texts(result) == [
            "warning: profiles[0].pluginConfig[0].args: TaintToleration takes no arguments: kube-scheduler ignores them"
        ]
        assert result.manifests == imported().manifests

    def test_a_plugin_configured_twice_is_an_error(self) -> None:
        profile = make_profile() | {"pluginConfig": [{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]}
        assert texts(imported(profile)) == [
            "error: profiles[0].pluginConfig[1]: NodeAffinity is configured already, at profiles[0].pluginConfig[0]"
        ]


def spec_of(*profiles: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    result = imported(*profiles, **fields)
    assert result.errors == ()
    spec = result.manifests[0]["spec"]
    assert isinstance(spec, dict)
    parse_policy(result.manifests[0])
    return spec


class TestSettings:
    @pytest.mark.parametrize("point", ["multiPoint", "postFilter"])
    @pytest.mark.parametrize("name", ["DefaultPreemption", "*"])
    def test_preemption_that_is_off_is_off_in_the_policy(self, point: str, name: str) -> None:
        kept = MULTI_POINT_MINIMUM if (point, name) == ("multiPoint", "*") else ()
        points: dict[str, Any] = {point: plugin_set(kept, disabled=[name])}
        assert spec_of(make_profile(**points))["preemption"] == {"enabled": False}
        assert "preemption" not in spec_of(make_profile())

    def test_the_arguments_of_preemption_are_those_of_the_policy(self) -> None:
        profile = make_profile(args={"DefaultPreemption": {"minCandidateNodesAbsolute": 5}})
        assert spec_of(profile)["preemption"] == {"minCandidateNodesAbsolute": 5}
        assert policy_of(profile).preemption == PreemptionSettings(absolute=5)
        assert texts(imported(profile)) == []

    def test_arguments_of_preemption_that_is_off_are_left_out(self) -> None:
        off = plugin_set(disabled="*")
        profile = make_profile(args={"DefaultPreemption": {"minCandidateNodesAbsolute": 5}}, postFilter=off)
        assert spec_of(profile)["preemption"] == {"enabled": False}

    def test_backoff_is_that_of_every_policy(self) -> None:
        result = imported(make_profile("a"), make_profile("b"), podInitialBackoffSeconds=2, podMaxBackoffSeconds=60)
        paces = [parse_policy(manifest).backoff for manifest in result.manifests]
        assert paces == [BackoffSettings(first_backoff_seconds=2, longest_backoff_seconds=60)] * 2
        assert spec_of(podMaxBackoffSeconds=60)["backoff"] == {"maxSeconds": 60}

    @pytest.mark.parametrize(("everywhere", "here", "written"), [(30, None, 30), (30, 60, 60), (None, 5, 5)])
    def test_the_share_of_nodes_of_a_profile_goes_before_that_of_all(
        self, everywhere: int | None, here: int | None, written: int
    ) -> None:
        profile = make_profile() | {"percentageOfNodesToScore": here}
        assert spec_of(profile, percentageOfNodesToScore=everywhere)["percentageOfNodesToScore"] == written

    @pytest.mark.parametrize(("everywhere", "here"), [(None, None), (0, None), (100, None), (30, 100)])
    def test_every_node_is_looked_at_unless_a_share_is_asked_for(
        self, everywhere: int | None, here: int | None
    ) -> None:
        profile = make_profile() | {"percentageOfNodesToScore": here}
        assert "percentageOfNodesToScore" not in spec_of(profile, percentageOfNodesToScore=everywhere)

    def test_a_profile_that_asks_for_fewer_nodes_the_larger_the_cluster_gets_that(self) -> None:
        assert policy_of(make_profile() | {"percentageOfNodesToScore": 0}).node_percentage == 0

    def test_how_long_volumes_are_waited_for_is_a_field_of_its_own(self) -> None:
        spec = spec_of(make_profile(args={"VolumeBinding": {"bindTimeoutSeconds": 60}}))
        assert spec == {"schedulerName": "default-scheduler", "bindTimeoutSeconds": 60}

    def test_times_that_are_too_long_for_a_policy_are_cut_and_told_at_their_fields(self) -> None:
        profile = make_profile(args={"VolumeBinding": {"bindTimeoutSeconds": 9_999_999_999}})
        result = imported(profile, podInitialBackoffSeconds=700_000, podMaxBackoffSeconds=9_999_999)
        said = "is more than the 604800 seconds that a policy may say, and is written so"
        assert texts(result) == [
            f"warning: podInitialBackoffSeconds: {said}",
            f"warning: podMaxBackoffSeconds: {said}",
            f"warning: profiles[0].pluginConfig[0].args.bindTimeoutSeconds: {said}",
        ]
        policy = parse_policy(result.manifests[0])
        assert policy.bind_timeout_seconds == 604_800
        assert (policy.backoff.first_backoff_seconds, policy.backoff.longest_backoff_seconds) == (604_800, 604_800)

    def test_default_constraints_are_arguments_at_both_points(self) -> None:
        constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        args = {"defaultingType": "List", "defaultConstraints": [constraint]}
        spec = spec_of(make_profile(args={"PodTopologySpread": args}))
        assert spec["predicates"] == spec["priorities"] == [{"name": "PodTopologySpread", "args": args}]

    @pytest.mark.parametrize(
        ("fields", "where"),
        [
            ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds"),
            ({"podInitialBackoffSeconds": 20}, "podInitialBackoffSeconds"),
            ({"podMaxBackoffSeconds": "60s"}, "podMaxBackoffSeconds"),
            ({"podMaxBackoffSeconds": -1}, "podMaxBackoffSeconds"),
            ({"parallelism": 0}, "parallelism"),
            ({"parallelism": "16"}, "parallelism"),
            ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore"),
            ({"percentageOfNodesToScore": "30"}, "percentageOfNodesToScore"),
        ],
    )
    def test_what_kube_scheduler_would_not_start_with_is_an_error(self, fields: dict[str, Any], where: str) -> None:
        assert {problem.field for problem in imported(**fields).errors} == {where}

    def test_invalid_arguments_of_preemption_are_an_error(self) -> None:
        args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}
        [error] = imported(make_profile(args={"DefaultPreemption": args})).errors
        assert error.field == "profiles[0].pluginConfig[0].args.minCandidateNodesPercentage"


class TestBase:
    def test_a_profile_with_little_in_it_is_based_on_nothing(self) -> None:
        enabled = {**dict.fromkeys(MULTI_POINT_MINIMUM), "NodeName": None, "NodeAffinity": 0, "ImageLocality": 2}
        assert spec_of(make_profile(multiPoint=plugin_set(enabled, disabled="*"))) == {
            "schedulerName": "default-scheduler",
            "base": "Empty",
            "predicates": [{"name": "NodeName"}, {"name": "NodeAffinity"}],
            "priorities": [{"name": "NodeAffinity", "weight": 1}, {"name": "ImageLocality", "weight": 2}],
            "preemption": {"enabled": False},
        }

    def test_a_profile_with_nothing_in_it_has_no_lists(self) -> None:
        spec = spec_of(make_profile(multiPoint=plugin_set(MULTI_POINT_MINIMUM, disabled="*")))
        assert spec == {"schedulerName": "default-scheduler", "base": "Empty", "preemption": {"enabled": False}}


class TestWhatHasNoCounterpart:
    @pytest.mark.parametrize(
        ("profile", "expected"),
        [
            (
                make_profile(preEnqueue=plugin_set(disabled=["SchedulingGates"])),
                "warning: profiles[0].plugins.preEnqueue.disabled[0]: switching SchedulingGates off at preEnqueue has "
                "no counterpart: Berth always holds back pods with scheduling gates",
            ),
            (
                make_profile(preFilter=plugin_set(disabled=["NodePorts"])),
                "warning: profiles[0].plugins.preFilter.disabled[0]: switching NodePorts off at preFilter has no "
                "counterpart: NodePorts runs whole where it runs at filter",
            ),
            (
                make_profile(preScore=plugin_set(disabled=["NodeAffinity"])),
                "warning: profiles[0].plugins.preScore.disabled[0]: switching NodeAffinity off at preScore has no "
                "counterpart: NodeAffinity runs whole where it runs at score",
            ),
            (
                make_profile(multiPoint=plugin_set(["GangScheduling"])),
                "warning: profiles[0].plugins.multiPoint.enabled[0]: GangScheduling has no counterpart at permit: pods "
                "are placed one by one",
            ),
            (
                make_profile(multiPoint=plugin_set(disabled=["Coscheduling"])),
                'warning: profiles[0].plugins.multiPoint.disabled[0]: "Coscheduling" is not a plugin of Kubernetes '
                "1.36: nothing to disable",
            ),
        ],
    )
    def test_it_is_a_warning_that_names_the_field(self, profile: dict[str, Any], expected: str) -> None:
        assert texts(imported(profile)) == [expected]

    @pytest.mark.parametrize(
        ("off", "left"),
        [
            (["filter"], "of it only what it says before any node is looked at is left (preFilterOnly)"),
            (["filter", "preFilter"], "it is left out whole"),
        ],
    )
    def test_what_is_left_of_a_plugin_is_told_as_it_is_written(self, off: list[str], left: str) -> None:
        points: dict[str, Any] = {point: plugin_set(disabled=["VolumeBinding"]) for point in off}
        result = imported(make_profile(**points))
        spec: Any = result.manifests[0]["spec"]
        [entry] = [entry for entry in spec["predicates"] if entry["name"] == "VolumeBinding"]
        assert entry.get("preFilterOnly", False) is ("preFilterOnly" in left)
        assert [text.partition("no counterpart: ")[2] for text in texts(result)] == [left, left]  # reserve and preBind

    def test_settings_beside_the_profiles_are_reported(self) -> None:
        result = imported(parallelism=4, leaderElection={"leaderElect": True})
        assert [(problem.field, problem.severity) for problem in result.problems] == [
            ("parallelism", "warning"),
            ("leaderElection", "warning"),
        ]

    def test_settings_at_their_defaults_are_not_reported(self) -> None:
        assert (
            imported(parallelism=16, percentageOfNodesToScore=0, podInitialBackoffSeconds=1, extenders=[]).problems
            == ()
        )


class TestWhatIsWrongWithAConfiguration:
    @pytest.mark.parametrize(
        ("profile", "expected"),
        [
            (
                make_profile(score=plugin_set(["Astrology"])),
                'error: profiles[0].plugins.score.enabled[0]: "Astrology" is not a plugin of Kubernetes 1.36',
            ),
            (
                make_profile(args={"Astrology": {}}),
                'error: profiles[0].pluginConfig[0].name: "Astrology" is not a plugin of Kubernetes 1.36',
            ),
            (
                make_profile(score=plugin_set(["NodeName"])),
                "error: profiles[0].plugins.score.enabled[0]: NodeName does not serve at score; it does at filter",
            ),
            (
                make_profile(score=plugin_set({"ImageLocality": -1})),
                "error: profiles[0].plugins.score.enabled[0].weight: -1 has no counterpart: a policy's "
                "weights are 1 or more",
            ),
            (
                make_profile(score=plugin_set({"ImageLocality": "heavy"})),
                'error: profiles[0].plugins.score.enabled[0].weight: "heavy" is not a whole number',
            ),
            (
                make_profile(score=plugin_set(["ImageLocality", "ImageLocality"])),
                "error: profiles[0].plugins.score.enabled[1]: ImageLocality is enabled here already, at "
                "profiles[0].plugins.score.enabled[0]",
            ),
            (
                make_profile(scoring=plugin_set(["ImageLocality"])),
                "error: profiles[0].plugins.scoring: is not an extension point",
            ),
            (
                make_profile(bind=plugin_set(disabled="*")),
                "error: profiles[0].plugins.bind: kube-scheduler needs a plugin here: DefaultBinder",
            ),
            (make_profile(filter=plugin_set(["EBSLimits"])), None),
            (make_profile(""), 'error: profiles[0].schedulerName: "" is not a scheduler name'),
            (
                make_profile("x" * 254),
                "error: profiles[0].schedulerName: has 254 characters, a policy's may have 253",
            ),
            (make_profile() | {"plugin": {}}, "error: profiles[0].plugin: unknown field of a profile"),
            (
                make_profile(score={"enabled": [{"name": "NodeAffinity", "wieght": 5}]}),
                "error: profiles[0].plugins.score.enabled[0].wieght: unknown field; did you mean weight?",
            ),
            (
                make_profile(score={"disabled": [{"name": "NodeAffinity", "nmae": "x"}]}),
                "error: profiles[0].plugins.score.disabled[0].nmae: unknown field; did you mean name?",
            ),
            (
                make_profile() | {"pluginConfig": [{"name": "NodeResourcesFit", "arguments": {}}]},
                "error: profiles[0].pluginConfig[0].arguments: unknown field; did you mean args?",
            ),
            (
                make_profile(args={"NodeResourcesFit": {"scoringStrategy": {"resources": []}}}),
                "error: profiles[0].pluginConfig[0].args.scoringStrategy.type: is required: one of LeastAllocated, "
                "MostAllocated, RequestedToCapacityRatio",
            ),
        ],
    )
    def test_it_is_an_error_that_names_the_field(self, profile: dict[str, Any], expected: str | None) -> None:
        result = imported(profile)
        assert result.errors
        assert expected is None or texts(result) == [expected]

    def test_two_profiles_of_one_name_are_an_error(self) -> None:
        assert texts(imported(make_profile("a"), make_profile("a"))) == [
            'error: profiles[1].schedulerName: "a" is the name of profiles[0] already'
        ]

    def test_profiles_without_a_name_are_an_error_where_there_are_several(self) -> None:
        assert texts(imported(make_profile(None), make_profile("a"))) == [
            "error: profiles[0].schedulerName: is required"
        ]

    @pytest.mark.parametrize("version", ["v1beta2", "v2", ""])
    def test_a_version_that_is_not_read_is_refused(self, version: str) -> None:
        result = imported(version=version)
        assert (result.manifests, [problem.field for problem in result.errors]) == ([], ["apiVersion"])

    def test_an_unknown_field_is_an_error(self) -> None:
        assert texts(imported(profile=[])) == ["error: profile: unknown field of KubeSchedulerConfiguration"]


PLUGIN_SETS = st.builds(
    plugin_set,
    enabled=st.dictionaries(st.sampled_from(list(POINTS)), st.none() | st.integers(0, 9), max_size=4),
    disabled=st.lists(st.sampled_from([*POINTS, "*"]), unique=True, max_size=4),
)


@given(plugins=st.dictionaries(st.sampled_from(["multiPoint", *EXTENSION_POINTS]), PLUGIN_SETS, max_size=4))
def test_reading_the_manifests_gives_what_a_naive_expansion_gives(plugins: dict[str, Any]) -> None:
    result = imported(make_profile(**plugins))
    if result.errors:
        return
    policy = parse_policy(result.manifests[0])
    assert set(filters_of(policy)) == set(naive_weights(plugins, "filter"))
    assert weights_of(policy) == naive_weights(plugins, "score")


def naive_weights(plugins: Mapping[str, Any], point: str) -> dict[str, int]:
    """Who serves at the point, asked plugin by plugin, with the weight that counts there."""
    nothing = plugin_set()
    here, multi = plugins.get(point, nothing), plugins.get("multiPoint", nothing)
    off_here = {entry["name"] for entry in here["disabled"]}
    off_multi = {entry["name"] for entry in multi["disabled"]}
    on_here = {entry["name"]: entry.get("weight") or 1 for entry in here["enabled"]}
    on_multi = {entry["name"]: entry.get("weight") or 1 for entry in multi["enabled"]}
    found = {}
    for name in POINTS:
        if point not in POINTS[name]:
            continue
        by_default = name in DEFAULT_NAMES and not off_multi & {name, "*"}
        if name in on_here:
            found[name] = on_here[name]
        elif (name in on_multi or by_default) and not off_here & {name, "*"}:
            found[name] = on_multi.get(name, DEFAULT_WEIGHTS.get(name, 1))
    return found


DEFAULT_NAMES = {*DEFAULT_WEIGHTS, *filters_of(BUILT_IN)}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.just(date(2026, 1, 1)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(
    path=st.sampled_from(
        [
            ("profiles",),
            ("profiles", 0),
            ("profiles", 0, "schedulerName"),
            ("profiles", 0, "plugins"),
            ("profiles", 0, "plugins", "score"),
            ("profiles", 0, "plugins", "score", "enabled"),
            ("profiles", 0, "plugins", "score", "enabled", 0),
            ("profiles", 0, "plugins", "score", "enabled", 0, "name"),
            ("profiles", 0, "plugins", "score", "enabled", 0, "weight"),
            ("profiles", 0, "plugins", "score", "disabled"),
            ("profiles", 0, "pluginConfig"),
            ("profiles", 0, "pluginConfig", 0),
            ("profiles", 0, "pluginConfig", 0, "args"),
            ("profiles", 0, "pluginConfig", 0, "args", "scoringStrategy"),
            ("apiVersion",),
            ("kind",),
            ("extenders",),
        ]
    ),
    value=JSON,
)
def test_any_value_anywhere_is_imported_or_told_never_raised(path: tuple[str | int, ...], value: object) -> None:
    profile = make_profile(args={"NodeResourcesFit": {"scoringStrategy": {}}}, score=plugin_set({"ImageLocality": 1}))
    configuration: Any = make_configuration(profile)
    place = configuration
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    result = import_configuration(configuration)
    if not result.errors:
        for manifest in result.manifests:
            try:
                parse_policy(manifest)
            except PolicyError as error:  # a date, say, which YAML knows and JSON does not
                pytest.fail(str(error))
