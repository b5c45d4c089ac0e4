"""Ages as kubectl prints them: 45s, 3m10s, 5h, 2d3h."""

from __future__ import annotations

from datetime import UTC, datetime

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = 365 * DAY


def human_duration(seconds: float) -> str:
    """Two units while the bigger one is small, then one: Kubernetes' HumanDuration."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * MINUTE:
        return f"{max(whole, 0)}s"
    for limit, unit, name, smaller, smaller_name in (
        (10 * MINUTE, MINUTE, "m", 1, "s"),
        (3 * HOUR, MINUTE, "m", 0, ""),
        (8 * HOUR, HOUR, "h", MINUTE, "m"),
        (48 * HOUR, HOUR, "h", 0, ""),
        (8 * DAY, DAY, "d", HOUR, "h"),
        (2 * YEAR, DAY, "d", 0, ""),
        (8 * YEAR, YEAR, "y", DAY, "d"),
    ):
        if whole < limit:
            rest = whole % unit // smaller if smaller else 0
            return f"{whole // unit}{name}" + (f"{rest}{smaller_name}" if rest else "")
    return f"{whole // YEAR}y"


def age(timestamp: object, now: datetime) -> str:
    """How long ago an API timestamp was."""
    if not isinstance(timestamp, str) or not timestamp:
        return "<unknown>"
    try:
        then = datetime.fromisoformat(timestamp)
    except ValueError:
        return "<unknown>"
    return human_duration((now - (then if then.tzinfo else then.replace(tzinfo=UTC))).total_seconds())
