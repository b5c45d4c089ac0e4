"""How full nodes are, for the scores by resources, and the plugin arguments that name those resources."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.engine.plugin import MAX_SCORE, BadArgument, Query
from berth.engine.state.amounts import hundredths
from berth.engine.state.node_table import EXACT, MEMORY, Floats, NodeTable
from berth.engine.verdict import Rows

MAX_RESOURCE_WEIGHT = 100
_NATIVE = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class WeighedResource:
    name: str
    weight: int


DEFAULT_RESOURCES = (WeighedResource("cpu", 1), WeighedResource("memory", 1))


class CountedResource(NamedTuple):
    """A resource that is scored for a pod: its index in the table, the pod's request, and its weight."""

    number: int
    amount: int
    weight: int


Column = NDArray[Any]
"""Whole numbers: as floats where these are exact, up to a hundredfold; they divide several times faster."""


class Load(NamedTuple):
    """A resource on many nodes: what is allocatable and used on each, and what the pod adds.

    `everywhere`: every node has some of it; on a node without it, the resource is not scored. The columns may be the
    table's own: they must not be written.
    """

    have: Column
    taken: Column
    amount: int
    weight: int
    everywhere: bool

    @property
    def divisor(self) -> Column:
        return self.have if self.everywhere else np.maximum(self.have, 1)

    def filled(self) -> Column:
        """Returns what is used with the pod there, at most what is allocatable, as a new array."""
        filled: Column = self.taken + self.amount
        if filled.dtype.kind != "f":  # the sum may have overflowed; the difference cannot
            np.copyto(filled, self.have, where=self.have - self.taken < self.amount)
        return np.minimum(filled, self.have, out=filled)


def cut_quotient(dividend: Column, divisor: Column | int) -> Column:
    """Divides in place, truncated to whole numbers; neither operand is negative.

    Floats that hold integers below 2**53 give the same result as integer division: the quotient is an integer, or at
    least 1/divisor below the next one; as next * divisor is below 2**53, too, rounding cannot reach it.
    """
    if dividend.dtype.kind == "f":
        np.divide(dividend, divisor, out=dividend)
        return np.floor(dividend, out=dividend)
    return np.floor_divide(dividend, divisor, out=dividend)


def percentage(part: Column, whole: Column) -> Column:
    """Returns part * 100 / whole, truncated; parts are from 0 to their wholes, and may be overwritten."""
    if part.dtype.kind == "f":
        part *= MAX_SCORE
        return cut_quotient(part, whole)
    return hundredths(part, whole)


def pod_amount(query: Query, name: str, with_defaults: bool) -> int:
    return (query.pod.scored if with_defaults else query.pod.usage).get(name, 0)


def counted(
    query: Query, table: NodeTable, resources: Sequence[WeighedResource], with_defaults: bool
) -> tuple[CountedResource, ...]:
    """Returns the resources that are scored for the pod, without extended resources that it does not request.

    `with_defaults`: pods that request no cpu or memory count with 100m and 200Mi.
    """
    found = []
    for resource in resources:
        amount = pod_amount(query, resource.name, with_defaults)
        number = table.resource_index.get(resource.name)
        if number is not None and resource.name != "pods" and (amount or resource.name in _NATIVE):
            found.append(CountedResource(number, amount, resource.weight))
    return tuple(found)


def loads(table: NodeTable, rows: Rows, resources: Sequence[CountedResource], with_defaults: bool) -> Iterator[Load]:
    """Yields the loads of the resources on these rows, which have known nodes."""
    exact = table.exact and all(resource.amount < EXACT for resource in resources)
    columns = table.floats if exact else table
    for resource in resources:
        have = columns.allocatable[resource.number, rows]
        taken = _taken(columns, resource, with_defaults)[rows]
        yield Load(have, taken, resource.amount, resource.weight, table.is_everywhere(resource.number))


def loads_without(
    table: NodeTable, rows: Rows, resources: Sequence[CountedResource], with_defaults: bool
) -> Iterator[Load]:
    """The same without the pod, also for rows without a known node."""
    for resource in resources:
        have = table.allocatable[resource.number, rows]
        everywhere = bool(have.min(initial=1) > 0)
        yield Load(have, _taken(table, resource, with_defaults)[rows], 0, resource.weight, everywhere)


def _taken(table: NodeTable | Floats, resource: CountedResource, with_defaults: bool) -> Column:
    columns: Column = table.nonzero if with_defaults and resource.number <= MEMORY else table.used
    taken: Column = columns[resource.number]
    return taken


def parse_resources(value: Any, field: str, highest_weight: int = MAX_RESOURCE_WEIGHT) -> tuple[WeighedResource, ...]:
    """Parses the `resources` of a scoring strategy: names with weights, 1 by default."""
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
        allowed = f"a whole number from {lowest} to {highest}" if lowest < highest else str(lowest)
        raise BadArgument(field, f"must be {allowed}")
    return value
