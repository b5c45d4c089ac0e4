"""The store: which policy decides for which scheduler name, who hears of a change, and what the statuses say."""

from typing import Any

import pytest

from berth.policy import PolicyStore
from policy.builders import make_policy
from policy.harness import BAD, Clock, a_pod, condition, in_force, says, summary


@pytest.fixture
def changes(store: PolicyStore) -> list[str]:
    """Grows by one entry each time that the store tells of a change: what was in force for "berth" at that moment."""
    heard: list[str] = []
    store.on_change(lambda: heard.append(in_force(store)))
    return heard


class TestWhatIsInForce:
    def test_the_built_in_serves_berth_while_no_policy_claims_it(self, store: PolicyStore) -> None:
        assert in_force(store) == "(built-in)/0"
        assert store.serves("berth")

    def test_a_name_that_no_policy_claims_is_not_served(self, store: PolicyStore) -> None:
        assert in_force(store, "default-scheduler") == "nobody"
        assert not store.serves("default-scheduler")

    def test_an_applied_policy_is_in_force_when_observe_returns(self, store: PolicyStore, changes: list[str]) -> None:
        store.observe(make_policy())
        assert in_force(store) == "batch/1"
        assert changes == ["batch/1"]

    def test_an_edit_brings_the_next_generation_into_force(self, store: PolicyStore, changes: list[str]) -> None:
        store.observe(make_policy())
        store.observe(make_policy(generation=2, tieBreak="First"))
        assert changes == ["batch/1", "batch/2"]

    def test_who_took_a_policy_may_use_it_after_it_was_replaced(self, store: PolicyStore) -> None:
        store.observe(make_policy())
        taken = store.for_pod(a_pod(), {})
        store.observe(make_policy(generation=2))
        assert taken is not None
        assert taken.policy.generation == 1
        assert store.for_pod(a_pod(), {}) is not taken

    def test_a_bad_edit_leaves_the_last_good_generation_in_force(self, store: PolicyStore, changes: list[str]) -> None:
        store.observe(make_policy())
        store.observe(make_policy(generation=2, schedulerName="elsewhere", **BAD))
        assert in_force(store) == "batch/1"
        assert not store.serves("elsewhere")
        assert changes == ["batch/1"]

    def test_a_fixed_policy_comes_into_force(self, store: PolicyStore) -> None:
        store.observe(make_policy())
        store.observe(make_policy(generation=2, **BAD))
        store.observe(make_policy(generation=3))
        assert in_force(store) == "batch/3"

    def test_a_policy_that_was_never_good_claims_nothing(self, store: PolicyStore, changes: list[str]) -> None:
        store.observe(make_policy("a", **BAD))
        assert in_force(store) == "(built-in)/0"
        store.observe(make_policy("b"))
        assert in_force(store) == "b/1"
        assert changes == ["b/1"]

    def test_a_deleted_policy_gives_its_name_back_to_the_built_in(self, store: PolicyStore, changes: list[str]) -> None:
        store.observe(make_policy())
        store.remove("batch")
        assert changes == ["batch/1", "(built-in)/0"]

    def test_a_deleted_policy_leaves_another_scheduler_name_unserved(self, store: PolicyStore) -> None:
        store.observe(make_policy(schedulerName="other"))
        store.remove("batch")
        assert not store.serves("other")

    def test_of_two_policies_the_first_by_name_decides_whichever_came_first(
        self, store: PolicyStore, changes: list[str]
    ) -> None:
        store.observe(make_policy("b"))
        store.observe(make_policy("a"))
        store.observe(make_policy("c"))
        assert in_force(store) == "a/1"
        assert changes == ["b/1", "a/1"]

    def test_a_deleted_policy_gives_way_to_the_next_by_name(self, store: PolicyStore) -> None:
        store.observe(make_policy("a"))
        store.observe(make_policy("b"))
        store.remove("a")
        assert in_force(store) == "b/1"

    def test_an_edited_scheduler_name_moves_the_claim(self, store: PolicyStore) -> None:
        store.observe(make_policy())
        store.observe(make_policy(generation=2, schedulerName="other"))
        assert in_force(store) == "(built-in)/0"
        assert in_force(store, "other") == "batch/2"

    def test_a_policy_made_again_under_its_name_starts_anew(self, store: PolicyStore) -> None:
        store.observe(make_policy(generation=5, uid="old"))
        store.observe(make_policy(generation=1, uid="new"))
        assert in_force(store) == "batch/1"

    def test_a_namesake_that_is_bad_does_not_inherit_the_last_good_generation(self, store: PolicyStore) -> None:
        store.observe(make_policy(uid="old"))
        store.observe(make_policy(uid="new", **BAD))
        assert in_force(store) == "(built-in)/0"

    def test_a_late_word_of_a_deleted_namesake_does_nothing(self, store: PolicyStore) -> None:
        store.observe(make_policy(uid="new"))
        store.remove("batch", uid="old")
        assert in_force(store) == "batch/1"
        store.remove("batch", uid="new")
        assert in_force(store) == "(built-in)/0"

    def test_an_older_generation_that_arrives_late_does_nothing(self, store: PolicyStore, changes: list[str]) -> None:
        store.observe(make_policy(generation=3))
        store.observe(make_policy(generation=2, tieBreak="First"))
        assert changes == ["batch/3"]

    def test_removing_what_was_never_there_does_nothing(self, store: PolicyStore, changes: list[str]) -> None:
        store.remove("ghost")
        assert changes == []

    @pytest.mark.parametrize("manifest", [{}, {"metadata": None}, {"metadata": {"name": 3}}])
    def test_a_manifest_without_a_name_is_ignored(self, store: PolicyStore, manifest: dict[str, Any]) -> None:
        store.observe(manifest)
        assert store.statistics()["policies"] == 0

    def test_every_listener_hears_of_a_change(self, store: PolicyStore, changes: list[str]) -> None:
        heard: list[int] = []
        store.on_change(lambda: heard.append(1))
        store.observe(make_policy())
        assert (len(heard), len(changes)) == (1, 1)


class TestEchoes:
    def test_our_own_status_write_changes_nothing(self, store: PolicyStore, changes: list[str]) -> None:
        manifest = make_policy()
        store.observe(manifest)
        before = store.for_pod(a_pod(), {})
        status = store.statuses()["batch"]
        store.observe({**manifest, "status": status})
        assert store.for_pod(a_pod(), {}) is before
        assert changes == ["batch/1"]
        assert store.statuses() == {}

    def test_a_relist_of_an_unchanged_policy_changes_nothing(self, store: PolicyStore, changes: list[str]) -> None:
        store.observe(make_policy())
        store.statuses()
        store.observe(make_policy())
        assert (changes, store.statuses()) == (["batch/1"], {})

    def test_a_status_that_somebody_else_wrote_is_left_alone(self, store: PolicyStore) -> None:
        store.observe(make_policy())
        store.statuses()
        store.observe(make_policy() | {"status": {"conditions": []}})
        assert store.statuses() == {}


class TestStatuses:
    def test_a_good_policy_says_that_it_is_in_force(self, store: PolicyStore) -> None:
        store.observe(make_policy(generation=4))
        status = store.statuses()["batch"]
        digest = status.pop("activeHash")
        assert isinstance(digest, str)
        assert len(digest) == 12
        assert set(digest) <= set("0123456789abcdef")
        about = {"observedGeneration": 4, "lastTransitionTime": "2026-01-01T12:00:00Z"}
        assert status == {
            "observedGeneration": 4,
            "activeGeneration": 4,
            "activeSince": "2026-01-01T12:00:00Z",
            "placed": 0,
            "pending": 0,
            "preempted": 0,
            "lastDecisionTime": None,
            "errors": None,
            "shadow": None,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "InForce",
                    "message": "generation 4 decides for schedulerName berth",
                    **about,
                },
                {
                    "type": "Accepted",
                    "status": "True",
                    "reason": "Valid",
                    "message": "generation 4 is valid",
                    **about,
                },
                {
                    "type": "Active",
                    "status": "True",
                    "reason": "InForce",
                    "message": "generation 4 decides for schedulerName berth",
                    **about,
                },
                {
                    "type": "Contested",
                    "status": "False",
                    "reason": "Alone",
                    "message": "no other policy of the same rank may match the same pods",
                    **about,
                },
                {
                    "type": "Degraded",
                    "status": "False",
                    "reason": "Healthy",
                    "message": "nothing has failed in the last five minutes",
                    **about,
                },
            ],
        }

    def test_a_status_is_handed_out_once(self, store: PolicyStore) -> None:
        store.observe(make_policy())
        assert list(store.statuses()) == ["batch"]
        assert store.statuses() == {}

    def test_a_bad_edit_names_every_problem_and_the_generation_in_force(self, store: PolicyStore) -> None:
        store.observe(make_policy())
        store.observe(make_policy(generation=2, priorities=[{"name": "ImageLocality", "weight": 0}], **BAD))
        status = store.statuses()["batch"]
        assert summary(status) == "Invalid True LastGoodInForce 1"
        assert status["observedGeneration"] == 2
        accepted, active = condition(status, "Accepted")["message"], condition(status, "Active")["message"]
        assert "spec.priorities[0].weight: 0 is not from 1" in accepted
        assert 'spec.tieBreak: "Coin" is not one of' in accepted
        assert active.startswith("generation 1 stays in force for schedulerName berth: generation 2 was refused")

    @pytest.mark.parametrize(
        ("mode", "reason"), [("Active", "InForce"), ("Shadow", "Shadow"), ("Disabled", "Disabled")]
    )
    def test_a_valid_policy_is_ready_in_every_mode(self, store: PolicyStore, mode: str, reason: str) -> None:
        store.observe(make_policy(mode=mode))
        assert says(store.statuses()["batch"], "Ready") == f"True {reason}"

    def test_a_refused_generation_is_not_ready_though_the_last_good_one_decides(self, store: PolicyStore) -> None:
        store.observe(make_policy())
        store.observe(make_policy(generation=2, **BAD))
        status = store.statuses()["batch"]
        assert says(status, "Ready") == "False Invalid"
        assert 'spec.tieBreak: "Coin" is not one of' in condition(status, "Ready")["message"]
        assert condition(status, "Ready")["observedGeneration"] == 2
        store.observe(make_policy(generation=3))
        assert says(store.statuses()["batch"], "Ready") == "True InForce"

    def test_a_superseded_policy_is_not_ready(self, store: PolicyStore) -> None:
        store.observe(make_policy("a"))
        store.observe(make_policy("b"))
        statuses = store.statuses()
        assert (says(statuses["a"], "Ready"), says(statuses["b"], "Ready")) == ("True InForce", "False Superseded")

    def test_a_policy_that_was_never_good_says_so(self, store: PolicyStore) -> None:
        store.observe(make_policy(**BAD))
        assert summary(store.statuses()["batch"]) == "Invalid False NeverValid 0"

    def test_two_policies_for_one_name_both_say_so(self, store: PolicyStore) -> None:
        store.observe(make_policy("b"))
        store.observe(make_policy("a"))
        statuses = store.statuses()
        assert summary(statuses["a"]) == "Valid True InForce 1"
        assert summary(statuses["b"]) == "Valid False Superseded 0"
        assert says(statuses["a"], "Contested") == says(statuses["b"], "Contested") == "True SameRank"
        assert condition(statuses["a"], "Contested")["message"].endswith(
            "the first by name decides: this policy before b"
        )
        assert condition(statuses["b"], "Contested")["message"].endswith(
            "the first by name decides: a before this policy"
        )
        assert condition(statuses["b"], "Active")["message"].startswith("policy a matches every pod that this one")

    def test_a_policy_that_takes_over_says_so_when_the_other_is_deleted(self, store: PolicyStore, clock: Clock) -> None:
        store.observe(make_policy("a"))
        store.observe(make_policy("b"))
        store.statuses()
        clock.advance(60)
        store.remove("a")
        statuses = store.statuses()
        assert list(statuses) == ["b"]
        assert summary(statuses["b"]) == "Valid True InForce 1"
        assert condition(statuses["b"], "Active")["lastTransitionTime"] == "2026-01-01T12:01:00Z"
        assert condition(statuses["b"], "Accepted")["lastTransitionTime"] == "2026-01-01T12:00:00Z"

    def test_the_transition_time_moves_only_with_the_status(self, store: PolicyStore, clock: Clock) -> None:
        store.observe(make_policy())
        clock.advance(60)
        store.observe(make_policy(generation=2, **BAD))
        status = store.statuses()["batch"]
        assert condition(status, "Accepted")["lastTransitionTime"] == "2026-01-01T12:01:00Z"
        assert condition(status, "Active")["lastTransitionTime"] == "2026-01-01T12:00:00Z"  # another reason, still True

    def test_a_policy_that_another_one_leaves_alone_is_not_written_again(self, store: PolicyStore) -> None:
        store.observe(make_policy("a"))
        store.statuses()
        store.observe(make_policy("b", schedulerName="other"))
        assert list(store.statuses()) == ["b"]

    def test_a_removed_policy_has_no_status_to_write(self, store: PolicyStore) -> None:
        store.observe(make_policy())
        store.remove("batch")
        assert store.statuses() == {}

    def test_what_is_handed_out_is_a_copy(self, store: PolicyStore, clock: Clock) -> None:
        store.observe(make_policy())
        store.statuses()["batch"].clear()
        clock.advance(60)
        store.observe(make_policy(generation=2))
        assert condition(store.statuses()["batch"], "Active")["lastTransitionTime"] == "2026-01-01T12:00:00Z"

    def test_more_problems_than_a_condition_can_hold_are_counted(self, store: PolicyStore) -> None:
        entries = [{"name": f"Plugin{number}" + "x" * 70, "argz" + "y" * 60: 1} for number in range(64)]
        manifest = make_policy(predicates=entries, priorities=entries)
        manifest["spec"] |= {f"field{number}" + "z" * 60: 1 for number in range(200)}
        store.observe(manifest)
        message = condition(store.statuses()["batch"], "Accepted")["message"]
        assert len(message) <= 32768
        assert message.endswith("more problems")


class TestRestart:
    def observed_again(self, clock: Clock, manifest: dict[str, Any]) -> dict[str, Any]:
        """The statuses that a store writes which meets the manifest with the status that an earlier store wrote."""
        earlier = PolicyStore(clock)
        earlier.observe(manifest)
        manifest = {**manifest, "status": earlier.statuses()[manifest["metadata"]["name"]]}
        clock.advance(3600)
        store = PolicyStore(clock)
        store.observe(manifest)
        return store.statuses()

    def test_a_status_that_still_holds_is_not_written_again(self, clock: Clock) -> None:
        assert self.observed_again(clock, make_policy()) == {}
        assert self.observed_again(clock, make_policy(**BAD)) == {}

    def test_transition_times_outlive_the_process(self, clock: Clock) -> None:
        first = PolicyStore(clock)
        first.observe(make_policy())
        status = first.statuses()["batch"]
        clock.advance(3600)
        store = PolicyStore(clock)
        store.observe(make_policy(generation=2) | {"status": status})
        assert condition(store.statuses()["batch"], "Active")["lastTransitionTime"] == "2026-01-01T12:00:00Z"

    def test_a_bad_latest_generation_has_no_last_good_one_after_a_restart(self, clock: Clock) -> None:
        first = PolicyStore(clock)
        first.observe(make_policy())
        first.observe(make_policy(generation=2, **BAD))
        store = PolicyStore(clock)
        store.observe(make_policy(generation=2, **BAD) | {"status": first.statuses()["batch"]})
        assert in_force(store) == "(built-in)/0"
        assert summary(store.statuses()["batch"]) == "Invalid False NeverValid 0"

    @pytest.mark.parametrize("status", [3, [], {"conditions": 3}, {"conditions": [3, {"type": "Active"}]}])
    def test_an_invalid_status_is_replaced(self, store: PolicyStore, status: object) -> None:
        store.observe(make_policy() | {"status": status})
        assert summary(store.statuses()["batch"]) == "Valid True InForce 1"


def test_statistics_count_policies_refusals_names_and_changes(store: PolicyStore) -> None:
    store.observe(make_policy("a"))
    store.observe(make_policy("b", schedulerName="other", **BAD))
    store.observe(make_policy("c", schedulerName="third"))
    assert store.statistics() == {"policies": 3, "refused": 1, "scheduler_names": 2, "changes": 3}
