"""The status of SchedulingPolicies, written when the policy store has something new to say about one.

A merge patch of the status subresource with the policy's latest status; retried until it arrives, given up when the
policy is gone or the status is refused. The store hands out only what changed, so nothing is written twice and our own
writes have no effect. A field that is None is removed by the patch.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from berth.cluster.api import MERGE_PATCH, Api
from berth.cluster.fence import Fence
from berth.cluster.gate import WriteGate
from berth.cluster.outbox import Outbox
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import Clock

LOOK_SECONDS = 0.02
PATH = "/apis/berth.dev/v1alpha1/schedulingpolicies"


class PolicyStatuses:
    """Writes policy statuses in the background."""

    def __init__(self, api: Api, clock: Clock, errors: ErrorLog, gate: WriteGate, fence: Fence) -> None:
        self._api = api
        self._clock = clock
        self._fence = fence
        self._outbox: Outbox[Mapping[str, Any]] = Outbox("policy status", self._write, clock, errors, gate)

    def start(self) -> None:
        self._outbox.start()

    async def stop(self, limit_seconds: float = 0.0) -> None:
        """Write what waits, within the limit, and stop writing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_seconds):
                while len(self._outbox):
                    await self._clock.sleep(LOOK_SECONDS)
        await self._outbox.stop()

    def put(self, statuses: Mapping[str, Mapping[str, Any]]) -> None:
        """Have these written, by policy name; returns at once."""
        for name, status in statuses.items():
            self._outbox.put(name, status)

    def withdraw_all(self) -> None:
        """Another replica reports from now on."""
        self._outbox.withdraw_all()

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._outbox), **self._outbox.counts}

    async def _write(self, name: str, status: Mapping[str, Any]) -> None:
        await self._api.request(
            "PATCH", f"{PATH}/{name}/status", body={"status": status}, content_type=MERGE_PATCH, fence=self._fence
        )
