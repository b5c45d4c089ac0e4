"""The storm's world: an embedded cluster that keeps a record of its binds, and the real operator on it.

Everything runs in one process and one event loop, the HTTP between operator and server included, so that the
operator's cache can be compared with the store.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from berth.configuration.gates import BULK_INTAKE, DEFAULTS
from berth.handlers import watch
from berth.model import KINDS, parse_node, parse_pod
from berth.runtime import Options, Runtime, make_runtime
from berth.scheduler.cache.cache import Cache
from berth.sim.faults import Faults
from berth.sim.resources import BUILT_IN, CRDS, NODES, PODS, Resource
from berth.sim.server import SimServer
from berth.sim.store import Object, Store
from support.crds import crds

FINISHED = frozenset({"Succeeded", "Failed"})
OBSERVED: Mapping[str, Resource] = {
    resource.kind: resource
    for resource in BUILT_IN
    for kind in KINDS
    if (kind.group, kind.version, kind.plural) == (resource.group, resource.version, resource.plural)
}


class RecordingStore(Store):
    """A store that remembers every bind that it carried out."""

    def __init__(self) -> None:
        super().__init__(lambda: datetime.now(UTC))
        self.binds: list[tuple[str, str]] = []
        """UID and node, in order."""

    def bind(self, namespace: str, name: str, binding: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        answer = super().bind(namespace, name, binding, dry_run=dry_run)
        if not dry_run:
            self.binds.append((self.get(PODS, namespace, name)["metadata"]["uid"], binding["target"]["name"]))
        return answer

    def bound_twice(self) -> list[str]:
        return [uid for uid, times in Counter(uid for uid, _ in self.binds).items() if times > 1]

    def objects(self, resource: Resource) -> list[Object]:
        return self.list(resource).items

    def pods(self) -> list[Object]:
        """Those that take part in scheduling."""
        return [pod for pod in self.objects(PODS) if (pod.get("status") or {}).get("phase") not in FINISHED]

    def pending(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods() if not pod["spec"].get("nodeName")]

    def overfull_nodes(self) -> list[str]:
        """Nodes on which pods ask for more of anything than there is."""
        used: dict[str, Counter[str]] = {}
        for pod in self.pods():
            if node_name := pod["spec"].get("nodeName"):
                amounts = Counter(parse_pod(pod).requests)
                used.setdefault(node_name, Counter()).update({**amounts, "pods": 1})
        nodes = [parse_node(body) for body in self.objects(NODES)]
        return [
            node.name
            for node in nodes
            if any(amount > node.allocatable.get(name, 0) for name, amount in used.get(node.name, {}).items())
        ]


class World:
    """The cluster and the operator on it."""

    def __init__(self, store: RecordingStore, server: SimServer, runtime: Runtime) -> None:
        self.store = store
        self.server = server
        self.runtime = runtime
        self.cache: Cache = runtime.components.cache

    async def until(self, condition: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
        """Wait for it while everything goes on; at the end of its time fail with what is."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():  # noqa: ASYNC110 - it is about state that many things change
                    await asyncio.sleep(0.25)
        except TimeoutError:
            raise AssertionError(f"not after {seconds:g} s: {what()}; {self.runtime.statistics()}") from None

    def running_binds(self) -> int:
        running: int = self.runtime.statistics()["scheduler"]["binds"]["running"]
        return running

    def differences(self) -> list[str]:
        """Where the operator's cache and the store disagree, in words; none at all if they are equal."""
        return [*self._different_objects(), *self._different_pods()] or self._different_sums()

    def _different_objects(self) -> list[str]:
        found = []
        for kind, resource in OBSERVED.items():
            bodies = self.store.pods() if kind == "Pod" else self.store.objects(resource)
            there, known = {body["metadata"]["uid"] for body in bodies}, set(self.cache.known(kind))
            if there != known:
                found.append(f"{kind}: {len(there - known)} are not known, {len(known - there)} are gone")
        return found

    def _different_pods(self) -> list[str]:
        held = f"{len(self.cache.pending)} pending, {len(self.cache.assumed())} assumed"
        there = {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in self.store.pods()}
        names = [node["metadata"]["name"] for node in self.store.objects(NODES)]
        known = {uid: name for name in names for uid in self.cache.state.table.pods_on(name)}
        wrong = [uid for uid in there.keys() | known.keys() if there.get(uid) != known.get(uid)]
        return [
            *([held] if self.cache.pending or self.cache.assumed() else []),
            *([f"{len(wrong)} pods are not where the cache has them, such as {wrong[0]}"] if wrong else []),
        ]

    def _different_sums(self) -> list[str]:
        """The columns, against those of a cache that was told the store's objects and nothing else."""
        fresh = Cache()
        for kind, resource in OBSERVED.items():
            for body in self.store.objects(resource):
                fresh.observe(kind, body)
        ours, true = self.cache.state.table, fresh.state.table
        return [
            f"node {node.name}: the sums are wrong"
            for node in true.nodes()
            if _sums(ours, node.name) != _sums(true, node.name)
        ]


def _sums(table: Any, name: str) -> object:
    row = table.row(name)
    if row is None:
        return None
    amounts = {
        resource: (int(table.allocatable[index, row]), int(table.used[index, row]))
        for resource, index in table.resource_index.items()
    }
    return {resource: pair for resource, pair in amounts.items() if any(pair)}, table.nonzero[:, row].tolist()


def apply_crds(store: Store) -> None:
    for definition in crds():
        store.create(CRDS, definition)


def _give_signals_back() -> None:
    """kopf has just taken them over; here it is pytest that is to be interrupted."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().remove_signal_handler(number)


@asynccontextmanager
async def operating(folder: Path, faults: Faults, *, bulk: bool = True) -> AsyncIterator[World]:
    """An embedded cluster with these faults, and Berth running on it; `bulk`: with the feature gate BulkIntake."""
    store = RecordingStore()
    apply_crds(store)
    server = SimServer(store, faults=faults, token="secret")
    await server.start()
    kubeconfig = folder / "kubeconfig"
    server.write_kubeconfig(kubeconfig)
    gates = {**DEFAULTS, BULK_INTAKE: bulk}
    runtime = make_runtime(
        Options(kubeconfig=str(kubeconfig), https_address="", seed=1, standalone=True, feature_gates=gates)
    )
    stop = asyncio.Event()
    await runtime.start()
    watching = asyncio.create_task(watch(runtime, stop, _give_signals_back))
    try:
        yield World(store, server, runtime)
    finally:
        await runtime.stop_scheduling()
        stop.set()
        await asyncio.gather(watching, return_exceptions=True)
        await runtime.stop()
        await server.stop()
