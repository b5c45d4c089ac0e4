"""What DynamicResources says of a pod with claims: whether it can be tried at all, of each node, and the score.

Reasons are kube-scheduler's. Every refusal is one that preemption does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from berth.model.devices import DeviceClass, DeviceRequest, DeviceResult, DeviceStatus, PodClaim, ResourceClaim

from .allocator import Allocator
from .plans import AllocationFailed, InvalidPools
from .results import ClaimAllocation

CANNOT_ALLOCATE: Final = "cannot allocate all claims"
NOT_AVAILABLE: Final = "resourceclaim not available on the node"
BINDING_TIMEOUT: Final = timedelta(seconds=600)
_MOST_ALTERNATIVES: Final = 8


class NodeCode(Enum):
    """FITS; REFUSED: not on this node; FAILED: an error, for which the pod is tried again later."""

    FITS = auto()
    REFUSED = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What is said of one node; `allocations` are for the claims that have none yet, in their order."""

    code: NodeCode
    reason: str = ""
    allocations: tuple[ClaimAllocation, ...] = ()
    unavailable: tuple[ResourceClaim, ...] = ()


class Refused(Exception):
    """The pod cannot be placed on any node now; the text is the reason."""


@dataclass(frozen=True, slots=True)
class ClaimingPod:
    """What of a pod counts here."""

    namespace: str
    name: str
    uid: str
    claims: tuple[PodClaim, ...]


def find_claims(pod: ClaimingPod, claims: Mapping[str, ResourceClaim]) -> list[ResourceClaim]:
    """The claims of the pod, in the order of its spec; `claims` are by namespace and name. Raises Refused."""
    found: list[ResourceClaim] = []
    for entry in pod.claims:
        name = _claim_name(pod, entry)
        if not name:
            continue
        key = f"{pod.namespace}/{name}"
        claim = claims.get(key)
        if claim is None:
            raise Refused(f'could not find ResourceClaim "{key}"')
        if claim.deleting:
            raise Refused(f'resourceclaim "{claim.name}" is being deleted')
        if entry.of_template and claim.controller_uid != pod.uid:
            created = f"ResourceClaim {key} was not created for Pod {pod.namespace}/{pod.name}"
            raise Refused(f"{created} (Pod is not owner)")
        found.append(claim)
    return found


def check_classes(
    claims: Iterable[ResourceClaim], in_flight: Collection[str], classes: Mapping[str, DeviceClass]
) -> None:
    """Raises Refused if a claim without devices is being allocated (`in_flight`, by UID) or lacks a class."""
    for claim in claims:
        if claim.allocation is not None:
            continue
        if claim.uid in in_flight:
            raise Refused(f"resource claim {claim.key} is in the process of being allocated")
        for request in claim.requests:
            if not request.known:
                raise Refused(f"resource claim {claim.key}, request {request.name}: unknown request type")
            _check_request(request, classes)


class DeviceDecision:
    """One pod: asked about any number of nodes while the cluster does not change."""

    def __init__(self, claims: Sequence[ResourceClaim], allocator: Allocator, now: Callable[[], datetime]) -> None:
        self._claims, self._allocator, self._now = claims, allocator, now
        self._unallocated = [claim for claim in claims if claim.allocation is None]

    def filter(self, node: str, labels: Mapping[str, str]) -> NodeAnswer:
        """Whether the pod's claims can be used, or satisfied, on the node."""
        unavailable = tuple(claim for claim in self._claims if not self._is_available(claim, node, labels))
        allocations: tuple[ClaimAllocation, ...] = ()
        if self._unallocated:
            try:
                found = self._allocator.allocate(node, labels, self._unallocated)
            except InvalidPools as error:
                return NodeAnswer(NodeCode.REFUSED, str(error))
            except AllocationFailed as error:
                return NodeAnswer(NodeCode.FAILED, str(error))
            if found is None:
                return NodeAnswer(NodeCode.REFUSED, CANNOT_ALLOCATE)
            allocations = tuple(found)
        if unavailable:
            return NodeAnswer(NodeCode.REFUSED, NOT_AVAILABLE, unavailable=unavailable)
        return NodeAnswer(NodeCode.FITS, allocations=allocations)

    def score(self, answer: NodeAnswer) -> int:
        """How early the alternatives come that the requests get; 0 if no claim needs devices."""
        if not self._unallocated:
            return 0
        remaining = iter(answer.allocations)
        total = 0
        for claim in self._claims:
            results = next(remaining).results if claim.allocation is None else claim.allocation.results
            total += _score_of(claim, results)
        return total

    def _is_available(self, claim: ResourceClaim, node: str, labels: Mapping[str, str]) -> bool:
        allocation = claim.allocation
        if allocation is None:
            return True
        if allocation.node_selector is not None and not allocation.node_selector.matches(node, labels):
            return False
        ready = is_ready_to_bind(claim)
        return ready is not None and (ready or not self._is_late(claim))

    def _is_late(self, claim: ResourceClaim) -> bool:
        allocation = claim.allocation
        if allocation is None or not allocation.timestamp:
            return False
        if not any(result.binding_conditions for result in allocation.results):
            return False
        return datetime.fromisoformat(allocation.timestamp) + BINDING_TIMEOUT < self._now()


def is_ready_to_bind(claim: ResourceClaim) -> bool | None:
    """Whether all binding conditions of the claim's devices are true; None if binding failed for one."""
    for result in claim.allocation.results if claim.allocation else ():
        if not result.binding_conditions:
            continue
        status = next((each for each in claim.device_statuses if _is_of(each, result)), None)
        if status is None:
            return False
        true = {condition.type for condition in status.conditions if condition.status == "True"}
        if not true.isdisjoint(result.binding_failure_conditions):
            return None
        if not true.issuperset(result.binding_conditions):
            return False
    return True


def normalised(scores: Mapping[str, int]) -> dict[str, int]:
    """Scores from 0 to 100, the highest being 100; all 0 stay 0."""
    highest = max(scores.values(), default=0)
    return {node: 100 * score // highest if highest else score for node, score in scores.items()}


def _is_of(status: DeviceStatus, result: DeviceResult) -> bool:
    mine = (result.driver, result.pool, result.device, result.share_id)
    return (status.driver, status.pool, status.device, status.share_id) == mine


def _claim_name(pod: ClaimingPod, entry: PodClaim) -> str:
    """The name of the claim, "" if none is needed."""
    where = f'pod "{pod.namespace}/{pod.name}"'
    if not entry.known:
        raise Refused(f'{where}, spec.resourceClaim "{entry.name}": none of the supported fields are set')
    if entry.claim_name is None:
        raise Refused(f"{where}: ResourceClaim not created yet")
    return entry.claim_name


def _check_request(request: DeviceRequest, classes: Mapping[str, DeviceClass]) -> None:
    for wanted in request.alternatives or (request,):
        name = request.name if wanted is request else f"{request.name}/{wanted.name}"
        if wanted.device_class not in classes:
            raise Refused(f"request {name}: device class {wanted.device_class} does not exist")


def _score_of(claim: ResourceClaim, results: Iterable[DeviceResult]) -> int:
    taken = {result.request for result in results}
    return sum(
        _MOST_ALTERNATIVES - place
        for request in claim.requests
        for place, alternative in enumerate(request.alternatives)
        if f"{request.name}/{alternative.name}" in taken
    )
