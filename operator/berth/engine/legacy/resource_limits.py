"""ResourceLimitsPriority: scores nodes 1 if the pod's cpu limit or its memory limit fits, and 0 otherwise.

A limit fits if it is not above what is allocatable on the node, whatever is used of it. A pod without limits scores 0
on all nodes. The score is this small because it is meant to break ties.
"""

import numpy as np

from berth.engine.plugin import Dependencies, Query, ScorePlugin, nothing_else
from berth.engine.state.node_table import CPU, MEMORY
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, Rows
from berth.model import Pod


class ResourceLimitsPriority(ScorePlugin):
    name = "ResourceLimitsPriority"
    dependencies = Dependencies(node_local=True, version=nothing_else)

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.limits)

    def pre_score(self, query: Query, state: State) -> bool:
        return bool(query.pod.limits)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        table, limits = state.table, query.pod.limits
        fits = np.zeros_like(table.taint_sets[rows], dtype=np.bool_)
        for index, name in ((CPU, "cpu"), (MEMORY, "memory")):
            if limit := limits.get(name, 0):
                fits |= limit <= table.allocatable[index, rows]
        return fits.astype(np.int64)
