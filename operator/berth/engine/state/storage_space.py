"""StorageSpace: the largest volume of a storage class that can be provisioned on each node, by CSIStorageCapacities.

A driver publishes one object for each class and part of the cluster, often one per node. Nearly all select nodes by one
value of one label: they are looked up by that label's column. Others are matched one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from berth.engine.state.columns import Vocabulary
from berth.engine.state.node_selection import match_label
from berth.engine.state.node_table import NodeTable
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import CSIStorageCapacity, LabelSelector

if TYPE_CHECKING:
    from berth.engine.state.state import State

NOTHING = -1


class StorageSpace:
    def __init__(self, state: State) -> None:
        self._state = state
        self._classes: dict[str, _ClassSpace] = {}
        self._class_of: dict[str, str] = {}

    def largest(self, storage_class: str) -> Int64Column:
        """Returns int64[rows], bytes: the largest volume that fits; NOTHING if no capacity is published."""
        table = self._state.table
        space = self._classes.get(storage_class)
        return np.full(table.capacity, NOTHING, dtype=np.int64) if space is None else space.largest(table)

    def changed(self, key: str) -> None:
        """Updates a CSIStorageCapacity that was added, changed or removed."""
        before = self._class_of.pop(key, None)
        if before is not None:
            self._classes[before].drop(key)
            if not len(self._classes[before]):
                del self._classes[before]
        capacity: CSIStorageCapacity | None = self._state.objects["CSIStorageCapacity"].get(key)
        limit = _limit(capacity) if capacity is not None else None
        if capacity is None or limit is None or capacity.node_topology is None:
            return
        self._class_of[key] = capacity.storage_class
        self._classes.setdefault(capacity.storage_class, _ClassSpace()).put(key, capacity.node_topology, limit)

    def statistics(self) -> dict[str, int]:
        return {"classes_with_capacity": len(self._classes)}


class _ClassSpace:
    """The capacities of one class."""

    def __init__(self) -> None:
        self._by_label: dict[str, _LabelSpace] = {}
        self._others: dict[str, tuple[LabelSelector, int]] = {}
        self._labels_of: dict[str, tuple[str, str]] = {}  # key -> label and value

    def __len__(self) -> int:
        return len(self._labels_of) + len(self._others)

    def put(self, key: str, selector: LabelSelector, limit: int) -> None:
        wanted = selector.requirements
        if len(wanted) == 1 and wanted[0].operator == "In" and len(wanted[0].values) == 1:
            label, value = wanted[0].key, wanted[0].values[0]
            self._labels_of[key] = label, value
            self._by_label.setdefault(label, _LabelSpace(label)).put(key, value, limit)
        else:
            self._others[key] = selector, limit

    def drop(self, key: str) -> None:
        self._others.pop(key, None)
        place = self._labels_of.pop(key, None)
        if place is not None:
            label, value = place
            self._by_label[label].drop(key, value)
            if not self._by_label[label].values:
                del self._by_label[label]

    def largest(self, table: NodeTable) -> Int64Column:
        column = np.full(table.capacity, NOTHING, dtype=np.int64)
        for space in self._by_label.values():
            np.maximum(column, space.largest(table), out=column)
        for selector, limit in self._others.values():
            matched = _matches(table, selector)
            column[matched] = np.maximum(column[matched], limit)
        return column


class _LabelSpace:
    """The capacities that select nodes by a value of this label; `values` hold their limits by key."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.values: dict[str, dict[str, int]] = {}
        self._stale: set[str] = set()
        self._vocabulary: Vocabulary | None = None
        self._by_value: Int64Column = np.zeros(0, dtype=np.int64)  # by value id; the last entry is a missing label's

    def put(self, key: str, value: str, limit: int) -> None:
        self.values.setdefault(value, {})[key] = limit
        self._stale.add(value)

    def drop(self, key: str, value: str) -> None:
        del self.values[value][key]
        if not self.values[value]:
            del self.values[value]
        self._stale.add(value)

    def largest(self, table: NodeTable) -> Int64Column:
        ids, vocabulary = table.label(self._label)
        if vocabulary is not self._vocabulary or len(self._by_value) != len(vocabulary.ids) + 1:
            self._vocabulary = vocabulary
            self._by_value = np.full(len(vocabulary.ids) + 1, NOTHING, dtype=np.int64)
            self._stale = set(self.values)
        for value in self._stale:
            if value in vocabulary.ids:
                self._by_value[vocabulary.ids[value]] = max(self.values.get(value, {}).values(), default=NOTHING)
        self._stale.clear()
        return self._by_value[ids]


def _limit(capacity: CSIStorageCapacity) -> int | None:
    """Returns maximumVolumeSize, or else capacity."""
    return capacity.capacity_bytes if capacity.maximum_volume_bytes is None else capacity.maximum_volume_bytes


def _matches(table: NodeTable, selector: LabelSelector) -> BoolColumn:
    matched = np.ones(table.capacity, dtype=np.bool_)
    for requirement in selector.requirements:
        matched &= match_label(table, requirement)
    return matched
