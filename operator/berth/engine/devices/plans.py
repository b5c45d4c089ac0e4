"""What one attempt has to satisfy: the requests of the claims, checked before the search begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from berth.model.devices import DeviceClass, DeviceRequest, ResourceClaim

from .inventory import DeviceRow


class AllocationFailed(Exception):
    """There is no answer, for any node: what kube-scheduler treats as an error."""


class InvalidPools(Exception):
    """No devices on this node, and some of its pools contradict themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestPlan:
    """One request, or one alternative of a request, which is its `parent` then.

    `fixed` are the devices of a request for all of them, None if `count` devices have to be chosen.
    """

    claim: int
    request: DeviceRequest
    parent: DeviceRequest | None
    device_class: DeviceClass
    count: int
    fixed: tuple[DeviceRow, ...] | None

    @property
    def base_name(self) -> str:
        return self.request.name if self.parent is None else self.parent.name

    @property
    def sub_name(self) -> str:
        return "" if self.parent is None else self.request.name

    @property
    def full_name(self) -> str:
        return self.request.name if self.parent is None else f"{self.parent.name}/{self.request.name}"


# The alternatives of one request; a request without alternatives is the only one.
Alternatives = tuple[RequestPlan, ...]


def check_request(claim: ResourceClaim, request: DeviceRequest, classes: Mapping[str, DeviceClass]) -> DeviceClass:
    """The class of a request that can be handled; raises AllocationFailed."""
    where = f"claim {claim.key}, request {request.name}"
    for place, selector in enumerate(request.selectors):
        if selector.expression is None:
            problem = "CEL expression empty (unsupported selector type?)"
            raise AllocationFailed(f"{where}, selector #{place}: {problem}")
    if not request.device_class:
        raise AllocationFailed(f"{where}: missing device class name (unsupported request type?)")
    found = classes.get(request.device_class)
    if found is None:
        problem = f'deviceclass.resource.k8s.io "{request.device_class}" not found'
        raise AllocationFailed(f"{where}: could not retrieve device class {request.device_class}: {problem}")
    if request.mode not in ("ExactCount", "All"):
        raise AllocationFailed(f"{where}: unsupported count mode {request.mode}")
    return found
