"""Times in tables, as kubectl prints ages: 45s, 3m, 5h, 2d."""

from datetime import UTC, datetime

_UNITS = ((86_400, "d", 2), (3_600, "h", 2), (60, "m", 2), (1, "s", 0))


def short(seconds: float) -> str:
    """Returns the duration in the largest unit of which there are at least two."""
    whole = max(0, int(seconds))
    unit, sign, _ = next(entry for entry in _UNITS if whole >= entry[0] * entry[2])
    return f"{whole // unit}{sign}"


def seconds_between(earlier: object, later: datetime) -> float | None:
    """Returns the seconds from an API timestamp to a moment; None if it is not a timestamp."""
    if not isinstance(earlier, str) or not earlier:
        return None
    try:
        moment = datetime.fromisoformat(earlier)
    except ValueError:
        return None
    return (later - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))).total_seconds()


def age(timestamp: object, now: datetime) -> str:
    """Returns how long ago a timestamp was."""
    seconds = seconds_between(timestamp, now)
    return "<unknown>" if seconds is None else short(seconds)
