"""CronJobs: Jobs when they are due. The controller's clock is ahead, so that a new CronJob is due at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from actors.conftest import Act
from actors.test_kubelets import kubelets
from actors.worlds import CRON_JOBS, JOBS, Objects, template, until
from berth.cluster.clock import RealClock
from berth.sim.actors import HttpApi, Workloads
from control_plane.client import Client, Object
from support.builders import make_node

AHEAD = timedelta(minutes=3)


class ClockAhead(RealClock):
    """Some minutes later than the API server's."""

    def wall(self) -> datetime:
        return super().wall() + AHEAD


@pytest.fixture
async def workloads(api: HttpApi, act: Act) -> None:
    act(Workloads(api, ClockAhead()))


def cron_job(name: str, *, node: str = "", **spec: Any) -> Object:
    pod = template(restartPolicy="Never", **({"nodeName": node} if node else {}))
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": pod}}, **spec},
    }


def active(cron_jobs: Objects, name: str) -> int:
    return len((cron_jobs[f"default/{name}"].get("status") or {}).get("active") or [])


async def test_a_job_is_made_for_the_latest_time_that_is_due(client: Client, workloads: None) -> None:
    await client.create(cron_job("nightly"))

    found = await until(client, CRON_JOBS, lambda found: active(found, "nightly") == 1)

    [job] = await client.list(JOBS)
    due = datetime.fromisoformat(found["default/nightly"]["status"]["lastScheduleTime"])
    assert job["metadata"]["name"] == f"nightly-{int(due.timestamp()) // 60}"
    assert job["metadata"]["ownerReferences"][0]["kind"] == "CronJob"


async def test_a_suspended_one_makes_none(client: Client, workloads: None) -> None:
    await client.create(cron_job("later", suspend=True))
    await client.create(cron_job("now"))
    await until(client, CRON_JOBS, lambda found: active(found, "now") == 1)
    assert [job["metadata"]["ownerReferences"][0]["name"] for job in await client.list(JOBS)] == ["now"]


async def test_finished_jobs_beyond_the_limit_and_those_of_a_deleted_cron_job_go(
    client: Client, api: HttpApi, clock: RealClock, act: Act, workloads: None
) -> None:
    await client.create(make_node("n"))
    act(kubelets(api, clock))
    await client.create(cron_job("short", node="n", successfulJobsHistoryLimit=0))
    await client.create(cron_job("kept", node="n"))

    def is_kept_alone(jobs: Objects) -> bool:
        return [job["metadata"]["ownerReferences"][0]["name"] for job in jobs.values()] == ["kept"] and all(
            (job.get("status") or {}).get("succeeded") for job in jobs.values()
        )

    await until(client, JOBS, is_kept_alone)
    await client.request("DELETE", f"{CRON_JOBS}/kept", {"propagationPolicy": "Background"})
    await until(client, JOBS, lambda jobs: not jobs)
