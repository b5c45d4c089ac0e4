"""ResourceClaim: the devices that are asked for, and in its status what was given, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..fields import (
    MAX_INT64,
    Body,
    FieldError,
    describe,
    read,
    read_flag,
    read_integer,
    read_list,
    read_object,
    read_optional,
    read_required_text,
    read_text,
    read_texts,
)
from ..metadata import read_metadata
from ..selectors import NodeSelector, build_node_selector
from .capacity import Amount, build_amount
from .classes import Selector, read_selectors
from .limits import (
    MOST_ATTRIBUTES,
    MOST_CONFIGURATIONS,
    MOST_CONSTRAINTS,
    MOST_REQUESTS,
    MOST_SUBREQUESTS,
    MOST_TOLERATIONS,
    read_limited,
    read_limited_texts,
)
from .taints import DeviceToleration, build_device_toleration

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request, or a subrequest of one.

    With `alternatives` (firstAvailable) the first of these that can be satisfied counts, and nothing else does. A
    request that is neither (`known` is False) is of a kind that this version does not know.
    """

    name: str
    device_class: str
    selectors: tuple[Selector, ...]
    mode: str
    count: int
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, Amount]
    alternatives: tuple[DeviceRequest, ...]
    known: bool


@dataclass(frozen=True, slots=True)
class Constraint:
    """All devices of these requests (all requests if there are none) have the same value of one attribute, or each a
    different value of the other; both are "" for a constraint that is not known.
    """

    requests: tuple[str, ...]
    match_attribute: str
    distinct_attribute: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """Configuration for drivers, as written, for these requests (all requests if there are none)."""

    requests: tuple[str, ...]
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """A device that was given to a request ("name", or "name/subrequest"); shared if it has a share ID."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    binding_conditions: tuple[str, ...]
    binding_failure_conditions: tuple[str, ...]
    share_id: str
    consumed_capacity: Mapping[str, Amount]


@dataclass(frozen=True, slots=True)
class Allocation:
    """What was given to a claim, and the nodes from which it can be used (None: all of them)."""

    results: tuple[DeviceResult, ...]
    node_selector: NodeSelector | None
    timestamp: str


@dataclass(frozen=True, slots=True)
class ClaimConsumer:
    """Who may use an allocated claim: for pods, `resource` is "pods" and `api_group` is ""."""

    api_group: str
    resource: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeviceCondition:
    """A condition of an allocated device, as its driver says."""

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """What the driver says of an allocated device."""

    driver: str
    pool: str
    device: str
    share_id: str
    conditions: tuple[DeviceCondition, ...]


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A ResourceClaim. The claim of a template is managed by its pod: `controller_uid` is the pod's UID then."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    annotations: Mapping[str, str]
    deleting: bool
    controller_uid: str
    finalizers: tuple[str, ...]
    requests: tuple[DeviceRequest, ...]
    constraints: tuple[Constraint, ...]
    configuration: tuple[Configuration, ...]
    allocation: Allocation | None
    reserved_for: tuple[ClaimConsumer, ...]
    device_statuses: tuple[DeviceStatus, ...]

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __hash__(self) -> int:
        return hash(self.uid)


def parse_resource_claim(body: object) -> ResourceClaim:
    """Parse the API body of a ResourceClaim; raises InvalidObject."""
    return read("ResourceClaim", body, _claim)


def _claim(body: Body) -> ResourceClaim:
    metadata = read_metadata(body, namespaced=True)
    owners, finalizers = read_optional(body, "metadata", _ownership) or ((), ())
    requests, constraints, configuration = _within("spec", read_object(body, "spec"), _spec)
    allocation, reserved_for, statuses = _within("status", read_object(body, "status"), _status)
    return ResourceClaim(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        annotations=metadata.annotations,
        deleting=metadata.deleting,
        controller_uid=next((uid for uid, manages in owners if manages), ""),
        finalizers=finalizers,
        requests=requests,
        constraints=constraints,
        configuration=configuration,
        allocation=allocation,
        reserved_for=reserved_for,
        device_statuses=statuses,
    )


def _ownership(metadata: Body) -> tuple[tuple[tuple[str, bool], ...], tuple[str, ...]]:
    owners = read_list(metadata, "ownerReferences", lambda o: (read_text(o, "uid"), read_flag(o, "controller")))
    return owners, read_texts(metadata, "finalizers")


# --- what is asked for

Spec = tuple[tuple[DeviceRequest, ...], tuple[Constraint, ...], tuple[Configuration, ...]]


def _spec(spec: Body) -> Spec:
    return read_optional(spec, "devices", _devices) or ((), (), ())


def _devices(body: Body) -> Spec:
    return (
        read_limited(body, "requests", _request, MOST_REQUESTS),
        read_limited(body, "constraints", _constraint, MOST_CONSTRAINTS),
        read_limited(body, "config", _configuration, MOST_CONFIGURATIONS),
    )


def _request(body: Body) -> DeviceRequest:
    name = read_required_text(body, "name")
    alternatives = read_limited(body, "firstAvailable", _subrequest, MOST_SUBREQUESTS)
    exactly = read_optional(body, "exactly", lambda exact: _exact(name, exact))
    if exactly is not None and not alternatives:
        return exactly
    return DeviceRequest(name, "", (), "", 0, False, (), {}, alternatives, bool(alternatives))


def _subrequest(body: Body) -> DeviceRequest:
    return _exact(read_required_text(body, "name"), body, is_subrequest=True)


def _exact(name: str, body: Body, *, is_subrequest: bool = False) -> DeviceRequest:
    mode = read_text(body, "allocationMode") or "ExactCount"
    return DeviceRequest(
        name=name,
        device_class=read_text(body, "deviceClassName"),
        selectors=read_selectors(body),
        mode=mode,
        count=read_integer(body, "count", 0, MAX_INT64, 1 if mode == "ExactCount" else 0),
        admin_access=not is_subrequest and read_flag(body, "adminAccess"),
        tolerations=read_limited(body, "tolerations", build_device_toleration, MOST_TOLERATIONS),
        capacity=read_optional(body, "capacity", lambda capacity: _amounts(capacity, "requests")) or {},
        alternatives=(),
        known=True,
    )


def _constraint(body: Body) -> Constraint:
    requests = read_limited_texts(body, "requests", MOST_REQUESTS)
    return Constraint(requests, read_text(body, "matchAttribute"), read_text(body, "distinctAttribute"))


def _configuration(body: Body) -> Configuration:
    requests = read_limited_texts(body, "requests", MOST_REQUESTS)
    return Configuration(requests, {name: value for name, value in body.items() if name != "requests"})


def _amounts(owner: Body, name: str) -> Mapping[str, Amount]:
    found = read_object(owner, name)
    if len(found) > MOST_ATTRIBUTES:
        raise FieldError(name, f"has {len(found):,} entries, and may have {MOST_ATTRIBUTES:,}")
    amounts: dict[str, Amount] = {}
    for key, value in found.items():
        if not isinstance(key, str):
            raise FieldError(name, f"{describe(key)} is not a string")
        if value is not None:
            amounts[key] = build_amount(value, f"{name}.{key}")
    return amounts


# --- what was given

Status = tuple[Allocation | None, tuple[ClaimConsumer, ...], tuple[DeviceStatus, ...]]


def _status(status: Body) -> Status:
    return (
        read_optional(status, "allocation", _allocation),
        read_list(status, "reservedFor", _consumer),
        read_list(status, "devices", _device_status),
    )


def _allocation(body: Body) -> Allocation:
    results = read_optional(body, "devices", lambda devices: read_list(devices, "results", _result)) or ()
    selector = read_optional(body, "nodeSelector", build_node_selector)
    return Allocation(results, selector, read_text(body, "allocationTimestamp"))


def _result(body: Body) -> DeviceResult:
    return DeviceResult(
        request=read_text(body, "request"),
        driver=read_required_text(body, "driver"),
        pool=read_required_text(body, "pool"),
        device=read_required_text(body, "device"),
        admin_access=read_flag(body, "adminAccess"),
        tolerations=read_list(body, "tolerations", build_device_toleration),
        binding_conditions=read_texts(body, "bindingConditions"),
        binding_failure_conditions=read_texts(body, "bindingFailureConditions"),
        share_id=read_text(body, "shareID"),
        consumed_capacity=_amounts(body, "consumedCapacity"),
    )


def _consumer(body: Body) -> ClaimConsumer:
    return ClaimConsumer(*(read_text(body, name) for name in ("apiGroup", "resource", "name", "uid")))


def _device_status(body: Body) -> DeviceStatus:
    driver, pool, device, share = (read_text(body, name) for name in ("driver", "pool", "device", "shareID"))
    return DeviceStatus(driver, pool, device, share, read_list(body, "conditions", _condition))


def _condition(body: Body) -> DeviceCondition:
    return DeviceCondition(*(read_text(body, name) for name in ("type", "status", "reason", "message")))


def _within(name: str, owner: Body, build: Callable[[Body], T]) -> T:
    try:
        return build(owner)
    except FieldError as error:
        raise error.within(name) from None
