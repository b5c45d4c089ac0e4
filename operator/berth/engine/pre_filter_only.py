"""PreFilterOnly: a plugin that is disabled at Filter, but enabled at PreFilter.

A kube-scheduler profile can disable a plugin at the `filter` extension point alone. PreFilter may then still reject the
pod on all nodes, or restrict it to some nodes; Filter rejects none.
"""

import numpy as np

from berth.engine.plugin import Dependencies, FilterPlugin, PodsRead, Query
from berth.engine.state.state import State
from berth.engine.verdict import PreFilter, Rows, Verdicts, row_count
from berth.model import Pod


class PreFilterOnly(FilterPlugin):
    def __init__(self, plugin: FilterPlugin) -> None:
        self.name = plugin.name
        self.retry_events = plugin.retry_events
        self._plugin = plugin
        known = plugin.dependencies
        self.dependencies = Dependencies(
            static_key=known.static_key, pods=PodsRead.NONE, filter_version=known.filter_version
        )

    def concerns(self, pod: Pod) -> bool:
        return self._plugin.concerns(pod)

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return self._plugin.pre_filter(query, state)

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        nodes = row_count(rows)
        return Verdicts(np.zeros(nodes, dtype=np.int8), np.zeros(nodes, dtype=np.int64), lambda cause: ())

    def take_failures(self) -> tuple[int, str]:
        return self._plugin.take_failures()
