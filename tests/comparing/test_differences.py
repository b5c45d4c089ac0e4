"""What two policies make of the same pod, and which of it is a difference."""

from typing import Any

import pytest

from berth.comparing import DecisionChange, Outcome, Subject, compare
from berth.comparing.differences import change_between
from berth.comparing.outcomes import outcomes
from berth.engine.pipeline import Pipeline
from berth.engine.plugin import FilterPlugin, PluginFailed, Query
from berth.engine.state.state import State
from berth.engine.verdict import PreFilter
from berth.model import parse_pod
from berth.policy import ActivePolicy, load_policy
from berth.scheduler.cache.cache import Cache
from policy.builders import make_policy
from support.builders import make_node, make_pod

MOST = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
ONLY_FIT = {"base": "Empty", "predicates": [{"name": "NodeResourcesFit"}]}


def policy(**spec: Any) -> ActivePolicy:
    return load_policy(make_policy(**spec))


def spreading(**spec: Any) -> ActivePolicy:
    return policy(**ONLY_FIT, priorities=[{"name": "NodeResourcesFit"}], **spec)


def packing(**spec: Any) -> ActivePolicy:
    return policy(**ONLY_FIT, priorities=[{"name": "NodeResourcesFit", "args": MOST}], **spec)


def make_cluster(*bodies: dict[str, Any]) -> Cache:
    cache = Cache()
    for number, body in enumerate(bodies, 1):
        body["metadata"]["resourceVersion"] = str(number)
        cache.observe(body["kind"], body)
    assert not cache.invalid
    return cache


def make_subject(cache: Cache, pod: dict[str, Any]) -> Subject:
    parsed = parse_pod(pod)
    return Subject(parsed.key, parsed, cache.state, parsed.node_name)


def changes(cache: Cache, pod: dict[str, Any], first: ActivePolicy, second: ActivePolicy) -> list[DecisionChange]:
    found = compare([make_subject(cache, pod)], first, second)
    return [difference.change for difference in found.differences]


def two_nodes() -> Cache:
    return make_cluster(make_node("empty"), make_node("full"), make_pod("there", node="full", cpu=2))


class TestOutcomes:
    def test_a_pod_that_fits_has_its_best_node_and_the_scores_behind_it(self) -> None:
        before, after = outcomes(make_subject(two_nodes(), make_pod("new", cpu=1)), (spreading(), packing()))
        assert (before.nodes, after.nodes) == (("empty",), ("full",))
        assert [node for node, _ in before.top] == ["empty", "full"]
        assert before.top[0][1] > before.top[1][1]

    def test_nodes_that_share_the_highest_score_are_all_in_question_unless_the_first_is_taken(self) -> None:
        subject = make_subject(make_cluster(make_node("a"), make_node("b")), make_pod("new", cpu=1))
        before, after = outcomes(subject, (spreading(), spreading(tieBreak="First")))
        assert (before.nodes, after.nodes) == (("a", "b"), ("a",))

    def test_a_pod_that_fits_nowhere_has_the_reason(self) -> None:
        before, _ = outcomes(make_subject(two_nodes(), make_pod("new", cpu=5)), (spreading(), packing()))
        assert before == Outcome(message="0/2 nodes are available: 2 Insufficient cpu.")
        nothing, _ = outcomes(make_subject(make_cluster(), make_pod("new")), (spreading(), packing()))
        assert nothing == Outcome(message="no nodes available to schedule pods")

    def test_who_would_have_to_go_is_told_where_the_policy_preempts(self) -> None:
        cache = make_cluster(make_node("a", cpu=2), make_pod("low", node="a", cpu=2, priority=1))
        subject = make_subject(cache, make_pod("new", cpu=2, priority=9))
        before, after = outcomes(subject, (spreading(), spreading(preemption={"enabled": False})))
        assert (before.room, after.room) == ((("a", ("default/low",)),), ())

    def test_a_pod_that_was_made_room_for_takes_it(self) -> None:
        subject = make_subject(two_nodes(), make_pod("new", cpu=1, nominated="full"))
        assert [outcome.nodes for outcome in outcomes(subject, (spreading(), packing()))] == [("full",), ("full",)]

    def test_a_pod_that_has_a_node_is_asked_about_as_if_it_were_not_there(self) -> None:
        mine = make_pod("mine", node="a", cpu=4)
        cache = make_cluster(make_node("a"), make_node("b", cpu=2), mine)
        before, after = outcomes(make_subject(cache, mine), (spreading(), packing()))
        assert before.nodes == after.nodes == ("a",)
        assert set(cache.state.table.pods_on("a")) == {parse_pod(mine).uid}
        again, _ = outcomes(make_subject(cache, make_pod("other", cpu=3)), (spreading(), packing()))
        assert again.nodes == ()  # it is back


class TestDifferences:
    def test_another_node_is_one(self) -> None:
        assert changes(two_nodes(), make_pod("new", cpu=1), spreading(), packing()) == [DecisionChange.MOVED]

    def test_a_tie_is_none(self) -> None:
        cache = make_cluster(make_node("a"), make_node("b"))
        assert changes(cache, make_pod("new", cpu=1), spreading(), packing()) == []
        assert changes(cache, make_pod("new", cpu=1), spreading(), packing(tieBreak="First")) == []

    def test_a_pod_that_is_placed_by_one_only_is_one(self) -> None:
        cache = make_cluster(make_node("a", unschedulable=True))
        strict, pod = policy(), make_pod("new", cpu=1)
        assert changes(cache, pod, spreading(), strict) == [DecisionChange.LOST]
        assert changes(cache, pod, strict, spreading()) == [DecisionChange.GAINED]

    def test_another_reason_is_one_and_the_same_reason_is_none(self) -> None:
        cache = make_cluster(make_node("a", unschedulable=True))
        pod = make_pod("new", cpu=9)
        assert changes(cache, pod, spreading(), policy()) == [DecisionChange.MESSAGE]
        assert changes(cache, pod, spreading(), packing()) == []
        assert changes(cache, pod, policy(), policy(alwaysCheckAllPredicates=True)) == [DecisionChange.MESSAGE]

    def test_whether_room_is_made_is_one(self) -> None:
        cache = make_cluster(make_node("a", cpu=2), make_pod("low", node="a", cpu=2, priority=1))
        pod = make_pod("new", cpu=2, priority=9)
        assert changes(cache, pod, policy(), policy(preemption={"enabled": False})) == [DecisionChange.PREEMPTION]

    @pytest.mark.parametrize(
        ("first", "second", "change"),
        [
            (["a"], ["a"], None),
            (["a", "b"], ["b", "c"], None),
            (["a"], ["b"], DecisionChange.PREEMPTION),
            (["a"], [], DecisionChange.PREEMPTION),
            ([], [], None),
        ],
    )
    def test_room_on_another_node_is_one(
        self, first: list[str], second: list[str], change: DecisionChange | None
    ) -> None:
        before, after = (Outcome(room=tuple((node, ("x",)) for node in nodes)) for nodes in (first, second))
        assert change_between(before, after) is change


class Broken(FilterPlugin):
    name = "Broken"

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        raise PluginFailed(self.name, "it broke")


def test_a_plugin_that_fails_is_a_pod_that_is_not_placed() -> None:
    broken = ActivePolicy(packing().policy, Pipeline([Broken({})], []), None)
    subject = make_subject(two_nodes(), make_pod("new", cpu=1))
    [difference] = compare([subject], spreading(), broken).differences
    assert (difference.change, difference.second.message) == (DecisionChange.LOST, "plugin Broken failed: it broke")
