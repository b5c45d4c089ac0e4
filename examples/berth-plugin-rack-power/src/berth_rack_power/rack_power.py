"""RackPower: a rack of nodes has one power supply, and the pods on it must not draw more than that gives.

A rack is the nodes that share the value of a label. What it draws is estimated from the cpu that its pods request.

filter: refused where the rack would draw more than `maxWatts` with the pod.
score: what the rack has left then; the rack with most left becomes 100, the others their share.

A node without the label is in no rack: it is never refused, and scores like a rack that draws nothing.

Arguments: maxWatts (required), wattsPerCore (10), label (example.com/rack).
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from berth.engine.events import Event
from berth.engine.plugin import (
    BadArgument,
    Dependencies,
    FilterPlugin,
    Query,
    ScorePlugin,
    refuse_unknown,
    scale_to_highest,
)
from berth.engine.state.node_table import CPU
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, SKIP, Code, Int64Column, PreFilter, Rows, Verdicts, refuse_where

REASON = "node(s) were in a rack without power for the pod"
MOST_WATTS = 1_000_000_000


class RackPower(FilterPlugin, ScorePlugin):
    retry_events = frozenset(
        {Event.NODE_ADDED, Event.NODE_REMOVED, Event.NODE_LABELS, Event.POD_REMOVED, Event.POD_SHRUNK}
    )

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "maxWatts", "wattsPerCore", "label")
        if "maxWatts" not in args:
            raise BadArgument("maxWatts", "is required: what the power supply of a rack gives, in watts")
        self._limit = 1000 * _watts(args["maxWatts"], "maxWatts")  # milliwatts, as cpu is in millicores
        self._per_core = _watts(args.get("wattsPerCore", 10), "wattsPerCore")
        self._label = args.get("label", "example.com/rack")
        if not isinstance(self._label, str) or not self._label:
            raise BadArgument("label", f"{self._label!r} is not the name of a label")
        self._memo = f"RackPower {self._label} {self._limit} {self._per_core}"
        # The answers depend on the pods of all racks, besides the pod and the nodes' labels. `mark` moves whenever pods
        # are added or removed. Of these, a node is affected by those in its own rack.
        self.dependencies = Dependencies(
            version=lambda query, state: state.table.mark, affected_rows=self._rows_of_racks
        )

    def _rows_of_racks(
        self, query: Query, state: State, before: Hashable, now: Hashable, rows: Sequence[int]
    ) -> Sequence[int]:
        racks, _ = state.table.label(self._label)
        touched = racks[list(rows)]
        return [*rows, *np.flatnonzero(np.isin(racks, touched[touched >= 0])).tolist()]

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED if query.pod.requests.get("cpu") else SKIP

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        return refuse_where(self._left(query, state)[rows] < 0, Code.UNSCHEDULABLE, REASON)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        return self._left(query, state)[rows]

    def bounds(self, scores: Int64Column) -> int:
        return int(scores.max(initial=0))

    def scale(self, scores: Int64Column, bounds: int) -> Int64Column:
        return scale_to_highest(scores, bounds)

    def _left(self, query: Query, state: State) -> Int64Column:
        """int64[all rows], milliwatts: what is left of the power of each row's rack once the pod is there."""
        if self._memo not in query.memo:
            table = state.table
            racks, values = table.label(self._label)
            drawn = np.zeros(len(values.ids) + 1, dtype=np.int64)  # the last, at -1, is for nodes in no rack
            np.add.at(drawn, racks[table.rows], table.used[CPU, table.rows] * self._per_core)
            drawn[-1] = 0
            drawn[:-1] += query.pod.requests.get("cpu", 0) * self._per_core
            query.memo[self._memo] = (self._limit - drawn)[racks]
        left: Int64Column = query.memo[self._memo]
        return left


def _watts(value: object, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_WATTS:
        raise BadArgument(field, f"{value!r} is not a whole number of watts from 1 to {MOST_WATTS}")
    return value
