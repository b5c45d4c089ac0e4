"""What an expression in a policy costs: one decision with a predicate and a priority in CEL, and without them.

    python -m bench.expressions [--nodes 5000] [--cases CASE ...] [--json FILE]

As in bench.engine, each measured pod is of another Deployment (`new`), and four more of its kind follow it (`repeat`);
the policy is the built-in one plus the case's expressions. `base` is the same without them, measured in turn with it on
the same pods, and what the expressions add is the difference of the medians.

    first     predicate and priority on all nodes where nothing is remembered: the first decision after an apply
    changed   the same after the labels of one node have changed

Figures are microseconds of processor time. The budget is 1 ms added for expressions that read labels by name, once
warm, at 5,000 nodes. Exit status 1 when it is not met.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from bench.engine import CASES as ENGINE_CASES
from bench.engine import REPLICAS, WARM, _pods
from bench.terminal import say
from bench.worlds import HOSTNAME, RACK, ZONE, World, roomy
from berth.engine.pipeline import Pipeline, Placement
from berth.engine.plugin import FilterPlugin, Query, ScorePlugin
from berth.engine.state.state import State
from berth.model import Pod
from berth.policy import BUILT_IN, compile_policy
from berth.policy.expressions import make_predicate, make_priority
from berth.policy.records import Predicate, Priority

BUDGETED_NODES, BUDGET = 5000, 1000.0
SAMPLES = 60
PARAMETERS = {"disks": {"ssd": 100, "hdd": 10}, "zone": ZONE}


@dataclass(frozen=True, slots=True)
class Case:
    """A predicate that most nodes meet, and a priority; `labels_only` ones have a budget."""

    name: str
    predicate: str
    priority: str
    labels_only: bool = False
    normalized: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """Microseconds; `added` is what the expressions add to the median decision."""

    case: str
    nodes: int
    base_new: float
    new: float
    base_repeat: float
    repeat: float
    first: float
    changed: float

    @property
    def added_new(self) -> float:
        return self.new - self.base_new

    @property
    def added_repeat(self) -> float:
        return self.repeat - self.base_repeat


CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case(
            "labels",
            f"node.labels['{RACK}'] != 'rack-1'",
            "policy.parameters.disks[?node.labels[?'example.com/disk'].orValue('')].orValue(0)",
            labels_only=True,
        ),
        Case(
            "labels-and-pod",
            "node.labels[policy.parameters.zone] != pod.labels[?'app'].orValue('')",
            "node.labels['example.com/disk'] == 'ssd' && pod.labels.app != 'x' ? 100 : 10",
            labels_only=True,
        ),
        Case("taints", "node.taints.all(t, t.effect != 'NoExecute')", "100 - 10 * node.taints.size()"),
        Case("whole-labels", "!node.labels.exists(k, k.startsWith('retiring/'))", "node.labels.size()"),
        Case("names", "!node.name.endsWith('-777')", "node.name.size()"),
        Case("allocatable", "node.allocatable.cpu >= 2000", "node.allocatable.cpu / 1000"),
        Case("free", "node.free.cpu >= 500 && node.free.memory > 0", "node.free.cpu / 100"),
        Case("free-and-pod", "node.free.cpu - pod.requests.cpu >= 200", "(node.free.cpu - pod.requests.cpu) / 100"),
        Case(
            "free-all-distinct",
            f"node.free.cpu - pod.requests.cpu >= 200 && node.labels['{HOSTNAME}'] != ''",
            f"(node.free.cpu - pod.requests.cpu) / 100 + size(node.labels['{HOSTNAME}'])",
        ),
    )
}


def measure(case: Case, world: World) -> Result:
    states = {True: world.state(), False: world.state()}
    pipelines = {with_it: _pipeline(case if with_it else None) for with_it in states}
    first, changed = _first(case, states[True])
    gc.collect()
    times: dict[tuple[bool, bool], list[float]] = {(w, n): [] for w in (True, False) for n in (True, False)}
    shape = ENGINE_CASES["plain"]
    pods = list(_pods(shape, "warm", range(WARM))) + list(_pods(shape, "measured", range(WARM, WARM + SAMPLES)))
    for number, (pod, is_new) in enumerate(zip(pods, cycle((True, *[False] * (REPLICAS - 1))), strict=False)):
        for with_it, pipeline in pipelines.items():
            spent = _place(pipeline, states[with_it], pod)
            if number >= WARM * REPLICAS:
                times[with_it, is_new].append(spent)
    medians = {key: round(median(spent), 1) for key, spent in times.items()}
    return Result(
        case.name,
        len(world.nodes),
        medians[False, True],
        medians[True, True],
        medians[False, False],
        medians[True, False],
        first,
        changed,
    )


def _plugins(case: Case) -> tuple[FilterPlugin, ScorePlugin]:
    priority = Priority("points", expression=case.priority, normalized=case.normalized)
    return make_predicate(Predicate("rule", expression=case.predicate), PARAMETERS), make_priority(priority, PARAMETERS)


def _pipeline(case: Case | None) -> Pipeline:
    made = compile_policy(BUILT_IN)
    if case is None:
        return made
    predicate, priority = _plugins(case)
    return Pipeline([*made.filters, predicate], [*made.scores, (priority, 1)], made.tie_break)


def _first(case: Case, state: State) -> tuple[float, float]:
    """Predicate and priority on all nodes: with nothing remembered, and after a node has changed."""
    firsts, changes = [], []
    pod = next(_pods(ENGINE_CASES["plain"], "first", range(1)))
    node = next(state.table.nodes())
    for turn in range(3):
        predicate, priority = _plugins(case)
        firsts.append(_asked(predicate, priority, pod, state))
        state.table.set_node(replace(node, labels={**node.labels, "turn": str(turn)}))
        changes.append(_asked(predicate, priority, pod, state))
        for plugin in (predicate, priority):
            count, failure = plugin.take_failures()
            if count:
                raise SystemExit(f"{case.name}: {count} evaluations failed; the last on {failure}")
    state.table.set_node(node)
    return round(median(firsts), 1), round(median(changes), 1)


def _asked(predicate: FilterPlugin, priority: ScorePlugin, pod: Pod, state: State) -> float:
    query = Query(pod, state.table)
    started = time.thread_time_ns()
    predicate.filter(query, state, state.table.rows)
    priority.score(query, state, state.table.rows)
    return (time.thread_time_ns() - started) / 1000


def _place(pipeline: Pipeline, state: State, pod: Pod) -> float:
    started = time.thread_time_ns()
    decision = pipeline.decide(pod, state, Random(0))
    if not isinstance(decision, Placement):
        raise SystemExit(decision.message)
    state.table.add_pod(pod, decision.node)
    return (time.thread_time_ns() - started) / 1000


# --- the report


def table(results: Sequence[Result]) -> str:
    names = ("nodes", 7), ("new", 9), ("repeat", 9), ("decision", 10), ("repeat", 9), ("first", 10), ("changed", 9)
    head = f"{'added, us':<18}{''.join(f'{name:>{width}}' for name, width in names)}  budget"
    return "\n".join([head, *map(_line, results)])


def _line(result: Result) -> str:
    figures = f"{result.added_new:>9.0f}{result.added_repeat:>9.0f}{result.new:>10.0f}{result.repeat:>9.0f}"
    said = "" if _within(result) is None else f"{BUDGET:g} {'met' if _within(result) else 'OVER'}"
    return f"{result.case:<18}{result.nodes:>7}{figures}{result.first:>10.0f}{result.changed:>9.0f}  {said}".rstrip()


def _within(result: Result) -> bool | None:
    """Whether the budget is met; None where there is none."""
    if not CASES[result.case].labels_only or result.nodes != BUDGETED_NODES:
        return None
    return result.added_new <= BUDGET


def report_of(results: Sequence[Result]) -> dict[str, Any]:
    return {
        "unit": "microseconds",
        "python": platform.python_version(),
        "results": [asdict(result) for result in results],
        "budget": BUDGET,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.expressions", description="What expressions cost.")
    parser.add_argument("--nodes", type=int, nargs="+", default=[BUDGETED_NODES], metavar="N")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    results: list[Result] = []
    for nodes in options.nodes:
        say(f"parsing a cluster of {nodes} nodes")
        world = roomy(nodes)
        for name in options.cases:
            say(f"{nodes} nodes: {name}")
            results.append(measure(CASES[name], world))
    print(table(results))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report_of(results), indent=2) + "\n")
    return 1 if any(_within(result) is False for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
