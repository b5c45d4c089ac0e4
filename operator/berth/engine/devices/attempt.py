"""What one attempt on one node has taken so far, and how that is undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.model.devices import Amount

from .allocated import AllocatedDevices, DeviceID
from .capacity import consumed_by, has_room
from .constraints import ConstraintState
from .inventory import DeviceRow, PoolKey
from .plans import RequestPlan
from .pools import Counters, Pool


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """A device that was taken for a request, and what has to be undone with it."""

    plan: RequestPlan
    row: DeviceRow
    pool: PoolKey
    consumed: Mapping[str, Amount] | None  # of a device that is shared
    first_share: bool
    has_counters: bool


class ConstraintViolated(Exception):
    """A constraint of the claim excludes a device."""


@dataclass(slots=True)
class Attempt:
    """The devices that are taken, in order, by claim; and the state that decides which others can be.

    `available` has the counters of each pool that are left by what was allocated before.
    """

    allocated: AllocatedDevices
    available: dict[PoolKey, Counters]
    constraints: list[list[ConstraintState]]
    results: list[list[Taken]]
    _claims_of: dict[DeviceID, set[int]] = field(default_factory=dict)
    _capacity: dict[DeviceID, dict[str, int]] = field(default_factory=dict)
    _counters: dict[PoolKey, dict[tuple[str, str], int]] = field(default_factory=dict)

    # --- questions

    def in_use(self, plan: RequestPlan, device: DeviceID) -> bool:
        """Whether the device is taken for this request. With admin access only the claim itself counts."""
        claims = self._claims_of.get(device)
        if plan.request.admin_access:
            return claims is not None and plan.claim in claims
        return bool(claims) or device in self.allocated.whole

    def has_room(self, plan: RequestPlan, row: DeviceRow) -> bool:
        allocated, allocating = self.allocated.capacity.get(row.id, {}), self._capacity.get(row.id, {})
        return has_room(plan.request.capacity, row.device, allocated, allocating)

    def state_of(self, device: DeviceID) -> tuple[object, ...]:
        """What this attempt has made of a device: two devices that differ in it are not interchangeable."""
        capacity = self._capacity.get(device)
        consumed = None if capacity is None else tuple(sorted(capacity.items()))
        return frozenset(self._claims_of.get(device, ())), consumed

    # --- taking and undoing

    def take(self, plan: RequestPlan, row: DeviceRow, pool: Pool) -> Taken | None:
        """Takes the device for the request; None if that is not possible. Raises ConstraintViolated."""
        device, shareable = row.device, row.device.shareable
        if self.in_use(plan, row.id):
            return None
        shared_already = shareable and (row.id in self.allocated.capacity or row.id in self._capacity)
        has_counters = bool(device.consumes) and not shared_already
        if has_counters and not self._consume_counters(row, pool):
            return None
        if not tolerated(plan, row):
            self._undo_counters(row, pool.key, has_counters)
            return None
        if not self._constrain(plan, row):
            self._undo_counters(row, pool.key, has_counters)
            raise ConstraintViolated
        if not self.has_room(plan, row):
            self._unconstrain(plan)
            self._undo_counters(row, pool.key, has_counters)
            return None
        taken = self._record(plan, row, pool.key, has_counters)
        self.results[plan.claim].append(taken)
        return taken

    def undo(self, taken: Taken) -> None:
        """Gives back the device that was taken last."""
        self.results[taken.plan.claim].pop()
        device = taken.row.id
        if taken.consumed is None:
            self._claims_of[device].discard(taken.plan.claim)
        elif taken.first_share:
            del self._capacity[device]
        else:
            capacity = self._capacity[device]
            for name, amount in taken.consumed.items():
                capacity[name] -= amount.nanos
        self._unconstrain(taken.plan)
        self._undo_counters(taken.row, taken.pool, taken.has_counters)

    def _record(self, plan: RequestPlan, row: DeviceRow, pool: PoolKey, has_counters: bool) -> Taken:
        if not row.device.shareable:
            self._claims_of.setdefault(row.id, set()).add(plan.claim)
            return Taken(plan, row, pool, None, False, has_counters)
        consumed = consumed_by(plan.request.capacity, row.device)
        first_share = row.id not in self._capacity
        capacity = self._capacity.setdefault(row.id, {})
        for name, amount in consumed.items():
            capacity[name] = capacity.get(name, 0) + amount.nanos
        return Taken(plan, row, pool, consumed, first_share, has_counters)

    # --- constraints

    def _constrain(self, plan: RequestPlan, row: DeviceRow) -> bool:
        constraints = self.constraints[plan.claim]
        for place, constraint in enumerate(constraints):
            if not constraint.add(plan.base_name, plan.sub_name, row):
                for accepted in reversed(constraints[:place]):
                    accepted.remove(plan.base_name, plan.sub_name)
                return False
        return True

    def _unconstrain(self, plan: RequestPlan) -> None:
        for constraint in reversed(self.constraints[plan.claim]):
            constraint.remove(plan.base_name, plan.sub_name)

    # --- counters

    def _consume_counters(self, row: DeviceRow, pool: Pool) -> bool:
        """As in kube-scheduler every counter of the pool has to suffice, also those that the device does not use."""
        self._add_counters(row, pool.key, 1)
        consumed = self._counters[pool.key]
        for name, counters in self._available(pool).items():
            for counter, left in counters.items():
                if left < consumed.get((name, counter), 0):
                    self._add_counters(row, pool.key, -1)
                    return False
        return True

    def _undo_counters(self, row: DeviceRow, pool: PoolKey, has_counters: bool) -> None:
        if has_counters:
            self._add_counters(row, pool, -1)

    def _add_counters(self, row: DeviceRow, pool: PoolKey, sign: int) -> None:
        consumed = self._counters.setdefault(pool, {})
        for consumption in row.device.consumes:
            for counter, amount in consumption.counters.items():
                key = (consumption.counter_set, counter)
                consumed[key] = consumed.get(key, 0) + sign * amount.nanos

    def _available(self, pool: Pool) -> Counters:
        """Negative if devices were allocated that need more than there is: then there is none."""
        known = self.available.get(pool.key)
        if known is None:
            left = {name: dict(counters) for name, counters in (pool.counters or {}).items()}
            for row in (*pool.rows, *pool.others):
                if row.device.consumes and self.allocated.uses(row.id):
                    for consumption in row.device.consumes:
                        for counter, amount in consumption.counters.items():
                            left[consumption.counter_set][counter] -= amount.nanos
            known = self.available[pool.key] = left
        return known


def tolerated(plan: RequestPlan, row: DeviceRow) -> bool:
    """Whether the request tolerates all taints of the device that repel."""
    return all(
        any(toleration.tolerates(taint) for toleration in plan.request.tolerations)
        for taint in row.device.taints
        if taint.repels
    )
