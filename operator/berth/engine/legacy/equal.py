"""EqualPriority: scores every node 1, so that only other priorities and the tie-break decide."""

from collections.abc import Hashable

import numpy as np

from berth.engine.plugin import Plugin, Query
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, Rows
from berth.model import Pod


class EqualPriority(Plugin):
    name = "EqualPriority"
    scores = True

    def static_key(self, pod: Pod) -> Hashable:
        return ()

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        return np.ones_like(state.table.taint_sets[rows])
