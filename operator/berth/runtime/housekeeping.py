"""Housekeeping: looks now and then whether the API server answers, and whether confirmations of binds are missing.

An outage is logged now and then. When the server is back, every kind is resynced: it may be another server, or in
another time, and it has reported no changes meanwhile. Pods are resynced when the watch has not confirmed a bind.
"""

from berth.cluster.api import Api
from berth.cluster.cache_sync import CacheSync
from berth.cluster.errors import ApiError
from berth.cluster.identity import ClusterIdentity
from berth.cluster.outage_log import OutageLog
from berth.collector import Collector
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import Clock
from berth.scheduler.scheduler import Scheduler
from berth.scheduler.waiting import wait_for_signal

PROBE_SECONDS = 10.0
PROBE_LIMIT_SECONDS = 5.0


class Housekeeping:
    """One round every PROBE_SECONDS, and one at once when the API server is back."""

    def __init__(
        self,
        *,
        api: Api,
        identity: ClusterIdentity,
        cache_sync: CacheSync,
        scheduler: Scheduler,
        collector: Collector | None,
        clock: Clock,
        errors: ErrorLog,
    ) -> None:
        self._api = api
        self._identity = identity
        self._cache_sync = cache_sync
        self._scheduler = scheduler
        self._collector = collector
        self._clock = clock
        self._errors = errors
        self._outage = OutageLog()
        self._missing_confirmations = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await wait_for_signal(self._api.returned, self._clock, PROBE_SECONDS)
            try:
                self._resync_after_outage()
                if self._collector is not None:
                    self._collector.tend()
                self._outage.note(await self._probe(), self._clock.now())
                self._look_for_confirmations()
            except Exception as error:
                self._errors.note("housekeeping", "for the scheduler", error)

    def _resync_after_outage(self) -> None:
        if self._api.returned.is_set():
            self._api.returned.clear()
            self._cache_sync.want()

    async def _probe(self) -> Exception | None:
        """Why the API server gives no answer, or does not know us; None if it answers."""
        try:
            return await self._identity.probe(PROBE_LIMIT_SECONDS)
        except ApiError as error:
            return error

    def _look_for_confirmations(self) -> None:
        missing = self._scheduler.missing_confirmations
        if missing > self._missing_confirmations:
            self._cache_sync.want("Pod")
        self._missing_confirmations = missing
