"""Policies that are based on policies: what becomes of them when the base changes, breaks, goes or goes in circles."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.policy import PolicyBook
from berth.policy.bases import dependants, find_ring
from policy.bookkeeping import BAD, Clock, a_pod, chosen, condition, in_force, summary
from policy.builders import make_policy


def a_base(generation: int = 1, **spec: Any) -> dict[str, Any]:
    return make_policy("base", generation=generation, schedulerName="base", **spec)


def parameters(book: PolicyBook, scheduler_name: str = "berth") -> dict[str, object]:
    return dict(chosen(book, a_pod(scheduler_name)).policy.parameters)


def problem(status: dict[str, Any]) -> str:
    assert condition(status, "Accepted")["status"] == "False"
    return str(condition(status, "Accepted")["message"])


class TestOneBase:
    def test_a_policy_has_from_its_base_what_it_does_not_say(self, book: PolicyBook) -> None:
        book.observe(a_base(parameters={"limit": 1, "zone": "x"}, tieBreak="First"))
        book.observe(make_policy(base="base", parameters={"limit": 2}))
        assert parameters(book) == {"limit": 2, "zone": "x"}
        assert chosen(book, a_pod()).policy.tie_break.value == "First"

    def test_a_change_of_the_base_reaches_what_is_based_on_it(self, book: PolicyBook, clock: Clock) -> None:
        book.observe(a_base(parameters={"limit": 1}))
        book.observe(make_policy(base="base"))
        before = book.statuses()["batch"]
        clock.advance(60)
        book.observe(a_base(2, parameters={"limit": 2}))
        after = book.statuses()["batch"]
        assert parameters(book) == {"limit": 2}
        assert before["activeGeneration"] == after["activeGeneration"] == 1
        assert before["activeHash"] != after["activeHash"]
        assert after["activeSince"] == "2026-01-01T12:01:00Z"

    def test_a_change_goes_all_the_way_down(self, book: PolicyBook) -> None:
        book.observe(a_base(parameters={"limit": 1}))
        book.observe(make_policy("middle", schedulerName="middle", base="base"))
        book.observe(make_policy(base="middle"))
        book.observe(a_base(2, parameters={"limit": 2}))
        assert parameters(book) == {"limit": 2}

    def test_whoever_listens_hears_once_of_a_change_and_all_that_follows(self, book: PolicyBook) -> None:
        book.observe(a_base(parameters={"limit": 1}))
        book.observe(make_policy("middle", schedulerName="middle", base="base"))
        book.observe(make_policy(base="middle"))
        heard: list[object] = []
        book.on_change(lambda: heard.append(parameters(book)["limit"]))
        book.observe(a_base(2, parameters={"limit": 2}))
        assert heard == [2]

    def test_a_change_that_is_not_inherited_leaves_what_is_based_on_it_as_it_was(self, book: PolicyBook) -> None:
        book.observe(a_base(mode="Active"))
        book.observe(make_policy(base="base"))
        before = chosen(book, a_pod())
        book.observe(a_base(2, mode="Disabled"))
        assert chosen(book, a_pod()) is before

    def test_a_bad_edit_of_the_base_changes_nothing_below(self, book: PolicyBook) -> None:
        book.observe(a_base(parameters={"limit": 1}))
        book.observe(make_policy(base="base"))
        before = chosen(book, a_pod())
        book.statuses()
        book.observe(a_base(2, parameters={"limit": 2}, **BAD))
        assert chosen(book, a_pod()) is before
        assert list(book.statuses()) == ["base"]

    def test_a_policy_may_come_before_its_base(self, book: PolicyBook) -> None:
        book.observe(make_policy(base="base"))
        status = book.statuses()["batch"]
        assert summary(status) == "Invalid False NeverValid 0"
        assert problem(status).startswith("spec.base: there is no valid SchedulingPolicy base")
        book.observe(a_base(parameters={"limit": 1}))
        assert summary(book.statuses()["batch"]) == "Valid True InForce 1"
        assert parameters(book) == {"limit": 1}

    def test_a_base_that_was_never_valid_is_none_until_it_is_mended(self, book: PolicyBook) -> None:
        book.observe(a_base(**BAD))
        book.observe(make_policy(base="base"))
        assert problem(book.statuses()["batch"]).startswith("spec.base: there is no valid SchedulingPolicy base")
        book.observe(a_base(2))
        assert in_force(book) == "batch/1"

    def test_a_policy_whose_base_is_deleted_keeps_its_last_good_generation_and_says_so(self, book: PolicyBook) -> None:
        book.observe(a_base(parameters={"limit": 1}))
        book.observe(make_policy(base="base"))
        book.remove("base")
        status = book.statuses()["batch"]
        assert parameters(book) == {"limit": 1}
        assert summary(status) == "Invalid True LastGoodInForce 1"
        assert problem(status).startswith("spec.base: ")

    def test_a_base_that_is_made_again_is_taken_up(self, book: PolicyBook) -> None:
        book.observe(a_base(parameters={"limit": 1}))
        book.observe(make_policy(base="base"))
        book.remove("base")
        book.observe(make_policy("base", uid="another", schedulerName="base", parameters={"limit": 3}))
        assert parameters(book) == {"limit": 3}
        assert summary(book.statuses()["batch"]) == "Valid True InForce 1"

    def test_a_disabled_policy_is_as_good_a_base_as_any(self, book: PolicyBook) -> None:
        book.observe(a_base(mode="Disabled", parameters={"limit": 1}))
        book.observe(make_policy(base="base"))
        assert parameters(book) == {"limit": 1}

    def test_a_base_that_takes_away_what_its_heirs_rely_on_leaves_them_at_their_last_good(
        self, book: PolicyBook
    ) -> None:
        book.observe(a_base(predicates=[{"name": "not-retiring", "expression": "true", "message": "retiring"}]))
        book.observe(make_policy(base="base", predicates=[{"name": "not-retiring", "enabled": False}]))
        assert in_force(book) == "batch/1"
        book.observe(a_base(2))
        status = book.statuses()["batch"]
        assert "spec.predicates[0]" in problem(status)
        assert summary(status) == "Invalid True LastGoodInForce 1"


class TestRings:
    def test_every_member_is_refused_with_the_ring_spelled_out(self, book: PolicyBook) -> None:
        for name, base in (("a", "b"), ("b", "c"), ("c", "a")):
            book.observe(make_policy(name, base=base))
        found = {name: problem(status) for name, status in book.statuses().items()}
        assert "a -> b -> c -> a" in found["a"]
        assert "b -> c -> a -> b" in found["b"]
        assert "c -> a -> b -> c" in found["c"]
        assert all(text.startswith("spec.base: the bases form a ring, ") for text in found.values())

    def test_a_policy_cannot_be_its_own_base(self, book: PolicyBook) -> None:
        book.observe(make_policy("a", base="a"))
        assert "a -> a" in problem(book.statuses()["a"])

    def test_other_problems_of_a_member_are_told_too(self, book: PolicyBook) -> None:
        book.observe(make_policy("a", base="a", **BAD))
        message = problem(book.statuses()["a"])
        assert message.count("spec.base") == 1
        assert "spec.tieBreak" in message

    def test_members_that_were_good_go_on_as_they_were(self, book: PolicyBook) -> None:
        book.observe(make_policy("a", schedulerName="a", parameters={"limit": 1}))
        book.observe(make_policy("b", schedulerName="b", base="a"))
        book.observe(make_policy("a", generation=2, schedulerName="a", base="b", parameters={"limit": 2}))
        statuses = book.statuses()
        assert summary(statuses["a"]) == summary(statuses["b"]) == "Invalid True LastGoodInForce 1"
        assert parameters(book, "a") == parameters(book, "b") == {"limit": 1}

    def test_a_ring_that_is_opened_is_resolved_all_the_way(self, book: PolicyBook) -> None:
        for name, base in (("a", "b"), ("b", "c"), ("c", "a")):
            book.observe(make_policy(name, schedulerName=name, base=base))
        book.observe(make_policy("b", generation=2, schedulerName="b", parameters={"limit": 1}))
        assert parameters(book, "a") == parameters(book, "c") == {"limit": 1}
        assert {summary(status) for status in book.statuses().values()} == {
            "Valid True InForce 1",
            "Valid True InForce 2",
        }

    def test_a_ring_that_loses_a_member_says_what_is_missing_now(self, book: PolicyBook) -> None:
        book.observe(make_policy("a", base="b"))
        book.observe(make_policy("b", base="a"))
        book.remove("b")
        assert problem(book.statuses()["a"]).startswith("spec.base: there is no valid SchedulingPolicy b")

    def test_what_hangs_on_a_ring_is_refused_without_being_a_member(self, book: PolicyBook) -> None:
        book.observe(make_policy("a", base="b"))
        book.observe(make_policy("b", base="a"))
        book.observe(make_policy("c", base="a"))
        assert problem(book.statuses()["c"]).startswith("spec.base: there is no valid SchedulingPolicy a")

    def test_a_ring_does_not_keep_other_policies_from_pods(self, book: PolicyBook) -> None:
        book.observe(make_policy("a", base="b"))
        book.observe(make_policy("b", base="a"))
        book.observe(make_policy("c"))
        assert in_force(book) == "c/1"


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
    said = {"parameters": {name: generation}} if marked else {}
    return make_policy(name, generation=generation, schedulerName=name, base=base, **said)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[str, str, bool] | str], list[tuple[str, str, bool]]]:
    """Edits in any order (a name alone: deleted), rings and missing bases among them; then edits that mend it all."""
    edit = st.tuples(st.sampled_from(NAMES), st.sampled_from((*NAMES, "Empty", "gone")), st.booleans())
    edits = draw(st.lists(edit | st.sampled_from(NAMES), max_size=12))
    order = draw(st.permutations(NAMES))
    last = [(name, draw(st.sampled_from((*order[:at], "Empty"))), draw(st.booleans())) for at, name in enumerate(order)]
    return edits, last


@settings(max_examples=100, deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_whatever_happened_before_policies_end_up_as_when_applied_bases_first(history: Any, random: Any) -> None:
    edits, last = history
    book, fresh = PolicyBook(Clock()), PolicyBook(Clock())
    generations = dict.fromkeys(NAMES, 0)

    def edited(name: str, base: str, marked: bool) -> dict[str, Any]:
        generations[name] += 1
        return manifest(name, generations[name], base, marked)

    for edit in edits:
        if isinstance(edit, str):
            book.remove(edit)
        else:
            book.observe(edited(*edit))
    manifests = [edited(*edit) for edit in last]
    for body in random.sample(manifests, len(manifests)):
        book.observe(body)
    for body in manifests:
        fresh.observe(body)
    for name in NAMES:
        assert chosen(book, a_pod(name)).policy == chosen(fresh, a_pod(name)).policy
    told, expected = book.statuses(), fresh.statuses()
    assert {name: told[name]["activeHash"] for name in NAMES} == {name: expected[name]["activeHash"] for name in NAMES}
    assert {summary(status) for status in told.values()} == {
        f"Valid True InForce {generation}" for generation in generations.values()
    }
