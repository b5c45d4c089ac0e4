"""Policies that do not decide, the built-in one, and what a pod is told for which no policy decides."""

import pytest

from berth.policy import PolicyBook
from policy.bookkeeping import BAD, Clock, a_pod, chosen, condition, in_force, labels, says, summary, who
from policy.builders import make_policy


def shadows(book: PolicyBook, scheduler_name: str = "berth", **pod_labels: str) -> list[str]:
    return [active.policy.name for active in book.shadows(a_pod(scheduler_name, **pod_labels), {})]


def told(book: PolicyBook, scheduler_name: str = "berth", **pod_labels: str) -> str:
    pod = a_pod(scheduler_name, **pod_labels)
    assert book.for_pod(pod, {}) is None
    return book.unserved(pod, {}).removeprefix(
        f"no SchedulingPolicy with schedulerName {scheduler_name} decides for this pod: "
    )


class TestShadow:
    def test_it_decides_for_nobody_and_judges_what_it_matches(self, book: PolicyBook) -> None:
        book.observe(make_policy(mode="Shadow", podSelector=labels(app="web")))
        assert in_force(book) == "(built-in)/0"
        assert shadows(book, app="web") == ["batch"]
        assert shadows(book, app="db") == shadows(book, "other", app="web") == []

    def test_several_judge_the_same_pod(self, book: PolicyBook) -> None:
        book.observe(make_policy("b", mode="Shadow"))
        book.observe(make_policy("a", mode="Shadow"))
        assert shadows(book) == ["a", "b"]

    def test_its_status_says_that_it_does_not_decide_and_which_generation_judges(self, book: PolicyBook) -> None:
        book.observe(make_policy(mode="Shadow", generation=3))
        status = book.statuses()["batch"]
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

    def test_pods_of_a_name_that_only_a_shadow_has_are_not_ours(self, book: PolicyBook) -> None:
        book.observe(make_policy(mode="Shadow", schedulerName="other"))
        book.observe(make_policy("bad", mode="Shadow", schedulerName="another", **BAD))
        assert not book.serves("other")
        assert not book.serves("another")

    def test_whoever_listens_hears_of_a_shadow(self, book: PolicyBook) -> None:
        heard: list[list[str]] = []
        book.on_change(lambda: heard.append(shadows(book)))
        book.observe(make_policy(mode="Shadow"))
        book.observe(make_policy(mode="Active", generation=2))
        assert heard == [["batch"], []]
        assert in_force(book) == "batch/2"

    def test_a_bad_edit_leaves_the_last_good_one_judging(self, book: PolicyBook) -> None:
        book.observe(make_policy(mode="Shadow"))
        book.observe(make_policy(mode="Active", generation=2, **BAD))
        assert shadows(book) == ["batch"]
        assert summary(book.statuses()["batch"]) == "Invalid False Shadow 1"


class TestDisabled:
    def test_it_neither_decides_nor_judges(self, book: PolicyBook) -> None:
        book.observe(make_policy())
        book.observe(make_policy(mode="Disabled", generation=2))
        assert in_force(book) == "(built-in)/0"
        assert shadows(book) == []
        assert [active.policy.name for active in book.in_force()] == ["(built-in)"]
        status = book.statuses()["batch"]
        assert summary(status) == "Valid False Disabled 0"
        assert (status["activeHash"], status["activeSince"]) == (None, None)

    def test_it_leaves_its_pods_to_the_next(self, book: PolicyBook) -> None:
        book.observe(make_policy("a"))
        book.observe(make_policy("b"))
        book.observe(make_policy("a", mode="Disabled", generation=2))
        assert in_force(book) == "b/1"


class TestBuiltIn:
    def test_it_does_not_serve_beside_a_policy_that_selects_some_pods(self, book: PolicyBook) -> None:
        book.observe(make_policy(podSelector=labels(app="web")))
        assert who(book, a_pod(app="web")) == "batch/1"
        assert who(book, a_pod(app="db")) == "nobody"

    @pytest.mark.parametrize("mode", ["Shadow", "Disabled"])
    def test_it_serves_beside_policies_that_do_not_decide(self, book: PolicyBook, mode: str) -> None:
        book.observe(make_policy(mode=mode))
        assert in_force(book) == "(built-in)/0"

    def test_switched_off_it_serves_nobody_but_its_pods_are_ours(self, clock: Clock) -> None:
        book = PolicyBook(clock, built_in=False)
        assert in_force(book) == "nobody"
        assert book.serves("berth")
        assert list(book.in_force()) == []

    def test_switched_off_it_does_not_take_over_from_a_deleted_policy(self, clock: Clock) -> None:
        book = PolicyBook(clock, built_in=False)
        book.observe(make_policy())
        assert in_force(book) == "batch/1"
        book.remove("batch")
        assert in_force(book) == "nobody"


class TestUnserved:
    def test_without_any_policy_it_is_the_built_in_that_is_switched_off(self, clock: Clock) -> None:
        assert told(PolicyBook(clock, built_in=False)) == "there is none; the built-in policy is switched off"

    def test_a_policy_that_selects_others_is_named_with_the_selector_that_does_not_match(
        self, book: PolicyBook
    ) -> None:
        book.observe(make_policy("a", podSelector=labels(app="db")))
        book.observe(make_policy("b", namespaceSelector=labels(team="x")))
        book.observe(make_policy("c", namespaceSelector=labels(team="x"), podSelector=labels(app="web")))
        book.observe(make_policy("d", namespaceSelector=labels(team="x"), podSelector=labels(app="db")))
        assert told(book, app="web") == (
            "these select other pods: c (namespaceSelector), d (namespaceSelector and podSelector), a (podSelector), "
            "b (namespaceSelector)"
        )

    def test_of_many_policies_five_are_named(self, book: PolicyBook) -> None:
        for number in range(7):
            book.observe(make_policy(f"p{number}", podSelector=labels(app=f"web{number}")))
        assert told(book).endswith("p4 (podSelector) and 2 more")

    def test_policies_that_select_others_keep_the_built_in_out_whether_it_is_on_or_off(self, clock: Clock) -> None:
        for built_in in (True, False):
            book = PolicyBook(clock, built_in=built_in)
            book.observe(make_policy(podSelector=labels(app="web")))
            assert told(book) == "these select other pods: batch (podSelector)"

    def test_disabled_policies_are_named(self, book: PolicyBook) -> None:
        book.observe(make_policy(schedulerName="other", mode="Disabled"))
        assert book.serves("other")
        assert told(book, "other") == "disabled: batch"

    def test_policies_that_were_never_valid_are_named(self, book: PolicyBook) -> None:
        book.observe(make_policy(schedulerName="other", **BAD))
        assert book.serves("other")
        assert told(book, "other") == "never valid, see condition Accepted: batch"

    def test_everything_is_said_at_once(self, clock: Clock) -> None:
        book = PolicyBook(clock, built_in=False)
        book.observe(make_policy("a", mode="Disabled"))
        book.observe(make_policy("b", **BAD))
        assert told(book) == (
            "disabled: a; never valid, see condition Accepted: b; the built-in policy is switched off"
        )

    def test_whoever_listens_hears_that_the_reason_has_changed(self, book: PolicyBook) -> None:
        book.observe(make_policy(schedulerName="other", **BAD))
        heard: list[str] = []
        book.on_change(lambda: heard.append(told(book, "other")))
        book.observe(make_policy(schedulerName="other", generation=2, mode="Disabled"))
        book.observe(make_policy(schedulerName="other", generation=3, mode="Disabled"))
        assert heard == ["disabled: batch"]

    def test_a_bad_policy_beside_one_that_decides_is_no_news_for_pods(self, book: PolicyBook) -> None:
        book.observe(make_policy("a"))
        heard: list[str] = []
        book.on_change(lambda: heard.append("again"))
        book.observe(make_policy("b", **BAD))
        assert heard == []


class TestHotReload:
    def test_a_generation_that_says_the_same_comes_into_force_with_the_same_hash(
        self, book: PolicyBook, clock: Clock
    ) -> None:
        book.observe(make_policy(tieBreak="Random"))
        first = book.statuses()["batch"]
        clock.advance(60)
        book.observe(make_policy(generation=2))
        second = book.statuses()["batch"]
        assert in_force(book) == "batch/2"
        assert first["activeHash"] == second["activeHash"]
        assert second["activeGeneration"] == 2
        assert second["activeSince"] == "2026-01-01T12:01:00Z"

    def test_another_meaning_has_another_hash(self, book: PolicyBook) -> None:
        seen = set()
        for generation, spec in enumerate(
            (
                {},
                {"tieBreak": "First"},
                {"podSelector": {}},
                {"podSelector": labels(app="web")},
                {"parameters": {"limit": 1}},
                {"priorities": [{"name": "ImageLocality", "weight": 2}]},
                {"backoff": {"initialSeconds": 2}},
                {"schedulerName": "other"},
                {"mode": "Shadow"},
            ),
            start=1,
        ):
            book.observe(make_policy(generation=generation, **spec))
            seen.add(book.statuses()["batch"]["activeHash"])
        assert len(seen) == 9

    def test_the_name_is_not_part_of_the_meaning(self, book: PolicyBook) -> None:
        book.observe(make_policy("a", schedulerName="a"))
        book.observe(make_policy("b", schedulerName="a", podSelector=labels(app="web"), generation=7))
        book.observe(make_policy("c", schedulerName="a", podSelector=labels(app="web")))
        book.remove("b")
        first = book.statuses()["c"]["activeHash"]
        book.remove("c")
        book.observe(make_policy("b", uid="again", schedulerName="a", podSelector=labels(app="web"), generation=7))
        assert book.statuses()["b"]["activeHash"] == first

    def test_whatever_loading_a_policy_raises_is_told_and_harms_no_other(
        self, book: PolicyBook, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        book.observe(make_policy("a"))

        def load(*_: object) -> None:
            raise RecursionError("too deep")

        monkeypatch.setattr("berth.policy.shelf.load_policy", load)
        book.observe(make_policy("b", schedulerName="other"))
        status = book.statuses()["b"]
        assert condition(status, "Accepted")["message"] == "spec: cannot be loaded: RecursionError: too deep"
        assert in_force(book) == "a/1"

    def test_a_manifest_that_is_changed_afterwards_changes_no_policy(self, book: PolicyBook) -> None:
        manifest = make_policy(parameters={"limit": 1})
        book.observe(manifest)
        manifest["spec"]["parameters"]["limit"] = 2
        assert chosen(book, a_pod()).policy.parameters == {"limit": 1}
