"""Policies that are based on policies: what becomes of them when the base changes, breaks, goes or goes in circles."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.policy import PolicyStore
from berth.policy.bases import dependants, find_ring
from policy.builders import make_policy
from policy.harness import BAD, Clock, a_pod, chosen, condition, in_force, summary


def a_base(generation: int = 1, **spec: Any) -> dict[str, Any]:
    return make_policy("base", generation=generation, schedulerName="base", **spec)


def parameters(store: PolicyStore, scheduler_name: str = "berth") -> dict[str, object]:
    return dict(chosen(store, a_pod(scheduler_name)).policy.parameters)


def problem(status: dict[str, Any]) -> str:
    assert condition(status, "Accepted")["status"] == "False"
    return str(condition(status, "Accepted")["message"])


class TestOneBase:
    def test_a_policy_has_from_its_base_what_it_does_not_say(self, store: PolicyStore) -> None:
        store.observe(a_base(parameters={"limit": 1, "zone": "x"}, tieBreak="First"))
        store.observe(make_policy(base="base", parameters={"limit": 2}))
        assert parameters(store) == {"limit": 2, "zone": "x"}
        assert chosen(store, a_pod()).policy.tie_break.value == "First"

    def test_a_change_of_the_base_reaches_what_is_based_on_it(self, store: PolicyStore, clock: Clock) -> None:
        store.observe(a_base(parameters={"limit": 1}))
        store.observe(make_policy(base="base"))
        before = store.statuses()["batch"]
        clock.advance(60)
        store.observe(a_base(2, parameters={"limit": 2}))
        after = store.statuses()["batch"]
        assert parameters(store) == {"limit": 2}
        assert before["activeGeneration"] == after["activeGeneration"] == 1
        assert before["activeHash"] != after["activeHash"]
        assert after["activeSince"] == "2026-01-01T12:01:00Z"

    def test_a_change_goes_all_the_way_down(self, store: PolicyStore) -> None:
        store.observe(a_base(parameters={"limit": 1}))
        store.observe(make_policy("middle", schedulerName="middle", base="base"))
        store.observe(make_policy(base="middle"))
        store.observe(a_base(2, parameters={"limit": 2}))
        assert parameters(store) == {"limit": 2}

    def test_listeners_are_called_once_for_a_change_and_all_that_follows(self, store: PolicyStore) -> None:
        store.observe(a_base(parameters={"limit": 1}))
        store.observe(make_policy("middle", schedulerName="middle", base="base"))
        store.observe(make_policy(base="middle"))
        heard: list[object] = []
        store.on_change(lambda: heard.append(parameters(store)["limit"]))
        store.observe(a_base(2, parameters={"limit": 2}))
        assert heard == [2]

    def test_a_change_that_is_not_inherited_leaves_what_is_based_on_it_as_it_was(self, store: PolicyStore) -> None:
        store.observe(a_base(mode="Active"))
        store.observe(make_policy(base="base"))
        before = chosen(store, a_pod())
        store.observe(a_base(2, mode="Disabled"))
        assert chosen(store, a_pod()) is before

    def test_a_bad_edit_of_the_base_changes_nothing_below(self, store: PolicyStore) -> None:
        store.observe(a_base(parameters={"limit": 1}))
        store.observe(make_policy(base="base"))
        before = chosen(store, a_pod())
        store.statuses()
        store.observe(a_base(2, parameters={"limit": 2}, **BAD))
        assert chosen(store, a_pod()) is before
        assert list(store.statuses()) == ["base"]

    def test_a_policy_may_come_before_its_base(self, store: PolicyStore) -> None:
        store.observe(make_policy(base="base"))
        status = store.statuses()["batch"]
        assert summary(status) == "Invalid False NeverValid 0"
        assert problem(status).startswith("spec.base: there is no valid SchedulingPolicy base")
        store.observe(a_base(parameters={"limit": 1}))
        assert summary(store.statuses()["batch"]) == "Valid True InForce 1"
        assert parameters(store) == {"limit": 1}

    def test_a_base_that_was_never_valid_is_none_until_it_is_fixed(self, store: PolicyStore) -> None:
        store.observe(a_base(**BAD))
        store.observe(make_policy(base="base"))
        assert problem(store.statuses()["batch"]).startswith("spec.base: there is no valid SchedulingPolicy base")
        store.observe(a_base(2))
        assert in_force(store) == "batch/1"

    def test_a_policy_whose_base_is_deleted_keeps_its_last_good_generation(self, store: PolicyStore) -> None:
        store.observe(a_base(parameters={"limit": 1}))
        store.observe(make_policy(base="base"))
        store.remove("base")
        status = store.statuses()["batch"]
        assert parameters(store) == {"limit": 1}
        assert summary(status) == "Invalid True LastGoodInForce 1"
        assert problem(status).startswith("spec.base: ")

    def test_a_base_that_is_made_again_is_taken_up(self, store: PolicyStore) -> None:
        store.observe(a_base(parameters={"limit": 1}))
        store.observe(make_policy(base="base"))
        store.remove("base")
        store.observe(make_policy("base", uid="another", schedulerName="base", parameters={"limit": 3}))
        assert parameters(store) == {"limit": 3}
        assert summary(store.statuses()["batch"]) == "Valid True InForce 1"

    def test_a_disabled_policy_is_as_good_a_base_as_any(self, store: PolicyStore) -> None:
        store.observe(a_base(mode="Disabled", parameters={"limit": 1}))
        store.observe(make_policy(base="base"))
        assert parameters(store) == {"limit": 1}

    def test_a_base_that_takes_away_what_its_heirs_rely_on_leaves_them_at_their_last_good(
        self, store: PolicyStore
    ) -> None:
        store.observe(a_base(predicates=[{"name": "not-retiring", "expression": "true", "message": "retiring"}]))
        store.observe(make_policy(base="base", predicates=[{"name": "not-retiring", "enabled": False}]))
        assert in_force(store) == "batch/1"
        store.observe(a_base(2))
        status = store.statuses()["batch"]
        assert "spec.predicates[0]" in problem(status)
        assert summary(status) == "Invalid True LastGoodInForce 1"


class TestRings:
    def test_every_member_is_refused_with_the_ring_spelled_out(self, store: PolicyStore) -> None:
        for name, base in (("a", "b"), ("b", "c"), ("c", "a")):
            store.observe(make_policy(name, base=base))
        found = {name: problem(status) for name, status in store.statuses().items()}
        assert "a -> b -> c -> a" in found["a"]
        assert "b -> c -> a -> b" in found["b"]
        assert "c -> a -> b -> c" in found["c"]
        assert all(text.startswith("spec.base: the bases form a ring, ") for text in found.values())

    def test_a_policy_cannot_be_its_own_base(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", base="a"))
        assert "a -> a" in problem(store.statuses()["a"])

    def test_other_problems_of_a_member_are_told_too(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", base="a", **BAD))
        message = problem(store.statuses()["a"])
        assert message.count("spec.base") == 1
        assert "spec.tieBreak" in message

    def test_members_that_were_good_go_on_as_they_were(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", schedulerName="a", parameters={"limit": 1}))
        store.observe(make_policy("b", schedulerName="b", base="a"))
        store.observe(make_policy("a", generation=2, schedulerName="a", base="b", parameters={"limit": 2}))
        statuses = store.statuses()
        assert summary(statuses["a"]) == summary(statuses["b"]) == "Invalid True LastGoodInForce 1"
        assert parameters(store, "a") == parameters(store, "b") == {"limit": 1}

    def test_a_ring_that_is_opened_is_resolved_all_the_way(self, store: PolicyStore) -> None:
        for name, base in (("a", "b"), ("b", "c"), ("c", "a")):
            store.observe(make_policy(name, schedulerName=name, base=base))
        store.observe(make_policy("b", generation=2, schedulerName="b", parameters={"limit": 1}))
        assert parameters(store, "a") == parameters(store, "c") == {"limit": 1}
        assert {summary(status) for status in store.statuses().values()} == {
            "Valid True InForce 1",
            "Valid True InForce 2",
        }

    def test_a_ring_that_loses_a_member_says_what_is_missing_now(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", base="b"))
        store.observe(make_policy("b", base="a"))
        store.remove("b")
        assert problem(store.statuses()["a"]).startswith("spec.base: there is no valid SchedulingPolicy b")

    def test_a_policy_based_on_a_ring_is_refused_without_being_a_member(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", base="b"))
        store.observe(make_policy("b", base="a"))
        store.observe(make_policy("c", base="a"))
        assert problem(store.statuses()["c"]).startswith("spec.base: there is no valid SchedulingPolicy a")

    def test_a_ring_does_not_keep_other_policies_from_pods(self, store: PolicyStore) -> None:
        store.observe(make_policy("a", base="b"))
        store.observe(make_policy("b", base="a"))
        store.observe(make_policy("c"))
        assert in_force(store) == "c/1"


def test_dependants_come_after_what_they_are_based_on() -> None:
    bases = {"a": None, "b": "a", "c": "b", "d": "a", "e": "gone", "f": None}
    assert dependants("a", bases) == ["b", "d", "c"]
    assert dependants("gone", bases) == ["e"]
    assert dependants("f", bases) == []


def test_a_ring_is_found_from_its_members_only() -> None:
    bases = {"a": "b", "b": "a", "c": "a", "d": None}
    assert find_ring("a", bases) == ("a", "b", "a")
    assert find_ring("b", bases) == ("b", "a", "b")
    assert [find_ring(name, bases) for name in ("c", "d", "gone")] == [(), (), ()]


NAMES = ("a", "b", "c", "d", "e")


def manifest(name: str, generation: int, base: str, marked: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"parameters": {name: generation}} if marked else {}
    return make_policy(name, generation=generation, schedulerName=name, base=base, **said)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[str, str, bool] | str], list[tuple[str, str, bool]]]:
    """Edits in any order (a name alone: deleted), rings and missing bases among them; then edits that repair it all."""
    edit = st.tuples(st.sampled_from(NAMES), st.sampled_from((*NAMES, "Empty", "gone")), st.booleans())
    edits = draw(st.lists(edit | st.sampled_from(NAMES), max_size=12))
    order = draw(st.permutations(NAMES))
    last = [(name, draw(st.sampled_from((*order[:at], "Empty"))), draw(st.booleans())) for at, name in enumerate(order)]
    return edits, last


@settings(max_examples=100, deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_whatever_happened_before_policies_end_up_as_when_applied_bases_first(history: Any, random: Any) -> None:
    edits, last = history
    store, fresh = PolicyStore(Clock()), PolicyStore(Clock())
    generations = dict.fromkeys(NAMES, 0)

    def edited(name: str, base: str, marked: bool) -> dict[str, Any]:
        generations[name] += 1
        return manifest(name, generations[name], base, marked)

    for edit in edits:
        if isinstance(edit, str):
            store.remove(edit)
        else:
            store.observe(edited(*edit))
    manifests = [edited(*edit) for edit in last]
    for body in random.sample(manifests, len(manifests)):
        store.observe(body)
    for body in manifests:
        fresh.observe(body)
    for name in NAMES:
        assert chosen(store, a_pod(name)).policy == chosen(fresh, a_pod(name)).policy
    told, expected = store.statuses(), fresh.statuses()
    assert {name: told[name]["activeHash"] for name in NAMES} == {name: expected[name]["activeHash"] for name in NAMES}
    assert {summary(status) for status in told.values()} == {
        f"Valid True InForce {generation}" for generation in generations.values()
    }


class TestWhileTheyAreListed:
    """At the start policies arrive one by one, in any order, and each may be the base of one that came before."""

    @pytest.mark.parametrize("order", list(permutations(("base", "middle", "batch"))), ids=" ".join)
    def test_no_policy_is_refused_whose_base_comes_a_moment_later(
        self, clock: Clock, order: tuple[str, ...], caplog: pytest.LogCaptureFixture
    ) -> None:
        store = PolicyStore(clock, is_complete=False)
        policies = {
            "base": a_base(parameters={"limit": 1}),
            "middle": make_policy("middle", schedulerName="middle", base="base"),
            "batch": make_policy(base="middle"),
        }
        for name in order:
            store.observe(policies[name])
            assert store.statistics()["refused"] == 0
            assert all(summary(status).startswith("Valid True") for status in store.statuses().values())
        assert parameters(store) == {"limit": 1}
        store.complete()
        assert "refused" not in caplog.text

    def test_a_base_that_is_not_there_when_all_are_listed_is_missing(self, clock: Clock) -> None:
        store = PolicyStore(clock, is_complete=False)
        store.observe(make_policy(base="middle"))
        store.observe(make_policy("middle", schedulerName="middle", base="base"))
        assert store.statuses() == {}
        store.complete()
        statuses = store.statuses()
        assert "spec.base: there is no valid SchedulingPolicy middle" in problem(statuses["batch"])
        assert "spec.base: there is no valid SchedulingPolicy base" in problem(statuses["middle"])
        store.observe(a_base())
        assert in_force(store) == "batch/1"

    def test_a_policy_on_an_invalid_base_is_refused_when_all_are_listed(self, clock: Clock) -> None:
        store = PolicyStore(clock, is_complete=False)
        store.observe(make_policy(base="base"))
        store.observe(a_base(**BAD))
        assert list(store.statuses()) == ["base"]
        store.complete()
        assert "spec.base: there is no valid SchedulingPolicy base" in problem(store.statuses()["batch"])

    def test_a_policy_without_a_base_is_judged_at_once(self, clock: Clock) -> None:
        store = PolicyStore(clock, is_complete=False)
        store.observe(make_policy())
        assert in_force(store) == "batch/1"

    def test_a_ring_is_refused_whoever_closes_it(self, clock: Clock) -> None:
        store = PolicyStore(clock, is_complete=False)
        store.observe(make_policy("a", schedulerName="a", base="b"))
        store.observe(make_policy("b", schedulerName="b", base="a"))
        statuses = store.statuses()
        assert all("form a ring" in problem(statuses[name]) for name in ("a", "b"))
