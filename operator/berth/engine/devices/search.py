"""The search for devices on a node: depth first, and the first solution wins.

Claims are tried in order, then their requests, then devices: which devices are found, and which error ends the search,
is what kube-scheduler's allocator finds. It tries every combination where there is no solution; this search does not:

- A request that has fewer candidates than it needs fails at once. Nothing that is taken later adds a candidate.
- If everything after a device fails, it fails after an interchangeable one too: swapping the two in a solution gives
  another one. Devices are interchangeable if all requests, constraints and counters see the same of them. They are not
  in a claim that wants all devices under a constraint: which of them is in use decides between failure and error.

Neither changes the answer. Where an evaluation fails, the error is raised when kube-scheduler would meet the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto

from berth.model.devices import Selector
from berth.model.devices.limits import MOST_RESULTS

from .attempt import Attempt, ConstraintViolated, Taken, tolerated
from .constraints import attribute_of
from .inventory import DeviceRow
from .plans import AllocationFailed, Alternatives, RequestPlan
from .pools import Pool
from .selection import SelectorAnswers, SelectorFailed


class Outcome(Enum):
    """Of a part of the search; TOO_MANY: the claim would have more devices than it may have."""

    FOUND = auto()
    NONE = auto()
    TOO_MANY = auto()


class Selection:
    """Which devices a request selects on one node."""

    def __init__(
        self, answers: SelectorAnswers, node: str, labels: Mapping[str, str], claim_keys: Sequence[str]
    ) -> None:
        self._answers, self._node, self._labels, self._claims = answers, node, labels, claim_keys

    def claim_key(self, claim: int) -> str:
        return self._claims[claim]

    def selects(self, plan: RequestPlan, row: DeviceRow) -> bool:
        """Whether class, request and node allow the device; raises AllocationFailed."""
        if not self._match(plan.device_class.selectors, row, f"class {plan.device_class.name}"):
            return False
        if not self._match(plan.request.selectors, row, f"claim {self._claims[plan.claim]}"):
            return False
        return not row.slice.per_device_nodes or row.device.nodes.matches(self._node, self._labels)

    def _match(self, selectors: Sequence[Selector], row: DeviceRow, where: str) -> bool:
        for place, selector in enumerate(selectors):
            try:
                if not self._answers.matches(selector.expression or "", row.shape):
                    return False
            except SelectorFailed as error:
                raise AllocationFailed(f"{where}: selector #{place}: {error}") from None
        return True


class Search:
    """One attempt on one node. `claims` are the requests of each claim, each with its alternatives."""

    def __init__(
        self, pools: Sequence[Pool], claims: Sequence[Sequence[Alternatives]], attempt: Attempt, selection: Selection
    ) -> None:
        self._claims, self._attempt, self._selection = claims, attempt, selection
        usable = [pool for pool in pools if not (pool.incomplete or pool.invalid)]
        self._pools = {pool.key: pool for pool in pools}
        self._rows = [row for pool in usable for row in pool.rows]
        self._signatures: dict[DeviceRow, tuple[object, ...]] = {}
        self._plans = [plan for claim in claims for request in claim for plan in request]
        self._can_swap = not any(plan.fixed is not None and attempt.constraints[plan.claim] for plan in self._plans)
        self.chosen: dict[tuple[int, int], int] = {}  # the alternative that was taken, by claim and request

    def run(self) -> bool:
        """Whether there is a solution; it is in the attempt then. Raises AllocationFailed."""
        return self._claim(0) is Outcome.FOUND

    def _claim(self, claim: int) -> Outcome:
        return Outcome.FOUND if claim == len(self._claims) else self._request(claim, 0)

    def _request(self, claim: int, request: int) -> Outcome:
        """This request and everything after it."""
        if request == len(self._claims[claim]):
            outcome = self._claim(claim + 1)
            # An earlier claim could take other devices, so that a later one gets an alternative with fewer.
            return Outcome.NONE if outcome is Outcome.TOO_MANY else outcome
        alternatives = self._claims[claim][request]
        if alternatives[0].parent is None:
            return self._plan(alternatives[0], claim, request)
        all_too_many = True
        for place, plan in enumerate(alternatives):
            outcome = self._plan(plan, claim, request)
            if outcome is Outcome.FOUND:
                self.chosen[claim, request] = place
                return outcome
            all_too_many = all_too_many and outcome is Outcome.TOO_MANY
        return Outcome.TOO_MANY if all_too_many else Outcome.NONE

    def _plan(self, plan: RequestPlan, claim: int, request: int) -> Outcome:
        follow = lambda: self._request(claim, request + 1)  # noqa: E731
        if plan.fixed is not None:
            return self._fixed(plan, 0, follow) if plan.fixed else Outcome.NONE
        if plan.count and len(self._attempt.results[claim]) + plan.count > MOST_RESULTS:
            return Outcome.TOO_MANY
        return self._choose(plan, 0, 0, follow) if self._has_candidates(plan) else Outcome.NONE

    # --- all devices

    def _fixed(self, plan: RequestPlan, place: int, follow: Callable[[], Outcome]) -> Outcome:
        assert plan.fixed is not None
        if place == len(plan.fixed):
            return follow()
        if len(self._attempt.results[plan.claim]) + len(plan.fixed) - place > MOST_RESULTS:
            return Outcome.TOO_MANY
        row = plan.fixed[place]
        try:
            taken = self._attempt.take(plan, row, self._pools[row.slice.driver, row.slice.pool])
        except ConstraintViolated:
            problem = f"cannot add device {row.id} because a claim constraint would not be satisfied"
            where = f"claim {self._selection.claim_key(plan.claim)}, request {plan.request.name}"
            raise AllocationFailed(f"{where}: {problem}") from None
        if taken is None:
            return Outcome.NONE
        outcome = self._fixed(plan, place + 1, follow)
        if outcome is not Outcome.FOUND:
            self._attempt.undo(taken)
        return outcome

    # --- some devices

    def _choose(self, plan: RequestPlan, count: int, start: int, follow: Callable[[], Outcome]) -> Outcome:
        """The next device of a request, which has `count` already; devices are taken in rising order."""
        if count == plan.count:
            return follow()
        failed: set[tuple[object, ...]] = set()
        for place in range(start, len(self._rows)):
            row = self._rows[place]
            if not self._is_candidate(plan, row):
                continue
            if failed and self._signature(row) in failed:
                continue
            taken = self._take(plan, row)
            if taken is None:
                continue
            outcome = self._choose(plan, count + 1, place + 1, follow)
            if outcome is Outcome.FOUND:
                return outcome
            self._attempt.undo(taken)
            if outcome is Outcome.TOO_MANY:
                return outcome
            if self._can_swap:
                failed.add(self._signature(row))
        return Outcome.NONE

    def _take(self, plan: RequestPlan, row: DeviceRow) -> Taken | None:
        try:
            return self._attempt.take(plan, row, self._pools[row.slice.driver, row.slice.pool])
        except ConstraintViolated:
            return None

    def _is_candidate(self, plan: RequestPlan, row: DeviceRow) -> bool:
        """In kube-scheduler's order: a selector is evaluated only for devices that are not in use."""
        return (
            not self._attempt.in_use(plan, row.id)
            and self._selection.selects(plan, row)
            and self._attempt.has_room(plan, row)
        )

    def _has_candidates(self, plan: RequestPlan) -> bool:
        """Whether enough devices could be taken, if each were the only one.

        Stops at the first device whose evaluation fails: the search fails there too if it gets so far, and it does
        unless there are enough candidates before it.
        """
        found = 0
        for row in self._rows:
            if found >= plan.count:
                return True
            found += self._is_candidate(plan, row) and tolerated(plan, row)
        return found >= plan.count

    def _signature(self, row: DeviceRow) -> tuple[object, ...]:
        """What the requests, constraints and counters of this attempt see of a device."""
        static = self._signatures.get(row)
        if static is None:
            static = self._signatures[row] = tuple(self._seen(row))
        return (static, self._attempt.state_of(row.id))

    def _seen(self, row: DeviceRow) -> Iterator[object]:
        device = row.device
        for plan in self._plans:
            yield self._selects_or_fails(plan, row)
        for constraints in self._attempt.constraints:
            for constraint in constraints:
                yield attribute_of(row, constraint.attribute)
        yield device.taints
        yield device.shareable
        yield row.id in self._attempt.allocated.whole
        yield tuple(sorted((name, str(capacity)) for name, capacity in device.capacity.items()))
        yield tuple(sorted(self._attempt.allocated.capacity.get(row.id, {}).items()))
        if device.consumes:
            yield row.id.driver, row.id.pool, str(device.consumes)

    def _selects_or_fails(self, plan: RequestPlan, row: DeviceRow) -> bool | str:
        try:
            return self._selection.selects(plan, row)
        except AllocationFailed as error:
            return str(error)
