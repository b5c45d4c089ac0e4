"""A plugin that says what it is told to say, and changes for it to be asked about."""

from typing import Any

from berth.engine.events import Change, Event
from berth.engine.plugin import FilterPlugin, Query
from berth.model import parse_node
from support.builders import make_node


class Recording(FilterPlugin):
    """Gives one hint whatever it is asked about, and counts how often it is asked."""

    name = "Recording"

    def __init__(self, helps: bool | Exception, *retry_events: Event) -> None:
        self.helps, self.asked = helps, 0
        self.retry_events = frozenset(retry_events or {Event.NODE_ADDED})

    def hint(self, query: Query, state: Any, change: Change) -> bool:
        self.asked += 1
        if isinstance(self.helps, Exception):
            raise self.helps
        return self.helps


def known_change(*events: Event, node: str = "a") -> Change:
    return Change(frozenset(events or {Event.NODE_ADDED}), None, parse_node(make_node(node)), node)
