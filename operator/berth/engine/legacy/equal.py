"""EqualPriority: scores every node 1, so that only other priorities and the tie-break decide."""

import numpy as np

from berth.engine.plugin import Dependencies, Query, ScorePlugin
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, Rows


class EqualPriority(ScorePlugin):
    name = "EqualPriority"
    dependencies = Dependencies(static_key=lambda pod: ())

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        return np.ones_like(state.table.taint_sets[rows])
