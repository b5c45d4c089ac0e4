"""Pods per second of Berth, of kube-scheduler and of a client that only binds, in turn on one real API server.

    make bench ARGS='--nodes 5000 --pods 3000 --repeat 3 --json FILE'

A round: plain pods that name the contestant (100m CPU, 128Mi of memory, nothing else) are created and wait; then it is
started on a cluster of empty nodes, and the round is over when the last pod is bound. Then it is stopped, and the pods
and their events are removed before the next one's turn.

    pods/s      80 % of the pods, divided by the time between the bindings at 10 % and at 90 %: the result
    first       seconds from the start of the process to the first binding
    last        seconds from the start of the process to the last binding

Why so: the middle of a full queue shows how fast a scheduler decides and binds; its start-up, which includes reading
the waiting pods, shows in `first` and not in the result. Were the pods created meanwhile, their creation would be what
is measured: tried on 2 cores, kube-scheduler kept up with all but 7 % of the creation rate, and the client that only
binds with all of it.

Why it is fair: everybody shares the machine with the same API server and etcd, and with a client that watches for
bound pods alone; all use the same credentials, so no API priority favours one; kube-scheduler's own limits on requests
are raised out of the way. The contestants go in another order in each repetition, and medians are shown.

What it does not say: anything about pods that look at each other, or about latency under a light load. All of it
competes for the cores of one machine, so compare figures of one run, not of two machines.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.contestants import CONTESTANTS, REPOSITORY, Contestant
from bench.reporting import Report, run
from bench.terminal import positive, say
from control_plane.cleaning import remove_pods
from control_plane.client import PODS, ApiError, Client, Object, key_of
from control_plane.launcher import ControlPlane
from control_plane.process import Process
from control_plane.programs import find_programs

RESULTS = REPOSITORY / "bench" / "results"
LOGS = RESULTS / "logs"
BASELINE = "kube-scheduler"
PROGRESS_SECONDS = 5.0
STALLED_SECONDS = 60.0


class Stalled(Exception):
    """A contestant has bound nothing for a while although pods are waiting."""


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of one contestant: when the pods were bound, in seconds from its start, in order."""

    contestant: str
    bound_at_seconds: Sequence[float]

    @property
    def pods_per_second(self) -> float:
        last = len(self.bound_at_seconds) - 1
        tenth, ninetieth = round(0.1 * last), round(0.9 * last)
        return (ninetieth - tenth) / max(self.bound_at_seconds[ninetieth] - self.bound_at_seconds[tenth], 1e-6)

    @property
    def first_seconds(self) -> float:
        return self.bound_at_seconds[0]

    @property
    def last_seconds(self) -> float:
        return self.bound_at_seconds[-1]


class Bindings:
    """Notes when each pod is first seen bound."""

    def __init__(self, api: Client, expected: int) -> None:
        self._api = api
        self._expected = expected
        self._seen: set[str] = set()
        self.times: list[float] = []

    async def follow(self, resource_version: str) -> None:
        """Until all are bound."""
        async for events in self._api.follow(PODS, resource_version, fieldSelector="spec.nodeName!="):
            now = time.perf_counter()
            for key in (key_of(pod) for _, pod in events):
                if key not in self._seen:
                    self._seen.add(key)
                    self.times.append(now)
            if len(self.times) >= self._expected:
                return


def main(arguments: Sequence[str] | None = None) -> int:
    return run(compare, _parser().parse_args(arguments), table, failures=(ApiError, Stalled))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description="Berth beside kube-scheduler on a real API server.")
    parser.add_argument("--nodes", type=positive, default=5000)
    parser.add_argument("--pods", type=positive, default=3000)
    parser.add_argument("--repeat", type=positive, default=1, help="rounds of each contestant")
    parser.add_argument(
        "--only", action="append", choices=CONTESTANTS, metavar="NAME", help=f"of {', '.join(CONTESTANTS)}; repeatable"
    )
    parser.add_argument("--json", type=Path, default=RESULTS / "latest.json", metavar="FILE")
    return parser


async def compare(options: argparse.Namespace) -> Report:
    """All rounds on one control plane; returns the report."""
    contestants = [CONTESTANTS[name] for name in options.only or CONTESTANTS]
    programs = find_programs(with_scheduler=any(one.name == BASELINE for one in contestants))
    shutil.rmtree(LOGS, ignore_errors=True)
    rounds: list[Round] = []
    with ControlPlane(programs, logs=LOGS) as control_plane:
        async with Client(control_plane.url, control_plane.token) as api:
            say(f"creating {options.nodes} nodes")
            await api.create_many(make_node(number) for number in range(options.nodes))
            for repetition in range(options.repeat):
                for contestant in _rotated(contestants, repetition):
                    say(f"round {repetition + 1} of {options.repeat}: {contestant.name}")
                    rounds.append(await play(contestant, control_plane, api, options.pods))
                    await remove_pods(api)
            version = str((await api.get("/version"))["gitVersion"])
    return summarise(rounds, options.nodes, options.pods, version)


async def play(contestant: Contestant, control_plane: ControlPlane, api: Client, pods: int) -> Round:
    await api.create_many(make_pod(number, contestant.scheduler_name) for number in range(pods))
    _, version = await api.list_with_version(PODS, limit="1")
    bindings = Bindings(api, pods)
    following = asyncio.create_task(bindings.follow(version))
    started = time.perf_counter()
    async with _in_thread(contestant.running(control_plane)) as process:
        stalling = asyncio.create_task(_watch_progress(bindings, process, pods))
        ended, unended = await asyncio.wait({following, stalling}, return_when=asyncio.FIRST_COMPLETED)
        for task in unended:
            task.cancel()
        for task in ended:
            task.result()
    result = Round(contestant.name, [seen - started for seen in bindings.times])
    say(f"  {result.pods_per_second:.0f} pods/s")
    return result


@asynccontextmanager
async def _in_thread(manager: AbstractContextManager[Process]) -> AsyncIterator[Process]:
    """Starting and stopping block, and the bindings must be seen when they happen."""
    process = await asyncio.to_thread(manager.__enter__)
    try:
        yield process
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


async def _watch_progress(bindings: Bindings, process: Process, pods: int) -> None:
    """Says how far it is; raises Stalled when nothing moves any more, or the contestant has ended."""
    last_count, last_moved = 0, time.monotonic()
    while True:
        await asyncio.sleep(PROGRESS_SECONDS)
        count = len(bindings.times)
        say(f"  {count} of {pods} bound")
        if count != last_count:
            last_count, last_moved = count, time.monotonic()
        elif not process.running or time.monotonic() - last_moved > STALLED_SECONDS:
            raise Stalled(f"{process.name} stopped at {count} of {pods} pods; {process.tail()}")


def make_node(number: int) -> Object:
    name = f"node-{number}"
    room = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def make_pod(number: int, scheduler_name: str) -> Object:
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "main", "image": "example.com/plain", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"plain-{number}", "namespace": "default", "labels": {"app": "plain"}},
        "spec": {"schedulerName": scheduler_name, "containers": [container]},
    }


def summarise(rounds: Sequence[Round], nodes: int, pods: int, version: str) -> Report:
    """The report: medians of each contestant, its ratio to kube-scheduler, and the pods/s of every round."""
    names = list(dict.fromkeys(one.contestant for one in rounds))
    results = [_summary(name, [one for one in rounds if one.contestant == name]) for name in names]
    baseline = next((one["pods_per_second"] for one in results if one["contestant"] == BASELINE), None)
    for result in results:
        result["ratio_to_kube_scheduler"] = round(result["pods_per_second"] / baseline, 2) if baseline else None
    return {
        "nodes": nodes,
        "pods": pods,
        "kubernetes": version,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "results": results,
    }


def _summary(name: str, rounds: Sequence[Round]) -> dict[str, Any]:
    return {
        "contestant": name,
        "pods_per_second": round(median(one.pods_per_second for one in rounds), 1),
        "first_seconds": round(median(one.first_seconds for one in rounds), 2),
        "last_seconds": round(median(one.last_seconds for one in rounds), 2),
        "rounds": [round(one.pods_per_second, 1) for one in rounds],
    }


def table(report: Report) -> str:
    lines = [
        "{pods} plain pods on {nodes} nodes, Kubernetes {kubernetes}, {cores} cores".format_map(report),
        "",
        f"{'':<16}{'pods/s':>10}{'ratio':>8}{'first':>9}{'last':>9}",
    ]
    for one in report["results"]:
        ratio = "-" if one["ratio_to_kube_scheduler"] is None else f"{one['ratio_to_kube_scheduler']:.2f}"
        seconds = f"{one['first_seconds']:>7.1f} s{one['last_seconds']:>7.1f} s"
        lines.append(f"{one['contestant']:<16}{one['pods_per_second']:>10.0f}{ratio:>8}{seconds}")
    return "\n".join(lines)


def _rotated(contestants: Sequence[Contestant], by: int) -> list[Contestant]:
    shift = by % len(contestants)
    return [*contestants[shift:], *contestants[:shift]]


if __name__ == "__main__":
    sys.exit(main())
