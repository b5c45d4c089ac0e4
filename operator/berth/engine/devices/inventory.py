"""Slices, and their devices as rows.

Devices that are alike to every selector have the same shape: the same driver, attributes, capacities, and whether they
can be shared. Shapes are numbered, so that a selector is evaluated once for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from berth.model.devices import Device, ResourceSlice

from .allocated import DeviceID

PoolKey = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRow:
    """A device in its slice; `shape` numbers devices that no selector can tell apart."""

    id: DeviceID
    device: Device
    slice: ResourceSlice
    shape: int


@dataclass(frozen=True, slots=True, eq=False)
class SliceRows:
    """A slice with the rows of its devices."""

    slice: ResourceSlice
    rows: tuple[DeviceRow, ...]


class DeviceShapes:
    """Numbers for the shapes of devices, and one device of each."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self.examples: list[tuple[str, Device]] = []

    def number(self, driver: str, device: Device) -> int:
        """The number of this device's shape."""
        attributes = tuple(sorted(device.attributes.items()))
        capacity = tuple(sorted((name, entry.value.nanos) for name, entry in device.capacity.items()))
        # The kind of an attribute is part of it: 1 and true are the same key to Python, int and bool are not.
        key = (driver, attributes, capacity, device.shareable)
        found = self._numbers.setdefault(key, len(self.examples))
        if found == len(self.examples):
            self.examples.append((driver, device))
        return found


class DeviceInventory:
    """All slices of the cluster: by name, by the node that they are local to, and by pool."""

    def __init__(self) -> None:
        self.shapes = DeviceShapes()
        self._slices: dict[str, SliceRows] = {}
        self._local: dict[str, dict[str, SliceRows]] = {}
        self._elsewhere: dict[str, SliceRows] = {}
        self._pools: dict[PoolKey, dict[str, SliceRows]] = {}
        self._versions: dict[str, int] = {}  # of the slices that are local to a node
        self._version = 0  # of the others, and of pools that no slice of a node completes

    def version_of(self, node: str) -> tuple[int, int]:
        """Changes whenever what the node can reach may have changed."""
        return self._versions.get(node, 0), self._version

    def put(self, made: ResourceSlice) -> None:
        """Adds a slice, or replaces the one of the same name."""
        self.remove(made.name)
        rows = tuple(self._row(made, device) for device in made.devices)
        self._note(made)
        for index in self._indexes(made):
            index[made.name] = SliceRows(made, rows)

    def remove(self, name: str) -> None:
        """Forgets the slice of this name, if there is one."""
        known = self._slices.get(name)
        if known is not None:
            self._note(known.slice)
            for index in self._indexes(known.slice):
                del index[name]

    def reachable(self, node: str) -> Iterator[SliceRows]:
        """Slices that the node may reach: its own, and those that are not local to one node or have counters."""
        yield from self._local.get(node, {}).values()
        yield from self._elsewhere.values()

    def of_pool(self, key: PoolKey) -> Mapping[str, SliceRows]:
        """All slices of a pool, of every generation."""
        return self._pools.get(key, {})

    def _note(self, made: ResourceSlice) -> None:
        """A pool may have slices of several nodes: then a change of one concerns all."""
        node, pool = made.nodes.node_name, self._pools.get((made.driver, made.pool), {})
        if node and not made.counter_sets and all(each.slice.nodes.node_name == node for each in pool.values()):
            self._versions[node] = self._versions.get(node, 0) + 1
        else:
            self._version += 1

    def _indexes(self, made: ResourceSlice) -> tuple[dict[str, SliceRows], ...]:
        is_local = made.nodes.node_name and not made.counter_sets
        place = self._local.setdefault(made.nodes.node_name, {}) if is_local else self._elsewhere
        return self._slices, place, self._pools.setdefault((made.driver, made.pool), {})

    def _row(self, made: ResourceSlice, device: Device) -> DeviceRow:
        identity = DeviceID(made.driver, made.pool, device.name)
        return DeviceRow(identity, device, made, self.shapes.number(made.driver, device))
