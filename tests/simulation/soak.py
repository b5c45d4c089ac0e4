"""An hour of production on virtual time: 1,000 nodes, pods that come and go, nodes that are replaced, policies edited.

    python -m simulation.soak                     an hour, 1,000 nodes, 10 pods a second; a line every five minutes
    python -m simulation.soak --minutes 10 --nodes 200 --arrivals 2

The whole operator runs, as in `make simulate`, in light weather: connections are cut now and then, watches begin anew,
requests fail. Nobody looks over its shoulder after every step, which would take days here; instead, at the end, when
everything has come to rest:

    drift     every node and every sum in the cache is what a rebuild from the store makes of it, and the comparer
              never had to repair anything but objects that were deleted while a watch began anew
    liveness  every pod that fits somewhere is bound, by the reference, and every other says why
    faults    nothing inside has failed
    memory    what the operator holds on to does not grow but with the pods that there are, from the moment on at which
              the memories that are bounded are full; in a small cluster they are given smaller bounds
    leftovers once every pod has gone, nothing remembers one

Exit status 1 when one of these does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from statistics import fmean
from typing import Any

from berth.cluster import conditions
from berth.cluster.resources import RESOURCES
from berth.model import KINDS
from berth.runtime import Options, make_runtime
from berth.scheduler.cache import versions
from berth.scheduler.cache.cache import Cache
from berth.sim.errors import StatusError
from berth.sim.loop import SeededLoop
from berth.sim.resources import BUILT_IN, CRDS, EVENTS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from berth.sim.store import Object, Store
from berth.sim.virtual_clock import VirtualClock
from reference.engine import feasible
from reference.world import World
from simulation.network import Link, SimApi
from simulation.overseer import sums
from simulation.policies import reference_profile
from simulation.recording import CRD_FOLDER, _documents
from simulation.watcher import Watcher
from simulation.weather import Weather
from support.reachable import reachable

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
POLICIES = ("batch", "default")
PRIORITIES = {"low": 10, "middle": 100, "high": 1000}
LIGHT = {
    "answer 500": 0.002,
    "answer 429": 0.002,
    "cut after": 0.002,
    "timeout, done": 0.001,
    "event doubled": 0.002,
    "watch cut": 0.05,
    "watch 410": 0.1,
}
LIFE_SECONDS = 600.0  # of a pod, on average
EVENTS_KEPT_SECONDS = 600.0
SAMPLE_SECONDS = 300.0
REST_SECONDS = 420.0  # longer than the flush, and than what is late
WARM_SECONDS = 900.0  # within which bounded memories are to be full, and pods as many as there are going to be
LEAST_SAMPLES = 6  # for a judgement on memory
GROWTH = 1.10  # that memory may have: what is kept for kinds of pods comes and goes with policies
PODS_AN_ARRIVAL = 2.0  # on average
BOUNDS = {versions: "REMOVED_REMEMBERED", conditions: "REMEMBERED"}
LEAST_BOUND = 256


@dataclass
class Production:
    """Users, kubelets, node operators and administrators, each with a pace of his own."""

    loop: SeededLoop
    store: Store
    random: Random
    nodes: int
    arrivals: float
    is_over: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    pods: dict[str, str] = field(default_factory=dict)  # name to namespace
    names: list[str] = field(default_factory=list)  # of nodes
    _number: int = 0

    def furnish(self) -> None:
        for name in ("red", "blue"):
            self.store.create(NAMESPACES, {"metadata": {"name": name, "labels": {"team": name}}})
        for name, value in PRIORITIES.items():
            self.store.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        for _ in range(self.nodes):
            self.add_node()

    def start(self) -> list[asyncio.Task[None]]:
        return [
            asyncio.ensure_future(work)
            for work in (
                self._often(1.0 / self.arrivals, self.create_pods),
                self._often(20.0, self.replace_node),
                self._often(15.0, self.change_node),
                self._often(60.0, self.edit_policy),
                self._often(30.0, self.forget_events),
                self._kubelets(),
            )
        ]

    async def _often(self, seconds: float, act: Any) -> None:
        while True:
            await asyncio.sleep(self.random.expovariate(1.0 / seconds))
            if not self.is_over:
                self._try(act)

    def _try(self, act: Any, *args: Any) -> None:
        try:
            act(*args)
            self.counts[act.__name__.strip("_").replace("_", " ")] += 1
        except StatusError:  # it is gone, or somebody was faster
            self.counts["too late"] += 1

    # --- users -------------------------------------------------------------------------------------------------------

    def create_pods(self) -> None:
        self._number += 1
        random, namespace = self.random, self.random.choice(("red", "blue"))
        app = f"app-{self._number % 300}"
        spec: Object = {
            "schedulerName": random.choice(("berth", "berth", "batch")),
            "priorityClassName": random.choices(list(PRIORITIES), (6, 3, 1))[0],
            "terminationGracePeriodSeconds": random.choice((0, 5, 30)),
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/app:v1",
                    "resources": {"requests": {"cpu": random.choice(("100m", "500m", "1", "3")), "memory": "256Mi"}},
                }
            ],
        }
        term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": random.choice((HOST, ZONE))}
        shape = random.random()
        if shape < 0.15:
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "topologyKey": HOST}]}
            spec["affinity"] = {"podAntiAffinity": required}
        elif shape < 0.25:
            preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}
            spec["affinity"] = {"podAffinity": preferred}
        elif shape < 0.4:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 2,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
                    "labelSelector": {"matchLabels": {"app": app}},
                }
            ]
        elif shape < 0.43:
            spec["nodeSelector"] = {ZONE: "nowhere"}  # never fits
        for copy in range(random.choice((1, 1, 1, 5))):
            name = f"{app}-{self._number}-{copy}"
            body = {"metadata": {"name": name, "namespace": namespace, "labels": {"app": app}}, "spec": spec}
            self.store.create(PODS, body, namespace=namespace)
            self.pods[name] = namespace
            life = random.expovariate(1.0 / LIFE_SECONDS)
            self.loop.call_outside(life, self._try, self._end_pod, name, random.choice(("finishes", "is deleted")))

    def _end_pod(self, name: str, how: str) -> None:
        if self.is_over or name not in self.pods:
            return
        if how == "finishes" and self.store.get(PODS, self.pods[name], name)["spec"].get("nodeName"):
            done = {"status": {"phase": "Succeeded"}}
            self.store.patch(PODS, self.pods[name], name, done, "merge", subresource="status")
            self.loop.call_outside(30.0, self._try, self._clear_away, name)
        else:
            self.store.delete(PODS, self.pods[name], name)

    def _clear_away(self, name: str) -> None:
        if name in self.pods:
            self.store.delete(PODS, self.pods[name], name, grace_period_seconds=0)

    # --- kubelets ----------------------------------------------------------------------------------------------------

    async def _kubelets(self) -> None:
        """Start what is bound, and let go what is to go."""
        async for type_, body in self.store.watch(PODS):
            name = body["metadata"]["name"]
            if type_ == "DELETED":
                self.pods.pop(name, None)
            elif body["metadata"].get("deletionTimestamp"):
                self.loop.call_outside(self.random.uniform(0.1, 3.0), self._try, self._clear_away, name)
            elif body["spec"].get("nodeName") and body["status"]["phase"] == "Pending":
                self.loop.call_outside(self.random.uniform(0.1, 2.0), self._try, self._run_pod, name)

    def _run_pod(self, name: str) -> None:
        if name in self.pods:
            running = {"status": {"phase": "Running"}}
            self.store.patch(PODS, self.pods[name], name, running, "merge", subresource="status")

    # --- node operators ----------------------------------------------------------------------------------------------

    def add_node(self) -> None:
        self._number += 1
        name = f"node-{self._number:06}"
        room = {"cpu": self.random.choice(("4", "8", "16")), "memory": "32Gi", "pods": "110"}
        status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
        labels = {HOST: name, ZONE: self.random.choice(("a", "b", "c"))}
        self.store.create(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})
        self.names.append(name)

    def replace_node(self) -> None:
        """One goes, with its pods, and another comes."""
        gone = self.names.pop(self.random.randrange(len(self.names)))
        self.store.delete(NODES, "", gone)
        for pod in self.store.list(PODS, field_selector=f"spec.nodeName={gone}").items:
            self.store.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], grace_period_seconds=0)
        self.add_node()

    def change_node(self) -> None:
        name = self.random.choice(self.names)
        taint = {"key": "sick", "value": "yes", "effect": "NoSchedule"}
        change = self.random.choice(
            (
                {"spec": {"taints": self.random.choice((None, [taint]))}},
                {"spec": {"unschedulable": self.random.choice((None, None, True))}},
                {"metadata": {"labels": {ZONE: self.random.choice(("a", "b", "c"))}}},
            )
        )
        self.store.patch(NODES, "", name, change, "merge")

    # --- administrators ----------------------------------------------------------------------------------------------

    def edit_policy(self) -> None:
        kind = self.store.find("berth.dev", "v1alpha1", "schedulingpolicies")
        assert kind is not None
        there = {one["metadata"]["name"] for one in self.store.list(kind).items}
        missing = [name for name in POLICIES if name not in there]  # first, so that all pods have one in the end
        name = missing[0] if missing else self.random.choice(POLICIES)
        spec = {
            "schedulerName": "berth" if name == "default" else "batch",
            "priorities": [{"name": "NodeResourcesFit", "weight": self.random.randint(1, 9)}],
            "preemption": {"enabled": self.random.random() < 0.8},
        }
        body = {"apiVersion": "berth.dev/v1alpha1", "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
        before = [one for one in self.store.list(kind).items if one["metadata"]["name"] == name]
        if before:
            body["metadata"] = {"name": name, "resourceVersion": before[0]["metadata"]["resourceVersion"]}
            self.store.replace(kind, "", name, body)
        else:
            self.store.create(kind, body)

    def forget_events(self) -> None:
        """As the API server does after an hour; here after ten minutes."""
        now = self.loop.time()
        for event in self.store.list(EVENTS).items:
            metadata = event["metadata"]
            first = self._seen.setdefault(metadata["uid"], now)
            if now - first > EVENTS_KEPT_SECONDS:
                self.store.delete(EVENTS, metadata["namespace"], metadata["name"])
                del self._seen[metadata["uid"]]

    _seen: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    pods: float
    kibibytes: float

    @classmethod
    def mean(cls, samples: Sequence[Sample]) -> Sample:
        return cls(fmean(sample.pods for sample in samples), fmean(sample.kibibytes for sample in samples))


class Soak:
    """One run."""

    def __init__(self, seed: int, minutes: float, nodes: int, arrivals: float) -> None:
        self.loop = SeededLoop(seed)
        clock = VirtualClock(self.loop)
        self.store = Store(clock.wall, seed)
        for path in sorted(CRD_FOLDER.glob("*.yaml")):
            for body in _documents(path):
                self.store.create(CRDS, body)
        self.weather = Weather(seed)
        self.weather.rates = LIGHT
        self.production = Production(self.loop, self.store, Random(f"production/{seed}"), nodes, arrivals)
        self.seconds = minutes * 60.0
        self.memory: list[Sample] = []
        self.problems: list[str] = []
        self.weather.page = 0
        link = Link(self.loop.time)
        api = SimApi(self.loop, self.store, self.weather, link)
        self.runtime = make_runtime(Options(https_address="", seed=seed, standalone=True), clock=clock, api=api)
        self.watchers = [
            Watcher(self.loop, self.store, self.weather, resource, self.runtime.on_event, link)
            for resource in RESOURCES
        ]

    def run(self) -> list[str]:
        """What does not hold."""
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(lambda _, context: self.problems.append(f"faults: {context}"))
        try:
            with bounded(int(self.production.arrivals * PODS_AN_ARRIVAL * WARM_SECONDS / 2)):
                self.loop.run_until_complete(self._play())
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()
        return self.problems

    async def _play(self) -> None:
        self.production.furnish()
        await self.runtime.start()
        tasks = [asyncio.ensure_future(watcher.run()) for watcher in self.watchers]
        tasks += self.production.start()
        await self._sample()
        await self._rest()
        self._check_drift()
        self._check_settled()
        if counts := self.runtime.statistics()["faults"]:
            self.problems.append(f"faults: {counts}")
        await self._empty()
        await self.runtime.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _sample(self) -> None:
        began = time.monotonic()
        while self.loop.time() < self.seconds:
            await asyncio.sleep(min(SAMPLE_SECONDS, self.seconds - self.loop.time()))
            pods, held = len(self.production.pods), self._held_kibibytes()
            if self._is_warm():
                self.memory.append(Sample(pods, held))
            made = self.runtime.statistics()["scheduler"]["attempts"]
            print(
                f"{self.loop.time() / 60:5.0f} min  {time.monotonic() - began:5.0f} s real  {pods:6,} pods  "
                f"{made.get('scheduled', 0):7,} placed  {held / 1024:6.1f} MiB held, {held / pods:5.2f} KiB a pod"
                f"{'' if self._is_warm() else '  (warming up)'}",
                flush=True,
            )
        self.problems += judge_memory(self.memory)

    def _is_warm(self) -> bool:
        """Whether what is remembered of pods that are gone is as much as it is going to be."""
        gone = self.runtime.components.cache.removed("Pod")
        return gone >= versions.REMOVED_REMEMBERED and self.loop.time() >= WARM_SECONDS

    def _held_kibibytes(self) -> float:
        return held_bytes(self.runtime, (Store, SeededLoop, SimApi)) / 1024

    async def _rest(self) -> None:
        self.production.is_over = True
        self.weather.calm = True
        await asyncio.sleep(REST_SECONDS)

    def _check_drift(self) -> None:
        drift = self.runtime.statistics()["cache_sync"]["drift"]
        found = {f"{kind} {what}": n for kind, counts in drift.items() for what, n in counts.items() if n}
        lasting = {what: n for what, n in found.items() if not what.endswith("ghost")}
        if lasting:
            self.problems.append(f"drift: the comparer had to repair {lasting}")
        fresh = Cache()
        for kind in KINDS:
            resource = self.store.find(kind.group, kind.version, kind.plural)
            fields = next(one.field_selector for one in RESOURCES if one.kind == kind.name)
            for body in self.store.list(resource, field_selector=fields).items if resource else ():
                fresh.observe(kind.name, body)
        ours, true = self.runtime.components.cache.state.table, fresh.state.table
        names = {node.name for node in true.nodes()}
        if names != {node.name for node in ours.nodes()}:
            self.problems.append("drift: the cache has other nodes than there are")
            return
        wrong = [name for name in sorted(names) if sums(ours, name) != sums(true, name)]
        if wrong:
            self.problems.append(f"drift: the sums of {len(wrong)} nodes differ from a rebuild, {wrong[0]} for one")

    def _check_settled(self) -> None:
        watched = {(kind.group, kind.plural) for kind in KINDS}
        bodies = [b for r in BUILT_IN if (r.group, r.plural) in watched for b in self.store.list(r).items]
        world, waiting = World.of(bodies), 0
        for body in self.store.list(PODS, field_selector="spec.nodeName=").items:
            waiting += 1
            pod = self.runtime.components.cache.pending.get(body["metadata"]["uid"])
            name = body["metadata"]["name"]
            if pod is None:
                self.problems.append(f"liveness: {name} waits, and is not known")
                continue
            active = self.runtime.components.loop.intake.policy_for(pod)
            if active is not None and (found := feasible(world, reference_profile(active.policy), pod)):
                self.problems.append(f"liveness: {name} waits, and fits on {found[:3]}")
            if not any(one["type"] == "PodScheduled" for one in body["status"].get("conditions") or ()):
                self.problems.append(f"liveness: {name} waits, and does not say why")
        print(f"at rest: {len(self.production.pods):,} pods, {waiting} of them wait, each with a reason", flush=True)

    async def _empty(self) -> None:
        for pod in self.store.list(PODS).items:
            self.store.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], grace_period_seconds=0)
        await asyncio.sleep(60.0)
        cache = self.runtime.components.cache
        left = {name: cache.sizes()[name] for name in ("pending", "assumed", "known")}
        left["queue"] = self.runtime.components.queue.sizes()["pods"]
        for what, count in left.items():
            if count:
                self.problems.append(f"leftovers: {what} holds {count} after every pod is gone")
        table = cache.state.table.statistics()
        if any(table[name] for name in ("pods", "pod_groups", "carried_terms")):
            self.problems.append(f"leftovers: the table has {table} after every pod is gone")


def judge_memory(samples: Sequence[Sample]) -> list[str]:
    """Whether it grows from the first half of the time to the second, but with the pods."""
    if len(samples) < LEAST_SAMPLES:
        print(f"memory is not judged: that takes {LEAST_SAMPLES} looks at it once what is kept for a while is full")
        return []
    half = len(samples) // 2
    before, after = Sample.mean(samples[:half]), Sample.mean(samples[half:])
    print(
        f"memory: {before.kibibytes / 1024:.1f} MiB with {before.pods:,.0f} pods in the first half of the time, "
        f"{after.kibibytes / 1024:.1f} MiB with {after.pods:,.0f} in the second"
    )
    grows = after.kibibytes > before.kibibytes * max(1.0, after.pods / before.pods) * GROWTH
    return ["memory: it grows"] if grows else []


@contextmanager
def bounded(most: int) -> Iterator[None]:
    """Bounded memories keep this many at most, so that they are full before long in a small cluster as well."""
    shipped = {module: getattr(module, name) for module, name in BOUNDS.items()}
    for module, name in BOUNDS.items():
        setattr(module, name, min(shipped[module], max(most, LEAST_BOUND)))
    try:
        yield
    finally:
        for module, name in BOUNDS.items():
            setattr(module, name, shipped[module])


def held_bytes(root: object, outside: tuple[type, ...]) -> int:
    """The size of everything that can be reached from an object, without code and what belongs to somebody outside."""
    gc.collect()
    return sum(map(sys.getsizeof, reachable(root, outside)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="simulation.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0, help="of virtual time (60)")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--arrivals", type=float, default=5.0, help="Deployments and jobs a second (5)")
    options = parser.parse_args(arguments)
    logging.getLogger("berth").setLevel(logging.ERROR)  # what the weather does is no news here
    problems = Soak(options.seed, options.minutes, options.nodes, options.arrivals).run()
    for problem in problems[:20]:
        print(problem)
    print("no drift, nothing lost, memory flat" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
