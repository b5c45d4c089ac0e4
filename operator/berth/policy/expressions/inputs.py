"""Nodes grouped by what an expression reads of them, resources apart: all nodes of a group are one input.

Labels, taints, conditions, annotations and names of nodes are numbered already (table.label, table.taint_sets,
table.fact), so the groups are the distinct rows of a few integer columns. They are right for one `static_version`.
Resources change with every pod; they are read for each row when it is asked about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from berth.engine.state.amounts import MOST
from berth.engine.state.node_table import NodeTable
from berth.engine.verdict import Int64Column, Rows, row_numbers
from berth.model import Node
from berth.policy.expressions.fields import ALLOCATABLE, FIELDS, RESOURCES, USED, FieldKind, pairs, records
from berth.policy.expressions.reads import ExpressionReads

ABSENT: Final = -(2**63)
_FEW_COMBINATIONS: Final = 1 << 16

Numbered = tuple[Int64Column, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class NodeField:
    """A field of a node that is not a resource, or one key of it."""

    field: str
    key: str | None

    def numbered(self, table: NodeTable) -> Numbered:
        """int64[rows] of numbers, and the values that they stand for; None: the node has no such key."""
        match self.field:
            case "node.labels" if self.key is not None:
                ids, vocabulary = table.label(self.key)
                return ids, [*vocabulary.ids, None]
            case "node.taints":
                return table.taint_sets, table.taints_of
            case "node.unschedulable":
                return table.unschedulable.astype(np.int64), (False, True)
        # Names that no other fact has: they start with what only expressions read.
        fact = table.fact(f"{self.field} {'' if self.key is None else self.key}", self._read())
        return fact.ids, fact.values

    def _read(self) -> Callable[[Node], Hashable | None]:
        attribute, key = self.field.partition(".")[2], self.key
        if FIELDS[self.field].kind is FieldKind.TEXT:
            return lambda node: str(getattr(node, attribute))
        if key is None:
            return lambda node: pairs(getattr(node, attribute))
        return lambda node: getattr(node, attribute).get(key)


@dataclass(frozen=True, slots=True)
class Amount:
    """One resource in one of the maps; `asks`: it is left out where there is none, rather than 0."""

    field: str
    resource: str
    index: int
    asks: bool

    def column(self, table: NodeTable, rows: Rows) -> Int64Column:
        allocatable, used = table.allocatable[self.index, rows], table.used_column(self.resource)[rows]
        amounts = {ALLOCATABLE: allocatable, USED: used}.get(self.field)
        amounts = allocatable - used if amounts is None else amounts
        there = used if self.field == USED else allocatable
        return np.where(there > 0, amounts, ABSENT) if self.asks else amounts

    def of_row(self, table: NodeTable, row: int) -> int:
        allocatable, used = table.allocatable.item(self.index, row), min(table.used_of(self.resource, row), MOST)
        if self.asks and (used if self.field == USED else allocatable) <= 0:
            return ABSENT
        if self.field == ALLOCATABLE:
            return int(allocatable)
        return int(used if self.field == USED else allocatable - used)


class NodeGroups:
    """`of_row` is int64[rows], -1 where there is no node; `keys` are the values of the parts, one tuple a group."""

    def __init__(self, table: NodeTable, parts: Sequence[NodeField], reads: ExpressionReads) -> None:
        self.table, self.version, self.capacity = table, table.static_version, table.capacity
        self.parts = parts
        self.amounts = tuple(_amounts(table, reads))
        self.resource_names = tuple(amount.resource for amount in self.amounts)
        self.sized = [place for place, part in enumerate(parts) if _has_size(part)]
        self._resource_sizes = tuple(Counter(amount.field for amount in self.amounts).items())
        rows = row_numbers(table.rows)
        numbered = [part.numbered(table) for part in parts]
        groups, firsts = _distinct([ids[rows] for ids, _ in numbered], len(rows))
        self.of_row = np.full(table.capacity, -1, dtype=np.int64)
        self.of_row[rows] = groups
        self.firsts = rows[firsts]  # a row of each group
        columns = [[values[number] for number in ids[self.firsts].tolist()] for ids, values in numbered]
        self.keys: list[tuple[Any, ...]] = list(zip(*columns, strict=True)) if columns else [()] * len(firsts)

    def is_of(self, table: NodeTable) -> bool:
        now = (table.static_version, table.capacity)
        return table is self.table and now == (self.version, self.capacity)

    def data(self, group: int) -> dict[str, Any]:
        """What the group's nodes are to the expression, but for their resources."""
        data: dict[str, Any] = {}
        for part, value in zip(self.parts, self.keys[group], strict=True):
            if part.key is None:
                data[part.field] = _as_cel(part.field, value)
            else:
                there = data.setdefault(part.field, {})
                if value is not None:
                    there[part.key] = value
        return data

    def sizes(self, group: int) -> tuple[tuple[str, int], ...]:
        """The entries of the maps and lists that are read whole."""
        key = self.keys[group]
        return (*((self.parts[place].field, len(key[place])) for place in self.sized), *self._resource_sizes)

    def resources(self, rows: Rows) -> list[tuple[int, ...]]:
        """The amounts of each row."""
        return list(zip(*(amount.column(self.table, rows).tolist() for amount in self.amounts), strict=True))

    def resources_of(self, row: int) -> tuple[int, ...]:
        return tuple(amount.of_row(self.table, row) for amount in self.amounts)

    def resource_data(self, amounts: Sequence[int]) -> dict[str, dict[str, int]]:
        data: dict[str, dict[str, int]] = {}
        for amount, value in zip(self.amounts, amounts, strict=True):
            there = data.setdefault(amount.field, {})
            if value != ABSENT:
                there[amount.resource] = value
        return data


def node_parts(reads: ExpressionReads) -> tuple[NodeField, ...]:
    found: list[NodeField] = []
    for field in reads.of("node"):
        if field not in RESOURCES:
            found += [NodeField(field, key) for key in reads.named(field) or (None,)]
    return tuple(found)


def reads_resources(reads: ExpressionReads) -> bool:
    return not reads.fields.isdisjoint(RESOURCES)


def _amounts(table: NodeTable, reads: ExpressionReads) -> list[Amount]:
    found: list[Amount] = []
    for field in RESOURCES:
        if field not in reads.fields:
            continue
        named = reads.named(field)
        if named is None:
            found += [Amount(field, name, index, True) for name, index in table.resource_index.items() if name]
        else:
            found += [Amount(field, n, table.known_resource(n), (field, n) in reads.asked) for n in named]
    return found


def _distinct(columns: Sequence[Int64Column], rows: int) -> tuple[Int64Column, Int64Column]:
    """The number of each row's combination, and the first row of each combination; in no particular order."""
    codes, firsts = np.zeros(rows, dtype=np.int64), np.zeros(min(rows, 1), dtype=np.int64)
    combinations = 1
    for column in columns:
        lowest = int(column.min(initial=0))
        span = int(column.max(initial=0)) - lowest + 1
        codes = codes * span + (column - lowest)
        codes, firsts = _numbered(codes, combinations * span)
        combinations = len(firsts)
    return codes, firsts


def _numbered(codes: Int64Column, bound: int) -> tuple[Int64Column, Int64Column]:
    """The codes, all below `bound`, as 0, 1, 2, ... and where each of these is first found."""
    if bound > _FEW_COMBINATIONS:
        _, firsts, numbers = np.unique(codes, return_index=True, return_inverse=True)
        return numbers.astype(np.int64), firsts.astype(np.int64)
    first = np.full(bound, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    found = np.flatnonzero(first >= 0)
    number = np.empty(bound, dtype=np.int64)
    number[found] = np.arange(len(found))
    return number[codes], first[found]


def _as_cel(field: str, value: Any) -> Any:
    match FIELDS[field].kind:
        case FieldKind.RECORDS:
            return records(value, FIELDS[field].keys)
        case FieldKind.TEXTS:
            return dict(value)
    return value


def _has_size(part: NodeField) -> bool:
    return part.key is None and FIELDS[part.field].kind in (FieldKind.TEXTS, FieldKind.RECORDS)


def annotation_lengths(data: Mapping[str, Any]) -> list[int]:
    """In characters, of those that an expression is given."""
    return [len(text) for text in data.get("node.annotations", {}).values()]
