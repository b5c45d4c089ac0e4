"""When a CronJob is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.sim.cron_schedule import CronSchedule

WEDNESDAY = datetime(2026, 11, 18, 10, 7, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("* * * * *", (2026, 11, 18, 10, 8)),
        ("*/15 * * * *", (2026, 11, 18, 10, 15)),
        ("7 10 * * *", (2026, 11, 19, 10, 7)),
        ("5/20 * * * *", (2026, 11, 18, 10, 25)),
        ("0 9-17/4 * * mon-fri", (2026, 11, 18, 13, 0)),
        ("30 6 * * 0,7", (2026, 11, 22, 6, 30)),
        ("0 0 29 2 *", (2028, 2, 29, 0, 0)),
        ("0 0 1 * fri", (2026, 11, 20, 0, 0)),
        ("0 0 ? jan *", (2027, 1, 1, 0, 0)),
        ("@hourly", (2026, 11, 18, 11, 0)),
        ("@Weekly", (2026, 11, 22, 0, 0)),
        ("@yearly", (2027, 1, 1, 0, 0)),
    ],
)
def test_the_next_time_is_the_first_that_suits_every_field(text: str, due: tuple[int, ...]) -> None:
    assert CronSchedule.parse(text).next_after(WEDNESDAY) == datetime(*due, tzinfo=UTC)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("*/5", "expected exactly 5 fields, found 1"),
        ("60 * * * *", "minute: .* is not within 0 and 59"),
        ("* * 0 * *", "day of month: .* is not within 1 and 31"),
        ("* * * * 5-2", "day of week: .* is not within 0 and 7"),
        ("*/0 * * * *", "minute: .* is not within"),
        ("x * * * *", 'minute: "x" is not a number'),
        ("@reboot", "expected exactly 5 fields"),
    ],
)
def test_a_schedule_that_cannot_be_read_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        CronSchedule.parse(text)


def test_a_day_that_never_comes_is_never_due() -> None:
    assert CronSchedule.parse("0 0 31 2 *").next_after(WEDNESDAY) is None


def test_times_are_those_of_the_zone_of_the_moment() -> None:
    berlin = WEDNESDAY.astimezone(ZoneInfo("Europe/Berlin"))
    due = CronSchedule.parse("0 12 * * *").next_after(berlin)
    assert due is not None
    assert due.astimezone(UTC) == datetime(2026, 11, 18, 11, 0, tzinfo=UTC)


FIELD = st.one_of(st.just("*"), st.just("*/7"), st.integers(1, 5).map(str), st.just("2-4"), st.just("1,3"))


@given(st.lists(FIELD, min_size=3, max_size=3), st.integers(0, 400_000))
def test_the_next_time_is_what_trying_every_minute_finds(fields: list[str], minutes: int) -> None:
    minute, hour, weekday = fields
    schedule = CronSchedule.parse(f"{minute} {hour} * * {weekday}")
    start = WEDNESDAY + timedelta(minutes=minutes)
    tried = start.replace(second=0)
    while True:
        tried += timedelta(minutes=1)
        if (
            tried.minute in schedule.minutes
            and tried.hour in schedule.hours
            and tried.isoweekday() % 7 in schedule.weekdays
        ):
            break
    assert schedule.next_after(start) == tried
