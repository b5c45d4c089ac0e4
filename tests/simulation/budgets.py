"""The disruption controller: what each budget still allows, written into its status soon after it has changed."""

from __future__ import annotations

from typing import Any

from berth.sim.resources import BUDGETS, PODS
from berth.sim.store import Object, Store


def keep_budgets(store: Store) -> None:
    """One look at every budget; the actors' budgets select by labels and say how many have to stay."""
    pods = store.list(PODS).items
    for budget in store.list(BUDGETS).items:
        metadata, status = budget["metadata"], _status(budget, pods)
        old = budget.get("status") or {}
        if any(old.get(name) != value for name, value in status.items()):
            store.patch(
                BUDGETS, metadata["namespace"], metadata["name"], {"status": status}, "merge", subresource="status"
            )


def _status(budget: Object, pods: list[Object]) -> dict[str, Any]:
    spec, namespace = budget["spec"], budget["metadata"]["namespace"]
    wanted = spec["selector"]["matchLabels"].items()
    mine = [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == namespace and wanted <= (pod["metadata"].get("labels") or {}).items()
    ]
    healthy = sum(
        pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp") for pod in mine
    )
    return {
        "disruptionsAllowed": max(0, healthy - spec["minAvailable"]),
        "currentHealthy": healthy,
        "desiredHealthy": spec["minAvailable"],
        "expectedPods": len(mine),
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
