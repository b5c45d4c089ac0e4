"""Conditions on the devices of several requests together: the same value of an attribute, or different ones."""

from __future__ import annotations

from typing import Protocol

from berth.model.devices import Attribute, Constraint

from .inventory import DeviceRow


class ConstraintState(Protocol):
    """A constraint, and the devices that count for it so far."""

    attribute: str

    def add(self, request: str, subrequest: str, row: DeviceRow) -> bool:
        """Takes a device into account; False if it must not be among the others, and nothing changes then."""

    def remove(self, request: str, subrequest: str) -> None:
        """Undoes the last `add` for these names that was accepted."""


def make_constraint(constraint: Constraint) -> ConstraintState | None:
    """The state of a constraint without devices; None for one that is not known."""
    if constraint.match_attribute:
        return _Matching(constraint)
    return _Distinct(constraint) if constraint.distinct_attribute else None


def attribute_of(row: DeviceRow, name: str) -> Attribute | None:
    """The attribute of this qualified name; in the driver's own domain a device may leave the domain out."""
    found = row.device.attributes.get(name)
    if found is not None:
        return found
    domain, slash, identifier = name.partition("/")
    return row.device.attributes.get(identifier) if slash and domain == row.id.driver else None


def _applies(constraint: Constraint, request: str, subrequest: str) -> bool:
    names = constraint.requests
    return not names or request in names or (subrequest != "" and f"{request}/{subrequest}" in names)


class _Matching:
    """All devices have the same value."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint, self.attribute = constraint, constraint.match_attribute
        self._value: Attribute | None = None
        self._count = 0

    def add(self, request: str, subrequest: str, row: DeviceRow) -> bool:
        if not _applies(self._constraint, request, subrequest):
            return True
        value = attribute_of(row, self.attribute)
        if value is None:
            return False
        if self._count == 0:
            self._value = value
        elif not value.kind or value != self._value:
            return False
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if _applies(self._constraint, request, subrequest):
            self._count -= 1


class _Distinct:
    """Devices have different values.

    As in kube-scheduler one value is remembered for each request, not for each device: within one request a device is
    compared with the last one, and after undoing a device with none of this request.
    """

    def __init__(self, constraint: Constraint) -> None:
        self._constraint, self.attribute = constraint, constraint.distinct_attribute
        self._values: dict[str, Attribute] = {}
        self._count = 0

    def add(self, request: str, subrequest: str, row: DeviceRow) -> bool:
        if not _applies(self._constraint, request, subrequest):
            return True
        value = attribute_of(row, self.attribute)
        if value is None:
            return False
        if self._count and self._values and (not value.kind or value in self._values.values()):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if _applies(self._constraint, request, subrequest):
            self._values.pop(request, None)
            self._count -= 1
