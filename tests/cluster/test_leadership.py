"""Who leads by the records and by our own clock; see the rules in `berth.cluster.leadership`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.cluster.leadership import OUTSIDE, Leadership, Terms, parse_stamp, read_records, write_record

START = datetime(2026, 1, 1, tzinfo=UTC)
TERMS = Terms(10)


class Clocks:
    """A monotonic clock and a time of day that tests move, together or apart."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.wall = START

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.wall += timedelta(seconds=seconds)


class Replica:
    """A replica, and the peering object as it is."""

    def __init__(self, identity: str = "us", records: dict[str, Any] | None = None) -> None:
        self.clocks = Clocks()
        self.records: dict[str, Any] = records or {}
        self.version = 0
        self.leader = ""
        self.leadership = Leadership(
            identity, TERMS, now=lambda: self.clocks.now, wall=lambda: self.clocks.wall, random=Random(1)
        )
        self.show()

    def send(self) -> dict[str, Any]:
        return write_record(self.leadership.renew(), TERMS, self.clocks.wall)

    def show(self) -> None:
        self.version += 1
        self.leadership.observe(str(self.version), {"us": None, **self.records}, self.leader)

    def renew(self) -> None:
        self.records["us"] = self.send()
        self.show()

    def look(self) -> None:
        """Read the object."""
        self.leadership.answer(self.leadership.ask(), str(self.version), dict(self.records), self.leader)

    def other(self, name: str, priority: int, *, lifetime: float = 10) -> None:
        stamp = (START + timedelta(days=self.version)).isoformat()  # its clock is its own affair
        self.records[name] = {"priority": priority, "lifetime": lifetime, "lastseen": stamp}
        self.show()

    def pass_time(self, seconds: float) -> None:
        """Renewing all the while."""
        while seconds > 0:
            self.clocks.advance(min(seconds, 2.0))
            self.renew()
            seconds -= 2.0

    def may_lead(self) -> bool:
        return self.leadership.may_lead()

    def must_look(self) -> bool:
        return self.leadership.must_look


SENIOR = 2**60


def test_whoever_is_alone_may_lead_once_his_record_has_come_back() -> None:
    replica = Replica()
    record = replica.send()
    assert not replica.may_lead()
    replica.records["us"] = record
    replica.show()
    assert replica.may_lead()


def test_records_in_older_versions_are_believed_once_the_store_has_gone_back_in_time() -> None:
    replica = Replica()
    replica.renew()
    replica.version = 0
    replica.other("senior", SENIOR)
    assert replica.may_lead()
    replica.leadership.start_over()
    replica.show()
    assert not replica.may_lead()


def test_the_fence_closes_before_others_may_consider_us_dead() -> None:
    replica = Replica()
    replica.renew()
    replica.clocks.advance(TERMS.fresh_seconds - 0.01)
    assert replica.may_lead()
    replica.clocks.advance(0.02)
    assert not replica.may_lead()
    assert replica.leadership.is_alive()
    assert TERMS.fresh_seconds + TERMS.request_seconds == TERMS.lifetime_seconds


def test_a_late_renewal_opens_the_fence_again_while_nobody_else_may_lead() -> None:
    replica = Replica()
    replica.renew()
    replica.clocks.advance(9.9)
    assert not replica.may_lead()
    replica.renew()
    assert replica.may_lead()


def test_a_record_that_lapsed_enters_again_as_the_youngest() -> None:
    replica = Replica()
    replica.renew()
    replica.other("them", 7)
    first = replica.records["us"]["priority"]
    assert first > 7
    replica.clocks.advance(9)
    replica.other("them", 7)
    replica.clocks.advance(1)
    assert not replica.leadership.is_alive()
    replica.look()
    replica.renew()
    assert OUTSIDE < replica.records["us"]["priority"] < 7
    assert replica.leadership.seniors() == ["them"]
    assert replica.leadership.lapses == 1


def test_who_has_lapsed_stays_outside_until_the_object_was_read_since_then() -> None:
    replica = Replica()
    replica.renew()
    before = replica.leadership.ask()
    first = replica.records["us"]["priority"]
    replica.clocks.advance(25)
    assert replica.must_look()
    assert replica.send()["priority"] == OUTSIDE
    replica.other("them", 7)  # the watch may have had this for long
    assert replica.send()["priority"] == OUTSIDE
    replica.leadership.answer(before, str(replica.version), dict(replica.records))
    assert replica.send()["priority"] == OUTSIDE
    assert not replica.leadership.stands(first)
    replica.look()
    assert not replica.must_look()
    assert OUTSIDE < replica.send()["priority"] < 7
    assert replica.leadership.stands(replica.send()["priority"])


def test_a_record_of_who_is_outside_is_none_and_does_not_release_an_earlier_one_at_once() -> None:
    replica = Replica(records={"them": {"priority": SENIOR, "lifetime": 10, "lastseen": "2026-01-01T00:00:00"}})
    replica.renew()
    replica.other("them", OUTSIDE)
    assert replica.leadership.seniors() == ["them"]
    replica.pass_time(10)
    assert replica.may_lead()
    assert replica.leadership.outdated() == {}
    replica.pass_time(10)
    assert replica.leadership.outdated() == {"them": replica.records["them"]["lastseen"]}
    del replica.records["them"]
    replica.show()
    assert replica.leadership.outdated() == {}


def test_a_record_is_outdated_when_it_was_silent_for_two_of_its_lifetimes() -> None:
    replica = Replica()
    replica.renew()
    replica.other("them", 7, lifetime=20)
    replica.other("other", 8)
    replica.pass_time(20)
    assert replica.leadership.outdated().keys() == {"other"}
    replica.other("other", 8)
    assert replica.leadership.outdated() == {}
    replica.pass_time(20)
    assert replica.leadership.outdated().keys() == {"other", "them"}


def test_an_answer_that_is_older_than_what_was_seen_before_the_question_is_of_another_history() -> None:
    replica = Replica()
    replica.version = 500
    replica.renew()
    replica.clocks.advance(25)
    replica.version = 100  # the API server's data was restored
    replica.look()
    assert replica.leadership.version == 100
    replica.renew()
    assert replica.may_lead()


def test_an_answer_that_the_watch_was_faster_than_changes_nothing() -> None:
    replica = Replica()
    replica.renew()
    replica.clocks.advance(25)
    question, old = replica.leadership.ask(), dict(replica.records)
    version = str(replica.version)
    replica.other("them", 7)
    replica.leadership.answer(question, version, old)
    assert replica.leadership.version == replica.version
    assert replica.leadership.seniors() == ["them"]
    assert not replica.must_look()


def test_the_echo_of_a_renewal_that_was_sent_before_a_stop_is_as_old_as_the_renewal() -> None:
    replica = Replica()
    replica.renew()
    replica.clocks.advance(3)
    late = replica.send()
    replica.clocks.advance(18)  # the process was stopped; the watch has the echo ready
    replica.records["us"] = late
    replica.show()
    assert not replica.may_lead()
    assert not replica.leadership.is_alive()


def test_an_echo_that_is_seen_after_the_last_one_was_a_lifetime_old_does_not_go_on_from_it() -> None:
    replica = Replica()
    replica.renew()
    replica.clocks.advance(8)
    second = replica.send()
    replica.clocks.advance(3)  # sent in time, carried out who knows when
    replica.records["us"] = second
    replica.show()
    assert not replica.may_lead()


def test_our_record_that_somebody_removed_closes_the_fence() -> None:
    replica = Replica()
    replica.renew()
    first = replica.records.pop("us")["priority"]
    replica.show()
    assert not replica.may_lead()
    replica.renew()
    assert (replica.may_lead(), replica.records["us"]["priority"]) == (False, first)  # requests may be under way
    replica.clocks.advance(TERMS.request_seconds)
    replica.renew()
    assert replica.may_lead()
    assert replica.records["us"]["priority"] < first


def test_of_two_who_entered_at_once_the_higher_one_enters_again_below_the_other() -> None:
    replica = Replica()
    record = replica.send()
    replica.other("them", 7)
    replica.records["us"] = record
    replica.show()
    assert not replica.may_lead()
    replica.renew()
    assert replica.records["us"]["priority"] < 7
    assert replica.leadership.seniors() == ["them"]


def test_a_leader_whose_record_is_missing_is_given_a_lifetime_by_whoever_comes_later() -> None:
    newcomer = Replica()
    newcomer.leader = "them 10"
    newcomer.show()
    newcomer.renew()
    assert newcomer.leadership.seniors() == ["them"]
    newcomer.pass_time(8)
    assert not newcomer.may_lead()
    newcomer.pass_time(2)
    assert newcomer.may_lead()


def test_a_leader_whose_record_comes_back_below_a_newcomer_is_not_passed_over() -> None:
    newcomer = Replica()
    newcomer.leader = "them 10"
    newcomer.show()
    newcomer.renew()
    newcomer.other("them", 7)
    newcomer.pass_time(4)
    assert newcomer.leadership.seniors() == ["them"]


def test_an_echo_with_a_priority_that_is_void_proves_nothing() -> None:
    replica = Replica()
    replica.renew()
    stale = dict(replica.records["us"])
    replica.leadership.leave()
    replica.send()
    replica.clocks.advance(0.5)
    replica.records["us"] = {**stale, "lastseen": replica.clocks.wall.isoformat()}
    replica.show()
    assert not replica.may_lead()


def test_a_senior_is_waited_for_by_our_clock_from_when_we_saw_it_change() -> None:
    replica = Replica()
    replica.renew()
    replica.other("them", SENIOR)
    replica.pass_time(6)
    replica.other("them", SENIOR)  # renewed
    replica.pass_time(8)
    assert replica.leadership.seniors() == ["them"]
    replica.pass_time(2)
    assert replica.may_lead()


def test_a_senior_with_a_longer_lifetime_is_waited_for_longer() -> None:
    replica = Replica()
    replica.renew()
    replica.other("them", SENIOR, lifetime=30)
    replica.pass_time(28)
    assert not replica.may_lead()
    replica.pass_time(2)
    assert replica.may_lead()


def test_a_senior_that_somebody_removed_counts_on() -> None:
    replica = Replica()
    replica.renew()
    replica.other("them", SENIOR)
    del replica.records["them"]
    replica.show()
    replica.pass_time(8)
    assert replica.leadership.seniors() == ["them"]
    replica.pass_time(2)
    assert replica.may_lead()


def test_a_senior_that_lowers_itself_is_out_of_the_way_at_once() -> None:
    replica = Replica()
    replica.renew()
    replica.other("them", SENIOR)
    replica.other("them", 1)
    assert replica.may_lead()


def test_of_two_with_one_priority_the_identity_decides() -> None:
    replica = Replica()
    replica.renew()
    ours = replica.records["us"]["priority"]
    replica.other("a", ours)
    assert replica.may_lead()
    replica.other("z", ours)
    assert replica.leadership.seniors() == ["z"]


def test_a_newcomer_never_unseats_anybody_whatever_his_clock_says() -> None:
    there = {"old": {"priority": 5, "lifetime": 10, "lastseen": "2026-01-01T00:00:00+00:00"}}
    newcomer = Replica(records=there)
    newcomer.clocks.wall = datetime(1970, 1, 2, tzinfo=UTC)
    newcomer.renew()
    assert newcomer.records["us"]["priority"] < 5
    assert newcomer.leadership.seniors() == ["old"]


def test_who_starts_first_is_senior_and_two_of_one_instant_differ() -> None:
    clocks = Clocks()
    numbers = []
    for seed in range(50):
        alone = Leadership("x", TERMS, now=lambda: clocks.now, wall=lambda: clocks.wall, random=Random(seed))
        numbers.append(alone.renew())
    assert len(set(numbers)) > 40
    clocks.advance(0.002)
    later = Leadership("x", TERMS, now=lambda: clocks.now, wall=lambda: clocks.wall, random=Random(1))
    assert later.renew() < min(numbers)


def test_an_older_view_than_one_that_was_seen_is_ignored() -> None:
    replica = Replica()
    replica.renew()
    replica.leadership.observe("1", {})
    assert replica.may_lead()


def test_a_renewal_is_found_however_often_the_priority_was_read() -> None:
    replica = Replica()
    replica.renew()
    replica.clocks.advance(3)
    record = replica.send()
    for _ in range(10_000):
        replica.clocks.advance(0.0001)
        replica.leadership.renew()
    replica.records["us"] = record
    replica.show()
    replica.clocks.advance(TERMS.fresh_seconds - 1.1)
    assert replica.may_lead()


# --- clocks that are set ---------------------------------------------------------------------------------------------


def test_a_clock_that_is_set_back_keeps_no_fence_open() -> None:
    replica = Replica()
    replica.renew()
    replica.clocks.wall -= timedelta(hours=1)
    replica.clocks.advance(TERMS.fresh_seconds)
    assert not replica.may_lead()


def test_a_clock_that_is_set_forward_or_a_machine_that_was_suspended_closes_the_fence() -> None:
    replica = Replica()
    replica.renew()
    first = replica.records["us"]["priority"]
    replica.clocks.wall += timedelta(seconds=60)  # the monotonic clock has stood still
    assert not replica.may_lead()
    assert not replica.leadership.is_alive()
    assert replica.leadership.renew() == first  # requests may be under way
    replica.clocks.advance(TERMS.request_seconds)
    assert replica.leadership.renew() < first


def test_a_renewal_after_the_clock_was_set_back_counts() -> None:
    replica = Replica()
    replica.renew()
    replica.clocks.wall -= timedelta(hours=1)
    replica.clocks.advance(5)
    replica.renew()
    replica.clocks.advance(5)
    assert replica.may_lead()


def test_a_time_of_day_that_two_renewals_may_have_had_counts_from_the_earlier_one() -> None:
    replica = Replica()
    replica.renew()
    replica.clocks.advance(5)
    replica.clocks.wall -= timedelta(seconds=5) - timedelta(milliseconds=200)
    replica.renew()
    replica.clocks.advance(3)  # 8 after the first, 3 after the second
    assert not replica.may_lead()


# --- what records may look like --------------------------------------------------------------------------------------

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
nonsense = st.dictionaries(
    st.text(max_size=3),
    anything | st.fixed_dictionaries({"priority": anything, "lifetime": anything, "lastseen": anything}),
)


@given(nonsense | anything)
def test_records_that_make_no_sense_raise_nothing(status: Any) -> None:
    replica = Replica()
    replica.renew()
    replica.leadership.observe("99", status)
    replica.leadership.seniors()
    replica.leadership.renew()


def test_a_record_that_lacks_fields_has_those_that_kopf_takes_for_granted() -> None:
    (record,) = read_records({"x": {}}).values()
    assert (record.priority, record.lifetime_seconds, record.stamp) == (0, 60.0, "")


@pytest.mark.parametrize("text", ["", "yesterday", "0001-01-01T00:00:00+14:00"])
def test_a_stamp_that_is_no_time_is_none(text: str) -> None:
    assert parse_stamp(text) is None


def test_stamps_are_read_as_kopf_and_others_write_them() -> None:
    assert parse_stamp("2026-01-01T00:00:00Z") == parse_stamp("2026-01-01T00:00:00.000000+00:00") == START
    assert parse_stamp("2026-01-01T00:00:00") == START


@pytest.mark.parametrize("lifetime", [5, 10, 15, 20, 60])
def test_a_renewal_that_kopf_makes_as_late_as_it_may_is_in_time(lifetime: int) -> None:
    latest = min(lifetime, max(1, lifetime - 5))
    assert Terms(lifetime).fresh_seconds - latest >= 2


def test_a_senior_that_a_list_does_not_show_may_have_been_renewed_before_it_went() -> None:
    replica = Replica()
    replica.renew()
    replica.other("them", SENIOR)
    replica.pass_time(8)
    del replica.records["them"]
    replica.version += 1
    replica.leadership.observe(str(replica.version), replica.records, jumped=True)
    replica.pass_time(8)
    assert replica.leadership.seniors() == ["them"]
    replica.pass_time(2)
    assert replica.may_lead()
