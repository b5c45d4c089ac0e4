"""The time that actors live by, which is the scheduler's port, and the times of API objects."""

from datetime import datetime

from berth.scheduler.ports import Clock


def timestamp(moment: datetime) -> str:
    """Returns a time as the API writes it: whole seconds, UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text)


__all__ = ["Clock", "parse_timestamp", "timestamp"]
