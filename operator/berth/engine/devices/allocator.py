"""`Allocator`: the devices that claims get together on a node.

One allocator is for one state of the cluster: what is allocated and which slices and classes there are must not change
while it is used. It can be asked about any number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from berth.model.devices import DeviceClass, DeviceRequest, ResourceClaim
from berth.model.devices.limits import MOST_RESULTS

from .allocated import AllocatedDevices
from .attempt import Attempt
from .constraints import ConstraintState, make_constraint
from .inventory import DeviceInventory, DeviceRow, PoolKey
from .plans import AllocationFailed, Alternatives, InvalidPools, RequestPlan, check_request
from .pools import Counters, Pool, gather_pools
from .results import ClaimAllocation, make_allocation
from .search import Search, Selection
from .selection import SelectorAnswers

__all__ = ["AllocationFailed", "Allocator", "InvalidPools"]


class Allocator:
    """Allocates devices for the claims of one pod, node by node."""

    def __init__(
        self,
        inventory: DeviceInventory,
        allocated: AllocatedDevices,
        classes: Mapping[str, DeviceClass],
        answers: SelectorAnswers,
        new_share_id: Callable[[], str],
    ) -> None:
        self._inventory, self._allocated, self._classes = inventory, allocated, classes
        self._answers, self._new_share_id = answers, new_share_id
        self._available: dict[PoolKey, Counters] = {}

    def allocate(
        self, node: str, labels: Mapping[str, str], claims: Sequence[ResourceClaim]
    ) -> list[ClaimAllocation] | None:
        """What each claim gets on the node; None if they cannot all be satisfied.

        Raises AllocationFailed for what is an error on any node, and InvalidPools.
        """
        pools = gather_pools(self._inventory, node, labels)
        selection = Selection(self._answers, node, labels, [claim.key for claim in claims])
        attempt = Attempt(self._allocated, self._available, [], [[] for _ in claims])
        planned: list[list[Alternatives]] = []
        for place, claim in enumerate(claims):
            planned.append(self._plans(place, claim, pools, attempt, selection))
            attempt.constraints.append(_constraints(claim))
        search = Search(pools, planned, attempt, selection)
        if not search.run():
            if any(pool.invalid for pool in pools):
                raise InvalidPools("invalid resource pools were encountered")
            return None
        found: list[ClaimAllocation] = []
        for place, claim in enumerate(claims):
            chosen = _chosen(planned[place], place, search)
            found.append(make_allocation(claim, attempt.results[place], chosen, node, self._new_share_id))
        return found

    def _plans(
        self, place: int, claim: ResourceClaim, pools: Sequence[Pool], attempt: Attempt, selection: Selection
    ) -> list[Alternatives]:
        planned = [
            tuple(
                self._plan(place, claim, request, None if request is parent else parent, pools, attempt, selection)
                for request in parent.alternatives or (parent,)
            )
            for parent in claim.requests
        ]
        least = sum(min(plan.count for plan in alternatives) for alternatives in planned)
        if least > MOST_RESULTS:
            problem = f"number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
            raise AllocationFailed(f"claim {claim.key}: {problem}")
        return planned

    def _plan(
        self,
        place: int,
        claim: ResourceClaim,
        request: DeviceRequest,
        parent: DeviceRequest | None,
        pools: Sequence[Pool],
        attempt: Attempt,
        selection: Selection,
    ) -> RequestPlan:
        found = check_request(claim, request, self._classes)
        plan = RequestPlan(place, request, parent, found, request.count, None)
        if request.mode != "All":
            return plan
        fixed = tuple(_all_devices(claim, plan, pools, attempt, selection))
        return RequestPlan(place, request, parent, found, len(fixed), fixed)


def _all_devices(
    claim: ResourceClaim, plan: RequestPlan, pools: Sequence[Pool], attempt: Attempt, selection: Selection
) -> list[DeviceRow]:
    """Every device that the request selects. A pool that is not known in full makes this impossible."""
    found: list[DeviceRow] = []
    for pool in pools:
        if pool.incomplete or pool.invalid:
            state = "being updated" if pool.incomplete else "invalid"
            where = f"claim {claim.key}, request {plan.request.name}"
            raise AllocationFailed(f"{where}: asks for all devices, but resource pool {pool.name} is currently {state}")
        found += [row for row in pool.rows if selection.selects(plan, row) and attempt.has_room(plan, row)]
    return found


def _constraints(claim: ResourceClaim) -> list[ConstraintState]:
    made: list[ConstraintState] = []
    for place, constraint in enumerate(claim.constraints):
        state = make_constraint(constraint)
        if state is None:
            problem = "empty constraint (unsupported constraint type?)"
            raise AllocationFailed(f"claim {claim.key}, constraint #{place}: {problem}")
        made.append(state)
    return made


def _chosen(planned: Sequence[Alternatives], claim: int, search: Search) -> list[RequestPlan]:
    return [alternatives[search.chosen.get((claim, place), 0)] for place, alternatives in enumerate(planned)]
