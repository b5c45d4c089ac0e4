"""The status of SchedulingPolicies, written when the policy book has something new to say about one.

A merge patch of the status subresource with the policy's latest status; retried until it arrives, given up when the
policy is gone or the status is refused. The book hands out only what changed, so nothing is written twice and our own
writes wake nobody.
"""

from collections.abc import Mapping
from typing import Any

from berth.cluster.api import MERGE_PATCH, Api
from berth.cluster.outbox import Outbox
from berth.scheduler.faults import Faults
from berth.scheduler.ports import Clock

PATH = "/apis/berth.dev/v1alpha1/schedulingpolicies"


class PolicyStatuses:
    """Writes policy statuses in the background."""

    def __init__(self, api: Api, clock: Clock, faults: Faults) -> None:
        self._api = api
        self._outbox: Outbox[Mapping[str, Any]] = Outbox("policy status", self._write, clock, faults, workers=2)

    def start(self) -> None:
        self._outbox.start()

    async def stop(self) -> None:
        await self._outbox.stop()

    def put(self, statuses: Mapping[str, Mapping[str, Any]]) -> None:
        """Have these written, by policy name; returns at once."""
        for name, status in statuses.items():
            self._outbox.put(name, status)

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._outbox), **self._outbox.counts}

    async def _write(self, name: str, status: Mapping[str, Any]) -> None:
        await self._api.request("PATCH", f"{PATH}/{name}/status", body={"status": status}, content_type=MERGE_PATCH)
