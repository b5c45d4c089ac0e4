"""Devices: which ones a claim gets, exactly as the allocator of kube-scheduler 1.36 gives them.

inventory.py    slices, and their devices as rows
pools.py        the pools of devices that one node can reach
allocated.py    what is in use already
selection.py    what selectors say of devices, once for each distinct device
capacity.py     how much of a device's capacity a request consumes
constraints.py  conditions on the devices of several requests together
attempt.py      what one attempt has taken so far, and how that is undone
search.py       the search for devices on a node
results.py      what the search found, as it is written into a claim
columns.py      the devices of all nodes as columns
counting.py     answers for all nodes at once, where counting is enough
allocator.py    `Allocator`: claims and a node to allocations
decision.py     what is said of a pod with claims: whether it can be tried, of each node, and the score
"""

from .allocated import AllocatedDevices, DeviceID, find_allocated
from .allocator import AllocationFailed, Allocator, InvalidPools
from .decision import ClaimingPod, DeviceDecision, NodeAnswer, NodeCode, Refused, check_classes, find_claims, normalised
from .inventory import DeviceInventory
from .results import ClaimAllocation, allocation_body
from .selection import SelectorAnswers, SelectorFailed

__all__ = [
    "AllocatedDevices",
    "AllocationFailed",
    "Allocator",
    "ClaimAllocation",
    "ClaimingPod",
    "DeviceDecision",
    "DeviceID",
    "DeviceInventory",
    "InvalidPools",
    "NodeAnswer",
    "NodeCode",
    "Refused",
    "SelectorAnswers",
    "SelectorFailed",
    "allocation_body",
    "check_classes",
    "find_allocated",
    "find_claims",
    "normalised",
]
