"""Policy reports: the statuses of policies and Events about them, written by the replica that leads, and by it alone.

What was done under the policies goes into their statuses every REPORT_SECONDS, not with every decision. Everything else
in a status is written when it changes: when a policy has changed, or this replica begins to lead.
"""

from berth.cluster.fence import Fence
from berth.cluster.policy_events import PolicyEvents
from berth.cluster.resources import POLICY
from berth.cluster.statuses import PolicyStatuses
from berth.policy import PolicyStore
from berth.policy.status_events import events_of
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.ports import Clock
from berth.scheduler.scheduler import Scheduler

REPORT_SECONDS = 10.0  # between two reports of what was done under the policies
LAST_REPORT_SECONDS = 2.0


class PolicyReports:
    """Takes what has changed from the policy store and has it written."""

    def __init__(
        self,
        policies: PolicyStore,
        scheduler: Scheduler,
        statuses: PolicyStatuses,
        events: PolicyEvents,
        fence: Fence,
        clock: Clock,
        errors: ErrorLog,
    ) -> None:
        self._policies = policies
        self._scheduler = scheduler
        self._statuses = statuses
        self._events = events
        self._fence = fence
        self._clock = clock
        self._errors = errors
        self._has_begun = False
        if not fence.is_leading:
            policies.listen()

    def begin(self) -> None:
        """Every kind has been synced: from now on what is known of the policies can be judged and written."""
        self._policies.complete()
        self._has_begun = True

    @property
    def _is_ours_to_report(self) -> bool:
        return self._has_begun and self._fence.is_leading

    def on_event(self, event: ObjectEvent) -> None:
        """A policy has changed, and with it the status of this and other policies."""
        if event.kind == POLICY and self._is_ours_to_report:
            self.publish()

    def publish(self) -> None:
        """Have the statuses written that have changed, and the Events that users are to see about that."""
        changes = self._policies.take_changes()
        self._statuses.put({change.name: change.status for change in changes})
        for change in changes:
            for event in events_of(change):
                self._events.put(
                    change.name,
                    change.uid,
                    type_=event.type,
                    reason=event.reason,
                    action=event.action,
                    note=event.note,
                )

    def take_over(self) -> None:
        """This replica leads: continue from what the others wrote."""
        self._policies.speak()
        self.publish()

    def stand_by(self) -> None:
        """Another replica leads: leave the statuses to it."""
        self._statuses.withdraw_all()
        self._policies.listen()

    def withdraw_all(self) -> None:
        """Write nothing of what waits."""
        self._statuses.withdraw_all()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self._clock.sleep(REPORT_SECONDS)
            await self.report()

    async def report(self) -> None:
        """Have the counts of the policies written. Never raises."""
        if not self._is_ours_to_report:
            return
        try:
            await self._scheduler.count_pending()
            self._policies.report()
            self.publish()
        except Exception as error:
            self._errors.note("reporting on", "policies", error)

    async def stop(self) -> None:
        """Report once more, write what waits within a limit, and stop writing."""
        await self.report()
        await self._statuses.stop(LAST_REPORT_SECONDS)
