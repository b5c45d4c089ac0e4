"""Policies that do not decide, the built-in one, and what a pod is told for which no policy decides."""

from typing import Any

import pytest

from berth.policy import PolicyStore
from policy.builders import make_policy
from policy.harness import BAD, Clock, a_pod, chosen, condition, in_force, labels, says, summary, who


def shadows(store: PolicyStore, scheduler_name: str = "berth", **pod_labels: str) -> list[str]:
    return [active.policy.name for active in store.shadows(a_pod(scheduler_name, **pod_labels), {})]


def told(store: PolicyStore, scheduler_name: str = "berth", **pod_labels: str) -> str:
    pod = a_pod(scheduler_name, **pod_labels)
    assert store.for_pod(pod, {}) is None
    return store.unserved(pod, {}).removeprefix(
        f"no SchedulingPolicy with schedulerName {scheduler_name} decides for this pod: "
    )


class TestShadow:
    def test_it_decides_for_no_pod_and_evaluates_those_it_matches(self, store: PolicyStore) -> None:
        store.observe(make_policy(mode="Shadow", podSelector=labels(app="web")))
        assert in_force(store) == "(built-in)/0"
        assert shadows(store, app="web") == ["batch"]
        assert shadows(store, app="db") == shadows(store, "other", app="web") == []

    def test_several_judge_the_same_pod(self, store: PolicyStore) -> None:
        store.observe(make_policy("b", mode="Shadow"))
        store.observe(make_policy("a", mode="Shadow"))
        assert shadows(store) == ["a", "b"]

    def test_its_status_says_that_it_does_not_decide_and_which_generation_judges(self, store: PolicyStore) -> None:
        store.observe(make_policy(mode="Shadow", generation=3))
        status = store.statuses()["batch"]
        assert summary(status) == "Valid False Shadow 3"
        assert status["activeHash"]
        assert says(status, "Contested") == "False NoClaim"
        assert status["shadow"] == {
            "judged": 0,
            "same": 0,
            "different": 0,
            "unplaced": 0,
            "gained": 0,
            "skipped": 0,
            "examples": [],
        }

    def test_pods_of_a_name_that_only_a_shadow_has_are_not_ours(self, store: PolicyStore) -> None:
        store.observe(make_policy(mode="Shadow", schedulerName="other"))
        store.observe(make_policy("bad", mode="Shadow", schedulerName="another", **BAD))
        assert not store.serves("other")
        assert not store.serves("another")

    def test_listeners_hear_of_a_shadow(self, store: PolicyStore) -> None:
        heard: list[list[str]] = []
        store.on_change(lambda: heard.append(shadows(store)))
        store.observe(make_policy(mode="Shadow"))
        store.observe(make_policy(mode="Active", generation=2))
        assert heard == [["batch"], []]
        assert in_force(store) == "batch/2"

    def test_a_bad_edit_leaves_the_last_good_one_judging(self, store: PolicyStore) -> None:
        store.observe(make_policy(mode="Shadow"))
        store.observe(make_policy(mode="Active", generation=2, **BAD))
        assert shadows(store) == ["batch"]
        assert summary(store.statuses()["batch"]) == "Invalid False Shadow 1"


class TestDisabled:
    def test_it_neither_decides_nor_judges(self, store: PolicyStore) -> None:
        store.observe(make_policy())
        store.observe(make_policy(mode="Disabled", generation=2))
        assert in_force(store) == "(built-in)/0"
        assert shadows(store) == []
        assert [active.policy.name for active in store.in_force()] == ["(built-in)"]
        status = store.statuses()["batch"]
        assert summary(status) == "Valid False Disabled 0"
        assert (status["activeHash"], status["activeSince"]) == (None, None)

    def test_it_leaves_its_pods_to_the_next(self, store: PolicyStore) -> None:
        store.observe(make_policy("a"))
        store.observe(make_policy("b"))
        store.observe(make_policy("a", mode="Disabled", generation=2))
        assert in_force(store) == "b/1"


class TestBuiltIn:
    def test_it_does_not_serve_beside_a_policy_that_selects_some_pods(self, store: PolicyStore) -> None:
        store.observe(make_policy(podSelector=labels(app="web")))
        assert who(store, a_pod(app="web")) == "batch/1"
        assert who(store, a_pod(app="db")) == "nobody"

    @pytest.mark.parametrize("mode", ["Shadow", "Disabled"])
    def test_it_serves_beside_policies_that_do_not_decide(self, store: PolicyStore, mode: str) -> None:
        store.observe(make_policy(mode=mode))
        assert in_force(store) == "(built-in)/0"

    def test_switched_off_it_serves_no_pod_but_its_pods_are_ours(self, clock: Clock) -> None:
        store = PolicyStore(clock, built_in=False)
        assert in_force(store) == "nobody"
        assert store.serves("berth")
        assert list(store.in_force()) == []

    def test_switched_off_it_does_not_take_over_from_a_deleted_policy(self, clock: Clock) -> None:
        store = PolicyStore(clock, built_in=False)
        store.observe(make_policy())
        assert in_force(store) == "batch/1"
        store.remove("batch")
        assert in_force(store) == "nobody"


class TestUnserved:
    def test_without_any_policy_it_is_the_built_in_that_is_switched_off(self, clock: Clock) -> None:
        assert told(PolicyStore(clock, built_in=False)) == "there is none; the built-in policy is switched off"

    def test_a_policy_that_selects_others_is_named_with_the_selector_that_does_not_match(
        self, store: PolicyStore
    ) -> None:
        store.observe(make_policy("a", podSelector=labels(app="db")))
        store.observe(make_policy("b", namespaceSelector=labels(team="x")))
        store.observe(make_policy("c", namespaceSelector=labels(team="x"), podSelector=labels(app="web")))
        store.observe(make_policy("d", namespaceSelector=labels(team="x"), podSelector=labels(app="db")))
        assert told(store, app="web") == (
            "these select other pods: c (namespaceSelector), d (namespaceSelector and podSelector), a (podSelector), "
            "b (namespaceSelector)"
        )

    def test_of_many_policies_five_are_named(self, store: PolicyStore) -> None:
        for number in range(7):
            store.observe(make_policy(f"p{number}", podSelector=labels(app=f"web{number}")))
        assert told(store).endswith("p4 (podSelector) and 2 more")

    def test_policies_that_select_others_keep_the_built_in_out_whether_it_is_on_or_off(self, clock: Clock) -> None:
        for built_in in (True, False):
            store = PolicyStore(clock, built_in=built_in)
            store.observe(make_policy(podSelector=labels(app="web")))
            assert told(store) == "these select other pods: batch (podSelector)"

    def test_disabled_policies_are_named(self, store: PolicyStore) -> None:
        store.observe(make_policy(schedulerName="other", mode="Disabled"))
        assert store.serves("other")
        assert told(store, "other") == "disabled: batch"

    def test_policies_that_were_never_valid_are_named(self, store: PolicyStore) -> None:
        store.observe(make_policy(schedulerName="other", **BAD))
        assert store.serves("other")
        assert told(store, "other") == "never valid, see condition Accepted: batch"

    def test_everything_is_said_at_once(self, clock: Clock) -> None:
        store = PolicyStore(clock, built_in=False)
        store.observe(make_policy("a", mode="Disabled"))
        store.observe(make_policy("b", **BAD))
        assert told(store) == (
            "disabled: a; never valid, see condition Accepted: b; the built-in policy is switched off"
        )

    def test_listeners_hear_that_the_reason_has_changed(self, store: PolicyStore) -> None:
        store.observe(make_policy(schedulerName="other", **BAD))
        heard: list[str] = []
        store.on_change(lambda: heard.append(told(store, "other")))
        store.observe(make_policy(schedulerName="other", generation=2, mode="Disabled"))
        store.observe(make_policy(schedulerName="other", generation=3, mode="Disabled"))
        assert heard == ["disabled: batch"]

    def test_a_bad_policy_beside_one_that_decides_is_no_news_for_pods(self, store: PolicyStore) -> None:
        store.observe(make_policy("a"))
        heard: list[str] = []
        store.on_change(lambda: heard.append("again"))
        store.observe(make_policy("b", **BAD))
        assert heard == []


class TestHotReload:
    def test_a_generation_that_says_the_same_comes_into_force_with_the_same_hash(
        self, store: PolicyStore, clock: Clock
    ) -> None:
        store.observe(make_policy(tieBreak="Random"))
        first = store.statuses()["batch"]
        clock.advance(60)
        store.observe(make_policy(generation=2))
        second = store.statuses()["batch"]
        assert in_force(store) == "batch/2"
        assert first["activeHash"] == second["activeHash"]
        assert second["activeGeneration"] == 2
        assert second["activeSince"] == "2026-01-01T12:01:00Z"

    def test_another_meaning_has_another_hash(self, store: PolicyStore) -> None:
        seen = set()
        specs: tuple[dict[str, Any], ...] = (
            {},
            {"tieBreak": "First"},
            {"podSelector": {}},
            {"podSelector": labels(app="web")},
            {"parameters": {"limit": 1}},
            {"priorities": [{"name": "ImageLocality", "weight": 2}]},
            {"backoff": {"initialSeconds": 2}},
            {"schedulerName": "other"},
            {"mode": "Shadow"},
        )
        for generation, spec in enumerate(specs, start=1):
            store.observe(make_policy(generation=generation, **spec))
            seen.add(store.statuses()["batch"]["activeHash"])
        assert len(seen) == 9

    def test_the_name_is_not_part_of_the_meaning(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", schedulerName="a"))
        store.observe(make_policy("b", schedulerName="a", podSelector=labels(app="web"), generation=7))
        store.observe(make_policy("c", schedulerName="a", podSelector=labels(app="web")))
        store.remove("b")
        first = store.statuses()["c"]["activeHash"]
        store.remove("c")
        store.observe(make_policy("b", uid="again", schedulerName="a", podSelector=labels(app="web"), generation=7))
        assert store.statuses()["b"]["activeHash"] == first

    def test_whatever_loading_a_policy_raises_is_told_and_harms_no_other(
        self, store: PolicyStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.observe(make_policy("a"))

        def load(*_: object) -> None:
            raise RecursionError("too deep")

        monkeypatch.setattr("berth.policy.policy_objects.load_policy", load)
        store.observe(make_policy("b", schedulerName="other"))
        status = store.statuses()["b"]
        assert condition(status, "Accepted")["message"] == "spec: cannot be loaded: RecursionError: too deep"
        assert in_force(store) == "a/1"

    def test_a_manifest_that_is_changed_afterwards_changes_no_policy(self, store: PolicyStore) -> None:
        manifest = make_policy(parameters={"limit": 1})
        store.observe(manifest)
        manifest["spec"]["parameters"]["limit"] = 2
        assert chosen(store, a_pod()).policy.parameters == {"limit": 1}


class TestStandings:
    def test_every_policy_is_told_with_its_state_and_what_is_wrong_with_it(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", schedulerName="a", generation=2))
        store.observe(make_policy("a", schedulerName="a", generation=3, **BAD))
        store.observe(make_policy("b", schedulerName="b", mode="Shadow"))
        store.observe(make_policy("c", schedulerName="c", mode="Disabled"))
        store.observe(make_policy("d", schedulerName="d", **BAD))
        shown = [(one.name, one.generation, one.active_generation, one.state) for one in store.standings()]
        assert shown == [
            ("(built-in)", 0, 0, "InForce"),
            ("a", 3, 2, "LastGoodInForce"),
            ("b", 1, 1, "Shadow"),
            ("c", 1, 0, "Disabled"),
            ("d", 1, 0, "NeverValid"),
        ]
        assert [one.name for one in store.standings() if one.problem] == ["a", "d"]

    def test_the_built_in_policy_is_left_out_where_another_has_its_name(self, store: PolicyStore) -> None:
        store.observe(make_policy("mine", schedulerName="berth"))
        assert [one.name for one in store.standings()] == ["mine"]

    def test_what_fails_at_the_moment_is_a_problem(self, store: PolicyStore, clock: Clock) -> None:
        store.observe(make_policy(schedulerName="batch"))
        store.usage.failed(chosen(store, a_pod("batch")), "plugin Foo", "broken")
        store.report()
        assert [one.problem for one in store.standings()] == ["", "plugin Foo failed once, lastly: broken"]
        clock.advance(300)
        assert [one.problem for one in store.standings()] == ["", ""]
