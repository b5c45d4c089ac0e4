"""How full nodes are, as the resource scores see it, and the arguments that name those resources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.plugin import BadArgument, Query
from berth.engine.table import CPU, MEMORY, NodeTable
from berth.engine.verdict import Rows

MAX_RESOURCE_WEIGHT = 100
_NATIVE = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class WeighedResource:
    name: str
    weight: int


DEFAULT_RESOURCES = (WeighedResource("cpu", 1), WeighedResource("memory", 1))


@dataclass(frozen=True, slots=True)
class Allocation:
    """int64[resources, nodes]: what nodes have, what is taken of it, and the same with the pod on top.

    A resource that does not count on a node has 0 in all three: the node has none of it, or it is one of the extended
    resources and the pod does not ask for it.
    """

    allocatable: NDArray[np.int64]
    allocated: NDArray[np.int64]
    requested: NDArray[np.int64]


def pod_amount(query: Query, name: str, with_defaults: bool) -> int:
    return (query.pod.scored if with_defaults else query.pod.usage).get(name, 0)


def allocation(
    query: Query, table: NodeTable, rows: Rows, resources: Sequence[WeighedResource], with_defaults: bool
) -> Allocation:
    """`with_defaults`: cpu and memory of pods that name none are taken as 100m and 200Mi."""
    shape = (len(resources), len(table.taint_sets[rows]))
    allocatable, allocated = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    amounts = np.zeros((len(resources), 1), dtype=np.int64)
    for position, resource in enumerate(resources):
        amount = pod_amount(query, resource.name, with_defaults)
        index = table.resource_index.get(resource.name)
        if index is None or resource.name == "pods" or (not amount and resource.name not in _NATIVE):
            continue
        taken = table.nonzero if with_defaults and index in (CPU, MEMORY) else table.used
        amounts[position] = amount
        allocatable[position] = table.allocatable[index, rows]
        allocated[position] = taken[index, rows]
    requested = allocated + amounts
    missing = allocatable == 0
    if missing.any():
        allocated[missing] = requested[missing] = 0
    return Allocation(allocatable, allocated, requested)


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
