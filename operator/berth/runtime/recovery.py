"""Recovery: what follows an incident in the background.

the store has gone back in   binds under way end, watching ends, all versions are given up, watching begins anew;
time                         decisions go on when everything listed has been shown again
another cluster answers      no kind is compared any more, and the lead is left to others
"""

import asyncio

from berth.cluster.cache_sync import CacheSync
from berth.cluster.event_fanout import EventFanout
from berth.cluster.identity import ClusterIdentity
from berth.cluster.leader import Leader
from berth.runtime.decisions import Decisions
from berth.runtime.incidents import Incidents
from berth.runtime.watch_control import WatchControl
from berth.scheduler.error_log import ErrorLog


class Recovery:
    """Waits for incidents and acts on them."""

    def __init__(
        self,
        *,
        incidents: Incidents,
        decisions: Decisions,
        watch_control: WatchControl,
        fanout: EventFanout,
        identity: ClusterIdentity,
        cache_sync: CacheSync,
        leader: Leader | None,
        errors: ErrorLog,
    ) -> None:
        self._incidents = incidents
        self._decisions = decisions
        self._watch_control = watch_control
        self._fanout = fanout
        self._identity = identity
        self._cache_sync = cache_sync
        self._leader = leader
        self._errors = errors

    async def run(self) -> None:
        """Until cancelled, or until another cluster has answered: there is nothing left to do then."""
        starting_over = asyncio.create_task(self._start_over_whenever_rewound(), name="starting-over")
        try:
            await self._incidents.other_cluster.wait()
        finally:
            starting_over.cancel()
            await asyncio.gather(starting_over, return_exceptions=True)
        await self._fall_silent()

    async def _fall_silent(self) -> None:
        """No kind is compared any more, and others may lead: our record is not renewed."""
        await self._cache_sync.stop()
        if self._leader is not None:
            await self._leader.stop()

    async def _start_over_whenever_rewound(self) -> None:
        while True:
            await self._incidents.rewound.wait()
            try:
                await self._start_over()
            except Exception as error:
                self._errors.note("starting over", "from fresh lists", error)
            self._incidents.rewound.clear()

    async def _start_over(self) -> None:
        """Nothing of the time that is undone may come after its versions have been given up: watching ends first."""
        await self._decisions.settle()
        await self._watch_control.end_watching()
        self._fanout.start_over()
        self._identity.start_over()
        if self._leader is not None:
            self._leader.leadership.start_over()
        await self._cache_sync.start_over()
        self._watch_control.resume()
