"""How long one decision takes, on one core, by what the pod asks for and by the size of the cluster.

    make bench-engine ARGS='--nodes 5000 --cases plain hard-spreading --passes 5 --json FILE'

Measured is the default policy's whole decision, every node filtered and every feasible one scored, and the booking of
the pod on its node, as Cache.assume does it. Each measured pod is of another Deployment: its labels, requests, image
and selectors are new to the engine (`new`), and after it four more of the same kind are placed (`repeat`). Each case
has a state of its own, filled from the same records (bench.worlds says what is in it), in which 9 of 10 nodes or more
are feasible. Parsing is not measured: a pod is parsed when the watch brings it, not when it is decided.

Cases with nominated pods are measured with 1,000 of them, of a higher priority than the pods to place, on as many
nodes. While there are such pods no answers are cached, so a repeat takes as long as a new pod.

Preemption is measured on full nodes, with the default limits on candidates: the decision that finds no room, and the
choice of node and victims. Nothing is booked, so each pod meets the same cluster.

Figures are microseconds of processor time, which is what a decision takes on a core of its own: median and 90th
percentile. All cases are measured again and again, and of the passes the quietest counts: caches and memory are shared
with whatever else the machine does, which only adds to a time, and goes on for seconds. Budgets are for the median at
5,000 nodes; the ratio is that of the medians at 20,000 and at 5,000 nodes.
Exit status 1 when a case could not be measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, product
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

from bench.terminal import positive, say
from bench.worlds import (
    HOSTNAME,
    RACK,
    ZONE,
    Body,
    World,
    anti_affinity,
    full,
    host_ports,
    image_of,
    labels_of,
    owner_of,
    pod_body,
    preempting,
    roomy,
    spread,
    term,
)
from berth.engine.diagnosis import diagnose
from berth.engine.pipeline import Pipeline, Placement
from berth.engine.plugin import Query
from berth.engine.preemption.preemption import Preemption
from berth.engine.preemption.victims import Nomination
from berth.engine.state.state import State
from berth.model import Pod, parse_pod
from berth.policy import BUILT_IN, compile_policy

NODES = (1000, 5000, 20_000)
BUDGETED_NODES, BIG_NODES = 5000, 20_000
WARM, FEWEST_SAMPLES, MOST_SAMPLES = 70, 10, 300
ENOUGH_SECONDS = 2.0
PASSES = 3
REPLICAS = 5
REPEAT_BUDGET, RATIO_BUDGET = 50.0, 4.5
VICTORIOUS = 1000
PREEMPTION = Preemption()

Shape = Callable[[int], Body]
Decide = Callable[[Pipeline, State, Pod, Random], None]


class CannotRun(Exception):
    """The engine has no answer for the case; the text says what it answered instead."""


@dataclass(frozen=True, slots=True)
class Case:
    """What its pods ask for (a spec for each number of a Deployment), and the budget in microseconds, if it has one."""

    name: str
    shape: Shape
    budget: float | None
    world: Callable[[int], World] = roomy
    preempts: bool = False
    repeats: bool = True  # a repeat is faster than a new pod, and has a budget
    owned: bool = False  # its pods have a ReplicaSet, by which the policy's default constraints spread them


@dataclass(frozen=True, slots=True)
class Figures:
    """Microseconds."""

    median: float
    p90: float
    samples: int


@dataclass(frozen=True, slots=True)
class Result:
    case: str
    nodes: int
    new: Figures | None = None
    repeat: Figures | None = None
    problem: str = ""


# --- what pods ask for


def _own(number: int) -> dict[str, str]:
    return {"app": labels_of(number)["app"]}


def _node_affinity(number: int) -> Body:
    elsewhere = {"key": RACK, "operator": "NotIn", "values": [f"rack-{number}"]}
    fast = {"key": "example.com/disk", "operator": "In", "values": ["ssd"]}
    big = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["type-16", "type-32"]}
    terms = [{"matchExpressions": [elsewhere]}]
    wishes = [
        {"weight": 1 + number % 100, "preference": {"matchExpressions": [fast]}},
        {"weight": 50, "preference": {"matchExpressions": [big]}},
    ]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        "preferredDuringSchedulingIgnoredDuringExecution": wishes,
    }
    return {"affinity": {"nodeAffinity": affinity}}


def _affinity(number: int) -> Body:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term(_own(number), ZONE)]}
    return {"affinity": {"podAffinity": required}}


def _anti(number: int) -> Body:
    return {"affinity": anti_affinity(_own(number), required=True)}


def _hard(number: int) -> Body:
    return {"topologySpreadConstraints": [spread(_own(number), ZONE, 5, hard=True)]}


def _soft(number: int) -> Body:
    constraints = [spread(_own(number), ZONE, 3, hard=False), spread(_own(number), HOSTNAME, 1, hard=False)]
    return {"topologySpreadConstraints": constraints}


def _hard_by_host(number: int) -> Body:
    constraints = [spread(_own(number), ZONE, 5, hard=True), spread(_own(number), HOSTNAME, 2, hard=True)]
    return {"topologySpreadConstraints": constraints}


def _ports(number: int) -> Body:
    requests = {"cpu": f"{100 + number}m", "memory": "256Mi"}
    container = {"name": "main", "image": image_of(number), "ports": host_ports(number)}
    return {"containers": [container | {"resources": {"requests": requests}}]}


CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case("plain", lambda number: {}, 300.0),
        Case("node-affinity", _node_affinity, 600.0),
        Case("required-anti-affinity", _anti, 600.0),
        Case(
            "preferred-anti-affinity",
            lambda number: {"affinity": anti_affinity(_own(number), required=False)},
            600.0,
        ),
        Case("required-affinity", _affinity, 600.0),
        Case("hard-spreading", _hard, 600.0),
        Case("soft-spreading", _soft, 600.0),
        Case("default-spreading", lambda number: {}, 600.0, owned=True),
        Case("nominated", lambda number: {}, 2000.0, preempting, repeats=False),
        Case("nominated-anti-affinity", _anti, 2000.0, preempting, repeats=False),
        Case("nominated-affinity", _affinity, 2000.0, preempting, repeats=False),
        Case("nominated-spreading", _hard_by_host, 2000.0, preempting, repeats=False),
        Case("nominated-ports", _ports, 2000.0, preempting, repeats=False),
        Case("preemption", lambda number: {}, 5000.0, full, preempts=True, repeats=False),
        Case("preemption-affinity", _anti, None, full, preempts=True, repeats=False),
        Case("preemption-spreading", _hard, None, full, preempts=True, repeats=False),
    )
}


# --- measuring


def measure(case: Case, world: World) -> Result:
    """The case on one cluster; a result with a problem where the engine does not answer."""
    nodes, state = len(world.nodes), world.state()
    gc.collect()  # what other cases have left
    try:
        new, repeat = _times(case, state, min(len(world.replica_sets), MOST_SAMPLES))
    except CannotRun as error:
        return Result(case.name, nodes, problem=str(error))
    return Result(case.name, nodes, new, repeat)


def _times(case: Case, state: State, samples: int) -> tuple[Figures, Figures]:
    pipeline, random = compile_policy(BUILT_IN), Random(0)
    decide = _preempt if case.preempts else _place
    for pod in _pods(case, "warm", range(WARM)):
        decide(pipeline, state, pod, random)  # until as much is kept as ever is, as in a scheduler that runs for long
    new: list[float] = []
    repeat: list[float] = []
    measured = list(_pods(case, "measured", range(WARM, samples)))
    for pod, times in zip(measured, cycle((new, *[repeat] * (REPLICAS - 1))), strict=False):
        started = time.thread_time_ns()
        decide(pipeline, state, pod, random)
        times.append((time.thread_time_ns() - started) / 1000)
        if sum(new) > ENOUGH_SECONDS * 1e6 and len(repeat) >= FEWEST_SAMPLES:
            break
    return _figures(new), _figures(repeat)


def _pods(case: Case, prefix: str, deployments: range) -> Iterator[Pod]:
    """Some of each Deployment."""
    for number, copy in product(deployments, range(REPLICAS)):
        spec = case.shape(number) | ({"priority": VICTORIOUS} if case.preempts else {})
        body = pod_body(
            f"{prefix}-{number}-{copy}",
            cpu_millicores=(1000 if case.preempts else 100) + number,
            labels=labels_of(number),
            image=image_of(number),
            **spec,
        )
        if case.owned:
            body["metadata"]["ownerReferences"] = [owner_of(number)]
        yield parse_pod(body)


def _place(pipeline: Pipeline, state: State, pod: Pod, random: Random) -> None:
    decision = pipeline.decide(pod, state, random)
    if not isinstance(decision, Placement):
        raise CannotRun(decision.message)
    state.table.add_pod(pod, decision.node)


def _preempt(pipeline: Pipeline, state: State, pod: Pod, random: Random) -> None:
    query = Query(pod, state.table)
    survey = pipeline.survey(query, state)
    if survey.fits.any():
        raise CannotRun("there is room without preemption")
    diagnose(survey, len(state.table))
    nomination = PREEMPTION.preempt(pipeline, query, survey, state, random)
    if not isinstance(nomination, Nomination):
        raise CannotRun(nomination.message)


def _figures(times: Sequence[float]) -> Figures:
    return Figures(round(median(times), 1), round(quantiles(times, n=10)[-1], 1), len(times))


def quietest(passes: Sequence[Result]) -> Result:
    """New pods and repeats each from the pass in which their median was the lowest; a pass with a problem is told."""
    for result in passes:
        if result.new is None or result.repeat is None:
            return result
    new = min((result.new for result in passes if result.new), key=lambda figures: figures.median)
    repeat = min((result.repeat for result in passes if result.repeat), key=lambda figures: figures.median)
    return replace(passes[0], new=new, repeat=repeat)


# --- the report


def report_of(results: Sequence[Result]) -> dict[str, Any]:
    return {
        "unit": "microseconds",
        "python": platform.python_version(),
        "results": [asdict(result) for result in results],
        "ratios": {name: ratio for name in CASES if (ratio := _ratio(name, results)) is not None},
        "budgets": {name: case.budget for name, case in CASES.items()},
    }


def table(results: Sequence[Result]) -> str:
    head = f"{'decision, us':<26}{'nodes':>7}{'new':>9}{'p90':>9}{'repeat':>9}{'p90':>9}{'ratio':>7}  budget"
    return "\n".join([head, *(_line(result, results) for result in results)])


def _line(result: Result, results: Sequence[Result]) -> str:
    start = f"{result.case:<26}{result.nodes:>7}"
    if result.new is None or result.repeat is None:
        return f"{start}  cannot run: {result.problem}"
    figures = "".join(f"{one.median:>9.0f}{one.p90:>9.0f}" for one in (result.new, result.repeat))
    ratio = _ratio(result.case, results) if result.nodes == BIG_NODES else None
    said = "; ".join(_judgements(result, ratio))
    return f"{start}{figures}{'' if ratio is None else f'{ratio:.1f}':>7}  {said}".rstrip()


def _judgements(result: Result, ratio: float | None) -> Iterator[str]:
    case = CASES[result.case]
    if result.nodes == BUDGETED_NODES and case.budget is not None and result.new and result.repeat:
        yield _judgement(result.new.median, case.budget, "new")
        if case.repeats:
            yield _judgement(result.repeat.median, REPEAT_BUDGET, "repeat")
    if ratio is not None and case.budget is not None:
        yield _judgement(ratio, RATIO_BUDGET, "ratio")


def _judgement(value: float, budget: float, name: str) -> str:
    return f"{name} {budget:g} {'met' if value <= budget else 'OVER'}"


def _ratio(case: str, results: Sequence[Result]) -> float | None:
    medians = {result.nodes: result.new.median for result in results if result.case == case and result.new}
    if not {BUDGETED_NODES, BIG_NODES} <= set(medians):
        return None
    return round(medians[BIG_NODES] / medians[BUDGETED_NODES], 2)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    results: list[Result] = []
    for nodes in options.nodes:
        say(f"parsing clusters of {nodes} nodes")
        worlds = {case.world: case.world(nodes) for case in map(CASES.__getitem__, options.cases)}
        passes: dict[str, list[Result]] = {name: [] for name in options.cases}
        for number, name in product(range(1, options.passes + 1), options.cases):
            say(f"{nodes} nodes, pass {number} of {options.passes}: {name}")
            passes[name].append(measure(CASES[name], worlds[CASES[name].world]))
        results += map(quietest, passes.values())
    results.sort(key=lambda result: (options.cases.index(result.case), result.nodes))
    print(table(results))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report_of(results), indent=2) + "\n")
    return 1 if any(result.problem for result in results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-engine", description="Decision times of the engine, by case.")
    parser.add_argument("--nodes", type=_cluster_size, nargs="+", default=list(NODES), metavar="N")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--passes", type=positive, default=PASSES, metavar="N", help=f"default: {PASSES}")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def _cluster_size(text: str) -> int:
    if not text.isdecimal() or int(text) < 1000:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1000 up")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
