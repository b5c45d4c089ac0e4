"""Metrics under kube-scheduler's names are what they are there: both are run on one cluster, scraped and compared."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from berth.serving.metric_table import TABLE
from control_plane.berth_process import BerthProcess
from control_plane.client import PODS, Client, Object
from control_plane.launcher import ControlPlane
from control_plane.process import http_get
from end_to_end.watching import StartBerth, only_real
from support.builders import make_node, make_pod

pytestmark = only_real

NAMES = {definition.name for definition in TABLE if definition.name.startswith(("scheduler_", "kubernetes_"))}
WANTED = {
    "scheduler_pending_pods",
    "scheduler_schedule_attempts_total",
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_pod_scheduling_attempts",
    "scheduler_queue_incoming_pods_total",
    "scheduler_preemption_attempts_total",
    "scheduler_preemption_victims",
    "scheduler_framework_extension_point_duration_seconds",
    "scheduler_unschedulable_pods",
    "scheduler_cache_size",
    "kubernetes_feature_enabled",
}
SAME_VALUES = (
    ("scheduler_pending_pods", "queue"),
    ("scheduler_queue_incoming_pods_total", "queue"),
    ("scheduler_cache_size", "type"),
)
NO_OTHER_VALUES = (
    ("scheduler_scheduling_attempt_duration_seconds", "result"),
    ("scheduler_framework_extension_point_duration_seconds", "extension_point"),
    ("scheduler_framework_extension_point_duration_seconds", "status"),
    ("scheduler_unschedulable_pods", "plugin"),
    ("scheduler_queue_incoming_pods_total", "event"),
    ("scheduler_scheduling_attempt_duration_seconds", "le"),
    ("scheduler_preemption_victims", "le"),
)
BOTH = ("default-scheduler", "berth")
LIMIT_SECONDS = 60.0
LOOK_SECONDS = 0.2


@dataclass
class Shape:
    """What a dashboard relies on."""

    type: str
    labels: set[str] = field(default_factory=set)
    bounds: set[float] = field(default_factory=set)
    values: dict[str, set[str]] = field(default_factory=dict)


def shapes(text: str) -> dict[str, Shape]:
    found: dict[str, Shape] = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if name not in NAMES:
            continue
        shape = found[name] = Shape(family.type)
        for sample in family.samples:
            if "le" in sample.labels:
                shape.bounds.add(round(float(sample.labels["le"]), 9))
            shape.labels |= sample.labels.keys() - {"le"}
            for label, value in sample.labels.items():
                shape.values.setdefault(label, set()).add(value)
    return found


def a_pod(scheduler: str, name: str, cpu: str = "1", **spec: Any) -> Object:
    """One that goes to the scheduler's own node."""
    return make_pod(f"{scheduler}-{name}", cpu=cpu, scheduler=scheduler, node_selector={"for": scheduler}, **spec)


def pods_for(scheduler: str) -> list[Object]:
    """Some that fit, one that never does, one behind a gate."""
    return [
        *(a_pod(scheduler, f"low-{number}") for number in range(3)),
        a_pod(scheduler, "never", cpu="99"),
        a_pod(scheduler, "gated", schedulingGates=[{"name": "example.com/g"}]),
    ]


def mighty(scheduler: str) -> Object:
    """One that pushes the others out."""
    return a_pod(scheduler, "high", cpu="3", priorityClassName="system-node-critical")


async def play(api: Client) -> None:
    await api.create_many([make_node(f"{name}-n", cpu="3", labels={"for": name}) for name in BOTH])
    await api.create_many([pod for name in BOTH for pod in pods_for(name)])
    await api.wait_until(PODS, lambda pods: all(is_bound(pods, f"{name}-low-2") for name in BOTH), timeout_seconds=60)
    await api.create_many([mighty(name) for name in BOTH])
    await api.wait_until(PODS, lambda pods: all(is_gone(pods, f"{name}-low-2") for name in BOTH), timeout_seconds=60)


def is_bound(pods: Mapping[str, Object], name: str) -> bool:
    return bool(pods.get(f"default/{name}", {}).get("spec", {}).get("nodeName"))


def is_gone(pods: Mapping[str, Object], name: str) -> bool:
    pod = pods.get(f"default/{name}")
    return pod is None or "deletionTimestamp" in pod["metadata"]


async def scrape(berth: BerthProcess, url: str) -> tuple[dict[str, Shape], dict[str, Shape]]:
    """Ours and theirs, once both have counted what was played: each does so a while after the pods show it."""
    ours: dict[str, Shape] = {}
    theirs: dict[str, Shape] = {}
    with contextlib.suppress(TimeoutError):  # the comparison says what differs
        async with asyncio.timeout(LIMIT_SECONDS):
            while not have_counted(ours, theirs):
                await asyncio.sleep(LOOK_SECONDS)
                ours = shapes((await asyncio.to_thread(berth.get, "/metrics"))[1])
                theirs = shapes((await asyncio.to_thread(http_get, url))[1])
    return ours, theirs


def have_counted(ours: Mapping[str, Shape], theirs: Mapping[str, Shape]) -> bool:
    return (
        set(ours) == set(theirs) == WANTED
        and all(ours[name].labels == theirs[name].labels for name in WANTED)
        and all(ours[name].bounds == theirs[name].bounds for name in WANTED)
        and all(ours[name].values.get(label) == theirs[name].values.get(label) for name, label in SAME_VALUES)
        and all(
            ours[name].values.get(label, set()) <= theirs[name].values.get(label, set())
            for name, label in NO_OTHER_VALUES
        )
    )


async def test_kube_schedulers_names_have_its_types_labels_and_buckets(
    control_plane: ControlPlane, api: Client, berth_process: StartBerth
) -> None:
    berth = berth_process()
    control_plane.start_scheduler()
    try:
        await play(api)
        ours, theirs = await scrape(berth, f"{control_plane.scheduler_url}/metrics")
    finally:
        control_plane.stop_scheduler()
    assert set(ours) == set(theirs) == WANTED
    for name in sorted(WANTED):
        assert ours[name].type == theirs[name].type, name
        assert ours[name].labels == theirs[name].labels, name
        assert ours[name].bounds == theirs[name].bounds, name
    for name, label in SAME_VALUES:
        assert ours[name].values[label] == theirs[name].values[label], (name, label)
    for name, label in NO_OTHER_VALUES:
        assert ours[name].values[label] <= theirs[name].values[label], (name, label)
    assert ours["scheduler_schedule_attempts_total"].values["profile"] == {"berth"}
    assert theirs["scheduler_schedule_attempts_total"].values["profile"] == {"default-scheduler"}
