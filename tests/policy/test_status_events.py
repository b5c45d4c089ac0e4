"""Events about policies: one when a generation is refused, one when a generation takes over, and none twice."""

from typing import Any

from berth.policy import PolicyStore
from berth.policy.status_events import StatusChange, events_of
from policy.builders import make_policy
from policy.harness import BAD, Clock


def told(store: PolicyStore) -> list[str]:
    """Returns "policy: type reason: note" of every event that the latest changes are worth."""
    return [
        f"{change.name}: {event.type} {event.reason}: {event.note}"
        for change in store.take_changes()
        for event in events_of(change)
    ]


def test_a_new_policy_comes_into_force() -> None:
    store = PolicyStore(Clock())
    store.observe(make_policy())
    assert told(store) == ["batch: Normal InForce: generation 1 decides for schedulerName berth"]
    assert told(store) == []


def test_a_refused_generation_names_the_field_the_way_out_and_what_stays_in_force(store: PolicyStore) -> None:
    store.observe(make_policy())
    told(store)
    store.observe(make_policy(generation=2, priorities=[{"name": "NodeResourcesFitt"}]))
    assert told(store) == [
        "batch: Warning Refused: generation 2 is refused, generation 1 stays in force: "
        'spec.priorities[0].name: "NodeResourcesFitt" is not a plugin; did you mean NodeResourcesFit?'
    ]


def test_a_policy_that_was_never_valid_says_that_nothing_is_in_force(store: PolicyStore) -> None:
    store.observe(make_policy(**BAD))
    [said] = told(store)
    assert said.startswith("batch: Warning Refused: generation 1 is refused, nothing of this policy is in force: spec.")


def test_every_refused_generation_and_every_good_one_after_it_is_told(store: PolicyStore) -> None:
    store.observe(make_policy())
    told(store)
    for generation, spec in ((2, BAD), (3, BAD), (4, {})):
        store.observe(make_policy(generation=generation, **spec))
    assert told(store) == ["batch: Normal InForce: generation 4 decides for schedulerName berth"]
    for generation in (5, 6):
        store.observe(make_policy(generation=generation, **BAD))
        [said] = told(store)
        assert said.startswith(f"batch: Warning Refused: generation {generation} is refused, generation 4 stays")


def test_counters_are_no_news(store: PolicyStore, clock: Clock) -> None:
    store.observe(make_policy())
    told(store)
    store.usage.pending_is({"batch": 3})
    clock.advance(60)
    store.report()
    [change] = store.take_changes()
    assert change.status["pending"] == 3
    assert events_of(change) == []


def test_a_change_of_the_base_is_told_of_all_that_it_changes(store: PolicyStore) -> None:
    store.observe(make_policy("base", schedulerName="base"))
    store.observe(make_policy(base="base"))
    told(store)
    store.observe(make_policy("base", generation=2, schedulerName="base", tieBreak="First"))
    assert told(store) == [
        "base: Normal InForce: generation 2 decides for schedulerName base",
        "batch: Normal InForce: generation 1 decides for schedulerName berth; what it has from its base has changed",
    ]


def test_a_policy_that_another_one_comes_before_is_warned_of(store: PolicyStore) -> None:
    store.observe(make_policy("b"))
    told(store)
    store.observe(make_policy("a"))
    [decides, superseded] = sorted(told(store))
    assert decides == "a: Normal InForce: generation 1 decides for schedulerName berth"
    assert superseded.startswith("b: Warning Superseded: policy a matches every pod that this one matches")
    store.remove("a")
    assert told(store) == ["b: Normal InForce: generation 1 decides for schedulerName berth"]


def test_another_mode_is_told(store: PolicyStore) -> None:
    store.observe(make_policy())
    told(store)
    store.observe(make_policy(generation=2, mode="Shadow"))
    [said] = told(store)
    assert said.startswith("batch: Normal Shadow: mode: Shadow: generation 2 judges pods")
    store.observe(make_policy(generation=3, mode="Disabled"))
    assert told(store) == ["batch: Normal Disabled: generation 3 says mode: Disabled"]


def restarted(store: PolicyStore, clock: Clock, manifest: dict[str, Any]) -> PolicyStore:
    """Returns the store of a process that starts when the API server has the latest status."""
    status = store.statuses()["batch"]
    again = PolicyStore(clock)
    again.observe({**manifest, "status": status})
    return again


def test_nothing_is_told_again_after_a_restart(store: PolicyStore, clock: Clock) -> None:
    store.observe(make_policy())
    assert told(restarted(store, clock, make_policy())) == []
    store.observe(make_policy(generation=2, **BAD))
    broken = make_policy(generation=2, **BAD)
    again = restarted(store, clock, broken)
    [said] = told(again)
    assert said.startswith("batch: Warning NeverValid: nothing of this policy is in force")
    assert told(again) == []


def test_a_status_of_any_shape_is_compared() -> None:
    clock = Clock()
    store = PolicyStore(clock)
    store.observe(make_policy())
    status = store.statuses()["batch"]
    for before in (None, 7, {"conditions": 3}, {"conditions": [None, {"type": "Active"}]}, {"conditions": {"a": 1}}):
        [event] = events_of(StatusChange("batch", "u", before, status))
        assert event.reason == "InForce"
