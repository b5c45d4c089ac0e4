"""A scheduler's start on a cluster that is full already: from the start of the process to its first bind.

prepare(api, nodes, pods)               nodes and bound pods, and a few that wait for each scheduler
async with started(plane, name) as it:  it.start says how long it took, and what
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.contestants import CONTESTANTS, Settings
from bench.lean import LeanClient, Request
from bench.perf.objects import create
from bench.perf.tracking import Pods
from bench.plain import make_node, make_pod, placed_pod
from bench.usage import cpu_seconds, memory_mb, peak_memory_mb, wait_quiet
from control_plane.berth_process import BerthProcess
from control_plane.launcher import ControlPlane
from control_plane.process import Process, http_get

SCHEDULERS = ("kube-scheduler", "berth")
WAITING_PODS = 5
QUIET_SECONDS = 20.0
READY_SECONDS = 600.0
SAMPLE = re.compile(r"^(\w+?)(?:\{(.*)\})? (\S+)$")


@dataclass(frozen=True, slots=True)
class Start:
    """`first_bind_seconds` and `ready_seconds` are from the start of the process; the rest is read when it had nothing
    more to do.
    """

    first_bind_seconds: float
    ready_seconds: float
    cpu_seconds: float
    memory_mb: float
    peak_memory_mb: float


@dataclass(frozen=True, slots=True)
class Started:
    """A scheduler that runs and is quiet. `metrics` asks for its page."""

    name: str
    scheduler_name: str
    process: Process
    pods: Pods
    start: Start
    metrics: Callable[[], str]


def preparation(nodes: int, pods: int) -> Iterator[list[Request]]:
    """So many nodes and bound pods, and pods that wait for each scheduler."""
    for number in range(nodes):
        yield [create(make_node(number))]
    for number in range(pods):
        yield [create(placed_pod(number, nodes))]
    for name in SCHEDULERS:
        for number in range(WAITING_PODS):
            body = make_pod(number, CONTESTANTS[name].scheduler_name)
            body["metadata"]["name"] = f"waiting-{name}-{number}"
            yield [create(body)]


@asynccontextmanager
async def started(plane: ControlPlane, api: LeanClient, name: str, settings: Settings) -> AsyncIterator[Started]:
    """Starts the scheduler, and stops it in the end."""
    scheduler_name = CONTESTANTS[name].scheduler_name
    pods = Pods(api, f"spec.schedulerName={scheduler_name}")
    await pods.start()
    program = _Berth(plane, settings) if name == "berth" else _KubeScheduler(plane, settings)
    began = time.monotonic()
    try:
        process = await asyncio.to_thread(program.start)
        ready = time.monotonic() - began
        waiting = [f"waiting-{name}-{number}" for number in range(WAITING_PODS)]
        await pods.wait(
            lambda: pods.count_bound("default", waiting) == WAITING_PODS, "the first pods", lambda: process.running
        )
        bound = [pod.bound for one in waiting if (pod := pods.get("default", one)) is not None and pod.bound]
        await asyncio.to_thread(wait_quiet, process.pid, QUIET_SECONDS)
        start = Start(
            round(min(bound) - began, 2),
            round(ready, 2),
            round(cpu_seconds(process.pid), 2),
            round(memory_mb(process.pid), 1),
            round(peak_memory_mb(process.pid), 1),
        )
        yield Started(name, scheduler_name, process, pods, start, program.metrics)
    finally:
        await asyncio.to_thread(program.stop)
        await pods.stop()


class _Berth:
    def __init__(self, plane: ControlPlane, settings: Settings) -> None:
        log = plane.logs / "berth.log"
        self._berth = BerthProcess(plane.kubeconfig, *settings.berth_arguments, log=log, token=plane.token)

    def start(self) -> Process:
        return self._berth.start(timeout_seconds=READY_SECONDS).process

    def stop(self) -> None:
        self._berth.finish()

    def metrics(self) -> str:
        return self._berth.get("/metrics")[1]


class _KubeScheduler:
    def __init__(self, plane: ControlPlane, settings: Settings) -> None:
        self._plane = plane
        self._settings = settings

    def start(self) -> Process:
        return self._plane.start_scheduler(gates=self._settings.gates)

    def stop(self) -> None:
        self._plane.stop_scheduler()

    def metrics(self) -> str:
        return http_get(f"{self._plane.scheduler_url}/metrics")[1]


def read_metrics(page: str, name: str) -> dict[str, float]:
    """The samples of a metric, by the text of their labels."""
    found = (SAMPLE.match(line) for line in page.splitlines())
    return {one[2] or "": float(one[3]) for one in found if one is not None and one[1] == name}
