"""Decisions: when the scheduler decides. It does once every kind is synced, while the fence of this replica is open.

every kind is synced ----> open, if this replica leads
the fence opens ---------> open; a new leader tries every pod as if it were new, and reports on policies
the lead is lost --------> stand by: nothing is decided and nothing written here, events are taken all the same
the store has gone back
in time -----------------> suspended, until every kind is synced again; then every pod is tried again
another cluster answers -> closed for good
the loop has failed -----> closed for good (`failed`): the process has to be started again
"""

import asyncio
import logging

from berth.cluster.fence import Fence
from berth.cluster.port import KubernetesCluster
from berth.collector import Collector
from berth.runtime.policy_reports import PolicyReports
from berth.scheduler.scheduler import Scheduler

_log = logging.getLogger(__name__)


class Decisions:
    """Opens and closes the scheduler."""

    def __init__(
        self,
        scheduler: Scheduler,
        cluster: KubernetesCluster,
        reports: PolicyReports,
        fence: Fence,
        *,
        standalone: bool,
        collector: Collector | None,
    ) -> None:
        self._scheduler = scheduler
        self._cluster = cluster
        self._reports = reports
        self._fence = fence
        self._standalone = standalone
        self._collector = collector
        self._is_open = False
        self._was_synced = False
        self._tries_all = False  # when decisions go on: the store has gone back in time, and anything may differ
        self.failed = asyncio.Event()
        """Set when the scheduling loop has ended with an error."""

    @property
    def is_open(self) -> bool:
        """Whether decisions are made here, or could be if this replica led."""
        return self._is_open

    async def run(self) -> None:
        """Run the scheduling loop until it is stopped, or fails."""
        try:
            await self._scheduler.run()
        except Exception:
            _log.critical("The scheduling loop has ended with an error", exc_info=True)
            self._is_open = False
            self.failed.set()

    async def stop(self) -> None:
        """No new binds; returns when the running ones have ended."""
        self._is_open = False
        await self._scheduler.stop()

    def on_synced(self) -> None:
        """Every kind is synced, for the first time or after a new beginning."""
        self._is_open = True
        if not self._was_synced:
            self._was_synced = True
            self._reports.begin()
            if self._collector is not None:
                self._collector.settle()
        what_now = "scheduling begins" if self._standalone else "this replica can lead"
        _log.info("Every kind is synced: %s", what_now)
        if self._fence.is_open:  # and has stayed open while everything was listed again
            self._go_on()
            # Not before: without all the others, what a policy is based on seems missing and what rivals it away.
            self._reports.publish()

    def on_fence_open(self, is_new_lead: bool) -> None:
        """The fence is open, for a new lead or again."""
        if not self._is_open:
            return
        if not is_new_lead:
            self._go_on()
            return
        self._cluster.withdraw_all()  # of what was found out too late to be said under an earlier lead
        self._scheduler.take_over()
        self._reports.take_over()

    def _go_on(self) -> None:
        if self._tries_all:
            self._tries_all = False
            self._scheduler.take_over()
        else:
            self._scheduler.open()

    def on_lead_lost(self) -> None:
        """Another replica leads."""
        self._stand_by()
        self._reports.stand_by()

    def suspend(self) -> None:
        """Open no more until every kind is synced again; then try every pod again."""
        self._is_open, self._tries_all = False, True

    async def settle(self) -> None:
        """Decide nothing and write nothing new; returns when the binds and evictions that were sent have ended."""
        self._stand_by()
        await self._scheduler.settle()

    def close(self) -> None:
        """Decide and write nothing any more; what is known stays as it is."""
        self._is_open = False
        self._stand_by()
        self._reports.withdraw_all()

    def _stand_by(self) -> None:
        self._scheduler.stand_by()
        self._cluster.withdraw_all()

    def standalone_statistics(self) -> dict[str, int]:
        """Those of the leader, for the only replica: it always leads, and writes once its cache is synced."""
        return {"leading": 1, "open": int(self._is_open), "changes": 0, "closings": 0}
