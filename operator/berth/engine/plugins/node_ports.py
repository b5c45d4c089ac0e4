"""NodePorts: two pods on a node cannot hold the same host port.

Ports clash when protocol and number are equal and the addresses are, or one of them is every address (0.0.0.0).
"""

from berth.engine.events import Event
from berth.engine.plugin import Plugin, Query
from berth.engine.state import State
from berth.engine.table import bool_column
from berth.engine.verdict import PROCEED, SKIP, Code, PreFilter, Rows, Verdicts, refuse_where
from berth.model import HostPort

REASON = "node(s) didn't have free ports for the requested pod ports"
EVERY_ADDRESS = "0.0.0.0"


class NodePorts(Plugin):
    name = "NodePorts"
    filters = True
    wakes_on = frozenset({Event.NODE_ADDED, Event.POD_REMOVED})

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED if query.pod.host_ports else SKIP

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        taken = bool_column(rows)
        for held, counts in state.table.ports.columns.items():
            if any(_clash(wanted, held) for wanted in query.pod.host_ports):
                taken |= counts[rows] > 0
        return refuse_where(taken, Code.UNSCHEDULABLE, REASON)


def _clash(a: HostPort, b: HostPort) -> bool:
    same_port = a.protocol == b.protocol and a.port == b.port
    return same_port and (a.ip == b.ip or EVERY_ADDRESS in (a.ip, b.ip))
