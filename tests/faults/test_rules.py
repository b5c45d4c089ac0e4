"""Rules: what matches, what fires, and that the same seed does the same."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from berth.sim.faults import (
    ONCE,
    CutAfter,
    CutBefore,
    Delay,
    Double,
    DropWatch,
    Expire,
    Fail,
    FaultRequest,
    Faults,
    Late,
    Miss,
    Rule,
    StaleList,
    storm,
)

BIND = FaultRequest("create", "Pod", "web", "binding", "default")
LIST = FaultRequest("list", "Pod")
POD: dict[str, Any] = {"metadata": {"name": "web"}}


def test_without_rules_nothing_happens() -> None:
    faults = Faults()

    assert faults.before(BIND) is None
    assert faults.on_event("Pod", "ADDED", POD) == ONCE
    assert faults.watch_lifetime("Pod") is None
    assert not faults.expire("Pod", 1000.0)
    assert faults.statistics() == {}


@pytest.mark.parametrize("fault", [Fail(503, retry_after=1), CutBefore(), CutAfter(), Delay(2.0)])
def test_a_rule_without_limits_does_its_fault_to_every_request(fault: Any) -> None:
    faults = Faults([Rule(fault)])

    assert [faults.before(BIND), faults.before(LIST)] == [fault, fault]
    assert faults.statistics() == {type(fault).__name__: 2}


def test_kinds_verbs_and_subresources_narrow_a_rule() -> None:
    faults = Faults(
        [Rule(Fail(), kinds=frozenset({"Pod"}), verbs=frozenset({"create"}), subresources=frozenset({"binding"}))]
    )

    assert faults.before(BIND) == Fail()
    assert faults.before(LIST) is None
    assert faults.before(FaultRequest("create", "Pod", "web")) is None
    assert faults.before(FaultRequest("create", "Node", "web", "binding")) is None


def test_the_first_rule_that_fires_wins() -> None:
    faults = Faults([Rule(Fail(), limit=1), Rule(CutAfter())])

    assert [faults.before(BIND) for _ in range(3)] == [Fail(), CutAfter(), CutAfter()]


def test_every_hits_each_nth_match_and_limit_ends_it() -> None:
    faults = Faults([Rule(Fail(), every=3, limit=2)])

    hits = [faults.before(BIND) is not None for _ in range(12)]

    assert hits == [False, False, True, False, False, True, *[False] * 6]


def test_a_probability_is_a_share_of_the_matches_and_the_seed_says_which() -> None:
    def hits(seed: int) -> list[bool]:
        faults = Faults([Rule(Fail(), probability=0.05)], seed)
        return [faults.before(BIND) is not None for _ in range(2000)]

    assert hits(1) == hits(1)
    assert hits(1) != hits(2)
    assert 60 <= sum(hits(1)) <= 140


def test_a_rule_at_the_end_changes_nothing_for_those_before_it() -> None:
    def hits(*more: Rule) -> list[bool]:
        faults = Faults([Rule(Fail(), probability=0.5), *more], 3)
        return [isinstance(faults.before(BIND), Fail) for _ in range(100)]

    assert hits() == hits(Rule(CutAfter(), probability=0.5))


def test_only_reads_are_answered_from_the_past() -> None:
    faults = Faults([Rule(StaleList(5))])

    assert faults.before(LIST) == StaleList(5)
    assert faults.before(BIND) is None


def test_events_are_missed_late_or_doubled_and_bookmarks_are_left_alone() -> None:
    missed, late, doubled = (Faults([Rule(fault)]) for fault in (Miss(), Late(1.0, 2.0), Double(3.0, 4.0)))

    assert missed.on_event("Pod", "ADDED", POD) == ()
    [copy] = late.on_event("Pod", "ADDED", POD)
    assert 1.0 <= copy.delay_seconds <= 2.0
    first, second = doubled.on_event("Pod", "ADDED", POD)
    assert first.delay_seconds == 0.0
    assert 3.0 <= second.delay_seconds <= 4.0
    assert missed.on_event("Pod", "BOOKMARK", POD) == ONCE


def test_event_types_narrow_the_faults_of_events() -> None:
    faults = Faults([Rule(Miss(), kinds=frozenset({"Pod"}), event_types=frozenset({"DELETED"}))])

    assert faults.on_event("Pod", "DELETED", POD) == ()
    assert faults.on_event("Pod", "ADDED", POD) == ONCE
    assert faults.on_event("Node", "DELETED", POD) == ONCE


def test_a_watch_lives_between_the_two_limits() -> None:
    faults = Faults([Rule(DropWatch(2.0, 5.0), kinds=frozenset({"Pod"}))])

    lifetimes = [faults.watch_lifetime("Pod") for _ in range(100)]

    assert all(seconds is not None and 2.0 <= seconds <= 5.0 for seconds in lifetimes)
    assert faults.watch_lifetime("Node") is None


def test_each_kind_expires_once_a_period_however_often_it_is_asked_about() -> None:
    faults = Faults([Rule(Expire(30.0))])

    expired = [(kind, now) for now in range(300) for kind in ("Pod", "Node") if faults.expire(kind, float(now))]

    for kind in ("Pod", "Node"):
        times = [now for name, now in expired if name == kind]
        assert len(times) == 10
        assert {later - earlier for earlier, later in itertools.pairwise(times)} == {30}


def test_a_kind_without_requests_for_long_expires_once_and_not_for_each_period() -> None:
    faults = Faults([Rule(Expire(30.0))])
    faults.expire("Pod", 0.0)

    assert [faults.expire("Pod", now) for now in (100.0, 100.1, 100.2)] == [True, False, False]


def test_disabled_faults_do_nothing() -> None:
    faults = storm()
    faults.enabled = False

    assert all(faults.before(BIND) is None for _ in range(100))
    assert faults.watch_lifetime("Pod") is None
    assert faults.statistics() == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"probability": 1.5}, "probability: 1.5 is not between 0 and 1"),
        ({"every": 0}, "every: 0 is less than 1"),
        ({"limit": -1}, "limit: -1 is less than 0"),
        ({"kinds": "Pod"}, "kinds: a set of names is needed"),
    ],
)
def test_an_invalid_rule_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Rule(Fail(), **options)
