"""Objects of resource.k8s.io: devices, the claims that ask for them, and what was given to whom.

slices.py    ResourceSlice: the devices of a driver
capacity.py  what a device has and how it may be shared out
claims.py    ResourceClaim: requests, constraints, and the allocation in its status
classes.py   DeviceClass
pods.py      the claims of a pod
taints.py    taints of devices, tolerations of requests, DeviceTaintRule
limits.py    how many entries the lists may have

What a later Kubernetes may add (a kind of request, of selector, of attribute) is read as "unknown" and not refused:
the allocator says what it cannot handle, as kube-scheduler's does.
"""

from .capacity import Amount, CapacityPolicy, CapacityRange, DeviceCapacity
from .claims import (
    Allocation,
    ClaimConsumer,
    Configuration,
    Constraint,
    DeviceCondition,
    DeviceRequest,
    DeviceResult,
    DeviceStatus,
    ResourceClaim,
    parse_resource_claim,
)
from .classes import DeviceClass, Selector, parse_device_class
from .pods import PodClaim, build_pod_claims
from .slices import (
    Attribute,
    CounterConsumption,
    CounterSet,
    Device,
    NodeChoice,
    ResourceSlice,
    parse_resource_slice,
)
from .taints import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintSelector,
    DeviceToleration,
    parse_device_taint_rule,
)

__all__ = [
    "Allocation",
    "Amount",
    "Attribute",
    "CapacityPolicy",
    "CapacityRange",
    "ClaimConsumer",
    "Configuration",
    "Constraint",
    "CounterConsumption",
    "CounterSet",
    "Device",
    "DeviceCapacity",
    "DeviceClass",
    "DeviceCondition",
    "DeviceRequest",
    "DeviceResult",
    "DeviceStatus",
    "DeviceTaint",
    "DeviceTaintRule",
    "DeviceTaintSelector",
    "DeviceToleration",
    "NodeChoice",
    "PodClaim",
    "ResourceClaim",
    "ResourceSlice",
    "Selector",
    "build_pod_claims",
    "parse_device_class",
    "parse_device_taint_rule",
    "parse_resource_claim",
    "parse_resource_slice",
]
