"""The schedule of a CronJob: when it is due next.

    CronSchedule.parse("*/15 8-18 * * mon-fri").next_after(moment)

Five fields (minute, hour, day of month, month, day of week) with lists, ranges, steps and names, or @hourly, @daily,
@midnight, @weekly, @monthly, @yearly, @annually. If both days are restricted, either one is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS: Final[tuple[tuple[str, int, int, Mapping[str, int]], ...]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(MONTHS, start=1)}),
    ("day of week", 0, 7, {name: number for number, name in enumerate(DAYS)}),
)
# The 29th of February is at most eight years away.
LONGEST_DAYS: Final = 8 * 366


@dataclass(frozen=True, slots=True)
class CronSchedule:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Whether a day that suits one of `days` and `weekdays` is enough."""

    @classmethod
    def parse(cls, text: str) -> CronSchedule:
        """Raises ValueError with the problem."""
        words = MACROS.get(text.strip().lower(), text).split()
        if len(words) != len(FIELDS):
            raise ValueError(f"expected exactly 5 fields, found {len(words)}: {text}")
        parsed = [_numbers(word, *field) for word, field in zip(words, FIELDS, strict=True)]
        minutes, hours, days, months, weekdays = parsed
        either = not words[2].startswith(("*", "?")) and not words[4].startswith(("*", "?"))
        return cls(minutes, hours, days, months, frozenset(day % 7 for day in weekdays), either)

    def next_after(self, moment: datetime) -> datetime | None:
        """The first due minute after a moment, in its time zone; None if there is none."""
        start = (moment + timedelta(minutes=1)).replace(second=0, microsecond=0)
        for number in range(LONGEST_DAYS):
            day = start + timedelta(days=number)
            if not self._suits(day):
                continue
            earliest = (day.hour, day.minute) if number == 0 else (0, 0)
            for hour in sorted(self.hours):
                for minute in sorted(self.minutes):
                    if (hour, minute) >= earliest:
                        return day.replace(hour=hour, minute=minute)
        return None

    def _suits(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday if self.either_day else by_date and by_weekday


def _numbers(word: str, name: str, least: int, most: int, names: Mapping[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        span, _, step_text = part.partition("/")
        step = _number(step_text or "1", name, {})
        first, last = _span(span, name, least, most, names)
        if step_text and "-" not in span and span not in ("*", "?"):
            last = most
        if step < 1 or first < least or last > most or first > last:
            raise ValueError(f'{name}: "{part}" is not within {least} and {most}')
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _span(span: str, name: str, least: int, most: int, names: Mapping[str, int]) -> tuple[int, int]:
    if span in ("*", "?"):
        return least, most
    first, dash, last = span.partition("-")
    number = _number(first, name, names)
    return number, _number(last, name, names) if dash else number


def _number(text: str, name: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f'{name}: "{text}" is not a number')
    return int(text)
