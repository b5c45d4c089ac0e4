"""ResourceLimitsPriority: 1 for nodes on which the pod's cpu limit or its memory limit fits, 0 for the others.

A limit fits where it is not above what the node has in all (allocatable), whatever is taken of it. A pod without limits
gets 0 everywhere. Meant to break ties, hence so small a score.
"""

from collections.abc import Hashable

import numpy as np

from berth.engine.plugin import NOTHING_ELSE, Plugin, Query
from berth.engine.state.node_table import CPU, MEMORY
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, Rows
from berth.model import Pod


class ResourceLimitsPriority(Plugin):
    name = "ResourceLimitsPriority"
    scores = True

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.limits)

    def basis(self, query: Query, state: State) -> Hashable:
        return NOTHING_ELSE

    def pre_score(self, query: Query, state: State) -> bool:
        return bool(query.pod.limits)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        table, limits = state.table, query.pod.limits
        fits = np.zeros_like(table.taint_sets[rows], dtype=np.bool_)
        for index, name in ((CPU, "cpu"), (MEMORY, "memory")):
            if limit := limits.get(name, 0):
                fits |= limit <= table.allocatable[index, rows]
        return fits.astype(np.int64)
