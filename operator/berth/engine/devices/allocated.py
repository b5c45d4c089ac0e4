"""What is in use already: whole devices, devices with shares, and how much of their capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from berth.model.devices import ResourceClaim


class DeviceID(NamedTuple):
    """A device by its names."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class AllocatedDevices:
    """Devices that are in use: `whole` by one claim alone, `shared` by shares; `capacity` is in nano units."""

    whole: frozenset[DeviceID] = frozenset()
    shared: frozenset[DeviceID] = frozenset()
    capacity: Mapping[DeviceID, Mapping[str, int]] = field(default_factory=dict)

    def uses(self, device: DeviceID) -> bool:
        """Whether the device is in use in any way, so that the counters that it consumes are taken."""
        return device in self.whole or device in self.shared or device in self.capacity


def find_allocated(claims: Iterable[ResourceClaim]) -> AllocatedDevices:
    """What the allocations of these claims use. Admin access uses nothing."""
    whole: set[DeviceID] = set()
    shared: set[DeviceID] = set()
    capacity: dict[DeviceID, dict[str, int]] = {}
    for claim in claims:
        for result in claim.allocation.results if claim.allocation else ():
            if result.admin_access:
                continue
            device = DeviceID(result.driver, result.pool, result.device)
            if not result.share_id:
                whole.add(device)
                continue
            shared.add(device)
            if result.consumed_capacity:
                consumed = capacity.setdefault(device, {})
                for name, amount in result.consumed_capacity.items():
                    consumed[name] = consumed.get(name, 0) + amount.nanos
    return AllocatedDevices(frozenset(whole), frozenset(shared), capacity)
