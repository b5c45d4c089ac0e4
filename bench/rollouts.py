"""Does the engine slow down, or keep what is gone, when many Deployments are rolled out again and again?

    make bench-rollouts ARGS='--deployments 2000 --rollouts 10 --json FILE'

Each Deployment has two pods with labels, a selector and an image of their own, required anti-affinity to their own
revision (as the API server writes matchLabelKeys into it) and a spread constraint with matchLabelKeys. A rollout goes
through all Deployments: each pod of the new revision is placed before one of the old goes. So every rollout asks as
many new questions about pods as there are Deployments, and none of the old ones is ever asked again.

    time     processor time of a decision with its booking, the median of each rollout; the last one may cost twice the
             start: the first tenth of the Deployments on the empty cluster
    memory   what the table counts of its structures, and what tracemalloc finds, before and after: before is when a
             few Deployments have come and gone, after is when all have. In a second pass of two rollouts, because
             tracing takes time
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from bench.terminal import positive, say
from bench.worlds import Body, empty, pod_body
from berth.engine.pipeline import Placement
from berth.engine.state.state import State
from berth.model import Pod, parse_pod
from berth.policy import BUILT_IN, compile_policy
from support.builders import REVISION, revision_rules

REPLICAS = 2
RATIO_BUDGET = 2.0
FIRST_COMERS = 1400  # come and go before memory is looked at, so that what is kept on purpose is full
TRACED_ROLLOUTS = 2
SPARE_BYTES_PER_POD = 200  # what held many pods is not cut to the last byte


class CannotRun(Exception):
    """A pod of the fleet found no node; the text says why."""


@dataclass(frozen=True, slots=True)
class Times:
    """Microseconds: the start, and the median of each rollout."""

    start: float
    rollouts: list[float]

    @property
    def ratio(self) -> float:
        return round(self.rollouts[-1] / self.start, 2)


@dataclass(frozen=True, slots=True)
class Memory:
    """What the table counts and bytes traced: before, at the end of the last rollout, and when all are gone."""

    before: dict[str, int]
    full: dict[str, int]
    after: dict[str, int]

    @property
    def returned(self) -> bool:
        spare = {"bytes": SPARE_BYTES_PER_POD * self.full["pods"]}
        return all(self.after[name] <= count + spare.get(name, 0) for name, count in self.before.items())


class Fleet:
    """The Deployments on one cluster, and the decisions that place their pods."""

    def __init__(self, nodes: int) -> None:
        self.state: State = empty(nodes).state()
        self._pipeline = compile_policy(BUILT_IN)
        self._random = Random(0)
        self._placed: dict[int, list[str]] = {}

    def roll_out(self, deployments: range, revision: int) -> Iterator[float]:
        """The microseconds of each decision."""
        for deployment in deployments:
            old, new = self._placed.get(deployment, []), []
            for replica in range(REPLICAS):
                pod = parse_pod(fleet_pod(deployment, revision, replica))
                yield self._place(pod)
                new.append(pod.uid)
                if old:
                    self.state.table.remove_pod(old.pop())
            self._placed[deployment] = new

    def remove(self) -> None:
        for uids in self._placed.values():
            for uid in uids:
                self.state.table.remove_pod(uid)
        self._placed.clear()

    def counts(self) -> dict[str, int]:
        return self.state.table.statistics()

    def _place(self, pod: Pod) -> float:
        started = time.thread_time_ns()
        decision = self._pipeline.decide(pod, self.state, self._random)
        if not isinstance(decision, Placement):
            raise CannotRun(decision.message)
        self.state.table.add_pod(pod, decision.node)
        return (time.thread_time_ns() - started) / 1000


def fleet_pod(deployment: int, revision: int, replica: int) -> Body:
    app, template = f"fleet-{deployment}", f"{deployment}-{revision}"
    return pod_body(
        f"{app}-{template}-{replica}",
        cpu_millicores=50,
        labels={"app": app, REVISION: template},
        image=f"example.com/{app}:v{revision}",
        **revision_rules(app, template),
    )


def measure_time(nodes: int, deployments: int, rollouts: int) -> Times:
    fleet = Fleet(nodes)
    say(f"{deployments} Deployments come to {nodes} nodes")
    tenth = max(deployments // 10, 1)
    start = median(list(fleet.roll_out(range(tenth), 0))[2:])
    for _ in fleet.roll_out(range(tenth, deployments), 0):
        pass
    medians: list[float] = []
    for revision in range(1, rollouts + 1):
        medians.append(round(median(fleet.roll_out(range(deployments), revision)), 1))
        say(f"rollout {revision} of {rollouts}: {medians[-1]:.0f} us a decision, {start:.0f} at the start")
    return Times(round(start, 1), medians)


def measure_memory(nodes: int, deployments: int) -> Memory:
    fleet = Fleet(nodes)
    tracemalloc.start()
    try:
        _roll(fleet, range(FIRST_COMERS))
        fleet.remove()
        before = _counted(fleet)
        _roll(fleet, range(FIRST_COMERS, FIRST_COMERS + deployments))
        full = _counted(fleet)
        fleet.remove()
        return Memory(before, full, _counted(fleet))
    finally:
        tracemalloc.stop()


def _roll(fleet: Fleet, deployments: range) -> None:
    for revision in range(TRACED_ROLLOUTS + 1):
        say(f"memory: {len(deployments)} Deployments, rollout {revision} of {TRACED_ROLLOUTS}")
        for _ in fleet.roll_out(deployments, revision):
            pass


def _counted(fleet: Fleet) -> dict[str, int]:
    gc.collect()
    return {**fleet.counts(), "bytes": tracemalloc.get_traced_memory()[0]}


def table(times: Times, memory: Memory) -> str:
    last = times.rollouts[-1]
    met = "met" if times.ratio <= RATIO_BUDGET else "OVER"
    lines = [
        f"{len(times.rollouts)} rollouts: {last:.0f} us a decision, {times.start:.0f} us at the start: "
        f"ratio {times.ratio:.2f}, budget {RATIO_BUDGET:g} {met}",
        f"{'':<20}{'before':>12}{'full':>12}{'after':>12}",
        *(
            f"{name:<20}{memory.before[name]:>12}{memory.full[name]:>12}{memory.after[name]:>12}"
            for name in memory.after
        ),
        f"memory returned: {'met' if memory.returned else 'OVER'}",
    ]
    return "\n".join(lines)


def report_of(times: Times, memory: Memory) -> dict[str, Any]:
    return {
        "times": asdict(times) | {"ratio": times.ratio},
        "memory": asdict(memory) | {"returned": memory.returned},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench-rollouts", description="Decisions under endless rollouts.")
    for name, default in (("--nodes", 1000), ("--deployments", 2000), ("--rollouts", 10)):
        parser.add_argument(name, type=positive, default=default, metavar="N", help=f"default: {default}")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        times = measure_time(options.nodes, options.deployments, options.rollouts)
        memory = measure_memory(options.nodes, options.deployments)
    except CannotRun as error:
        print(f"rollouts: {error}", file=sys.stderr)
        return 1
    print(table(times, memory))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report_of(times, memory), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
