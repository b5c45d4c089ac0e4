"""A cluster without an API server: the cache and the policies from the objects of a snapshot."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from berth.cluster.resources import POLICY
from berth.model import KIND
from berth.policy import PolicyStore
from berth.scheduler.cache.cache import Cache


class OfflineCluster:
    """Objects of kinds that no decision reads are left out. An invalid object is left out as the scheduler does."""

    def __init__(self, items: Iterable[Mapping[str, Any]]) -> None:
        self.cache = Cache()
        self.policies = PolicyStore(now=lambda: datetime.now(UTC))
        for number, item in enumerate(items):
            if item["kind"] == POLICY:
                self.policies.observe(item)
            elif item["kind"] in KIND:
                self.cache.observe(item["kind"], _identified(item, number))


def _identified(item: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Returns the object with a UID: manifests that people write have none."""
    metadata = item.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("uid"):
        return item
    return {**item, "metadata": {**metadata, "uid": f"without-uid-{number}"}}
