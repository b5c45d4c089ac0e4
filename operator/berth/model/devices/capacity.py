"""Capacities of devices: how much there is, and in which portions it may be asked for."""

from __future__ import annotations

from dataclasses import dataclass

from ..fields import Body, FieldError, describe, read_optional
from ..quantity import parse_quantity
from .limits import MOST_VALID_VALUES


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity with the text that it was written as, which is what an allocation repeats."""

    nanos: int
    text: str


@dataclass(frozen=True, slots=True)
class CapacityRange:
    """What may be asked for: at least `least`, at most `most`, and `least` plus a multiple of `step`."""

    least: Amount | None
    most: Amount | None
    step: Amount | None


@dataclass(frozen=True, slots=True)
class CapacityPolicy:
    """The portions of a capacity; `valid_values` rise. A request without an amount consumes `default`."""

    default: Amount | None
    valid_values: tuple[Amount, ...]
    valid_range: CapacityRange | None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """One capacity of a device."""

    value: Amount
    policy: CapacityPolicy | None


def build_capacity(body: Body) -> DeviceCapacity:
    """One entry of a device's `capacity`."""
    return DeviceCapacity(read_amount(body, "value"), read_optional(body, "requestPolicy", _policy))


def read_amount(owner: Body, name: str) -> Amount:
    """A quantity that must be there."""
    amount = read_optional_amount(owner, name)
    if amount is None:
        raise FieldError(name, "is required")
    return amount


def read_optional_amount(owner: Body, name: str) -> Amount | None:
    """A quantity, or None."""
    value = owner.get(name)
    return None if value is None else build_amount(value, name)


def build_amount(value: object, name: str) -> Amount:
    """A quantity; `name` is the field in an error."""
    try:
        nanos = parse_quantity(value)
    except ValueError:
        raise FieldError(name, f"{describe(value)} is not a quantity") from None
    return Amount(nanos, str(value).strip())


def _policy(body: Body) -> CapacityPolicy:
    return CapacityPolicy(
        read_optional_amount(body, "default"), _valid_values(body), read_optional(body, "validRange", _range)
    )


def _range(body: Body) -> CapacityRange:
    return CapacityRange(*(read_optional_amount(body, name) for name in ("min", "max", "step")))


def _valid_values(body: Body) -> tuple[Amount, ...]:
    values = body.get("validValues")
    if values is None:
        return ()
    if not isinstance(values, list | tuple):
        raise FieldError("validValues", f"{describe(values)} is not a list")
    if len(values) > MOST_VALID_VALUES:
        raise FieldError("validValues", f"has {len(values):,} entries, and may have {MOST_VALID_VALUES:,}")
    return tuple(build_amount(value, f"validValues[{index}]") for index, value in enumerate(values))
