"""NodePorts: two pods on a node cannot use the same host port.

Ports conflict if protocol and number are equal, and the addresses are equal or one of them is 0.0.0.0.
"""

from collections.abc import Hashable

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.plugin import Dependencies, FilterPlugin, Query, nothing_else
from berth.engine.plugins.common.hints import fits_there
from berth.engine.state.host_ports import any_clash
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, SKIP, Code, PreFilter, Rows, Verdicts, refuse_where
from berth.model import Pod

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(FilterPlugin):
    name = "NodePorts"
    dependencies = Dependencies(node_local=True, version=nothing_else)
    retry_events = frozenset({Event.NODE_ADDED, Event.POD_REMOVED})
    local_events = retry_events

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.host_ports)

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED if query.pod.host_ports else SKIP

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        taken = np.zeros(state.table.capacity, dtype=np.bool_)
        for wanted in query.pod.host_ports:
            for holders in state.table.ports.clashing(wanted):
                taken[np.fromiter(holders, np.intp, len(holders))] = True
        return refuse_where(taken[rows], Code.UNSCHEDULABLE, REASON)

    def filter_with_nominated(self, query: Query, state: State, nominated: NominatedRows) -> Verdicts:
        taken = ~self.filter(query, state, nominated.rows).fits
        for wanted in query.pod.host_ports:
            taken |= nominated.holding(wanted)
        return refuse_where(taken, Code.UNSCHEDULABLE, REASON)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        gone = change.old
        if isinstance(gone, Pod) and not any_clash(gone.host_ports, query.pod.host_ports):
            return False
        return fits_there(self, query, state, change)

    def hint_key(self, pod: Pod) -> Hashable:
        return pod.host_ports, pod.priority, pod.preemption_policy
