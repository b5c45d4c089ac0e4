"""A Policy file of old becomes a SchedulingPolicy with exactly what it lists."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.policy import BUILT_IN, PolicyError, import_configuration, load_policy
from berth.policy.compile import ActivePolicy


def make_file(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Policy", **fields}


def loaded(**fields: Any) -> ActivePolicy:
    result = import_configuration(make_file(**fields))
    assert result.errors == ()
    return load_policy(result.manifests[0])


def texts(**fields: Any) -> list[str]:
    return [str(problem) for problem in import_configuration(make_file(**fields)).problems]


def errors(**fields: Any) -> dict[str, str]:
    return {problem.field: problem.message for problem in import_configuration(make_file(**fields)).errors}


def names(*entries: str) -> list[dict[str, str]]:
    return [{"name": name} for name in entries]


MANDATORY = names("CheckNodeUnschedulable", "PodToleratesNodeTaints")


class TestWhatRuns:
    def test_a_file_that_lists_nothing_is_the_default_profile_of_today(self) -> None:
        policy = loaded().policy
        assert (policy.name, policy.scheduler_name) == ("default-scheduler", "default-scheduler")
        assert (policy.predicates, policy.priorities) == (BUILT_IN.predicates, BUILT_IN.priorities)
        assert texts() == texts(predicates=None, priorities=None, extenders=None) == []

    def test_empty_lists_run_nothing(self) -> None:
        pipeline = loaded(predicates=[], priorities=[]).pipeline
        assert (pipeline.filters, pipeline.scores) == ((), ())

    def test_a_file_as_the_documentation_had_it(self) -> None:
        listed = ["PodFitsHostPorts", "PodFitsResources", "NoDiskConflict", "NoVolumeZoneConflict", "MatchNodeSelector"]
        weights = {
            "LeastRequestedPriority": 1,
            "BalancedResourceAllocation": 1,
            "ServiceSpreadingPriority": 1,
            "EqualPriority": 1,
        }
        pipeline = loaded(
            predicates=names(*listed, "HostName"),
            priorities=[{"name": name, "weight": weight} for name, weight in weights.items()],
        ).pipeline
        assert [plugin.name for plugin in pipeline.filters] == [
            "HostName",
            "MatchNodeSelector",
            "PodFitsHostPorts",
            "PodFitsResources",
            "NoDiskConflict",
            "NoVolumeZoneConflict",
        ]
        assert {plugin.name: weight for plugin, weight in pipeline.scores} == weights

    def test_one_list_does_not_touch_the_other(self) -> None:
        policy = loaded(priorities=[]).policy
        assert (policy.predicates, policy.priorities) == (BUILT_IN.predicates, ())

    def test_arguments_make_entries_with_names_of_their_own(self) -> None:
        active = loaded(
            predicates=[
                *MANDATORY,
                {"name": "SameRegion", "argument": {"serviceAffinity": {"labels": ["region"]}}},
                {"name": "NotRetiring", "argument": {"labelsPresence": {"labels": ["retiring"], "presence": False}}},
                {"name": "CheckNodeLabelPresence", "argument": {"labelsPresence": {"labels": ["x"], "presence": True}}},
            ],
            priorities=[
                {"name": "RackSpread", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "rack"}}},
                {"name": "Ssd", "weight": 2, "argument": {"labelPreference": {"label": "ssd", "presence": True}}},
                {"name": "HddLast", "weight": 2, "argument": {"labelPreference": {"label": "hdd"}}},
            ],
        )
        assert {(entry.name, entry.plugin) for entry in active.policy.predicates if entry.args} == {
            ("SameRegion", "CheckServiceAffinity"),
            ("NotRetiring", "CheckNodeLabelPresence"),
            ("CheckNodeLabelPresence", "CheckNodeLabelPresence"),
        }
        assert [(entry.name, entry.plugin, entry.weight, dict(entry.args)) for entry in active.policy.priorities] == [
            ("RackSpread", "ServiceAntiAffinity", 1, {"label": "rack"}),
            ("Ssd", "LabelPreference", 2, {"label": "ssd", "presence": True}),
            ("HddLast", "LabelPreference", 2, {"label": "hdd"}),
        ]

    @pytest.mark.parametrize("name", ["RequestedToCapacityRatioPriority", "Packing"])
    def test_a_ratio_with_a_shape_is_a_strategy(self, name: str) -> None:
        shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
        argument = {"shape": shape, "resources": [{"name": "cpu", "weight": 2}]}
        priority = {"name": name, "weight": 5, "argument": {"requestedToCapacityRatioArguments": argument}}
        [entry] = loaded(priorities=[priority]).policy.priorities
        assert (entry.name, entry.plugin, entry.weight) == (name, "NodeResourcesFit", 5)
        assert entry.args["scoringStrategy"] == {
            "type": "RequestedToCapacityRatio",
            "requestedToCapacityRatio": {"shape": shape},
            "resources": [{"name": "cpu", "weight": 2}],
        }

    def test_least_and_most_requested_run_side_by_side(self) -> None:
        both = [{"name": "LeastRequestedPriority", "weight": 1}, {"name": "MostRequestedPriority", "weight": 2}]
        found = {entry.name: entry for entry in loaded(priorities=both).policy.priorities}
        strategies: dict[str, Any] = {name: entry.args["scoringStrategy"] for name, entry in found.items()}
        assert {name: strategy["type"] for name, strategy in strategies.items()} == {
            "LeastRequestedPriority": "LeastAllocated",
            "MostRequestedPriority": "MostAllocated",
        }

    def test_general_predicates_may_stand_beside_their_parts(self) -> None:
        active = loaded(predicates=[*MANDATORY, *names("GeneralPredicates", "PodFitsResources")])
        assert [plugin.name for plugin in active.pipeline.filters] == [
            "CheckNodeUnschedulable",
            "NodeName",
            "PodToleratesNodeTaints",
            "NodeAffinity",
            "NodePorts",
            "PodFitsResources",
        ]

    def test_the_weight_of_required_affinity_is_an_argument(self) -> None:
        def weight_in(**fields: Any) -> dict[str, Any]:
            policy = loaded(hardPodAffinitySymmetricWeight=30, **fields).policy
            return {entry.name: dict(entry.args) for entry in policy.priorities if entry.plugin == "InterPodAffinity"}

        args = {"hardPodAffinityWeight": 30}
        assert weight_in() == {"InterPodAffinity": args}
        old = {"name": "InterPodAffinityPriority", "weight": 1}
        assert weight_in(priorities=[old]) == {"InterPodAffinityPriority": args}
        assert weight_in(priorities=[]) == {}

    def test_a_file_that_has_both_lists_is_based_on_nothing(self) -> None:
        [manifest] = import_configuration(
            make_file(predicates=MANDATORY, priorities=[{"name": "EqualPriority", "weight": 2}])
        ).manifests
        assert manifest["spec"] == {
            "schedulerName": "default-scheduler",
            "base": "Empty",
            "predicates": MANDATORY,
            "priorities": [{"name": "EqualPriority", "weight": 2}],
        }

    def test_every_predicate_is_counted_where_the_file_says_so(self) -> None:
        assert loaded(alwaysCheckAllPredicates=True).policy.check_all
        assert not loaded(alwaysCheckAllPredicates=False).policy.check_all

    def test_extenders_are_asked(self) -> None:
        policy = loaded(extenders=[{"urlPrefix": "http://x", "filterVerb": "filter"}]).policy
        assert [extender.url_prefix for extender in policy.extenders] == ["http://x"]

    def test_the_weight_of_required_affinity_does_not_bring_the_priority_in(self) -> None:
        both = loaded(predicates=MANDATORY, priorities=[], hardPodAffinitySymmetricWeight=30).policy
        assert both.priorities == ()


class TestWhatIsTold:
    def test_what_always_ran_is_named_where_it_is_not_listed(self) -> None:
        assert texts(predicates=MANDATORY) == []
        assert texts(predicates=names("HostName", "CheckNodeUnschedulable")) == [
            "warning: predicates: kube-scheduler ran PodToleratesNodeTaints (1.12 to 1.22) or CheckNodeCondition "
            "(1.9 to 1.11) even where a file does not list them: list them to have them"
        ]
        assert texts(predicates=names("HostName", "CheckNodeCondition")) == [
            "warning: predicates: kube-scheduler ran CheckNodeUnschedulable and PodToleratesNodeTaints (1.12 to 1.22) "
            "even where a file does not list them: list them to have them"
        ]

    def test_two_names_of_one_predicate_run_once(self) -> None:
        listed = [*MANDATORY, *names("PodFitsPorts", "PodFitsHostPorts")]
        assert texts(predicates=listed) == [
            "warning: predicates[3]: PodFitsHostPorts is the same predicate as PodFitsPorts: it runs once"
        ]

    def test_whether_every_predicate_is_counted_is_true_or_false(self) -> None:
        assert errors(alwaysCheckAllPredicates="yes") == {"alwaysCheckAllPredicates": '"yes" is not true or false'}

    @pytest.mark.parametrize("weight", [None, 0, -1, 2**31, 1.5, "1", True])
    def test_a_priority_needs_a_weight(self, weight: object) -> None:
        assert list(errors(priorities=[{"name": "EqualPriority", "weight": weight}])) == ["priorities[0].weight"]

    @pytest.mark.parametrize(
        ("entry", "field", "message"),
        [
            ({"name": "NoSuchPredicate"}, "name", '"NoSuchPredicate" is not one of Kubernetes 1.9 to 1.17'),
            ({"name": "EqualPriority"}, "name", '"EqualPriority" is not one of'),
            ({"name": 7}, "name", "7 is not a name"),
            ({}, "name", "is required"),
            ({"name": "HostName", "weight": 1}, "weight", "unknown field"),
            ({"name": "CheckServiceAffinity"}, "argument", "is required: serviceAffinity"),
            ({"name": "x", "argument": {}}, "argument", "must be exactly one of serviceAffinity, labelsPresence"),
            ({"name": "x", "argument": {"labelPreference": {}}}, "argument", "must be exactly one of"),
            ({"name": "x", "argument": {"serviceAffinity": {}}}, "argument.serviceAffinity", "labels: is required"),
            (
                {"name": "x", "argument": {"labelsPresence": {"labels": ["x"], "absence": True}}},
                "argument.labelsPresence.absence",
                "unknown field; known are labels, presence",
            ),
            (
                {"name": "HostName", "argument": {"serviceAffinity": {"labels": ["x"]}}},
                "name",
                "HostName is the name of another one",
            ),
        ],
        ids=str,
    )
    def test_an_invalid_entry_is_an_error(self, entry: Any, field: str, message: str) -> None:
        found = errors(predicates=[*MANDATORY, entry])
        assert list(found) == [f"predicates[2].{field}"]
        assert message in found[f"predicates[2].{field}"]

    def test_a_name_that_is_there_twice_is_an_error(self) -> None:
        assert errors(predicates=[*MANDATORY, *names("HostName", "HostName")]) == {
            "predicates[3]": "HostName is there already, at predicates[2]"
        }
        both = [{"name": "LeastRequestedPriority", "weight": 1}, {"name": "NodeResourcesFit", "weight": 1}]
        assert errors(priorities=both) == {
            "priorities[1]": "NodeResourcesFit is the same priority as LeastRequestedPriority"
        }

    @pytest.mark.parametrize("weight", [-1, 101, "7", True])
    def test_an_invalid_weight_of_affinity_is_an_error(self, weight: object) -> None:
        assert list(errors(hardPodAffinitySymmetricWeight=weight)) == ["hardPodAffinitySymmetricWeight"]

    @pytest.mark.parametrize("version", ["v1", "kubescheduler.config.k8s.io/v1"])
    def test_it_is_read_under_both_groups_that_kubernetes_had_it_in(self, version: str) -> None:
        result = import_configuration({"kind": "Policy", "apiVersion": version, "predicates": names("HostName")})
        assert (len(result.manifests), result.errors) == (1, ())

    def test_another_version_or_field_is_an_error(self) -> None:
        result = import_configuration({"kind": "Policy", "apiVersion": "v2"})
        assert (result.manifests, [str(problem) for problem in result.problems]) == (
            [],
            ['error: apiVersion: "v2" is not one of v1, kubescheduler.config.k8s.io/v1'],
        )
        assert errors(predicate=[]) == {"predicate": "unknown field of a Policy"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12) | st.sampled_from(["HostName", "EqualPriority"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["name", "weight", "argument", "labels", "label", "serviceAffinity", "labelPreference", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    field=st.sampled_from(["predicates", "priorities", "extenders", "hardPodAffinitySymmetricWeight", "x"]), value=JSON
)
def test_any_json_gives_a_policy_or_an_error(field: str, value: object) -> None:
    result = import_configuration(make_file(**{field: value}))
    if not result.errors:
        try:
            load_policy(result.manifests[0])
        except PolicyError as error:
            pytest.fail(f"{value}: {error}")
