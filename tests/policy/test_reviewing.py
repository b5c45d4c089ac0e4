"""What would be said of a policy before it is applied or deleted: as its status would, and without a trace."""

import pytest

from berth.policy import PolicyStore
from policy.bad_policies import BAD_POLICIES, Bad, By
from policy.builders import make_policy
from policy.harness import BAD, condition, in_force, labels

BY_BERTH = [bad for bad in BAD_POLICIES if bad.by is By.BERTH]


def test_a_valid_policy_has_no_problems_and_no_warnings(store: PolicyStore) -> None:
    review = store.review(make_policy())
    assert (review.problems, review.warnings) == ((), ())


def test_a_typo_is_refused_with_the_field_and_what_was_meant(store: PolicyStore) -> None:
    [problem] = store.review(make_policy(priorities=[{"name": "NodeResourcesFitt"}])).problems
    assert (
        str(problem) == 'spec.priorities[0].name: "NodeResourcesFitt" is not a plugin; did you mean NodeResourcesFit?'
    )


def test_a_review_changes_nothing(store: PolicyStore, caplog: pytest.LogCaptureFixture) -> None:
    store.observe(make_policy())
    store.statuses()
    caplog.clear()
    for manifest in (make_policy(generation=2, **BAD), make_policy(generation=2, tieBreak="First"), make_policy("b")):
        store.review(manifest)
    assert store.statuses() == {}
    assert in_force(store) == "batch/1"
    assert store.statistics()["policies"] == 1
    assert caplog.records == []


@pytest.mark.parametrize("bad", BY_BERTH, ids=lambda bad: bad.title)
def test_a_review_has_the_problems_that_the_status_has(store: PolicyStore, bad: Bad) -> None:
    for manifest in bad.manifests[:-1]:
        store.observe(manifest)
    review = store.review(bad.manifests[-1])
    store.observe(bad.manifests[-1])
    told = condition(store.statuses()[bad.name], "Accepted")["message"]
    said = "; ".join(map(str, review.problems)) or review.warnings[0].partition(" (until")[0]
    assert said == told


@pytest.mark.parametrize(("uid", "generation"), [("uid-batch", 1), ("uid-batch", 9), ("another", 1), ("", 0)])
def test_a_manifest_is_judged_whatever_it_says_of_its_version(store: PolicyStore, uid: str, generation: int) -> None:
    store.observe(make_policy(generation=3))
    manifest = make_policy(generation=generation, **BAD)
    manifest["metadata"]["uid"] = uid
    assert [problem.field for problem in store.review(manifest).problems] == ["spec.tieBreak"]


def test_a_policy_that_gets_its_name_from_the_server_is_judged(store: PolicyStore) -> None:
    manifest = make_policy(**BAD)
    manifest["metadata"] = {"generateName": "batch-"}
    assert [problem.field for problem in store.review(manifest).problems] == ["spec.tieBreak"]


class TestBases:
    def test_a_base_may_be_applied_later(self, store: PolicyStore) -> None:
        store.observe(make_policy("common", schedulerName="common"))
        review = store.review(make_policy(base="comon"))
        assert review.problems == ()
        assert review.warnings == (
            "spec.base: there is no valid SchedulingPolicy comon; did you mean common? "
            "(until there is one, this policy is refused)",
        )

    def test_the_rest_of_a_policy_without_its_base_is_judged(self, store: PolicyStore) -> None:
        review = store.review(make_policy(base="later", **BAD))
        assert [problem.field for problem in review.problems] == ["spec.tieBreak"]

    @pytest.mark.parametrize("base", ["Not A Name", "batch"])
    def test_a_base_that_can_never_be_is_refused(self, store: PolicyStore, base: str) -> None:
        assert [problem.field for problem in store.review(make_policy(base=base)).problems] == ["spec.base"]

    def test_a_ring_is_refused_where_it_would_be_closed(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", schedulerName="a", base="b"))
        store.observe(make_policy("b", schedulerName="b"))
        [problem] = store.review(make_policy("b", schedulerName="b", base="a")).problems
        assert problem.field == "spec.base"
        assert "b -> a -> b" in problem.message

    def test_a_change_of_a_base_warns_of_the_policies_that_it_breaks(self, store: PolicyStore) -> None:
        rule = {"name": "own", "expression": "true"}
        store.observe(make_policy("base", schedulerName="base", predicates=[rule]))
        store.observe(make_policy(predicateOrder=["own"], base="base"))
        [warning] = store.review(make_policy("base", schedulerName="base")).warnings
        assert warning.startswith(
            "SchedulingPolicy batch, which is based on this one, would be refused: spec.predicateOrder[0]"
        )

    def test_the_policies_on_a_base_are_named_before_it_is_deleted(self, store: PolicyStore) -> None:
        store.observe(make_policy("base", schedulerName="base"))
        assert store.review_removal("base").warnings == ()
        store.observe(make_policy("one", schedulerName="one", base="base"))
        [warning] = store.review_removal("base").warnings
        assert warning.startswith("one is based on SchedulingPolicy base: it keeps its last good generation until")
        store.observe(make_policy("two", schedulerName="two", base="one"))
        [warning] = store.review_removal("base").warnings
        assert warning.startswith("one, two are based on SchedulingPolicy base: they keep their last good generation")
        assert store.review_removal("unknown").warnings == ()


class TestConflicts:
    def test_a_policy_that_would_never_decide_is_warned_of(self, store: PolicyStore) -> None:
        store.observe(make_policy("a"))
        [warning] = store.review(make_policy("b")).warnings
        assert warning == "never decides: a comes first for every pod that it matches"

    def test_a_policy_of_the_same_rank_is_named(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", podSelector=labels(tier="gold")))
        [warning] = store.review(make_policy("b", podSelector=labels(app="web"))).warnings
        assert warning.startswith("some pods may match a as well, of the same rank")

    def test_an_edited_policy_does_not_conflict_with_itself(self, store: PolicyStore) -> None:
        store.observe(make_policy())
        assert store.review(make_policy(tieBreak="First")).warnings == ()

    @pytest.mark.parametrize("mode", ["Shadow", "Disabled"])
    def test_a_policy_that_decides_for_no_pods_conflicts_with_none(self, store: PolicyStore, mode: str) -> None:
        store.observe(make_policy("a"))
        assert store.review(make_policy("b", mode=mode)).warnings == ()


def test_an_expression_that_fails_on_some_nodes_is_warned_of_as_lint_does(store: PolicyStore) -> None:
    rule = {"name": "in-zone", "expression": "node.labels['zone'] == 'a'"}
    [warning] = store.review(make_policy(predicates=[rule])).warnings
    assert warning.startswith("spec.predicates[0].expression: ")
    assert "node.labels[?'zone']" in warning or "in node.labels" in warning
