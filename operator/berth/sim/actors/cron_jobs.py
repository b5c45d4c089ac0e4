"""CronJobs: a Job from the template whenever the schedule is due.

A Job is named after the minute it was due in, so that none is made twice. Of several missed times the latest counts.
With concurrencyPolicy Forbid a time is left out while a Job is active, with Replace the active one is deleted. Of
finished Jobs as many stay as the history limits allow.
"""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from berth.sim.actors.api import Object
from berth.sim.actors.clock import parse_timestamp, timestamp
from berth.sim.actors.controller import owner_reference
from berth.sim.actors.mirror import CRON_JOBS, JOBS
from berth.sim.actors.owned_objects import OwnedObjects, conditions_of
from berth.sim.cron_schedule import CronSchedule

SUCCESSFUL_LIMIT, FAILED_LIMIT = 3, 1
LONGEST_WAIT_SECONDS = 60.0
MOST_MISSED = 100


class CronJobs(OwnedObjects):
    """See the module's text."""

    async def _keep_cron_job(self, cron_job: Object) -> float | None:
        jobs = self._owned_by(cron_job, "Job")
        await self._forget_finished(cron_job, jobs)
        active = [job for job in jobs if not _ended(job)]
        status: Object = {"active": [_reference(job) for job in active]}
        succeeded = [job for job in jobs if _ended(job) == "Complete"]
        if succeeded:
            status["lastSuccessfulTime"] = max(job["status"]["completionTime"] for job in succeeded)
        wait: float | None = None
        if not cron_job["spec"].get("suspend"):
            due, wait = self._due(cron_job)
            if due is not None and await self._start_job(cron_job, active, due):
                status["lastScheduleTime"] = timestamp(due)
        await self._keep_status(CRON_JOBS, cron_job, status)
        return wait

    def _due(self, cron_job: Object) -> tuple[datetime | None, float | None]:
        """The latest time that is due and was not served, and the seconds until the next look."""
        try:
            schedule = CronSchedule.parse(str(cron_job["spec"]["schedule"]))
            zone = ZoneInfo(cron_job["spec"].get("timeZone") or "UTC")
        except (ValueError, ZoneInfoNotFoundError):
            return None, None
        now = self._clock.wall()
        last = (cron_job.get("status") or {}).get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]
        since = max(parse_timestamp(last), self._earliest(cron_job, now))
        due: datetime | None = None
        coming = schedule.next_after(since.astimezone(zone))
        for _ in range(MOST_MISSED):
            if coming is None or coming > now:
                break
            due, coming = coming, schedule.next_after(coming)
        if coming is None:
            return due, None
        left = max((coming - now).total_seconds(), 0.0)
        return (None if due is None else due.astimezone(now.tzinfo)), min(left, LONGEST_WAIT_SECONDS)

    def _earliest(self, cron_job: Object, now: datetime) -> datetime:
        seconds = cron_job["spec"].get("startingDeadlineSeconds")
        return now - timedelta(seconds=float(seconds) if seconds is not None else MOST_MISSED * 60.0)

    async def _start_job(self, cron_job: Object, active: list[Object], due: datetime) -> bool:
        """Whether the due time is served now."""
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        if active and policy == "Forbid":
            return False
        if policy == "Replace":
            for job in active:
                await self._delete(JOBS, job)
        await self._create(JOBS, _job(cron_job, due))
        return True

    async def _forget_finished(self, cron_job: Object, jobs: list[Object]) -> None:
        limits = (
            ("Complete", cron_job["spec"].get("successfulJobsHistoryLimit", SUCCESSFUL_LIMIT)),
            ("Failed", cron_job["spec"].get("failedJobsHistoryLimit", FAILED_LIMIT)),
        )
        for kind, limit in limits:
            ended = sorted((job for job in jobs if _ended(job) == kind), key=_created)
            for job in ended[: max(0, len(ended) - int(limit))]:
                await self._delete(JOBS, job)


def _job(cron_job: Object, due: datetime) -> Object:
    template = cron_job["spec"]["jobTemplate"]
    metadata = template.get("metadata") or {}
    minutes = int(due.timestamp()) // 60
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{cron_job['metadata']['name']}-{minutes}",
            "namespace": cron_job["metadata"]["namespace"],
            "labels": metadata.get("labels") or {},
            "annotations": {
                **(metadata.get("annotations") or {}),
                "batch.kubernetes.io/cronjob-scheduled-timestamp": timestamp(due),
            },
            "ownerReferences": [owner_reference("batch/v1", "CronJob", cron_job)],
        },
        "spec": template["spec"],
    }


def _ended(job: Object) -> str:
    """Complete, Failed, or "" while it runs."""
    ends = (c["type"] for c in conditions_of(job) if c["status"] == "True" and c["type"] in ("Complete", "Failed"))
    return next(ends, "")


def _created(job: Object) -> str:
    return str(job["metadata"]["creationTimestamp"])


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
    }
