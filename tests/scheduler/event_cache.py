"""A cache that answers with the events alone, for tests to which it does not matter what else is known of a change."""

from collections.abc import Iterable
from typing import Any

from berth.engine.events import Change, Event
from berth.scheduler import Cache


def events_of(changes: Iterable[Change]) -> frozenset[Event]:
    return frozenset().union(*(change.events for change in changes))


class EventCache(Cache):
    def observe(self, *given: Any) -> Any:
        return events_of(super().observe(*given))

    def remove(self, *given: Any, **options: Any) -> Any:
        return events_of(super().remove(*given, **options))

    def assume(self, *given: Any) -> Any:
        return events_of(super().assume(*given))

    def forget(self, *given: Any) -> Any:
        return events_of(super().forget(*given))
