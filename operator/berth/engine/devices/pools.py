"""The pools of devices that one node can reach, in the order in which their devices are tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from berth.model.devices import ResourceSlice

from .inventory import DeviceInventory, DeviceRow, PoolKey, SliceRows

Counters = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A pool as one node sees it.

    `rows` are the devices of the slices that reach the node, `others` those of its other slices: they may consume the
    same counters. A pool whose slices are not all there is incomplete, one that contradicts itself is invalid; no
    device is taken from either. `counters` are in nano units, by set and name.
    """

    key: PoolKey
    rows: tuple[DeviceRow, ...] = ()
    others: tuple[DeviceRow, ...] = ()
    counters: Counters | None = None
    incomplete: bool = False
    invalid: bool = False

    @property
    def name(self) -> str:
        return "/".join(self.key)

    @property
    def binds_late(self) -> bool:
        """Whether a device has binding conditions: such pools are tried last."""
        return any(row.device.has_binding_conditions for row in self.rows)


def gather_pools(inventory: DeviceInventory, node: str, labels: Mapping[str, str]) -> list[Pool]:
    """The pools that reach the node, ordered by driver and name; those with binding conditions come last."""
    gathered: dict[PoolKey, list[SliceRows]] = {}
    for each in inventory.reachable(node):
        if _reaches(each.slice, node, labels):
            _add(gathered, each)
    pools = [_pool(inventory, key, slices) for key, slices in gathered.items()]
    return sorted((pool for pool in pools if pool is not None), key=lambda pool: (pool.binds_late, pool.key))


def _reaches(made: ResourceSlice, node: str, labels: Mapping[str, str]) -> bool:
    """Counters are needed wherever devices are."""
    if made.counter_sets:
        return True
    if made.nodes.known:
        return made.nodes.matches(node, labels)
    return made.per_device_nodes and any(device.nodes.matches(node, labels) for device in made.devices)


def _add(gathered: dict[PoolKey, list[SliceRows]], each: SliceRows) -> None:
    """Only the newest generation that reaches the node stays."""
    key = (each.slice.driver, each.slice.pool)
    known = gathered.get(key)
    if known is None or each.slice.generation > known[0].slice.generation:
        gathered[key] = [each]
    elif each.slice.generation == known[0].slice.generation:
        known.append(each)


def _pool(inventory: DeviceInventory, key: PoolKey, slices: list[SliceRows]) -> Pool | None:
    """The pool of these slices; None if a newer generation exists that does not reach the node."""
    wanted, generation = slices[0].slice.slice_count, slices[0].slice.generation
    if len(slices) == wanted:
        return _checked(key, slices, ())
    whole = inventory.of_pool(key).values()
    if any(each.slice.generation > generation for each in whole):
        return None
    current = [each for each in whole if each.slice.generation == generation]
    if len(current) != wanted:
        return Pool(key, incomplete=True)
    names = {each.slice.name for each in slices}
    return _checked(key, slices, [each for each in current if each.slice.name not in names])


def _checked(key: PoolKey, slices: list[SliceRows], others: Sequence[SliceRows]) -> Pool:
    ordered = sorted(slices, key=lambda each: each.slice.name)
    rows = tuple(row for each in ordered if not each.slice.counter_sets for row in each.rows)
    other_rows = tuple(row for each in others for row in each.rows)
    counters = _counters(ordered)
    if len({row.device.name for row in rows}) != len(rows) or counters is None:
        return Pool(key, invalid=True)
    every_row = [row for each in [*ordered, *others] for row in each.rows]
    if not _consume_known(counters, every_row):
        return Pool(key, invalid=True)
    return Pool(key, rows, other_rows, counters)


def _counters(slices: Iterable[SliceRows]) -> dict[str, Mapping[str, int]] | None:
    """The counter sets of the pool; None if two have the same name."""
    found: dict[str, Mapping[str, int]] = {}
    for each in slices:
        for made in each.slice.counter_sets:
            if made.name in found:
                return None
            found[made.name] = {name: amount.nanos for name, amount in made.counters.items()}
    return found


def _consume_known(counters: Counters, rows: Iterable[DeviceRow]) -> bool:
    for row in rows:
        for consumption in row.device.consumes:
            known = counters.get(consumption.counter_set)
            if known is None or any(name not in known for name in consumption.counters):
                return False
    return True
