"""How full nodes are, as the resource scores see it, and the arguments that name those resources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.engine.plugin import BadArgument, Query
from berth.engine.table import MEMORY, NodeTable
from berth.engine.verdict import Int64Column, Rows, row_count

MAX_RESOURCE_WEIGHT = 100
_NATIVE = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class WeighedResource:
    name: str
    weight: int


DEFAULT_RESOURCES = (WeighedResource("cpu", 1), WeighedResource("memory", 1))


class Counted(NamedTuple):
    """A resource that counts for a pod: its number in the table, what the pod asks for of it, and its weight."""

    number: int
    amount: int
    weight: int


class Share(NamedTuple):
    """What one node has of a resource, what is taken of it with the pod there, and the resource's weight."""

    have: int
    taken: int
    weight: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """int64[resources, nodes]: what nodes have and what is taken of it; `complete`: every node has some of each.

    A resource that a node has none of does not count there.
    """

    have: NDArray[np.int64]
    taken: NDArray[np.int64]
    complete: bool

    @property
    def divisor(self) -> NDArray[np.int64]:
        return self.have if self.complete else np.maximum(self.have, 1)


def pod_amount(query: Query, name: str, with_defaults: bool) -> int:
    return (query.pod.scored if with_defaults else query.pod.usage).get(name, 0)


def counted(
    query: Query, table: NodeTable, resources: Sequence[WeighedResource], with_defaults: bool
) -> tuple[Counted, ...]:
    """The resources that count for the pod; an extended one that it does not ask for does not.

    `with_defaults`: cpu and memory of pods that name none are taken as 100m and 200Mi.
    """
    found = []
    for resource in resources:
        amount = pod_amount(query, resource.name, with_defaults)
        number = table.resource_index.get(resource.name)
        if number is not None and resource.name != "pods" and (amount or resource.name in _NATIVE):
            found.append(Counted(number, amount, resource.weight))
    return tuple(found)


def allocation(
    table: NodeTable, rows: Rows, resources: Sequence[Counted], with_defaults: bool, with_pod: bool = True
) -> Allocation:
    """What is taken on these rows, with the pod on top of it or without."""
    have = np.empty((len(resources), row_count(rows)), dtype=np.int64)
    taken = np.empty_like(have)
    for position, resource in enumerate(resources):
        have[position] = table.allocatable[resource.number, rows]
        before = _taken(table, resource, with_defaults)[rows]
        taken[position] = before + resource.amount if with_pod else before
    return Allocation(have, taken, bool(have.min(initial=1) > 0))


def shares(table: NodeTable, row: int, resources: Sequence[Counted], with_defaults: bool) -> list[Share]:
    """The same of a single row, with the pod on top; resources that the node has none of are left out."""
    found = []
    for r in resources:
        have = table.allocatable.item(r.number, row)
        if have:
            found.append(Share(have, _taken(table, r, with_defaults).item(row) + r.amount, r.weight))
    return found


def _taken(table: NodeTable, resource: Counted, with_defaults: bool) -> Int64Column:
    columns = table.nonzero if with_defaults and resource.number <= MEMORY else table.used
    column: Int64Column = columns[resource.number]
    return column


def parse_resources(value: Any, field: str, highest_weight: int = MAX_RESOURCE_WEIGHT) -> tuple[WeighedResource, ...]:
    """The `resources` of a scoring strategy: names with weights, 1 where none is given."""
    if value is None or value == []:
        return DEFAULT_RESOURCES
    found: list[WeighedResource] = []
    for index, item in enumerate(require_list(value, field)):
        path = f"{field}[{index}]"
        entry = require_object(item, path, "name", "weight")
        name, weight = entry.get("name"), entry.get("weight") or 1
        if not isinstance(name, str) or not name:
            raise BadArgument(f"{path}.name", "must be the name of a resource")
        require_integer(weight, f"{path}.weight", 1, highest_weight)
        if any(name == other.name for other in found):
            raise BadArgument(f"{path}.name", f"{name} is there twice")
        found.append(WeighedResource(name, weight))
    return tuple(found)


def require_list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadArgument(field, "must be a list")
    return value


def require_object(value: Any, field: str, *known: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadArgument(field, "must be an object")
    for key in value:
        if key not in known:
            raise BadArgument(f"{field}.{key}", f"unknown field; known are {', '.join(sorted(known))}")
    return value


def require_integer(value: Any, field: str, lowest: int, highest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise BadArgument(field, f"must be a whole number from {lowest} to {highest}")
    return value
