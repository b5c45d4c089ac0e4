"""ResourceSlice: some of the devices of a pool, or the counters that devices of the pool share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..fields import (
    MAX_INT64,
    Body,
    FieldError,
    describe,
    read,
    read_flag,
    read_integer,
    read_object,
    read_optional,
    read_required_text,
    read_text,
)
from ..metadata import read_metadata
from ..selectors import NodeSelector, build_node_selector
from .capacity import Amount, DeviceCapacity, build_capacity, read_amount
from .limits import (
    MOST_ATTRIBUTES,
    MOST_BINDING_CONDITIONS,
    MOST_COMPLEX_DEVICES,
    MOST_CONSUMED_SETS,
    MOST_COUNTER_SETS,
    MOST_COUNTERS,
    MOST_DEVICES,
    MOST_TAINTS,
    read_limited,
    read_limited_map,
    read_limited_texts,
)
from .taints import DeviceTaint, build_device_taint

_KINDS: Final[Mapping[str, Any]] = {"int": int, "bool": bool, "string": str, "version": str}


class Attribute(NamedTuple):
    """The value of an attribute; `kind` is int, bool, string or version, or "" for one that is not known.

    Two attributes are the same if kind and value are: a version is compared as the text that it is.
    """

    kind: str
    value: int | bool | str


UNKNOWN_ATTRIBUTE: Final = Attribute("", "")


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """The nodes from which devices can be reached: one node, all nodes, or those that a selector selects.

    None of them is a choice that is not known: it reaches no node.
    """

    node_name: str
    all_nodes: bool
    selector: NodeSelector | None

    @property
    def known(self) -> bool:
        return bool(self.node_name or self.all_nodes or self.selector is not None)

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if self.node_name:
            return self.node_name == name
        return self.all_nodes or (self.selector is not None and self.selector.matches(name, labels))


@dataclass(frozen=True, slots=True)
class CounterConsumption:
    """What a device takes of one counter set, while it is allocated."""

    counter_set: str
    counters: Mapping[str, Amount]


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Counters that the devices of a pool share."""

    name: str
    counters: Mapping[str, Amount]


@dataclass(frozen=True, slots=True)
class Device:
    """One device. `nodes` only counts in a slice with `per_device_nodes`."""

    name: str
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, DeviceCapacity]
    consumes: tuple[CounterConsumption, ...]
    nodes: NodeChoice
    taints: tuple[DeviceTaint, ...]
    binds_to_node: bool
    has_binding_conditions: bool  # also if the list is there and empty
    binding_conditions: tuple[str, ...]
    binding_failure_conditions: tuple[str, ...]
    shareable: bool  # allowMultipleAllocations


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """A part of the pool (`driver`, `pool`). Only the highest generation of a pool counts, once it has all slices."""

    name: str
    uid: str
    resource_version: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    nodes: NodeChoice
    per_device_nodes: bool
    devices: tuple[Device, ...]
    counter_sets: tuple[CounterSet, ...]

    def __hash__(self) -> int:
        return hash(self.uid)


def parse_resource_slice(body: object) -> ResourceSlice:
    """Parse the API body of a ResourceSlice; raises InvalidObject."""
    return read("ResourceSlice", body, _slice)


def _slice(body: Body) -> ResourceSlice:
    metadata = read_metadata(body, namespaced=False)
    spec = read_object(body, "spec")
    try:
        pool, generation, count = read_optional(spec, "pool", _pool) or ("", 0, 0)
        return ResourceSlice(
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            driver=read_required_text(spec, "driver"),
            pool=pool,
            generation=generation,
            slice_count=count,
            nodes=_nodes(spec),
            per_device_nodes=read_flag(spec, "perDeviceNodeSelection"),
            devices=_devices(spec),
            counter_sets=read_limited(spec, "sharedCounters", _counter_set, MOST_COUNTER_SETS),
        )
    except FieldError as error:
        raise error.within("spec") from None


def _pool(body: Body) -> tuple[str, int, int]:
    generation = read_integer(body, "generation", 0, MAX_INT64, 0)
    return read_required_text(body, "name"), generation, read_integer(body, "resourceSliceCount", 0, MAX_INT64, 0)


def _nodes(body: Body) -> NodeChoice:
    selector = read_optional(body, "nodeSelector", build_node_selector)
    return NodeChoice(read_text(body, "nodeName"), read_flag(body, "allNodes"), selector)


def _devices(spec: Body) -> tuple[Device, ...]:
    devices = read_limited(spec, "devices", _device, MOST_DEVICES)
    if len(devices) > MOST_COMPLEX_DEVICES and any(device.taints or device.consumes for device in devices):
        problem = f"has {len(devices):,} entries, and may have {MOST_COMPLEX_DEVICES:,} with taints or counters"
        raise FieldError("devices", problem)
    return devices


def _device(body: Body) -> Device:
    attributes = read_limited_map(body, "attributes", _attribute, MOST_ATTRIBUTES)
    capacity = read_limited_map(body, "capacity", build_capacity, MOST_ATTRIBUTES)
    if len(attributes) + len(capacity) > MOST_ATTRIBUTES:
        problem = f"has {len(attributes) + len(capacity):,} entries with capacity, and may have {MOST_ATTRIBUTES:,}"
        raise FieldError("attributes", problem)
    return Device(
        name=read_required_text(body, "name"),
        attributes=attributes,
        capacity=capacity,
        consumes=read_limited(body, "consumesCounters", _consumption, MOST_CONSUMED_SETS),
        nodes=_nodes(body),
        taints=read_limited(body, "taints", build_device_taint, MOST_TAINTS),
        binds_to_node=read_flag(body, "bindsToNode"),
        has_binding_conditions=body.get("bindingConditions") is not None,
        binding_conditions=read_limited_texts(body, "bindingConditions", MOST_BINDING_CONDITIONS),
        binding_failure_conditions=read_limited_texts(body, "bindingFailureConditions", MOST_BINDING_CONDITIONS),
        shareable=read_flag(body, "allowMultipleAllocations"),
    )


def _attribute(body: Body) -> Attribute:
    for kind, of_type in _KINDS.items():
        value: Any = body.get(kind)
        if value is not None:
            if type(value) != of_type:  # noqa: E721  true is an instance of int, and no int here
                raise FieldError(kind, f"{describe(value)} is not of this kind")
            return Attribute(kind, value)
    return UNKNOWN_ATTRIBUTE


def _consumption(body: Body) -> CounterConsumption:
    return CounterConsumption(read_required_text(body, "counterSet"), _counters(body))


def _counter_set(body: Body) -> CounterSet:
    return CounterSet(read_required_text(body, "name"), _counters(body))


def _counters(body: Body) -> Mapping[str, Amount]:
    return read_limited_map(body, "counters", lambda counter: read_amount(counter, "value"), MOST_COUNTERS)
