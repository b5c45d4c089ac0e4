"""A disruption controller: keeps the status of PodDisruptionBudgets true, so that evictions are allowed or not.

    expected   pods the budget is about: those that its selector matches, or, where it is stated as maxUnavailable or in
               percent, as many as the owners of those pods want
    healthy    of the matching pods, those that are Ready and not being deleted
    desired    minAvailable, or expected - maxUnavailable; percentages are rounded up
    allowed    max(0, healthy - desired), and none where nothing is expected

The status is written with the version it was computed from: an eviction that was counted meanwhile is not overwritten.
Pods that were evicted (`disruptedPods`) but are still there count as unhealthy for two minutes.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from berth.model import DisruptionBudget, InvalidObject, parse_disruption_budget
from berth.sim.actors.api import ActorApi, Object
from berth.sim.actors.clock import Clock, parse_timestamp, timestamp
from berth.sim.actors.controller import Controller, controller_of, is_deleting, is_ready, phase_of
from berth.sim.actors.mirror import (
    BUDGETS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    key_of,
)

EVICTION_SECONDS = 120.0
OWNERS = (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, DEPLOYMENTS)
FINISHED = frozenset({"Succeeded", "Failed"})


class Disruption(Controller):
    """See the module's text."""

    def __init__(self, api: ActorApi, clock: Clock) -> None:
        super().__init__(api, clock, workers=2)
        self._budgets = self._mirror(BUDGETS, lambda _, body: self._look_at(key_of(body)))
        self._pods = self._mirror(PODS, self._on_pod)
        self._owners = [self._mirror(collection, self._on_owner) for collection in OWNERS]

    def _on_pod(self, _: str, pod: Object) -> None:
        self._look_at_all(pod["metadata"]["namespace"])

    def _on_owner(self, _: str, owner: Object) -> None:
        self._look_at_all(owner["metadata"]["namespace"])

    def _look_at_all(self, namespace: str) -> None:
        for key in self._budgets.objects:
            if key.startswith(f"{namespace}/"):
                self._look_at(key)

    async def _reconcile(self, key: str) -> float | None:
        body = self._budgets.objects.get(key)
        if body is None:
            return None
        try:
            budget = parse_disruption_budget(body)
        except InvalidObject:
            return None
        old = body.get("status") or {}
        status = self._status(body, budget)
        if not _same(old, status):
            await self._api.request("PUT", BUDGETS.object_path(key, "status"), body={**body, "status": status})
            self._counts["patched"] += 1
        return EVICTION_SECONDS if status["disruptedPods"] else None

    def _status(self, body: Object, budget: DisruptionBudget) -> Object:
        pods = self._matching(body["metadata"]["namespace"], budget)
        disrupted = self._disrupted(body, pods)
        healthy = sum(1 for pod in pods if _is_healthy(pod) and pod["metadata"]["name"] not in disrupted)
        expected, desired = self._wanted(body["spec"], pods)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        return {
            "observedGeneration": body["metadata"].get("generation", 1),
            "disruptedPods": disrupted,
            "expectedPods": expected,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "conditions": [self._condition(body, allowed)],
        }

    def _matching(self, namespace: str, budget: DisruptionBudget) -> list[Object]:
        selector = budget.selector
        if selector is None:
            return []
        return [
            pod
            for pod in self._pods.objects.values()
            if pod["metadata"]["namespace"] == namespace
            and phase_of(pod) not in FINISHED
            and selector.matches(pod["metadata"].get("labels") or {})
        ]

    def _disrupted(self, body: Object, pods: Sequence[Object]) -> dict[str, str]:
        """Those evicted a short while ago that are neither gone nor going yet."""
        there = {pod["metadata"]["name"] for pod in pods if not is_deleting(pod)}
        since = self._clock.wall() - timedelta(seconds=EVICTION_SECONDS)
        evicted = (body.get("status") or {}).get("disruptedPods") or {}
        return {name: at for name, at in evicted.items() if name in there and parse_timestamp(at) > since}

    def _wanted(self, spec: Mapping[str, Any], pods: Sequence[Object]) -> tuple[int, int]:
        """How many pods there should be, and how many of them must be healthy."""
        if spec.get("maxUnavailable") is not None:
            expected = self._wanted_by_owners(pods)
            return expected, max(0, expected - _share(spec["maxUnavailable"], expected))
        least = spec.get("minAvailable", 1)
        expected = self._wanted_by_owners(pods) if isinstance(least, str) else len(pods)
        return expected, _share(least, expected)

    def _wanted_by_owners(self, pods: Sequence[Object]) -> int:
        """The replicas of each distinct owner, a Deployment for its ReplicaSets; a pod without a known owner is one."""
        owners = {owner["metadata"]["uid"]: owner for mirror in self._owners for owner in mirror.objects.values()}
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = _known_owner(pod, owners)
            above = _known_owner(owner, owners) if owner is not None else None
            top = above or owner
            wanted[(top or pod)["metadata"]["uid"]] = int(top["spec"].get("replicas", 1)) if top is not None else 1
        return sum(wanted.values())

    def _condition(self, body: Object, allowed: int) -> Object:
        status, reason = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
        for old in (body.get("status") or {}).get("conditions") or ():
            if old.get("type") == "DisruptionAllowed" and (old.get("status"), old.get("reason")) == (status, reason):
                return {**old, "observedGeneration": body["metadata"].get("generation", 1)}
        return {
            "type": "DisruptionAllowed",
            "status": status,
            "reason": reason,
            "message": "",
            "observedGeneration": body["metadata"].get("generation", 1),
            "lastTransitionTime": timestamp(self._clock.wall()),
        }


def _known_owner(body: Object, owners: Mapping[str, Object]) -> Object | None:
    return owners.get(str((controller_of(body) or {}).get("uid")))


def _is_healthy(pod: Object) -> bool:
    return is_ready(pod) and not is_deleting(pod)


def _share(value: int | str, total: int) -> int:
    """A number, or a percentage of the total, rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%")) * total // 100)


def _same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a write would change nothing; the API server leaves out empty maps."""
    return {name: value for name, value in old.items() if value != {}} == {
        name: value for name, value in new.items() if value != {}
    }
