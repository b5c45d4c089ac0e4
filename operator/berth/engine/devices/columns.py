"""The devices of all nodes as columns, in the order in which each node's devices are tried.

A device that several nodes reach has a row for each of them. Rows are gathered node by node, and only for nodes whose
slices or labels changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berth.model.devices import Device, DeviceTaint

from .allocated import AllocatedDevices, DeviceID
from .inventory import DeviceInventory, DeviceRow
from .pools import gather_pools

Taints = tuple[DeviceTaint, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _NodeRows:
    """The rows of one node, and what they were gathered for. `whole` is False if a pool is incomplete or invalid."""

    version: tuple[int, int]
    labels: Mapping[str, str]
    rows: tuple[DeviceRow, ...]
    whole: bool


class DeviceColumns:
    """Rows of all nodes, node after node.

    `node` int64[rows] is the place of the row's node, `starts` int64[nodes] that of the node's first row, `shape`
    int64[rows] and `taints` int64[rows] number what is alike, `special` bool[rows] says that counting is not enough
    for the device, `whole` bool[nodes] that all pools of the node are complete and valid.
    """

    def __init__(self, inventory: DeviceInventory) -> None:
        self._inventory = inventory
        self._known: dict[str, _NodeRows] = {}
        self._order: list[str] = []
        self._taint_numbers: dict[Taints, int] = {}
        self.taint_sets: list[Taints] = []
        self._places: dict[DeviceID, list[int]] = {}
        self._fill([])

    def refresh(self, nodes: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        """Makes the columns those of these nodes, given by name and labels."""
        names = [name for name, _ in nodes]
        changed = names != self._order
        for name, labels in nodes:
            version, known = self._inventory.version_of(name), self._known.get(name)
            if known is None or known.version != version or known.labels != labels:
                pools = gather_pools(self._inventory, name, labels)
                rows = tuple(row for pool in pools for row in pool.rows)
                whole = not any(pool.incomplete or pool.invalid for pool in pools)
                self._known[name] = _NodeRows(version, labels, rows, whole)
                changed = True
        if changed:
            self._order = names
            self._fill([self._known[name] for name in names])

    def in_use(self, allocated: AllocatedDevices) -> NDArray[np.bool_]:
        """bool[rows]: devices that another claim has for itself."""
        used = np.zeros(len(self.rows), dtype=np.bool_)
        used[[place for device in allocated.whole for place in self._places.get(device, ())]] = True
        return used

    def _fill(self, gathered: Sequence[_NodeRows]) -> None:
        counts = [len(each.rows) for each in gathered]
        self.rows: list[DeviceRow] = [row for each in gathered for row in each.rows]
        self.node = np.repeat(np.arange(len(gathered), dtype=np.int64), counts)
        self.starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)[: len(gathered)]
        self.whole = np.array([each.whole for each in gathered], dtype=np.bool_)
        self.shape = _numbers(row.shape for row in self.rows)
        self.taints = _numbers(self._taint_number(row.device.taints) for row in self.rows)
        self.special = np.array([_is_special(row) for row in self.rows], dtype=np.bool_)
        self._places = {}
        for place, row in enumerate(self.rows):
            self._places.setdefault(row.id, []).append(place)

    def _taint_number(self, taints: Taints) -> int:
        repelling = tuple(taint for taint in taints if taint.repels)
        number = self._taint_numbers.setdefault(repelling, len(self.taint_sets))
        if number == len(self.taint_sets):
            self.taint_sets.append(repelling)
        return number


def _numbers(found: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(found, dtype=np.int64)


def _is_special(row: DeviceRow) -> bool:
    """Whether more than selectors and taints decides about the device: shares, counters, portions, its own nodes."""
    return row.slice.per_device_nodes or row.device.shareable or bool(row.device.consumes) or _has_portions(row.device)


def _has_portions(device: Device) -> bool:
    return any(capacity.policy is not None for capacity in device.capacity.values())
