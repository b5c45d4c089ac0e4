"""Taints of devices, the tolerations of requests, and rules that taint devices from outside their slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..fields import Body, FieldError, read, read_object, read_optional, read_required_text, read_text
from ..metadata import read_metadata

REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint of a device. Effects other than NoSchedule and NoExecute repel nothing."""

    key: str
    value: str
    effect: str
    time_added: str

    @property
    def repels(self) -> bool:
        return self.effect in REPELLING


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """A toleration of a request; `seconds` is for the eviction of pods, None without a limit."""

    key: str
    operator: str
    value: str
    effect: str
    seconds: int | None

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Whether this toleration tolerates the taint; an empty key or effect matches all of them."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class DeviceTaintSelector:
    """The devices that a rule taints: those of this driver, pool and name, where "" is any."""

    driver: str
    pool: str
    device: str

    def selects(self, driver: str, pool: str, device: str) -> bool:
        asked = ((self.driver, driver), (self.pool, pool), (self.device, device))
        return all(not wanted or wanted == found for wanted, found in asked)


@dataclass(frozen=True, slots=True)
class DeviceTaintRule:
    """A taint for all devices that a selector selects; without a selector, for all devices."""

    name: str
    uid: str
    resource_version: str
    selector: DeviceTaintSelector | None
    taint: DeviceTaint


def parse_device_taint_rule(body: object) -> DeviceTaintRule:
    """Parse the API body of a DeviceTaintRule; raises InvalidObject."""
    return read("DeviceTaintRule", body, _rule)


def build_device_taint(body: Body) -> DeviceTaint:
    """One entry of a device's `taints`."""
    effect = read_required_text(body, "effect")
    return DeviceTaint(read_required_text(body, "key"), read_text(body, "value"), effect, read_text(body, "timeAdded"))


def build_device_toleration(body: Body) -> DeviceToleration:
    """One entry of a request's `tolerations`."""
    seconds = body.get("tolerationSeconds")
    if seconds is not None and type(seconds) is not int:
        raise FieldError("tolerationSeconds", "is not an integer")
    operator = read_text(body, "operator")
    return DeviceToleration(
        read_text(body, "key"), operator, read_text(body, "value"), read_text(body, "effect"), seconds
    )


def _rule(body: Body) -> DeviceTaintRule:
    metadata = read_metadata(body, namespaced=False)
    spec = read_object(body, "spec")
    try:
        taint = read_optional(spec, "taint", build_device_taint)
        if taint is None:
            raise FieldError("taint", "is required")
        selector = read_optional(spec, "deviceSelector", _selector)
    except FieldError as error:
        raise error.within("spec") from None
    return DeviceTaintRule(metadata.name, metadata.uid, metadata.resource_version, selector, taint)


def _selector(body: Body) -> DeviceTaintSelector:
    return DeviceTaintSelector(*(read_text(body, name) for name in ("driver", "pool", "device")))
