"""What one event costs, and what follows from it, where thousands of pods wait: through Scheduler.observe and remove.

    make bench-storms ARGS='--nodes 5000 --json FILE'

Each storm is a scheduler on a cluster of its own, in the state that it is about: full nodes, and pods that found none.
Then the events come, one after the other, and the scheduler does what follows from each before the next.

    event      processor time of the call that reports an event: the median, and the longest
    step       the longest time that the loop was held at once by what followed, decisions included
    attempts   how many attempts to place a pod an event led to, at most
    writes     how many Events and conditions were handed over to be written, at most
    behind     for how many attempts a new pod of another team had to wait

Everything that is counted scales with the number of nodes; the figures of the documentation are those of 5,000.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.terminal import positive, say
from scheduler.harness import Harness
from scheduler.virtual_clock import settle
from support.builders import make_node, make_object, make_pod

Body = dict[str, Any]

STEP_BUDGET_MS = 20.0
REFERENCE_NODES = 5000
KINDS = 200
TIMES = 20  # how often an event is repeated


@dataclass(slots=True)
class Figures:
    """Of one storm; times in milliseconds."""

    storm: str
    events: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    behind: int | None = None

    def row(self) -> dict[str, Any]:
        return {
            "storm": self.storm,
            "event_ms": round(median(self.events), 3),
            "longest_event_ms": round(max(self.events), 3),
            "longest_step_ms": round(max(self.steps, default=0.0), 3),
            "attempts": max(self.attempts, default=0),
            "writes": max(self.writes, default=0),
            "behind": self.behind,
        }


class Stage:
    """A scheduler, its cluster, and a clock for every step of its loop."""

    def __init__(self, nodes: int, **options: Any) -> None:
        self.nodes = nodes
        self.harness = Harness(**options)
        self.scheduler = self.harness.scheduler
        self.tried: list[str] = []
        self._version = 0
        attempt = self.harness.components.cycle.attempt

        def counted(item: Any) -> None:
            self.tried.append(item.pod.name)
            attempt(item)

        self.harness.components.cycle.attempt = counted  # type: ignore[method-assign]
        # Counted and not kept: what is on its way to the API server is no memory of the scheduler's.
        self.harness.cluster.report_condition = self._count  # type: ignore[method-assign, assignment]
        self.harness.cluster.record_event = self._count  # type: ignore[method-assign, assignment]
        self.writes = 0

    def _count(self, *written: Any) -> None:
        self.writes += 1

    def scaled(self, count: int) -> int:
        return max(1, count * self.nodes // REFERENCE_NODES)

    def stamped(self, body: Body) -> Body:
        self._version += 1
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}

    def put(self, body: Body) -> None:
        self.harness.observe(body["kind"], self.stamped(body))

    def drop(self, body: Body) -> None:
        self.harness.remove(body["kind"], self.stamped(body))

    def known(self, body: Body) -> None:
        """The API server knows the pod, too, so that it can be bound."""
        metadata = body["metadata"]
        self.harness.cluster.objects["Pod"][f"{metadata['namespace']}/{metadata['name']}"] = body

    def fill(self, pods_each: int = 2, cpu_millicores: int = 2000) -> None:
        """Every node, with pods that none of those which wait may preempt."""
        for number in range(self.nodes):
            self.put(make_node(f"n-{number}", cpu=4))
            for place in range(pods_each):
                self.put(filler(number, place, cpu_millicores))

    async def wait(self) -> None:
        """Until every pod has been tried, and the backoff of each is over."""
        self.scheduler.open()
        await quiet(self)
        await self.harness.clock.advance(20)
        await quiet(self)
        gc.collect()
        gc.freeze()
        self.tried.clear()

    async def play(self, figures: Figures, event: Callable[[], None]) -> None:
        """One event and what follows from it."""
        self.tried.clear()
        self.writes = 0
        with steps() as longest:
            started = time.thread_time()
            event()
            figures.events.append((time.thread_time() - started) * 1000)
            longest.clear()
            await quiet(self)
            figures.steps.append(max(longest, default=0.0))
        figures.attempts.append(len(self.tried))
        figures.writes.append(self.writes)


async def quiet(stage: Stage) -> None:
    await settle()
    while stage.harness.cluster.feed:
        stage.harness.tell()
        await settle()


@contextmanager
def steps() -> Iterator[list[float]]:
    """Milliseconds of processor time of each callback of the loop."""
    taken: list[float] = []
    run = asyncio.Handle._run

    def timed(handle: Any) -> None:
        started = time.thread_time()
        run(handle)
        taken.append((time.thread_time() - started) * 1000)

    setattr(asyncio.Handle, "_run", timed)  # noqa: B010 - there is no other place that sees every step of the loop
    try:
        yield taken
    finally:
        setattr(asyncio.Handle, "_run", run)  # noqa: B010


@contextmanager
def running(stage: Stage) -> Iterator[None]:
    task = asyncio.ensure_future(stage.scheduler.run())
    try:
        yield
    finally:
        task.cancel()
        gc.unfreeze()


def filler(node: int, place: int, cpu_millicores: int) -> Body:
    return make_pod(f"f-{node}-{place}", node=f"n-{node}", cpu=f"{cpu_millicores}m", priority=1000)


def pinned(number: int) -> Body:
    """A DaemonSet's pod, for one node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n-{number}"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return make_pod(f"ds-{number}", cpu="100m", affinity={"nodeAffinity": required})


# --- the storms ------------------------------------------------------------------------------------------------------


async def many_kinds(nodes: int) -> Iterator[Figures]:
    stage = Stage(nodes)
    stage.fill()
    for number in range(stage.scaled(10_000)):
        body = make_pod(f"p-{number}", cpu=f"{3000 + number % KINDS}m")
        stage.put(body)
        stage.known(body)
    useless, useful = Figures("10,000 pods of 200 kinds: a pod leaves, too small"), Figures("the same: room for one")
    with running(stage):
        await stage.wait()
        for number in range(TIMES):
            await stage.play(useless, partial(stage.drop, filler(number, 0, 2000)))
        for number in range(TIMES):
            await stage.play(useful, partial(stage.drop, filler(number, 1, 2000)))
    return iter([useless, useful])


async def daemon_set(nodes: int) -> Iterator[Figures]:
    stage = Stage(nodes)
    stage.fill()
    for number in range(nodes):
        stage.put(pinned(number))
        stage.known(pinned(number))
    figures = Figures("5,000 DaemonSet pods on full nodes: a pod leaves")
    with running(stage):
        await stage.wait()
        for number in range(TIMES):
            await stage.play(figures, partial(stage.drop, filler(number, 0, 2000)))
    return iter([figures])


async def policies(nodes: int) -> Iterator[Figures]:
    stage = Stage(nodes)
    stage.fill()
    for team in range(KINDS):
        stage.put(policy(team, 1))
    for number in range(stage.scaled(20_000)):
        stage.put(make_pod(f"p-{number}", cpu="3", scheduler=f"team-{number % KINDS}"))
    one, shadow = Figures("20,000 pods, 200 policies: one is edited"), Figures("the same: one in Shadow mode is edited")
    with running(stage):
        await stage.wait()
        for turn in range(5):
            await stage.play(one, partial(stage.put, policy(turn, 2)))
            await stage.play(shadow, partial(stage.put, policy(0, turn + 1, name="shadow", mode="Shadow")))
    return iter([one, shadow])


async def one_policy(nodes: int) -> Iterator[Figures]:
    stage = Stage(nodes)
    stage.fill()
    stage.put(policy(0, 1))
    for number in range(stage.scaled(20_000)):
        stage.put(make_pod(f"p-{number}", cpu="3", scheduler="team-0"))
    figures = Figures("20,000 pods of one policy: it is edited")
    with running(stage):
        await stage.wait()

        def edit() -> None:
            stage.put(policy(0, 2))
            stage.put(make_pod("new", cpu="3"))

        await stage.play(figures, edit)
    figures.behind = stage.tried.index("new")
    return iter([figures])


async def node_joins(nodes: int) -> Iterator[Figures]:
    stage = Stage(nodes)
    stage.fill()
    for number in range(stage.scaled(20_000)):
        body = make_pod(f"p-{number}", cpu="1")
        stage.put(body)
        stage.known(body)
    figures = Figures("20,000 pods of one kind: a node joins for 4")
    with running(stage):
        await stage.wait()
        for number in range(TIMES):
            await stage.play(figures, partial(stage.put, make_node(f"new-{number}", cpu=4)))
    return iter([figures])


async def bystanders(nodes: int) -> Iterator[Figures]:
    """What happens all the time, and what others do, beside pods that wait."""
    stage = Stage(nodes)
    stage.fill(pods_each=3, cpu_millicores=1300)
    waiting = [make_pod(f"p-{number}", cpu=f"{3000 + number % KINDS}m") for number in range(stage.scaled(10_000))]
    for body in waiting:
        stage.put(body)
    deleted = Figures("5,000 pods of a namespace are deleted")
    gated = Figures("10,000 gated pods come")
    beats = Figures("heartbeats of 5,000 nodes")
    services = Figures("1,000 services come")
    with running(stage):
        await stage.wait()
        for number in range(stage.scaled(10_000)):
            await stage.play(gated, partial(stage.put, make_pod(f"g-{number}", cpu="1", gates=["wait"])))
        for number in range(nodes):
            node = make_node(f"n-{number}", cpu=4)
            node["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "later"}]
            await stage.play(beats, partial(stage.put, node))
        for number in range(stage.scaled(1000)):
            service = make_object("Service", f"s-{number}", namespace="default", spec={"selector": {"app": "x"}})
            await stage.play(services, partial(stage.put, service))
        for number in range(stage.scaled(5000)):
            await stage.play(deleted, partial(stage.drop, filler(number, 0, 1300)))
    return iter([deleted, gated, beats, services])


def policy(team: int, generation: int, *, name: str = "", mode: str = "Active") -> Body:
    called = name or f"team-{team}"
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": called, "uid": f"uid-{called}", "generation": generation},
        "spec": {
            "schedulerName": f"team-{team}",
            "mode": mode,
            "priorities": [{"name": "NodeResourcesFit", "weight": generation}],
        },
    }


STORMS = (many_kinds, daemon_set, policies, one_policy, node_joins, bystanders)


def measure(nodes: int) -> list[Figures]:
    found: list[Figures] = []
    for storm in STORMS:
        say(f"{storm.__name__} at {nodes} nodes")
        found += asyncio.run(storm(nodes))
        gc.collect()
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = f"{'':<54}{'event ms':>10}{'longest':>9}{'step ms':>9}{'attempts':>10}{'writes':>8}{'behind':>8}"
    lines = [
        f"{row['storm']:<54}{row['event_ms']:>10.3f}{row['longest_event_ms']:>9.2f}{row['longest_step_ms']:>9.2f}"
        f"{row['attempts']:>10}{row['writes']:>8}{'' if row['behind'] is None else row['behind']:>8}"
        for row in rows
    ]
    longest = max(max(row["longest_event_ms"], row["longest_step_ms"]) for row in rows)
    met = "met" if longest <= STEP_BUDGET_MS else "OVER"
    return "\n".join([head, *lines, f"longest step {longest:.1f} ms, budget {STEP_BUDGET_MS:g} {met}"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench-storms", description="What one event costs in a storm.")
    parser.add_argument("--nodes", type=positive, default=REFERENCE_NODES, metavar="N", help="default: 5000")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    figures = measure(options.nodes)
    rows = [entry.row() for entry in figures]
    print(table(rows))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"nodes": options.nodes, "rows": rows}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
