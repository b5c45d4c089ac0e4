"""CheckNodeLabelPresence: nodes must have all of some labels, or none of them, whatever the values.

Arguments: labels (keys), presence (true: the node must have each; false, the default: it must have none).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.legacy.arguments import require_flag, require_labels
from berth.engine.plugin import Dependencies, FilterPlugin, Query, refuse_unknown
from berth.engine.plugins.common.hints import lets_now
from berth.engine.state.state import State
from berth.engine.verdict import Code, Rows, Verdicts, refuse_where
from berth.model import Node

REASON = "node(s) didn't have the requested labels"


class CheckNodeLabelPresence(FilterPlugin):
    name = "CheckNodeLabelPresence"
    dependencies = Dependencies(static_key=lambda pod: ())
    retry_events = frozenset({Event.NODE_ADDED, Event.NODE_LABELS})
    local_events = retry_events

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "labels", "presence")
        self._labels = require_labels(args, "labels")
        self._presence = require_flag(args, "presence")

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        wrong = np.zeros(state.table.capacity, dtype=np.bool_)
        for label in self._labels:
            ids, _ = state.table.label(label)
            wrong |= (ids >= 0) != self._presence
        return refuse_where(wrong[rows], Code.UNSCHEDULABLE, REASON)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        return lets_now(change, lambda node: self.admits(query, state, node))

    def admits(self, query: Query, state: State, node: Node) -> bool:
        return all((label in node.labels) == self._presence for label in self._labels)
