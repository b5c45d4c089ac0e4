"""The columns of workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs and their budgets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from berth.sim.server.printers.durations import age, human_duration
from berth.sim.server.printers.layouts import (
    NONE,
    Body,
    Layout,
    containers_of,
    created_age,
    layout,
    name_of,
    pairs,
    selector_text,
    spec_of,
    status_of,
)


def _deployment(body: Body, now: datetime) -> list[Any]:
    spec, status = spec_of(body), status_of(body)
    names, images = containers_of(body)
    return [
        name_of(body),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        created_age(body, now),
        names,
        images,
        selector_text(spec.get("selector")),
    ]


def _replica_set(body: Body, now: datetime) -> list[Any]:
    spec, status = spec_of(body), status_of(body)
    selector = spec.get("selector") or {}
    return [
        name_of(body),
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        created_age(body, now),
        *containers_of(body),
        selector_text(selector) if "matchLabels" in selector else pairs(selector),
    ]


def _stateful_set(body: Body, now: datetime) -> list[Any]:
    ready = f"{status_of(body).get('readyReplicas', 0)}/{spec_of(body).get('replicas', 1)}"
    return [name_of(body), ready, created_age(body, now), *containers_of(body)]


def _daemon_set(body: Body, now: datetime) -> list[Any]:
    spec, status = spec_of(body), status_of(body)
    numbers = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    selector = ((spec.get("template") or {}).get("spec") or {}).get("nodeSelector")
    return [
        name_of(body),
        *(status.get(number, 0) for number in numbers),
        pairs(selector),
        created_age(body, now),
        *containers_of(body),
        selector_text(spec.get("selector")),
    ]


def _cron_job(body: Body, now: datetime) -> list[Any]:
    spec, status = spec_of(body), status_of(body)
    last = status.get("lastScheduleTime")
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    return [
        name_of(body),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        str(bool(spec.get("suspend"))),
        len(status.get("active") or []),
        age(last, now) if last else NONE,
        created_age(body, now),
        *containers_of({"spec": job}),
        selector_text(job.get("selector")),
    ]


def _controller_revision(body: Body, now: datetime) -> list[Any]:
    owner = next((one for one in body["metadata"].get("ownerReferences") or [] if one.get("controller")), None)
    group = str(owner.get("apiVersion", "")).rpartition("/")[0] if owner else ""
    named = f"{str(owner['kind']).lower()}{f'.{group}' if group else ''}/{owner['name']}" if owner else NONE
    return [name_of(body), named, body.get("revision", 0), created_age(body, now)]


def _job(body: Body, now: datetime) -> list[Any]:
    spec, status = spec_of(body), status_of(body)
    conditions = [found.get("type") for found in status.get("conditions") or [] if found.get("status") == "True"]
    names, images = containers_of(body)
    return [
        name_of(body),
        next((kind for kind in ("Complete", "Failed", "Suspended") if kind in conditions), "Running"),
        f"{status.get('succeeded', 0)}/{spec.get('completions', 1)}",
        _job_duration(status, now),
        created_age(body, now),
        names,
        images,
        selector_text(spec.get("selector")),
    ]


def _job_duration(status: Body, now: datetime) -> str:
    started, ended = status.get("startTime"), status.get("completionTime")
    if not started:
        return ""
    if not ended:
        return age(started, now)
    took = datetime.fromisoformat(ended) - datetime.fromisoformat(started)
    return human_duration(took.total_seconds())


def _budget(body: Body, now: datetime) -> list[Any]:
    spec, status = spec_of(body), status_of(body)
    return [
        name_of(body),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0),
        created_age(body, now),
    ]


_CONTAINERS: Final = ("Containers+", "Images+")
_WORKLOAD: Final = (*_CONTAINERS, "Selector+")
_REPLICAS: Final = ("Desired:integer", "Current:integer", "Ready:integer", "Age", *_WORKLOAD)

WORKLOADS: Final[Mapping[str, Layout]] = {
    "deployments.apps": layout(_deployment, "Ready", "Up-to-date", "Available", "Age", *_WORKLOAD),
    "replicasets.apps": layout(_replica_set, *_REPLICAS),
    "replicationcontrollers": layout(_replica_set, *_REPLICAS),
    "statefulsets.apps": layout(_stateful_set, "Ready", "Age", *_CONTAINERS),
    "daemonsets.apps": layout(
        _daemon_set,
        "Desired:integer",
        "Current:integer",
        "Ready:integer",
        "Up-to-date:integer",
        "Available:integer",
        "Node Selector",
        "Age",
        *_WORKLOAD,
    ),
    "cronjobs.batch": layout(
        _cron_job, "Schedule", "Timezone", "Suspend", "Active:integer", "Last Schedule", "Age", *_WORKLOAD
    ),
    "controllerrevisions.apps": layout(_controller_revision, "Controller", "Revision:integer", "Age"),
    "jobs.batch": layout(_job, "Status", "Completions", "Duration", "Age", *_WORKLOAD),
    "poddisruptionbudgets.policy": layout(
        _budget, "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"
    ),
}
