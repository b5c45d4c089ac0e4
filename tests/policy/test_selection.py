"""Which policy decides for a pod, and which policies get into each other's way."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.model import LabelSelector, Pod, Requirement, make_label_selector
from berth.policy import BUILT_IN, ActivePolicy, PolicyStore, activate
from berth.policy.conflicts import Conflicts, may_meet
from berth.policy.records import Policy
from berth.policy.selection import PolicySelector, selects
from policy.builders import make_policy
from policy.harness import a_pod, condition, labels, matching, says, summary, who

TEAM_A: dict[str, Any] = labels(team="a")


class TestWhoWins:
    def test_a_policy_without_selectors_takes_every_pod_of_its_name(self, store: PolicyStore) -> None:
        store.observe(make_policy("all"))
        assert who(store, a_pod(app="web"), team="a") == "all/1"

    def test_a_policy_with_a_selector_comes_before_one_without(self, store: PolicyStore) -> None:
        store.observe(make_policy("all"))
        store.observe(make_policy("web", podSelector=labels(app="web")))
        assert who(store, a_pod(app="web")) == "web/1"
        assert who(store, a_pod(app="db")) == "all/1"

    def test_both_selectors_come_before_one_with_more_requirements(self, store: PolicyStore) -> None:
        store.observe(make_policy("both", podSelector=labels(app="web"), namespaceSelector=TEAM_A))
        store.observe(make_policy("long", podSelector=labels(app="web", tier="front", zone="x")))
        pod = a_pod(app="web", tier="front", zone="x")
        assert who(store, pod, team="a") == "both/1"
        assert who(store, pod, team="b") == "long/1"

    def test_more_requirements_come_before_fewer_whichever_selector_has_them(self, store: PolicyStore) -> None:
        store.observe(make_policy("a-few", podSelector=labels(app="web")))
        store.observe(make_policy("more", namespaceSelector={**TEAM_A, **matching(("cost", "Exists"))}))
        assert who(store, a_pod(app="web"), team="a", cost="high") == "more/1"
        assert who(store, a_pod(app="web"), team="a") == "a-few/1"

    def test_an_empty_selector_is_one_and_selects_everything(self, store: PolicyStore) -> None:
        store.observe(make_policy("a"))
        store.observe(make_policy("b", podSelector={}))
        assert who(store, a_pod()) == "b/1"
        assert summary(store.statuses()["a"]) == "Valid False Superseded 0"

    def test_of_equals_the_first_by_name_wins(self, store: PolicyStore) -> None:
        store.observe(make_policy("b", podSelector=labels(app="web")))
        store.observe(make_policy("a", podSelector=labels(tier="front")))
        assert who(store, a_pod(app="web", tier="front")) == "a/1"
        assert who(store, a_pod(app="web")) == "b/1"

    def test_a_namespace_selector_reads_the_namespace_and_a_pod_selector_the_pod(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", namespaceSelector=TEAM_A))
        assert who(store, a_pod(team="a")) == "nobody"
        assert who(store, a_pod(), team="a") == "a/1"

    def test_another_scheduler_name_is_another_matter(self, store: PolicyStore) -> None:
        store.observe(make_policy("mine", schedulerName="mine", podSelector=labels(app="web")))
        store.observe(make_policy("yours", schedulerName="yours"))
        assert who(store, a_pod("yours", app="web")) == "yours/1"
        assert who(store, a_pod("mine", app="web")) == "mine/1"
        assert who(store, a_pod("mine")) == "nobody"


class TestContested:
    def both(self, store: PolicyStore, one: dict[str, Any], other: dict[str, Any]) -> tuple[str, str]:
        """What condition Contested says of two policies, a and b."""
        store.observe(make_policy("a", **one))
        store.observe(make_policy("b", **other))
        statuses = store.statuses()
        return says(statuses["a"], "Contested"), says(statuses["b"], "Contested")

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (labels(app="web"), labels(app="db")),
            (matching(("app", "In", "web", "api")), matching(("app", "In", "db", "cache"))),
            (matching(("app", "Exists")), matching(("app", "DoesNotExist"))),
            (labels(app="web"), matching(("app", "DoesNotExist"))),
            (matching(("app", "In", "web", "api")), matching(("app", "NotIn", "web", "api", "db"))),
        ],
    )
    def test_requirements_that_exclude_each_other_are_no_conflict(
        self, store: PolicyStore, one: dict[str, Any], other: dict[str, Any]
    ) -> None:
        assert self.both(store, {"podSelector": one}, {"podSelector": other}) == ("False Alone", "False Alone")

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (labels(app="web"), labels(tier="front")),
            (matching(("app", "In", "web", "api")), matching(("app", "In", "api", "db"))),
            (matching(("app", "Exists")), labels(app="web")),
            (matching(("app", "NotIn", "web")), matching(("app", "DoesNotExist"))),
        ],
    )
    def test_requirements_that_one_pod_may_meet_are_a_conflict(
        self, store: PolicyStore, one: dict[str, Any], other: dict[str, Any]
    ) -> None:
        assert self.both(store, {"podSelector": one}, {"podSelector": other}) == ("True SameRank", "True SameRank")

    def test_the_same_label_on_pod_and_namespace_excludes_nothing(self, store: PolicyStore) -> None:
        found = self.both(store, {"podSelector": labels(team="a")}, {"namespaceSelector": labels(team="b")})
        assert found == ("True SameRank", "True SameRank")

    def test_different_ranks_are_no_conflict(self, store: PolicyStore) -> None:
        found = self.both(store, {"podSelector": labels(app="web")}, {"podSelector": labels(app="web", tier="front")})
        assert found == ("False Alone", "False Alone")

    def test_different_scheduler_names_are_no_conflict(self, store: PolicyStore) -> None:
        assert self.both(store, {}, {"schedulerName": "other"}) == ("False Alone", "False Alone")

    @pytest.mark.parametrize("mode", ["Shadow", "Disabled"])
    def test_a_policy_that_does_not_decide_conflicts_with_nothing(self, store: PolicyStore, mode: str) -> None:
        assert self.both(store, {}, {"mode": mode}) == ("False Alone", "False NoClaim")

    def test_each_side_names_the_others_and_who_wins(self, store: PolicyStore) -> None:
        for name, label in (("a", "one"), ("b", "two"), ("c", "three")):
            store.observe(make_policy(name, podSelector=matching((label, "Exists"))))
        message = condition(store.statuses()["b"], "Contested")["message"]
        assert message == (
            "a, c may match the same pods with as many selectors and requirements; where they do, the first by name "
            "decides: a before this policy, this policy before c"
        )

    def test_many_rivals_are_counted(self, store: PolicyStore) -> None:
        for number in range(8):
            store.observe(make_policy(f"p{number}", podSelector=matching((f"label{number}", "Exists"))))
        message = condition(store.statuses()["p0"], "Contested")["message"]
        assert message.startswith("p1, p2, p3, p4, p5 and 2 more may match")

    def test_a_conflict_ends_when_the_other_moves_on(self, store: PolicyStore) -> None:
        self.both(store, {"podSelector": labels(app="web")}, {"podSelector": labels(tier="front")})
        store.observe(make_policy("b", generation=2, podSelector=labels(app="db")))
        assert {name: says(status, "Contested") for name, status in store.statuses().items()} == {
            "a": "False Alone",
            "b": "False Alone",
        }

    def test_a_conflict_ends_when_the_other_is_deleted(self, store: PolicyStore) -> None:
        self.both(store, {"podSelector": labels(app="web")}, {"podSelector": labels(tier="front")})
        store.remove("b")
        assert says(store.statuses()["a"], "Contested") == "False Alone"

    def test_a_bad_edit_leaves_the_conflict_as_it_is(self, store: PolicyStore) -> None:
        self.both(store, {"podSelector": labels(app="web")}, {"podSelector": labels(tier="front")})
        store.observe(make_policy("b", generation=2, podSelector=labels(app="db"), tieBreak="Coin"))
        statuses = store.statuses()
        assert list(statuses) == ["b"]
        assert says(statuses["b"], "Contested") == "True SameRank"

    def test_equal_selectors_leave_the_later_name_without_any_pod(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", podSelector=labels(app="web", tier="front")))
        store.observe(make_policy("b", podSelector=matching(("tier", "In", "front"), ("app", "In", "web"))))
        statuses = store.statuses()
        assert summary(statuses["b"]) == "Valid False Superseded 0"
        assert statuses["b"]["activeHash"] is None
        assert [active.policy.name for active in store.in_force()] == ["a"]


# --- against the naive way

KEYS = ("app", "tier")
VALUES = ("x", "y")
PIPELINE = activate(BUILT_IN).pipeline


def requirement() -> st.SearchStrategy[Requirement]:
    values = st.sets(st.sampled_from(VALUES), min_size=1).map(lambda chosen: tuple(sorted(chosen)))
    valued = st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(("In", "NotIn")), values)
    plain = st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(("Exists", "DoesNotExist")), st.just(()))
    return valued | plain


def selector() -> st.SearchStrategy[LabelSelector | None]:
    return st.none() | st.lists(requirement(), max_size=3).map(make_label_selector)


def policies() -> st.SearchStrategy[list[Policy]]:
    drafts = st.lists(st.tuples(selector(), selector()), max_size=6)
    return drafts.map(
        lambda pairs: [
            replace(BUILT_IN, name=f"p{number}", namespace_selector=of_namespace, pod_selector=of_pod)
            for number, (of_namespace, of_pod) in enumerate(pairs)
        ]
    )


def every_labelling() -> list[dict[str, str]]:
    """Every set of labels that the requirements above can tell apart; "z" is a value that none of them names."""
    drawn = product((None, *VALUES, "z"), repeat=len(KEYS))
    return [{key: value for key, value in zip(KEYS, values, strict=True) if value is not None} for values in drawn]


PODS = [a_pod(**some) for some in every_labelling()]


def everything() -> Iterator[tuple[Pod, dict[str, str]]]:
    return product(PODS, every_labelling())


def key_of(policy: Policy) -> tuple[int, int, str]:
    given = [entry for entry in (policy.namespace_selector, policy.pod_selector) if entry is not None]
    return -len(given), -sum(len(entry.requirements) for entry in given), policy.name


def winner(listed: Sequence[Policy], pod: Pod, namespace_labels: dict[str, str]) -> Policy | None:
    matching = [policy for policy in listed if selects(policy, pod, namespace_labels)]
    return min(matching, key=key_of, default=None)


@settings(max_examples=150, deadline=None)
@given(policies())
def test_a_selector_chooses_as_a_search_through_all_policies_does(listed: list[Policy]) -> None:
    selector = PolicySelector([ActivePolicy(policy, PIPELINE, None) for policy in listed])
    for pod, namespace_labels in everything():
        found = selector.choose(pod, namespace_labels)
        assert (found.policy if found else None) is winner(listed, pod, namespace_labels)


@settings(max_examples=150, deadline=None)
@given(policies(), st.randoms(use_true_random=False))
def test_conflicts_are_those_that_a_search_through_all_pods_finds(listed: list[Policy], random: Any) -> None:
    conflicts = Conflicts()
    for policy in (*listed, *random.sample(listed, len(listed) // 2)):  # entering again changes nothing
        conflicts.enter(policy)
    gone = random.sample(listed, len(listed) // 3)
    for policy in gone:
        conflicts.leave(policy.name)
    left = [policy for policy in listed if policy not in gone]
    cases = list(everything())
    matches = {policy.name: {number for number, case in enumerate(cases) if selects(policy, *case)} for policy in left}
    wins = {policy.name for case in cases if (policy := winner(left, *case)) is not None}
    for policy in left:
        rivals = {
            other.name
            for other in left
            if other is not policy
            and key_of(other)[:2] == key_of(policy)[:2]
            and matches[other.name] & matches[policy.name]
        }
        assert set(conflicts.rivals(policy.name)) == rivals
        superseder = conflicts.superseder(policy.name)
        if superseder is not None:
            assert policy.name not in wins
            assert matches[policy.name] <= matches[superseder]


@settings(max_examples=150, deadline=None)
@given(selector(), selector())
def test_two_policies_may_meet_where_some_pod_matches_both(
    one: LabelSelector | None, other: LabelSelector | None
) -> None:
    first, second = replace(BUILT_IN, pod_selector=one), replace(BUILT_IN, pod_selector=other)
    assert may_meet(first, second) == any(selects(first, pod, {}) and selects(second, pod, {}) for pod in PODS)
