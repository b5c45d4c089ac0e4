"""How much of a device's capacity a request consumes, and whether that much is left.

All amounts are nano units. Only devices that can be shared keep account of what is consumed; of the others every
capacity that is asked for must be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.model import to_value
from berth.model.devices import Amount, CapacityPolicy, CapacityRange, Device, DeviceCapacity

NANO: Final = 10**9
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def consumed_by(requested: Mapping[str, Amount], device: Device) -> dict[str, Amount]:
    """What a request consumes of each capacity of the device."""
    return {name: _consumed(requested.get(name), capacity) for name, capacity in device.capacity.items()}


def has_room(
    requested: Mapping[str, Amount], device: Device, allocated: Mapping[str, int], allocating: Mapping[str, int]
) -> bool:
    """Whether the device has every capacity that is asked for, in a portion that it allows, and enough of it left."""
    if any(name not in device.capacity for name in requested):
        return False
    for name, capacity in device.capacity.items():
        amount = _consumed(requested.get(name), capacity)
        if _violates(amount, capacity.policy):
            return False
        if allocated.get(name, 0) + allocating.get(name, 0) + amount.nanos > capacity.value.nanos:
            return False
    return True


def _consumed(requested: Amount | None, capacity: DeviceCapacity) -> Amount:
    policy = capacity.policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.least is not None:
        return _in_range(requested, policy.valid_range, policy.valid_range.least)
    if policy.valid_values:
        return next((value for value in policy.valid_values if requested.nanos <= value.nanos), requested)
    return requested


def _in_range(requested: Amount, within: CapacityRange, least: Amount) -> Amount:
    if requested.nanos < least.nanos:
        return least
    step = to_value(within.step.nanos) if within.step is not None else 0
    if step <= 0:
        return requested
    start = to_value(least.nanos)
    steps = -(-(to_value(requested.nanos) - start) // step)
    return whole_amount(start + step * steps)


def _violates(amount: Amount, policy: CapacityPolicy | None) -> bool:
    """kube-scheduler compares with the default as it was written: 1Gi and 1024Mi differ there."""
    if policy is None or (policy.default is not None and amount == policy.default):
        return False
    if policy.valid_range is not None:
        return _outside(amount, policy.valid_range)
    return bool(policy.valid_values) and all(amount.nanos != value.nanos for value in policy.valid_values)


def _outside(amount: Amount, within: CapacityRange) -> bool:
    if within.most is not None and amount.nanos > within.most.nanos:
        return True
    step = to_value(within.step.nanos) if within.step is not None else 0
    if step <= 0:
        return False
    start = to_value(within.least.nanos) if within.least is not None else 0
    return (to_value(amount.nanos) - start) % step != 0


def whole_amount(value: int) -> Amount:
    """A whole number, written with the largest binary suffix that leaves it whole."""
    power, shown = 0, value
    while shown and shown % 1024 == 0 and power < len(_BINARY) - 1:
        shown, power = shown // 1024, power + 1
    return Amount(value * NANO, f"{shown}{_BINARY[power]}")
