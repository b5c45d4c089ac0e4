"""EqualPriority: 1 for every node, so that nothing but other priorities and the tie-break tell nodes apart."""

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
