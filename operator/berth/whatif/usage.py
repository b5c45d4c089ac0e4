"""What is requested of the nodes' resources, by zone. Sums are of nodes that are not cordoned: others take no pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.state import State
from berth.engine.verdict import row_numbers
from berth.whatif.workloads import NO_ZONE, zone_of

PODS: Final = "pods"
FIRST: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Amount:
    """Millicores for cpu, bytes for memory and ephemeral-storage, units of all else."""

    requested: int
    allocatable: int

    @property
    def share(self) -> float:
        """0 if there is none of it."""
        return self.requested / self.allocatable if self.allocatable else 0.0


@dataclass(frozen=True, slots=True)
class Use:
    """What some nodes have: their number, their pods, and each resource that one of them has."""

    nodes: int
    pods: int
    resources: Mapping[str, Amount]


@dataclass(frozen=True, slots=True)
class NodeUse:
    """The shares of one node's cpu and memory that are requested; `cordoned`: it takes no pods."""

    name: str
    zone: str
    cpu: float
    memory: float
    pods: int
    cordoned: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of all nodes, of each zone by name, and of each node by name."""

    total: Use
    zones: Mapping[str, Use]
    nodes: Sequence[NodeUse]

    def skew(self, resource: str) -> float:
        """Returns the difference between the zones with the highest and the lowest share of a resource."""
        shares = [
            use.resources[resource].share
            for zone, use in self.zones.items()
            if zone != NO_ZONE and resource in use.resources
        ]
        return max(shares) - min(shares) if shares else 0.0


def measure(state: State) -> Usage:
    """Returns the use of the known nodes as it is now."""
    table = state.table
    zones = {node.name: zone_of(node) for node in table.nodes()}
    rows = row_numbers(table.rows)
    rows = rows[~table.unschedulable[rows]]
    zone_of_row = np.array([zones[table.name(int(row))] for row in rows], dtype=object)
    by_zone = {str(zone): _use(state, rows[zone_of_row == zone]) for zone in sorted(set(zone_of_row.tolist()))}
    return Usage(_use(state, rows), by_zone, _node_uses(state, zones))


def _use(state: State, rows: NDArray[np.intp]) -> Use:
    table = state.table
    index = table.resource_index
    names = [*FIRST, *sorted(name for name in index if name not in (*FIRST, PODS))]
    amounts = {
        name: Amount(int(table.used[index[name], rows].sum()), int(table.allocatable[index[name], rows].sum()))
        for name in names
    }
    there = {name: amount for name, amount in amounts.items() if name in FIRST or amount.allocatable}
    return Use(len(rows), int(table.used[index[PODS], rows].sum()), there)


def _node_uses(state: State, zones: Mapping[str, str]) -> list[NodeUse]:
    table = state.table
    rows = table.rows_by_name
    columns = []
    for name in FIRST:
        row = table.resource_index[name]
        columns.append((table.used[row, rows] / np.maximum(table.allocatable[row, rows], 1)).tolist())
    pods = table.used[table.resource_index[PODS], rows].tolist()
    cordoned = table.unschedulable[rows].tolist()
    return [
        NodeUse(name, zones[name], *shown)
        for name, *shown in zip(table.sorted_names, *columns, pods, cordoned, strict=True)
    ]
