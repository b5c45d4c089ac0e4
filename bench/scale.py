"""How Berth grows with the cluster: its start, its memory, and what it does while thousands of pods change.

    make bench-scale ARGS='--nodes 1000,5000,10000 --seconds 20'

For each size, on a real API server with so many nodes and ten bound pods on each, each scheduler in turn:

    first bind   seconds from the start of the process to the first bind, of pods that were waiting
    memory       resident, when all is read
    decision     milliseconds that filtering and scoring take for a plain pod, as the scheduler's own metrics say
    events/s     how many changes of pod statuses the API server took, as fast as it could, for some seconds
    bind wait    from the creation of a pod to its bind meanwhile; the pod comes behind the changes in the same watch,
                 so that this is by how much the scheduler lags behind, too
    left behind  the same for a pod that is created when the last change was made
    CPU          processor seconds of the scheduler a second meanwhile
    loop         by how much Berth's event loop was late, at worst: the longest step that one of its beats met

All of it shares the machine with the API server and etcd, and with the client that makes the changes.
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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from bench.contestants import CRDS, LOGS, RESULTS, Settings
from bench.lean import MERGE_PATCH, Broken, LeanClient, Refused, Request
from bench.perf.objects import create
from bench.perf.tracking import Stalled
from bench.plain import make_pod
from bench.results import quantile
from bench.starting import SCHEDULERS, Start, Started, preparation, read_metrics, started
from bench.terminal import Progress, positive
from bench.usage import cpu_seconds
from control_plane.launcher import ControlPlane, KubectlFailed
from control_plane.process import ProgramFailed
from control_plane.programs import MissingPrograms, find_programs

PODS_A_NODE = 10
DECISIONS = 200
IDLE_PROBES = 20
PROBE_SECONDS = 0.25
PATCHERS = 24
WORKERS = 64
POINTS = ("PreFilter", "Filter", "Score")
FAILS = (MissingPrograms, ProgramFailed, KubectlFailed, Stalled, Refused, Broken)


@dataclass(frozen=True, slots=True)
class Result:
    """One scheduler at one size; see the module's text. `loop_seconds` is None where there is no such loop."""

    scheduler: str
    nodes: int
    pods: int
    start: Start
    decision_ms: float
    idle_wait_seconds: float
    events_per_second: float
    wait_p50_seconds: float
    wait_p99_seconds: float
    left_behind_seconds: float
    cpu_share: float
    loop_seconds: float | None


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    progress = Progress()
    results: list[Result] = []
    shutil.rmtree(LOGS, ignore_errors=True)
    try:
        for nodes in options.nodes:
            results += measure(nodes, options, progress)
            _keep(results, options.json)
    except FAILS as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(json.dumps(_report(results), indent=1) if options.output == "json" else table(results))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make bench-scale",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=__doc__,
    )
    sizes = [1000, 5000, 10_000]
    parser.add_argument("--nodes", type=_sizes, default=sizes, metavar="N,...", help="sizes (default: 1000,5000,10000)")
    parser.add_argument("--seconds", type=positive, default=20, metavar="N", help="of changes (default: 20)")
    parser.add_argument(
        "--schedulers", type=_schedulers, default=["berth"], metavar="NAME,...", help=f"of {', '.join(SCHEDULERS)}"
    )
    parser.add_argument(
        "--berth-args", action="append", default=[], metavar="ARG", help="a further word for `berth run`; repeatable"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--json", type=Path, default=RESULTS / "scale.json", metavar="FILE")
    return parser


def _sizes(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def _schedulers(text: str) -> list[str]:
    for name in text.split(","):
        if name not in SCHEDULERS:
            raise argparse.ArgumentTypeError(f"{name} must be one of {', '.join(SCHEDULERS)}")
    return text.split(",")


def measure(nodes: int, options: argparse.Namespace, progress: Progress) -> list[Result]:
    """Every scheduler on the same cluster, each from the same state."""
    progress.heading(f"{nodes:,} nodes")
    programs = find_programs(with_scheduler="kube-scheduler" in options.schedulers)
    results = []
    with ControlPlane(programs, logs=LOGS) as plane:
        plane.apply_crds(CRDS)
        progress.step(f"creating {nodes:,} nodes and {nodes * PODS_A_NODE:,} bound pods")
        asyncio.run(_prepare(plane, nodes))
        plane.back_up()
        for number, name in enumerate(options.schedulers):
            if number:
                plane.restore()
            progress.step(f"starting {name}")
            result = asyncio.run(_measure(plane, name, nodes, options, progress))
            speed = f"first bind {result.start.first_bind_seconds:.1f} s, {result.start.memory_mb:.0f} MB"
            progress.result(f"{name}: {speed}, {result.events_per_second:.0f} events/s")
            results.append(result)
    return results


async def _prepare(plane: ControlPlane, nodes: int) -> None:
    async with LeanClient(plane.url, plane.token, connections=WORKERS) as api:
        await api.send_all(preparation(nodes, nodes * PODS_A_NODE))


async def _measure(
    plane: ControlPlane, name: str, nodes: int, options: argparse.Namespace, progress: Progress
) -> Result:
    settings = Settings(options.berth_args)
    async with (
        LeanClient(plane.url, plane.token, connections=PATCHERS + 8) as api,
        started(plane, api, name, settings) as scheduler,
    ):
        progress.step("deciding")
        before = scheduler.metrics()
        await _bind_many(api, scheduler, DECISIONS)
        decision = decision_ms(before, await asyncio.to_thread(scheduler.metrics))
        idle = await _probe(api, scheduler, "idle", IDLE_PROBES)
        progress.step(f"changing pods for {options.seconds} s")
        flood = await _flood(api, scheduler, nodes * PODS_A_NODE, options.seconds)
        page = await asyncio.to_thread(scheduler.metrics)
        return Result(
            name,
            nodes,
            nodes * PODS_A_NODE,
            scheduler.start,
            round(decision, 2),
            round(quantile(idle, 0.5), 3),
            round(flood.events / flood.seconds, 1),
            round(quantile(flood.waits, 0.5), 3),
            round(quantile(flood.waits, 0.99), 3),
            round(flood.left_behind, 3),
            round(flood.cpu / flood.seconds, 2),
            read_metrics(page, "berth_loop_lag_seconds").get(""),
        )


@dataclass(frozen=True, slots=True)
class Flood:
    events: int
    seconds: float
    waits: Sequence[float]
    left_behind: float
    cpu: float


async def _flood(api: LeanClient, scheduler: Started, pods: int, seconds: float) -> Flood:
    """Statuses are changed for so long, while pods are created now and then."""
    pid, began = scheduler.process.pid, time.monotonic()
    cpu = cpu_seconds(pid)
    changing = asyncio.create_task(api.send_all(changes(pods, began + seconds), at_once=PATCHERS))
    waits = await _probe(api, scheduler, "busy", max(1, int(seconds / PROBE_SECONDS)), lambda: changing.done())
    events = await changing
    ended = time.monotonic()
    taken = cpu_seconds(pid) - cpu
    (left_behind,) = await _probe(api, scheduler, "last", 1)
    return Flood(events, ended - began, waits, left_behind, taken)


def changes(pods: int, until: float) -> Iterator[list[Request]]:
    """A new message in the status of one pod after the other, as long as there is time."""
    for number in itertools.count():
        if time.monotonic() >= until:
            return
        path = f"/api/v1/namespaces/default/pods/placed-{number % pods}/status"
        yield [Request("PATCH", path, orjson.dumps({"status": {"message": f"change {number}"}}), MERGE_PATCH)]


async def _bind_many(api: LeanClient, scheduler: Started, count: int) -> None:
    names = [f"many-{number}" for number in range(count)]
    await api.send_all(_creations(scheduler, names))
    await _wait_bound(scheduler, names)


async def _probe(
    api: LeanClient, scheduler: Started, prefix: str, count: int, over: Any = lambda: False
) -> list[float]:
    """How long each of these pods waited; one is created now and then, until it is over."""
    names: list[str] = []
    for number in range(count):
        names.append(f"{prefix}-{number}")
        await api.send_all(_creations(scheduler, names[-1:]))
        if count > 1:
            await asyncio.sleep(PROBE_SECONDS)
        if over():
            break
    await _wait_bound(scheduler, names)
    seen = (scheduler.pods.get("default", name) for name in names)
    return [pod.bound - pod.created for pod in seen if pod is not None and pod.bound is not None]


def _creations(scheduler: Started, names: Sequence[str]) -> Iterator[list[Request]]:
    for name in names:
        body = make_pod(0, scheduler.scheduler_name)
        body["metadata"]["name"] = name
        yield [create(body)]


async def _wait_bound(scheduler: Started, names: Sequence[str]) -> None:
    pods = scheduler.pods
    await pods.wait(lambda: pods.count_bound("default", names) == len(names), "pods", lambda: scheduler.process.running)


def decision_ms(before: str, after: str) -> float:
    """What a decision took between two pages of metrics: of kube-scheduler its algorithm, of Berth filter and score."""
    algorithm = "scheduler_scheduling_algorithm_duration_seconds"
    if read_metrics(after, f"{algorithm}_count"):
        return _mean_ms(before, after, algorithm, "")
    point = "scheduler_framework_extension_point_duration_seconds"
    return sum(_mean_ms(before, after, point, f'extension_point="{name}"') for name in POINTS)


def _mean_ms(before: str, after: str, metric: str, label: str) -> float:
    def grown(suffix: str) -> float:
        pages = (read_metrics(page, f"{metric}_{suffix}") for page in (before, after))
        old, new = (sum(value for labels, value in page.items() if label in labels) for page in pages)
        return new - old

    count = grown("count")
    return 1000 * grown("sum") / count if count else 0.0


def _keep(results: Sequence[Result], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_report(results), indent=1) + "\n")


def _report(results: Sequence[Result]) -> dict[str, Any]:
    return {"cores": os.cpu_count(), "results": [asdict(result) for result in results]}


HEADS = ("nodes", "pods", "first bind", "memory", "decision", "events/s", "bind wait p50, p99", "left behind", "CPU")


def table(results: Sequence[Result]) -> str:
    """As Markdown, for the terminal and for the page."""
    heads = ("scheduler", *HEADS, "loop")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(_cells(result)) + " |" for result in results]
    return "\n".join(lines)


def _cells(result: Result) -> tuple[str, ...]:
    return (
        result.scheduler,
        f"{result.nodes:,}",
        f"{result.pods:,}",
        f"{result.start.first_bind_seconds:.1f} s",
        f"{result.start.memory_mb:.0f} MB",
        f"{result.decision_ms:.2f} ms",
        f"{result.events_per_second:,.0f}",
        f"{result.wait_p50_seconds:.2f} s, {result.wait_p99_seconds:.2f} s",
        f"{result.left_behind_seconds:.2f} s",
        f"{result.cpu_share:.2f}",
        "-" if result.loop_seconds is None else f"{1000 * result.loop_seconds:.0f} ms",
    )


if __name__ == "__main__":
    sys.exit(main())
