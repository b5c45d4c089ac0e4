"""What is counted under a policy, when it is told, and how it goes on after a restart."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from berth.engine.pipeline import Pipeline
from berth.engine.plugin import FilterPlugin, PluginFailed, Query, ScorePlugin
from berth.engine.state.state import State
from berth.model import parse_node, parse_pod
from berth.policy import BUILT_IN, ActivePolicy, PolicyStore
from berth.policy.counting import describe_counts, parse_time, read_counts
from berth.policy.reading import is_object_name
from berth.policy.usage import NO_COUNTS, ShadowExample, ShadowOutcome
from policy.builders import make_policy
from policy.harness import START, Clock, a_pod, chosen, condition, says
from support.builders import make_node, make_pod

Status = Mapping[str, Any]


@pytest.fixture
def batch(store: PolicyStore) -> ActivePolicy:
    """A policy in force whose first status has been taken."""
    store.observe(make_policy())
    store.statuses()
    return chosen(store, a_pod())


def reported(store: PolicyStore, name: str = "batch") -> Status:
    store.report()
    return store.statuses()[name]


def an_example(number: int = 0) -> ShadowExample:
    return ShadowExample(f"default/pod-{number}", "node-a", "node-b", START, "")


class TestCounting:
    def test_what_is_done_under_a_policy_is_in_its_status(
        self, store: PolicyStore, batch: ActivePolicy, clock: Clock
    ) -> None:
        clock.advance(5)
        store.usage.decided(batch, clock())
        store.usage.placed(batch, clock())
        store.usage.placed(batch, clock())
        store.usage.preempted(batch, 3)
        store.usage.pending_is({"batch": 7, "another": 1})
        status = reported(store)
        assert (status["placed"], status["pending"], status["preempted"]) == (2, 7, 3)
        assert status["lastDecisionTime"] == "2026-01-01T12:00:05Z"

    def test_nothing_is_told_before_it_is_reported(self, store: PolicyStore, batch: ActivePolicy) -> None:
        store.usage.placed(batch, START)
        store.observe(make_policy("other", schedulerName="other"))
        assert list(store.statuses()) == ["other"]
        assert reported(store)["placed"] == 1

    def test_a_report_without_news_writes_nothing(self, store: PolicyStore, batch: ActivePolicy, clock: Clock) -> None:
        store.usage.placed(batch, START)
        reported(store)
        clock.advance(10)
        store.report()
        assert store.statuses() == {}

    def test_a_report_moves_no_other_part_of_the_status(
        self, store: PolicyStore, batch: ActivePolicy, clock: Clock
    ) -> None:
        store.usage.placed(batch, START)
        before = reported(store)
        clock.advance(60)
        store.usage.placed(batch, START)
        assert reported(store) == {**before, "placed": 2}

    def test_counts_go_on_through_generations(self, store: PolicyStore, batch: ActivePolicy) -> None:
        store.usage.placed(batch, START)
        store.observe(make_policy(generation=2))
        store.usage.placed(chosen(store, a_pod()), START)
        store.usage.placed(batch, START)  # decided before the change, bound after it
        assert reported(store)["placed"] == 3

    def test_no_pod_waits_under_a_policy_that_is_not_mentioned(self, store: PolicyStore, batch: ActivePolicy) -> None:
        store.usage.pending_is({"batch": 7})
        reported(store)
        store.usage.pending_is({})
        assert reported(store)["pending"] == 0

    def test_a_policy_created_again_counts_from_zero(self, store: PolicyStore, batch: ActivePolicy) -> None:
        store.usage.placed(batch, START)
        store.observe(make_policy(uid="another"))
        store.usage.placed(batch, START)  # the old one's last word
        assert reported(store)["placed"] == 0
        assert store.usage.counts("batch", "uid-batch") == NO_COUNTS

    def test_what_is_counted_for_a_deleted_policy_is_dropped(self, store: PolicyStore, batch: ActivePolicy) -> None:
        store.remove("batch")
        store.usage.placed(batch, START)
        store.usage.failed(batch, "plugin Foo", "broken")
        store.usage.shadowed(batch, ShadowOutcome.SAME)
        assert store.usage.counts("batch", "uid-batch") == NO_COUNTS
        assert list(store.usage.statistics()) == ["(built-in)"]

    def test_a_policy_called_built_in_is_not_taken_for_ours(self, store: PolicyStore) -> None:
        store.observe(make_policy("built-in", schedulerName="other"))
        store.usage.placed(chosen(store, a_pod()), START)
        store.usage.pending_is({BUILT_IN.name: 3})
        statistics = store.usage.statistics()
        assert not is_object_name(BUILT_IN.name)
        assert (statistics["built-in"]["placed"], statistics["built-in"]["pending"]) == (0, 0)
        assert (statistics[BUILT_IN.name]["placed"], statistics[BUILT_IN.name]["pending"]) == (1, 3)

    def test_the_built_in_policy_is_counted_too(self, store: PolicyStore) -> None:
        store.usage.placed(chosen(store, a_pod()), START)
        assert store.usage.statistics()["(built-in)"]["placed"] == 1
        store.report()
        assert store.statuses() == {}


class TestFailures:
    def test_a_failure_is_counted_by_its_source(self, store: PolicyStore, batch: ActivePolicy, clock: Clock) -> None:
        store.usage.failed(batch, "extender https://one", "timed out")
        clock.advance(5)
        store.usage.failed(batch, "extender https://one", "connection refused")
        assert reported(store)["errors"] == [
            {
                "source": "extender https://one",
                "count": 2,
                "message": "connection refused",
                "lastTime": "2026-01-01T12:00:05Z",
            }
        ]

    @pytest.mark.parametrize(
        ("sources", "reason"),
        [
            (["extender https://one"], "ExtenderFailing"),
            (["plugin Foo", "plugin Bar"], "PluginFailing"),
            (["predicate not-retiring", "priority cheap"], "ExpressionFailing"),
            (["extender https://one", "plugin Foo"], "Failing"),
        ],
    )
    def test_a_policy_is_degraded_by_what_fails(
        self, store: PolicyStore, batch: ActivePolicy, sources: list[str], reason: str
    ) -> None:
        for source in sources:
            store.usage.failed(batch, source, "broken")
        assert says(reported(store), "Degraded") == f"True {reason}"

    def test_the_condition_names_source_number_and_last_message(self, store: PolicyStore, batch: ActivePolicy) -> None:
        store.usage.failed(batch, "plugin Foo", "first")
        store.usage.failed(batch, "plugin Foo", "second", 4)
        store.usage.failed(batch, "priority cheap", "no such key")
        assert condition(reported(store), "Degraded")["message"] == (
            "plugin Foo failed 5 times, lastly: second; priority cheap failed once, lastly: no such key"
        )

    def test_a_policy_is_degraded_for_five_minutes_after_the_last_failure(
        self, store: PolicyStore, batch: ActivePolicy, clock: Clock
    ) -> None:
        store.usage.failed(batch, "plugin Foo", "broken")
        degraded = condition(reported(store), "Degraded")
        clock.advance(299)
        store.report()
        assert store.statuses() == {}
        clock.advance(1)
        status = reported(store)
        assert says(status, "Degraded") == "False Healthy"
        assert degraded["lastTransitionTime"] == "2026-01-01T12:00:00Z"
        assert condition(status, "Degraded")["lastTransitionTime"] == "2026-01-01T12:05:00Z"
        assert status["errors"][0]["count"] == 1

    def test_a_failure_says_nothing_of_other_policies(self, store: PolicyStore, batch: ActivePolicy) -> None:
        store.observe(make_policy("other", schedulerName="other"))
        store.statuses()
        store.usage.failed(batch, "plugin Foo", "broken")
        store.report()
        assert list(store.statuses()) == ["batch"]

    def test_the_sixteen_that_failed_last_are_kept(self, store: PolicyStore, batch: ActivePolicy) -> None:
        for number in range(20):
            store.usage.failed(batch, f"plugin P{number}", "broken")
        store.usage.failed(batch, "plugin P4", "broken again")
        store.usage.failed(batch, "plugin P20", "broken")
        sources = [error["source"] for error in reported(store)["errors"]]
        assert sources == [f"plugin P{number}" for number in (*range(6, 20), 4, 20)]

    def test_endless_messages_are_cut(self, store: PolicyStore, batch: ActivePolicy) -> None:
        store.usage.failed(batch, "extender https://" + "x" * 10_000, "y" * 10_000)
        (error,) = reported(store)["errors"]
        assert (len(error["source"]), len(error["message"])) == (256, 512)


class Failing(FilterPlugin, ScorePlugin):
    """Says that it could not judge some nodes."""

    def __init__(self, name: str, count: int, *, raises: bool = False) -> None:
        self.name = name
        self._count = count
        self._raises = raises

    def take_failures(self) -> tuple[int, str]:
        if self._raises:
            raise PluginFailed(self.name, "take_failures() raised")
        count, self._count = self._count, 0
        return count, "no such key"


class TestPolling:
    def test_what_plugins_could_not_judge_is_counted_under_the_name_of_the_rule(self, store: PolicyStore) -> None:
        rule = {"expression": "true", "message": "no"}
        store.observe(
            make_policy(
                predicates=[{"name": "not-retiring", **rule}], priorities=[{"name": "cheap", "expression": "1"}]
            )
        )
        store.statuses()
        pipeline = chosen(store, a_pod()).pipeline
        pipeline.filters = (*pipeline.filters[:-1], Failing("not-retiring", 3), Failing("Foo", 2))
        pipeline.scores = ((Failing("cheap", 1), 1), (Failing("Bar", 0), 1))
        counted = {error["source"]: error["count"] for error in reported(store)["errors"]}
        assert counted == {"predicate not-retiring": 3, "plugin Foo": 2, "priority cheap": 1}
        store.report()
        assert store.statuses() == {}

    def test_shadows_are_asked_as_well(self, store: PolicyStore) -> None:
        store.observe(make_policy(mode="Shadow"))
        (shadow,) = store.shadows(a_pod(), {})
        shadow.pipeline.filters = (Failing("Foo", 1),)
        assert says(reported(store), "Degraded") == "True PluginFailing"

    def test_a_plugin_that_cannot_even_say_what_failed_is_a_failure(
        self, store: PolicyStore, batch: ActivePolicy
    ) -> None:
        batch.pipeline.filters = (Failing("Foo", 1, raises=True),)
        assert condition(reported(store), "Degraded")["message"].endswith("take_failures() raised")


class TestKeptFailures:
    """Answers are kept from decision to decision; that they are failures is told for as long as they decide."""

    @staticmethod
    def state(*labelled: str) -> State:
        state = State()
        for name in ("a", "b", "c"):
            given = {"rack": "1"} if name in labelled else {}
            state.table.set_node(parse_node(make_node(name, labels=given)))
        return state

    def decided_twice(self, store: PolicyStore, clock: Clock, state: State, expression: str) -> list[Status]:
        """The status after each of two decisions on pods alike, six minutes apart."""
        store.observe(make_policy(base="Empty", predicates=[{"name": "racked", "expression": expression}]))
        store.statuses()
        statuses = []
        for name in ("one", "two"):
            pod = parse_pod(make_pod(name))
            chosen(store, pod).pipeline.decide(pod, state, Random(0))
            statuses.append(reported(store))
            clock.advance(360)
        return statuses

    @pytest.mark.parametrize(
        ("expression", "labelled", "failing"),
        [
            ("node.labels['rack'] != '2'", (), 3),
            ("node.labels['rack'] != '2'", ("a", "b"), 1),
            ("node.allocatable['cpu'] > 0 && node.labels['rack'] != '2'", ("a", "b"), 1),
            ("node.free['cpu'] > 0 && node.labels['rack'] != '2'", ("a", "b"), 1),
        ],
    )
    def test_a_failure_that_decides_again_keeps_the_policy_degraded(
        self, store: PolicyStore, clock: Clock, expression: str, labelled: tuple[str, ...], failing: int
    ) -> None:
        first, second = self.decided_twice(store, clock, self.state(*labelled), expression)
        assert says(first, "Degraded") == says(second, "Degraded") == "True ExpressionFailing"
        (before,), (after,) = first["errors"], second["errors"]
        assert after["count"] == before["count"] + failing
        assert after["lastTime"] == "2026-01-01T12:06:00Z"

    def test_a_failure_by_which_no_pod_is_decided_any_more_becomes_old(self, store: PolicyStore, clock: Clock) -> None:
        self.decided_twice(store, clock, self.state("a", "b"), "node.labels['rack'] != '2'")
        assert says(reported(store), "Degraded") == "False Healthy"

    def test_a_failure_of_other_pods_is_not_told_of_those_that_are_decided_on(
        self, store: PolicyStore, clock: Clock
    ) -> None:
        store.observe(make_policy(predicates=[{"name": "team", "expression": "pod.labels['team'] != node.name"}]))
        state, bare, labelled = self.state(), parse_pod(make_pod("x")), parse_pod(make_pod("y", labels={"team": "t"}))
        pipeline = chosen(store, bare).pipeline
        for pod in (labelled, bare):
            pipeline.decide(pod, state, Random(0))
        assert says(reported(store), "Degraded") == "True ExpressionFailing"
        clock.advance(360)
        pipeline.decide(labelled, state, Random(0))
        assert says(reported(store), "Degraded") == "False Healthy"

    def test_a_failure_in_the_shadow_is_told_as_well(self, store: PolicyStore, clock: Clock) -> None:
        rule = {"name": "racked", "expression": "node.labels['rack'] != '2'"}
        store.observe(make_policy(mode="Shadow", predicates=[rule]))
        state, pod = self.state("a", "b"), a_pod()
        (shadow,) = store.shadows(pod, {})
        for _ in range(2):
            shadow.pipeline.choices(Query(pod, state.table), state)
            assert says(reported(store), "Degraded") == "True ExpressionFailing"
            clock.advance(360)

    def test_what_is_kept_of_pods_for_it_is_bounded(self) -> None:
        pipeline, state = Pipeline([], []), self.state()
        for number in range(100):
            pipeline.decide(parse_pod(make_pod("x", labels={"number": str(number)})), state, Random(0))
        assert len(pipeline.take_judged()) == 64
        assert pipeline.take_judged() == []


class TestShadows:
    @pytest.fixture
    def shadow(self, store: PolicyStore) -> ActivePolicy:
        store.observe(make_policy(mode="Shadow"))
        (shadow,) = store.shadows(a_pod(), {})
        return shadow

    def test_outcomes_are_counted_and_what_was_skipped_was_not_judged(
        self, store: PolicyStore, shadow: ActivePolicy
    ) -> None:
        for outcome in ShadowOutcome:
            store.usage.shadowed(shadow, outcome)
        store.usage.shadowed(shadow, ShadowOutcome.DIFFERENT, an_example())
        assert reported(store)["shadow"] == {
            "judged": 5,
            "same": 1,
            "different": 2,
            "unplaced": 1,
            "gained": 1,
            "skipped": 1,
            "examples": [
                {
                    "pod": "default/pod-0",
                    "active": "node-a",
                    "shadow": "node-b",
                    "time": "2026-01-01T12:00:00Z",
                    "message": "",
                }
            ],
        }

    def test_the_five_latest_examples_are_kept(self, store: PolicyStore, shadow: ActivePolicy) -> None:
        for number in range(7):
            store.usage.shadowed(shadow, ShadowOutcome.DIFFERENT, an_example(number))
        examples = reported(store)["shadow"]["examples"]
        assert [example["pod"] for example in examples] == [f"default/pod-{number}" for number in range(2, 7)]

    def test_a_policy_that_decides_again_has_no_shadow_in_its_status(
        self, store: PolicyStore, shadow: ActivePolicy
    ) -> None:
        store.usage.shadowed(shadow, ShadowOutcome.SAME)
        reported(store)
        store.observe(make_policy(generation=2))
        assert store.statuses()["batch"]["shadow"] is None


class TestRestart:
    def used(self, store: PolicyStore, active: ActivePolicy) -> None:
        store.usage.placed(active, START)
        store.usage.preempted(active, 2)
        store.usage.pending_is({"batch": 3})
        store.usage.failed(active, "plugin Foo", "broken")
        store.usage.shadowed(active, ShadowOutcome.GAINED, an_example())
        store.usage.shadowed(active, ShadowOutcome.SKIPPED)

    @pytest.mark.parametrize("mode", ["Active", "Shadow"])
    def test_a_status_that_still_holds_is_not_written_again(self, store: PolicyStore, clock: Clock, mode: str) -> None:
        manifest = make_policy(mode=mode)
        store.observe(manifest)
        (active,) = [active for active in store.in_force() if active.policy.name == "batch"]
        self.used(store, active)
        status = reported(store)
        clock.advance(60)
        again = PolicyStore(clock)
        again.observe({**manifest, "status": without_nulls(status)})
        again.report()
        assert again.statuses() == {}

    def test_counting_goes_on_where_it_stopped(self, store: PolicyStore, batch: ActivePolicy, clock: Clock) -> None:
        self.used(store, batch)
        status = reported(store)
        clock.advance(60)
        again = PolicyStore(clock)
        again.observe(make_policy() | {"status": without_nulls(status)})
        active = chosen(again, a_pod())
        self.used(again, active)
        after = reported(again)
        assert (after["placed"], after["preempted"], after["errors"][0]["count"]) == (2, 4, 2)
        assert after["activeSince"] == status["activeSince"] == "2026-01-01T12:00:00Z"

    def test_a_policy_stays_degraded_for_the_rest_of_the_five_minutes(
        self, store: PolicyStore, batch: ActivePolicy, clock: Clock
    ) -> None:
        store.usage.failed(batch, "plugin Foo", "broken")
        status = reported(store)
        clock.advance(200)
        again = PolicyStore(clock)
        again.observe(make_policy() | {"status": without_nulls(status)})
        assert again.statuses() == {}
        clock.advance(100)
        assert says(reported(again), "Degraded") == "False Healthy"

    def test_another_meaning_after_a_restart_is_in_force_since_then(self, clock: Clock) -> None:
        first = PolicyStore(clock)
        first.observe(make_policy())
        status = {**first.statuses()["batch"], "activeHash": "0123456789ab"}
        clock.advance(60)
        again = PolicyStore(clock)
        again.observe(make_policy() | {"status": without_nulls(status)})
        assert again.statuses()["batch"]["activeSince"] == "2026-01-01T12:01:00Z"

    def test_a_base_that_is_listed_after_its_heir_leaves_no_trace_in_the_heirs_status(self, clock: Clock) -> None:
        base, heir = make_policy("z-base", schedulerName="other"), make_policy("heir", base="z-base")
        first = PolicyStore(clock)
        first.observe(base)
        first.observe(heir)
        statuses = {name: without_nulls(status) for name, status in first.statuses().items()}
        clock.advance(60)
        again = PolicyStore(clock)
        again.observe(heir | {"status": statuses["heir"]})
        again.observe(base | {"status": statuses["z-base"]})
        assert again.statuses() == {}


def without_nulls(status: Status) -> dict[str, Any]:
    """The status as the API server has it after a merge patch."""
    return {key: value for key, value in status.items() if value is not None}


class TestReadingBack:
    @pytest.mark.parametrize(
        "status",
        [
            None,
            [],
            {"placed": "many", "pending": -1, "preempted": True, "lastDecisionTime": "yesterday", "errors": {}},
            {"errors": [3, {}, {"source": "plugin Foo", "lastTime": 3}], "shadow": []},
            {"shadow": {"same": None, "examples": [{}, 3]}, "lastDecisionTime": "2026-01-01T12:00:00"},
        ],
    )
    def test_invalid_fields_are_ignored(self, status: object) -> None:
        assert describe_counts(read_counts(status), is_shadow=True) == describe_counts(NO_COUNTS, is_shadow=True)

    def test_no_more_is_read_than_would_have_been_written(self) -> None:
        error = {"count": 1, "message": "broken", "lastTime": "2026-01-01T12:00:00Z"}
        example = {"pod": "default/pod", "time": "2026-01-01T12:00:00Z"}
        counts = read_counts(
            {
                "errors": [{"source": f"plugin P{number}", **error} for number in range(40)],
                "shadow": {"examples": [example] * 40},
            }
        )
        assert (len(counts.failures), len(counts.examples)) == (16, 5)

    @pytest.mark.parametrize("text", ["2026-01-01T12:00:00Z", "2026-01-01T13:00:00+01:00"])
    def test_times_are_read_as_kubernetes_writes_them(self, text: str) -> None:
        assert parse_time(text) == START.replace(microsecond=0)


def test_every_policy_that_decides_or_judges_is_in_force(store: PolicyStore) -> None:
    store.observe(make_policy("a"))
    store.observe(make_policy("b"))
    store.observe(make_policy("c", mode="Shadow"))
    store.observe(make_policy("d", mode="Disabled"))
    assert [active.policy.name for active in store.in_force()] == ["a", "c"]
