"""Kubernetes' own scheduling workloads with kube-scheduler and Berth in turn, on a real API server.

    make bench-cluster ARGS='--workload SchedulingBasic,TopologySpreading --pods 2000 --rounds 3'

The workloads are those of scheduler_perf, read from the Go module that the control plane is built from: nodes, pods,
templates, churn and barriers are as in its files (bench/perf). Each scheduler gets a control plane of its own: etcd
with the workload's nodes and initial pods, which are the same for all, and a new API server. The measured pods are
created by 30 workers, as scheduler_perf does, while the scheduler runs. The schedulers take turns, in another order
each round.

    pods/s    90 % of the measured pods, divided by the time between the bindings at 5 % and at 95 %
    ratio     to kube-scheduler
    p50, p99  seconds from creation to binding, both as a watch shows them
    CPU       processor seconds of the scheduler, from the first measured pod until it had nothing more to do, events
              that it had put off included
    memory    the most that the scheduler had resident

Why it is fair: everybody shares the machine with the same API server and etcd and the same client; all use the same
credentials, so no API priority favours one; kube-scheduler's own limit on requests is raised out of the way. What is
not as in scheduler_perf: the initial pods are put on the nodes by this program where nothing speaks against it; the
scheduler is a process of its own; pods name their scheduler. `bind-only` decides nothing, and shows what the API server
allows.

All of it competes for the cores of one machine, so compare figures of one run, not of two machines.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from bench import cold_start
from bench.contestants import CONTESTANTS, CRDS, LOGS, RESULTS, Contestant, Settings
from bench.drawing import draw
from bench.lean import Broken, LeanClient, Refused
from bench.perf.operations import Operation, Unsupported
from bench.perf.running import Measured, Runner, State, split
from bench.perf.tracking import Pods, Stalled
from bench.perf.workloads import Workload, choose, find_folder, read_cases, read_gates, why_not
from bench.results import (
    DISTURBED,
    NoReport,
    Round,
    make_report,
    markdown,
    pods_per_second,
    quantile,
    read_report,
    rounds_of,
    summarise,
    table,
)
from bench.starting import SCHEDULERS
from bench.terminal import Progress, positive
from bench.usage import cpu_seconds, machine_cpu_seconds, peak_memory_mb, wait_quiet
from control_plane.launcher import ControlPlane, KubectlFailed
from control_plane.process import Process, ProgramFailed
from control_plane.programs import MissingPrograms, Programs, find_programs, kubernetes_version

DEFAULT_WORKLOADS = "SchedulingBasic,SchedulingNodeAffinity,TopologySpreading,SchedulingPodAffinity"
# Their controllers do not run here, or they would make the objects other than the files say.
WITHOUT_ADMISSION = ("Priority", "StorageObjectInUseProtection", "DefaultTolerationSeconds")
COLD_NODES = 5000
EVENTS = "/apis/events.k8s.io/v1/events"
WORKERS = 30
QUIET_SECONDS = 15.0
ROUND_FAILS = (Stalled, Refused, ProgramFailed, OSError)  # OSError: a connection, or a process that is gone
FAILS = (MissingPrograms, ProgramFailed, KubectlFailed, Unsupported, Refused, Broken, Stalled, NoReport)


def main(arguments: Sequence[str] | None = None) -> int:
    options = make_parser().parse_args(arguments)
    try:
        return _main(options)
    except FAILS as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench: interrupted", file=sys.stderr)
        return 130


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make bench-cluster",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=__doc__,
        epilog="""examples, as ARGS='...':
  --list                                            the workloads that there are
  --workload SchedulingBasic --pods 1000            one workload, quickly
  --workload '*NSSelector' --rounds 3               those whose name matches, medians of three rounds
  --workload SchedulingBasic/500Nodes               another size of it
  --cold-start --nodes 5000 --rounds 3              from the start of the process to the first bind
  --workload PreemptionBasic --append               its rounds join those of earlier runs in the report
  --show bench/results/cluster.json -o markdown     the table of a report, without running anything
  --berth-args=--feature-gates=QueueingHints=false  with words for `berth run`""",
    )
    what = parser.add_argument_group("what is run")
    what.add_argument(
        "-w",
        "--workload",
        action="append",
        metavar="NAME[/SIZE],...",
        help=f"workloads by name, with globs; repeatable (default: {DEFAULT_WORKLOADS.replace(',', ', ')})",
    )
    what.add_argument("--list", action="store_true", help="list the workloads, those that are skipped with the reason")
    what.add_argument("--nodes", type=positive, metavar="N", help="so many nodes, and initial pods in proportion")
    what.add_argument("--pods", type=positive, metavar="N", help="at most so many measured pods")
    what.add_argument("--rounds", type=positive, default=1, metavar="N", help="rounds of each scheduler (default: 1)")
    what.add_argument(
        "--cold-start", action="store_true", help="no workload: the first bind after a start, with bound pods there"
    )
    what.add_argument("--bound-pods", type=positive, default=10_000, metavar="N", help="of --cold-start (10,000)")
    what.add_argument(
        "--schedulers",
        default="kube-scheduler,berth",
        metavar="NAME,...",
        help=f"of {', '.join(CONTESTANTS)} (default: kube-scheduler,berth)",
    )
    what.add_argument(
        "--berth-args", action="append", default=[], metavar="ARG", help="a further word for `berth run`; repeatable"
    )
    out = parser.add_argument_group("what is shown")
    out.add_argument("-o", "--output", choices=("table", "markdown", "json"), default="table")
    report = RESULTS / "cluster.json"
    out.add_argument("--json", type=Path, default=report, metavar="FILE", help="the report is kept here")
    out.add_argument("--append", action="store_true", help="keep the rounds that the report has already")
    out.add_argument("--svg", type=Path, metavar="FILE", help="draw pods/s as a picture")
    out.add_argument("--show", type=Path, nargs="+", metavar="FILE", help="show reports, put together; run nothing")
    return parser


def _main(options: argparse.Namespace) -> int:
    if options.show:
        _show(read_report(options.show), options)
        return 0
    programs = find_programs(with_scheduler=True)
    assert programs.kube_scheduler is not None
    gates = read_gates(programs.kube_scheduler)
    cases = read_cases(find_folder())
    if options.list:
        for case in cases:
            for workload in case.workloads:
                reason = why_not(workload, gates)
                print(workload.title + (f"  (skipped: {reason})" if reason else ""))
        return 0
    progress = Progress()
    shutil.rmtree(LOGS, ignore_errors=True)
    kept = read_report([options.json] if options.append and options.json.exists() else [])
    if options.cold_start:
        return _cold_start(options, programs, kept, progress)
    patterns = ",".join(options.workload or [DEFAULT_WORKLOADS]).split(",")
    chosen, skipped = choose(cases, patterns, gates)
    for one in skipped:
        progress.failure(f"{one.title} is skipped: {one.reason}")
    bench = Bench(programs, _contestants(options.schedulers), options.berth_args, gates, progress)
    earlier = rounds_of(kept)
    for workload in chosen:
        bench.measure(workload.rescaled(options.nodes, options.pods), options.rounds)
        kept = _keep(make_report([*earlier, *bench.rounds], cold_starts=kept["cold_starts"]), options.json)
    _show(kept, options)
    return 1 if bench.failed or not chosen else 0


def _cold_start(options: argparse.Namespace, programs: Programs, kept: dict[str, Any], progress: Progress) -> int:
    names = [name for name in options.schedulers.split(",") if name in SCHEDULERS]
    if not names:
        raise Unsupported(f"--cold-start with {options.schedulers}: must be of {', '.join(SCHEDULERS)}")
    settings = Settings(options.berth_args)
    nodes = options.nodes or COLD_NODES
    starts = cold_start.measure(programs, names, nodes, options.bound_pods, options.rounds, settings, progress)
    kept["cold_starts"] += cold_start.to_report(starts)
    _show(_keep(kept, options.json), options)
    return 0


def _contestants(names: str) -> list[Contestant]:
    unknown = [name for name in names.split(",") if name not in CONTESTANTS]
    if unknown:
        raise Unsupported(f"{unknown[0]} is not a scheduler: must be one of {', '.join(CONTESTANTS)}")
    return [CONTESTANTS[name] for name in names.split(",")]


def _keep(report: dict[str, Any], path: Path) -> dict[str, Any]:
    """Writes the report, after each workload, so that what was measured is kept whatever comes."""
    about = {"kubernetes": kubernetes_version(), "python": platform.python_version(), "cores": os.cpu_count()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**about, **report}, indent=1) + "\n")
    return {**about, **report}


def _show(report: dict[str, Any], options: argparse.Namespace) -> None:
    rows, starts = summarise(rounds_of(report)), cold_start.from_report(report["cold_starts"])
    if options.output == "json":
        print(json.dumps(report, indent=1))
    else:
        shown = [(markdown if options.output == "markdown" else table)(rows)] if rows else []
        print("\n\n".join([*shown, cold_start.table(starts)] if starts else shown))
    if options.svg:
        options.svg.write_text(draw(rows))


class Bench:
    """Measures workloads one after the other; `rounds` is what was measured, `failed` whether some round was not."""

    def __init__(
        self,
        programs: Programs,
        contestants: Sequence[Contestant],
        berth_arguments: Sequence[str],
        gates: dict[str, bool],
        progress: Progress,
    ) -> None:
        self._programs = programs
        self._contestants = contestants
        self._berth_arguments = berth_arguments
        self._gates = gates
        self._progress = progress
        self.rounds: list[Round] = []
        self.failed = False

    def measure(self, workload: Workload, rounds: int) -> None:
        """All rounds of a workload; a round that fails is said, and the others go on."""
        self._progress.heading(workload.title)
        for name, (before, now) in workload.changed.items():
            self._progress.note(f"{name} is {now:,} instead of {before:,}")
        preparation, rest = split(workload.operations())
        with ControlPlane(self._programs, logs=LOGS, without_admission=WITHOUT_ADMISSION) as plane:
            plane.apply_crds(CRDS)
            state = asyncio.run(self._prepare(plane, preparation))
            plane.back_up()
            fresh = True
            for number in range(rounds):
                for contestant in rotated(self._contestants, number):
                    if not fresh:
                        plane.restore()
                    fresh = False
                    self._play(plane, contestant, workload, rest, state)

    async def _prepare(self, plane: ControlPlane, operations: Sequence[Operation]) -> State:
        state = State()
        async with LeanClient(plane.url, plane.token, connections=WORKERS) as api:
            await Runner(api, state, self._progress.step).prepare(operations)
        return state

    def _play(
        self, plane: ControlPlane, contestant: Contestant, workload: Workload, rest: Sequence[Operation], state: State
    ) -> None:
        try:
            result = asyncio.run(self._round(plane, contestant, workload, rest, state.copied()))
        except ROUND_FAILS as error:
            self.failed = True
            self._progress.failure(f"{contestant.name} failed: {error}")
            return
        self.rounds.append(result)
        speed = f"{result.pods_per_second:.0f} pods/s, {result.cpu_seconds:.1f} s of processor time"
        others = f" (others took {result.others_share:.0%} of the machine)" if result.others_share > DISTURBED else ""
        self._progress.result(f"{contestant.name}: {speed}, {result.peak_memory_mb:.0f} MB{others}")

    async def _round(
        self, plane: ControlPlane, contestant: Contestant, workload: Workload, rest: Sequence[Operation], state: State
    ) -> Round:
        gates = {gate: value for gate, value in workload.gates.items() if gate in self._gates}
        settings = Settings(self._berth_arguments, gates)
        self._progress.step(f"starting {contestant.name}")
        async with LeanClient(plane.url, plane.token, connections=WORKERS) as api:
            pods = Pods(api)
            await pods.start()
            began = time.monotonic()
            async with in_thread(contestant.running(plane, settings)) as process:
                ready = time.monotonic() - began
                await asyncio.to_thread(wait_quiet, process.pid, QUIET_SECONDS)
                meter = Meter(process, plane)
                runner = Runner(
                    api,
                    state,
                    self._progress.step,
                    scheduler_name=contestant.scheduler_name,
                    pods=pods,
                    alive=lambda: process.running,
                    began=meter.begin,
                    ended=meter.end,
                )
                try:
                    measured = await runner.run(rest)
                except Stalled as error:
                    raise Stalled(f"{error}; {process.tail()}") from error
                await asyncio.to_thread(wait_quiet, process.pid, QUIET_SECONDS)
                meter.finish()
                events = await _count_events(api)
            await pods.stop()
        if measured is None or not measured.pods:
            raise Stalled(f"{workload.title} measured no pods")
        return meter.round(workload, contestant.name, measured, ready, events, settings)


class Meter:
    """Processor time and memory of a scheduler, our own, and that of others, at the two ends of what is measured."""

    def __init__(self, process: Process, plane: ControlPlane) -> None:
        self._pid = process.pid
        self._family = [*plane.pids, process.pid]
        self._before = self._start = cpu_seconds(self._pid)
        self._own_before = self._own = 0.0
        self._after = self._peak_mb = 0.0
        self._began = self._others_before = self._others_share = 0.0

    def begin(self) -> None:
        self._before, self._own_before = cpu_seconds(self._pid), time.process_time()
        self._began, self._others_before = time.monotonic(), self._others()

    def end(self) -> None:
        self._own = time.process_time() - self._own_before
        capacity = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        self._others_share = max(0.0, (self._others() - self._others_before) / capacity)

    def _others(self) -> float:
        return machine_cpu_seconds() - time.process_time() - sum(map(cpu_seconds, self._family))

    def finish(self) -> None:
        self._after, self._peak_mb = cpu_seconds(self._pid), peak_memory_mb(self._pid)

    def round(
        self, workload: Workload, name: str, measured: Measured, ready: float, events: int, settings: Settings
    ) -> Round:
        waits = [pod.bound - pod.created for pod in measured.pods if pod.bound is not None]
        return Round(
            workload=workload.title,
            scheduler=name,
            nodes=workload.nodes,
            pods=len(measured.pods),
            pods_per_second=round(pods_per_second(pod.bound for pod in measured.pods if pod.bound is not None), 1),
            p50_seconds=round(quantile(waits, 0.5), 3),
            p99_seconds=round(quantile(waits, 0.99), 3),
            cpu_seconds=round(self._after - self._before, 2),
            start_cpu_seconds=round(self._start, 2),
            peak_memory_mb=round(self._peak_mb, 1),
            client_cpu_seconds=round(self._own, 2),
            ready_seconds=round(ready, 2),
            events=events,
            others_share=round(self._others_share, 2),
            changed={parameter: list(values) for parameter, values in workload.changed.items()},
            arguments=list(settings.berth_arguments) if name == "berth" else [],
        )


async def _count_events(api: LeanClient) -> int:
    """How many events the scheduler has left: that it wrote them is part of what it did."""
    answer = await api.get(EVENTS, limit="1")
    return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount", 0))


@asynccontextmanager
async def in_thread(manager: AbstractContextManager[Process]) -> AsyncIterator[Process]:
    """Starting and stopping block, and the watch must go on."""
    process = await asyncio.to_thread(manager.__enter__)
    try:
        yield process
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


def rotated(contestants: Sequence[Contestant], by: int) -> list[Contestant]:
    """In another order each round, so that no one always comes first."""
    shift = by % len(contestants)
    return [*contestants[shift:], *contestants[:shift]]


if __name__ == "__main__":
    sys.exit(main())
