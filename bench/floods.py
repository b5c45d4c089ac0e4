"""What can one user of the cluster do to the others by multiplying something: labels, terms, volumes, names, ...?

    make bench-floods ARGS='--nodes 5000 --pods 20000 --many 1000 --only "label keys" --json FILE'

Each flood (tests/support/floods.py) comes as one pod with as many as an API server accepts in one object, as one with
as many as a pod may have, and as many pods with one each; bound by their creator, waiting for us, and waiting for
another scheduler. All is told to a whole scheduler on a cluster in memory, which tries every pod of the flood that is
ours before others are measured: what waits unschedulable may cost others, too. Processor time:

    event      the longest that the loop is held by one event of the flood; the budget is 100 ms
    attempt    the same for an attempt to place a pod of it
    others     the decisions for others' pods while the flood is there, as a multiple of what they took before; the
               worst kind of pod counts, and the budget is 2
    their ev.  milliseconds that an event about others' pods and nodes takes then, and the work that the queue does
               between two attempts; the worst kind counts, and the budget is 1 ms, or twice what it took before
    after      the multiple for decisions and events when the flood is gone
    left       what the scheduler's own counts show of it when it is gone; nothing, by the budget
    memory     KiB that are traced when it has come and gone a third time, more than after the second; in a pass of its
               own (--memory), because tracing takes time
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from bench.terminal import positive, say
from berth.model import parse_pod
from scheduler.harness import Harness
from scheduler.virtual_clock import settle
from support.builders import Body, make_node, make_object, make_pod, revision_rules
from support.floods import HOSTNAME, POD_FLOODS, TENANT, ZONE, Flood, replica_sets, services

HELD_MILLISECONDS = 100.0
RATIO_BUDGET = 2.0
EVENT_MILLISECONDS = 1.0  # an event of others may take that long, whatever it took before
RATIO_NOISE_MICROSECONDS = 100.0  # less than that beside the others is no multiple of anything
ROUNDS = 15
MODES: Mapping[str, dict[str, Any]] = {
    "bound": {"node": "node-1"},
    "ours": {},
    "others": {"scheduler": "somebody-else"},
}
RACK = "example.com/rack"
EVENT = "event"
_REUSED = ("pod_questions", "wide_questions", "label_columns", "slots")  # bounded, and used again by others


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds, multiples, and the counts that are not what they were."""

    flood: str
    shape: str
    mode: str
    pods: int
    event: float
    attempt: float
    others: float
    their_events: float
    slower: bool  # an event takes more than twice what it took
    after: float
    left: dict[str, int]
    worst: str

    @property
    def met(self) -> bool:
        held = max(self.event, self.attempt)
        events = self.their_events <= EVENT_MILLISECONDS or not self.slower
        return held <= HELD_MILLISECONDS and self.others <= RATIO_BUDGET and events and not self.left

    def line(self) -> str:
        left = ", ".join(f"{name} {count:+}" for name, count in self.left.items()) or "nothing"
        return (
            f"{self.flood:<28}{self.shape:<6}{self.mode:<8}{self.pods:>6}{self.event:>10.1f}{self.attempt:>10.1f}"
            f"{self.others:>8.2f}{self.their_events:>10.2f}{self.after:>8.2f}  {'met ' if self.met else 'OVER'}  {left}"
            f"  {self.worst}"
        )


HEAD = (
    f"{'flood':<28}{'shape':<6}{'as':<8}{'pods':>6}{'event ms':>10}{'attempt':>10}{'others':>8}{'their ev.':>10}"
    f"{'after':>8}  budgets  left  worst"
)


BUDGETS = (
    f"an event or attempt of the flood {HELD_MILLISECONDS:g} ms, others' decisions {RATIO_BUDGET:g} times what they "
    f"took, others' events {EVENT_MILLISECONDS:g} ms or {RATIO_BUDGET:g} times what they took, nothing left"
)


class World:
    """A scheduler that knows nodes and bound pods of others, and what it takes to decide for their next pods."""

    def __init__(self, nodes: int, pods: int) -> None:
        self._house = Harness()
        self._house.scheduler.open()
        self._random = Random(0)
        self._versions = 0
        self._probes = 0
        self.nodes = nodes
        for number in range(nodes):
            self.tell(_node(number))
        for name in ("default", TENANT):
            self.tell(make_object("Namespace", name))
        for number in range(pods):
            self.tell(_resident(number, nodes))

    def tell(self, body: Body) -> float:
        """Milliseconds that the loop is held by the event."""
        self._versions += 1
        body["metadata"]["resourceVersion"] = str(self._versions)
        return self._timed(lambda: self._house.observe(body["kind"], body))

    def remove(self, body: Body) -> float:
        self._versions += 1
        body["metadata"]["resourceVersion"] = str(self._versions)
        return self._timed(lambda: self._house.remove(body["kind"], body))

    async def attempts(self) -> list[float]:
        """Milliseconds of each attempt to place a pod that waits."""
        taken, queue, attempt = [], self._house.queue, self._house.components.cycle.attempt
        for _ in range(queue.statistics()["active"]):
            item = await queue.pop()
            taken.append(self._timed(partial(attempt, item)))
        await settle()
        return taken

    def others(self) -> dict[str, float]:
        """By kind, the median microseconds of decisions for others' pods, and of events about them."""
        found: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for kind, taken in self._probe():
                found.setdefault(kind, []).append(1000 * taken)
        return {kind: median(each) for kind, each in found.items()}

    def counts(self) -> dict[str, int]:
        """What the scheduler counts of what it keeps, by name."""
        cache = self._house.cache
        gc.collect()
        found = {**cache.state.table.statistics(), **cache.state.volumes.statistics()}
        found |= {f"queue {name}": count for name, count in self._house.queue.statistics().items()}
        found |= {f"known {kind}": count for kind, count in cache.statistics()["objects"].items()}
        return {name: count for name, count in found.items() if name not in _REUSED}

    def _probe(self) -> Iterator[tuple[str, float]]:
        state, probes = self._house.cache.state, self._probes
        self._probes += 1
        for kind, arguments in _asking(probes).items():
            body = make_pod(f"probe-{probes}-{len(kind)}", uid=f"probe-{probes}-{kind}", cpu="10m", **arguments)
            pod = parse_pod(body)
            active = self._house.policies.for_pod(pod, {})
            assert active is not None
            yield kind, self._timed(partial(active.pipeline.decide, pod, state, self._random))
            body["spec"]["nodeName"] = "node-0"
            yield f"{EVENT}: a pod comes", self.tell(body)
            yield f"{EVENT}: a pod leaves", self.remove(body)
        yield f"{EVENT}: a node changes", self.tell(_node(0, heartbeat=probes))
        yield f"{EVENT}: what is left of them", self._timed(self._house.queue._go_on)

    def _timed(self, work: Callable[[], object]) -> float:
        started = time.process_time_ns()
        work()
        return (time.process_time_ns() - started) / 1e6


def _asking(number: int) -> dict[str, Body]:
    """What others' pods ask for, by a name for it."""
    app = {"app": f"app-{number % 7}"}
    spread = {"maxSkew": 1, "topologyKey": ZONE, "labelSelector": {"matchLabels": app}}
    away = {"labelSelector": {"matchLabels": app}, "topologyKey": HOSTNAME}
    return {
        "replicas": {"labels": {"app": "replicas"}},
        "plain": {"image": f"example.com/probe-{number}:v1", "labels": app},
        "revision": {"labels": {**app, "pod-template-hash": f"h{number}"}, **revision_rules(app["app"], f"h{number}")},
        "soft": {"labels": app, "topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "ScheduleAnyway"}]},
        "preferring": {
            "labels": app,
            "affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": away}]
                }
            },
        },
        "selecting": {"labels": app, "node_selector": {RACK: f"rack-{number % 10}"}},
    }


def _node(number: int, heartbeat: int = 0) -> Body:
    labels = {HOSTNAME: f"node-{number}", ZONE: f"zone-{number % 5}", RACK: f"rack-{number // 40}"}
    annotations = {"example.com/heartbeat": str(heartbeat)}
    labels |= {"example.com/even": str(heartbeat % 2)}
    return make_node(f"node-{number}", cpu="64", memory="256Gi", labels=labels, annotations=annotations)


def _resident(number: int, nodes: int) -> Body:
    app = f"app-{number % 500}"
    rules: dict[str, Any] = {}
    if number % 500 < 25:
        away = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}
        rules = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [away]}}}
    node = f"node-{number % nodes}"
    return make_pod(f"resident-{number}", node=node, cpu="100m", labels={"app": app}, **rules)


def shapes(flood: Flood, many: int, mode: str) -> Iterator[tuple[str, list[Body]]]:
    if not flood.alone:
        yield "one", [flood.one(**MODES[mode])]
        yield "edge", [flood.edge(**MODES[mode])]
    own = flood.pod([flood.item(0)])
    yield "many", list(flood.many(many, **{key: value for key, value in MODES[mode].items() if key not in own}))


def object_floods(many: int) -> Iterator[tuple[str, str, list[Body]]]:
    """What is no pod: of a namespace with one pod that it concerns; and nodes, whose owners are trusted with more."""
    pod = make_pod("flood", namespace=TENANT, labels={"app": "flood"})
    yield "services", "ours", [*services(many), pod]
    yield "replica sets", "ours", [*replica_sets(many), pod]
    taints = [{"key": f"t-{i}", "value": "v", "effect": "PreferNoSchedule"} for i in range(20_000)]
    yield "taints of a node", "node", [make_node("flood", taints=taints)]
    few = [make_node(f"flood-{i}", taints=[(f"t-{i}", "v", "PreferNoSchedule")]) for i in range(many)]
    yield "taints of nodes", "node", few
    labels = {f"example.com/k-{i}": "v" for i in range(40_000)}
    yield "labels of a node", "node", [make_node("flood", labels=labels)]
    images = {f"example.com/i-{i}:v": 10**9 for i in range(20_000)}
    yield "images of a node", "node", [make_node("flood", images=images)]


async def play(world: World, name: str, shape: str, mode: str, bodies: list[Body]) -> Figures:
    counts, before = world.counts(), world.others()
    event = max(world.tell(body) for body in bodies)
    attempt = max(await world.attempts(), default=0.0)
    during = world.others()
    gone = max(world.remove(body) for body in bodies)
    await settle()
    after = world.others()
    left = {key: count - counts.get(key, 0) for key, count in world.counts().items() if count > counts.get(key, 0)}
    decisions = {kind: _ratio(taken, during[kind]) for kind, taken in before.items() if not kind.startswith(EVENT)}
    worst, slowest = max(decisions, key=decisions.__getitem__), max(before.keys() - decisions, key=during.__getitem__)
    return Figures(
        name,
        shape,
        mode,
        len(bodies),
        max(event, gone),
        attempt,
        decisions[worst],
        during[slowest] / 1000,
        _ratio(before[slowest], during[slowest]) > RATIO_BUDGET,
        max(_ratio(before[kind], after[kind]) for kind in before),
        left,
        ", ".join(f"{kind}: {before[kind]:.0f} -> {during[kind]:.0f} us" for kind in (worst, slowest)),
    )


def _ratio(before: float, now: float) -> float:
    return 1.0 if now - before < RATIO_NOISE_MICROSECONDS else now / before


def matrix(many: int, only: str) -> Iterator[tuple[str, str, str, list[Body]]]:
    for flood in POD_FLOODS:
        if only not in flood.name:
            continue
        for mode in MODES:
            for shape, bodies in shapes(flood, many, mode):
                yield flood.name, shape, mode, bodies
    for name, mode, bodies in object_floods(many):
        if only in name:
            yield name, "many" if len(bodies) > 1 else "one", mode, bodies


def memory(world: World, bodies: list[Body]) -> int:
    """KiB that are left of the third time, beyond what the second left."""

    def round_trip() -> int:
        for body in bodies:
            world.tell(body)
        for body in bodies:
            world.remove(body)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    round_trip()
    return (-round_trip() + round_trip()) // 1024


async def run(options: argparse.Namespace) -> list[Figures]:
    say(f"{options.nodes} nodes, {options.pods} pods")
    world, found = World(options.nodes, options.pods), []
    gc.collect()
    gc.freeze()  # or the longest event is a collection of what was there before
    world.others()
    print(HEAD, flush=True)
    for name, shape, mode, bodies in matrix(options.many, options.only):
        figures = await play(world, name, shape, mode, bodies)
        found.append(figures)
        print(figures.line(), flush=True)
    return found


def trace(options: argparse.Namespace) -> int:
    tracemalloc.start()
    world, over = World(options.nodes, options.pods), 0
    for name, shape, mode, bodies in matrix(options.many, options.only):
        left = memory(world, bodies)
        over += left > len(bodies)
        print(f"{name:<28}{shape:<6}{mode:<8}{len(bodies):>6}{left:>10} KiB", flush=True)
    return over


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench-floods", description="What one user can do to the others.")
    for name, default in (("--nodes", 5000), ("--pods", 20000), ("--many", 1000)):
        parser.add_argument(name, type=positive, default=default, metavar="N", help=f"default: {default}")
    parser.add_argument("--only", default="", metavar="TEXT", help="floods with this in their name")
    parser.add_argument("--memory", action="store_true", help="trace memory instead of taking times")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)  # that pods are beyond a bound is what is measured
    if options.memory:
        return int(trace(options) > 0)
    found = asyncio.run(run(options))
    over = [figures for figures in found if not figures.met]
    print(f"{len(found)} floods, {len(over)} over a budget: {BUDGETS}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        report: list[dict[str, Any]] = [asdict(figures) for figures in found]
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
