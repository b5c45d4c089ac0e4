"""How long nobody schedules: from the death of a leader to the first bind by another, and from a cold start.

    make bench-takeover ARGS='--nodes 5000 --pods 10000 --kills 5 --json FILE'

On one real API server with so many nodes and placed pods, each scheduler in turn, with three replicas of Berth and two
of kube-scheduler, which elect a leader by their defaults (10 s of lifetime here, 15 s of lease there), under a stream
of ten pods a second:

    takeover    seconds from `kill -9` of the leader to the first pod that is bound by another; a bind that was under
                way when the leader died counts for nobody: the first half second is left out
    handover    the longest pause between two binds in the seconds after a SIGTERM to the leader
    cold start  seconds from the start of the only process to its first bind, with pods waiting for it

The dead one is started again before the next is killed. Replicas that stand by have heard of all nodes and pods, in
both schedulers. Everybody shares the machine with the API server, so compare figures of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from bench.contestants import LOGS, REPOSITORY, RESULTS
from bench.plain import make_node, make_pod, placed_pod
from bench.reporting import Report, run
from bench.terminal import say
from control_plane.berth_process import BerthProcess
from control_plane.client import PODS, Client, key_of
from control_plane.launcher import ControlPlane
from control_plane.process import Process, free_port, http_get
from control_plane.programs import find_programs

NAMES = ("berth", "kube-scheduler")
PACE_SECONDS = 0.1
UNDER_WAY_SECONDS = 0.5
LIMIT_SECONDS = 120.0
HANDOVER_SECONDS = 20.0
ACQUIRED = "uccessfully acquired lease"


class TooLong(Exception):
    """Nobody has taken over."""


class Replica(Protocol):
    """One process of a scheduler."""

    process: Process

    def start(self) -> None: ...

    def leads(self) -> bool: ...


class Berth:
    def __init__(self, plane: ControlPlane, number: int) -> None:
        self._berth = BerthProcess(plane.kubeconfig, log=plane.logs / f"berth-{number}.log", standalone=False)
        self.process = self._berth.process

    def start(self) -> None:
        self._berth.start(timeout_seconds=300)

    def leads(self) -> bool:
        return self.process.running and self._berth.leads


class KubeScheduler:
    def __init__(self, plane: ControlPlane, number: int) -> None:
        self._port = free_port()
        self._log_begin = 0
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 5000, "burst": 5000},
        }
        path = plane.folder / f"kube-scheduler-{number}.json"
        path.write_text(json.dumps(configuration))
        command = [str(find_programs(with_scheduler=True).kube_scheduler), f"--config={path}"]
        address = ["--bind-address=127.0.0.1", f"--secure-port={self._port}"]
        self.process = Process("kube-scheduler", [*command, *address], plane.logs / f"kube-scheduler-{number}.log")

    def start(self) -> None:
        self._log_begin = len(self.process.log_text())
        self.process.start()
        self.process.wait_ready(lambda: http_get(f"https://127.0.0.1:{self._port}/healthz")[0] == 200, 300)

    def leads(self) -> bool:
        """By its log: the lease's holder is named by host, and its metrics ask for more than a token."""
        return self.process.running and ACQUIRED in self.process.log_text()[self._log_begin :]


MAKERS: dict[str, tuple[Callable[[ControlPlane, int], Replica], int, str]] = {
    "berth": (Berth, 3, "berth"),
    "kube-scheduler": (KubeScheduler, 2, "default-scheduler"),
}


class Binds:
    """When each pod of the stream is first seen bound."""

    def __init__(self, api: Client) -> None:
        self._api = api
        self._seen: set[str] = set()
        self._news = asyncio.Event()
        self.times: list[float] = []

    async def follow(self, version: str) -> None:
        async for events in self._api.follow(PODS, version, fieldSelector="spec.nodeName!="):
            now = time.monotonic()
            for key in (key_of(pod) for _, pod in events):
                if key not in self._seen:
                    self._seen.add(key)
                    self.times.append(now)
            self._news.set()

    def longest_pause(self, since: float) -> float:
        """Between two binds, and up to now."""
        moments = [since, *(seen for seen in self.times if seen > since), time.monotonic()]
        return max(after - before for before, after in itertools.pairwise(moments))

    async def first_after(self, moment: float) -> float:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not self.times or self.times[-1] <= moment:
                self._news.clear()
                await self._news.wait()
        return next(seen for seen in self.times if seen > moment)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(compare, _parser().parse_args(arguments), table, failures=(TooLong, TimeoutError))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-takeover", description="How long nobody schedules.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000, help="that are placed before it begins")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--only", choices=NAMES)
    parser.add_argument("--json", type=Path, default=RESULTS / "takeover.json", metavar="FILE")
    return parser


async def compare(options: argparse.Namespace) -> Report:
    chosen = [options.only] if options.only else list(NAMES)
    shutil.rmtree(LOGS, ignore_errors=True)
    results = {}
    with ControlPlane(find_programs(with_scheduler="kube-scheduler" in chosen), logs=LOGS) as plane:
        plane.apply_crds(REPOSITORY / "crds")
        async with Client(plane.url, plane.token) as api:
            say(f"creating {options.nodes} nodes and {options.pods} placed pods")
            await api.create_many(make_node(number) for number in range(options.nodes))
            await api.create_many(placed_pod(number, options.nodes) for number in range(options.pods))
            for name in chosen:
                results[name] = await measure(name, plane, api, options.kills)
    return {"nodes": options.nodes, "pods": options.pods, "cores": os.cpu_count(), "results": results}


async def measure(name: str, plane: ControlPlane, api: Client, kills: int) -> dict[str, Any]:
    make, count, scheduler_name = MAKERS[name]
    _, version = await api.list_with_version(PODS, limit="1")
    binds = Binds(api)
    with ExitStack() as ends:
        replicas = [make(plane, number) for number in range(count)]
        for replica in replicas:
            ends.callback(replica.process.kill)
        following = asyncio.create_task(binds.follow(version))
        streaming = asyncio.create_task(stream(api, name, scheduler_name))
        try:
            return await _measure(name, replicas, binds, kills)
        finally:
            for task in (following, streaming):
                task.cancel()
            await asyncio.gather(following, streaming, return_exceptions=True)


async def _measure(name: str, replicas: Sequence[Replica], binds: Binds, kills: int) -> dict[str, Any]:
    cold = await _cold_start(replicas[0], binds)
    say(f"{name}: cold start {cold:.1f} s")
    await asyncio.gather(*(asyncio.to_thread(replica.start) for replica in replicas[1:]))
    takeovers = []
    for _ in range(kills):
        leader = await _wait_leader(replicas)
        await asyncio.sleep(5)  # the others are warm, and the dead one's record is renewed at some moment
        moment = time.monotonic()
        leader.process.kill()
        takeovers.append(await binds.first_after(moment + UNDER_WAY_SECONDS) - moment)
        say(f"{name}: takeover {takeovers[-1]:.1f} s")
        await asyncio.to_thread(leader.start)
    handover = await _hand_over(await _wait_leader(replicas), binds)
    say(f"{name}: handover {handover:.1f} s")
    return {"cold_start_seconds": cold, "takeover_seconds": takeovers, "handover_seconds": handover}


async def _cold_start(replica: Replica, binds: Binds) -> float:
    await asyncio.sleep(2)  # pods are waiting
    moment = time.monotonic()
    starting = asyncio.create_task(asyncio.to_thread(replica.start))
    first = await binds.first_after(moment)
    await starting
    return first - moment


async def _hand_over(leader: Replica, binds: Binds) -> float:
    await asyncio.sleep(5)
    moment = time.monotonic()
    await asyncio.to_thread(leader.process.stop, 60)
    await asyncio.sleep(HANDOVER_SECONDS)
    return binds.longest_pause(moment)


async def _wait_leader(replicas: Sequence[Replica]) -> Replica:
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        for replica in replicas:
            if await asyncio.to_thread(replica.leads):
                return replica
        await asyncio.sleep(PACE_SECONDS)
    raise TooLong("nobody leads")


async def stream(api: Client, name: str, scheduler_name: str) -> None:
    number = 0
    while True:
        body = make_pod(number, scheduler_name)
        body["metadata"]["name"] = f"{name}-{number}"
        await api.create(body)
        number += 1
        await asyncio.sleep(PACE_SECONDS)


def table(report: Report) -> str:
    lines = [
        "{nodes} nodes, {pods} placed pods, {cores} cores".format_map(report),
        "",
        f"{'seconds':<16}{'takeover (median)':>19}{'(worst)':>9}{'handover':>10}{'cold start':>12}",
    ]
    for name, one in report["results"].items():
        times = one["takeover_seconds"]
        rest = f"{one['handover_seconds']:>10.1f}{one['cold_start_seconds']:>12.1f}"
        lines.append(f"{name:<16}{median(times):>19.1f}{max(times):>9.1f}{rest}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
