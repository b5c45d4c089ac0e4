"""Does the steps of a workload on an API server.

    preparation, rest = split(workload.operations())
    await Runner(api, ...).prepare(preparation)       once: nobody schedules yet
    await Runner(api, ..., scheduler).run(rest)       for each scheduler, from the same state

Steps at the beginning that need no scheduler are the preparation: nodes, namespaces, other objects, and the pods that
the workload only needs to be there, where they can be put on the nodes in turn. So both schedulers begin with the same
pods on the same nodes, and no time is spent on having them placed. Everything after the first step that needs a
scheduler is done while it runs, in the order of the workload.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import orjson

from bench.lean import LeanClient, Object, Refused, Request
from bench.perf import objects
from bench.perf.operations import (
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    DeletePods,
    Operation,
    Sleep,
    StartMeasuring,
    StopMeasuring,
    UpdateAny,
)
from bench.perf.tracking import Pods, Seen
from control_plane.client import collection_of

CLUSTER_SCOPED = frozenset({"Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "PriorityClass"})
OTHERS = "default-scheduler"
PROGRESS_SECONDS = 5.0

Say = Callable[[str], None]
Item = TypeVar("Item")


@dataclass(slots=True)
class State:
    """What the steps so far have left for those to come."""

    namespaces: set[str] = field(default_factory=lambda: {"default"})
    nodes: list[str] = field(default_factory=list)
    placed: int = 0
    unawaited: dict[str, int] = field(default_factory=dict)

    def copied(self) -> State:
        return State(set(self.namespaces), list(self.nodes), self.placed, dict(self.unawaited))


@dataclass(frozen=True, slots=True)
class Measured:
    """The pods that were measured, and between which moments."""

    pods: Sequence[Seen]
    began: float
    ended: float


def split(operations: Sequence[Operation]) -> tuple[list[Operation], list[Operation]]:
    """What can be done before there is a scheduler, and the rest."""
    count = 0
    for operation in operations:
        ready = isinstance(operation, CreateNodes | CreateNamespaces | CreateAny) or (
            isinstance(operation, CreatePods) and objects.can_be_placed(operation)
        )
        if not ready:
            break
        count += 1
    return list(operations[:count]), list(operations[count:])


class Runner:
    """One workload on one API server. `alive` says whether the scheduler still runs; `began` and `ended` are called at
    the two ends of what is measured.
    """

    def __init__(
        self,
        api: LeanClient,
        state: State,
        say: Say,
        *,
        scheduler_name: str = OTHERS,
        pods: Pods | None = None,
        alive: Callable[[], bool] = lambda: True,
        began: Callable[[], None] = lambda: None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._state = state
        self._say = say
        self._scheduler_name = scheduler_name
        self._watched = pods
        self._alive = alive
        self._began, self._ended = began, ended
        self._background: list[asyncio.Task[None]] = []
        self._measuring: tuple[StartMeasuring, float] | None = None
        self._measured: Measured | None = None

    @property
    def _pods(self) -> Pods:
        if self._watched is None:
            raise RuntimeError("pods are not watched while a workload is prepared")
        return self._watched

    async def prepare(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            if isinstance(operation, CreatePods):
                await self._place_pods(operation)
            else:
                await self._do(operation)

    async def run(self, operations: Sequence[Operation]) -> Measured | None:
        """What was measured; None if the workload measures nothing."""
        try:
            for operation in operations:
                await self._do(operation)
        finally:
            for task in self._background:
                task.cancel()
            ends = await asyncio.gather(*self._background, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end
        return self._measured

    async def _do(self, operation: Operation) -> None:
        match operation:
            case CreateNodes():
                await self._create_nodes(operation)
            case CreateNamespaces():
                await self._create_namespaces(operation)
            case CreatePods():
                await self._create_pods(operation)
            case CreateAny():
                await self._create_any(operation)
            case UpdateAny():
                await self._update_any(operation)
            case DeletePods():
                await self._delete_pods(operation)
            case Churn():
                await self._churn(operation)
            case Barrier():
                await self._barrier(operation)
            case Sleep():
                await asyncio.sleep(operation.seconds)
            case StartMeasuring():
                self._start_measuring(operation)
            case StopMeasuring():
                self._stop_measuring()

    # -- nodes, namespaces and other objects ---------------------------------------------------------------------------

    async def _create_nodes(self, operation: CreateNodes) -> None:
        self._say(f"creating {operation.count:,} nodes")
        await self._api.send_all(objects.node_requests(operation))
        bodies = objects.node_objects(operation)
        self._state.nodes += [body["metadata"]["name"] for body in bodies if objects.takes_any_pod(body)]

    async def _create_namespaces(self, operation: CreateNamespaces) -> None:
        for number in range(operation.count):
            name = f"{operation.prefix}-{number}"
            self._state.namespaces.add(name)
            await self._api.send(objects.create(objects.namespace_object(name, operation.template)))

    async def _need_namespace(self, name: str) -> None:
        if name and name not in self._state.namespaces:
            self._state.namespaces.add(name)
            await self._api.send(objects.create(objects.namespace_object(name)))

    async def _create_any(self, operation: CreateAny) -> None:
        await self._need_namespace(operation.namespace)
        for index in range(operation.count):
            body = self._object(operation.template, index, operation.count, operation.namespace)
            objects.name_object(body, str(index))
            await self._api.send(objects.create(body))

    async def _update_any(self, operation: UpdateAny) -> None:
        """Each object is replaced, and its status, too."""
        self._say(f"updating {operation.count:,} objects")
        async for index in paced(range(operation.count), operation.per_second):
            body = self._object(operation.template, index, operation.count, operation.namespace)
            path = f"{collection_of(body)}/{body['metadata']['name']}"
            raw = orjson.dumps(body)
            await self._api.send(Request("PUT", "/".join((path, *operation.subresources)), raw))
            await self._api.send(Request("PUT", f"{path}/status", raw))

    def _object(self, template: Path, index: int, count: int, namespace: str) -> Object:
        body = objects.load(template, index, count)
        if namespace and body["kind"] not in CLUSTER_SCOPED:
            body["metadata"]["namespace"] = namespace
        if body["kind"] == "Pod":
            body["spec"].setdefault("schedulerName", self._scheduler_name)
        return body

    # -- pods ----------------------------------------------------------------------------------------------------------

    async def _place_pods(self, operation: CreatePods) -> None:
        """On the nodes in turn, each operation beginning where the one before has ended."""
        self._say(f"placing {operation.count:,} pods")
        await self._need_namespace(operation.namespace)
        nodes = itertools.islice(itertools.cycle(self._state.nodes), self._state.placed % len(self._state.nodes), None)
        self._state.placed += operation.count
        await self._api.send_all(objects.pod_requests(operation, OTHERS, nodes).sequences)

    async def _create_pods(self, operation: CreatePods) -> None:
        await self._need_namespace(operation.namespace)
        requests = objects.pod_requests(operation, self._scheduler_name)  # all of them, before any time is measured
        if operation.measured:
            self._start_measuring(StartMeasuring([operation.namespace], {}))
        progress = self._show_progress(operation)
        try:
            await self._api.send_all(requests.sequences)
            if operation.waits:
                names = requests.names

                def all_bound() -> bool:
                    return self._pods.count_bound(operation.namespace, names) >= operation.count

                await self._pods.wait(all_bound, f"{operation.count:,} pods of {operation.namespace}", self._alive)
        finally:
            progress.cancel()
        if operation.measured:
            self._stop_measuring(requests.names)
        if not operation.waits:
            unawaited = self._state.unawaited
            unawaited[operation.namespace] = unawaited.get(operation.namespace, 0) + operation.count

    def _show_progress(self, operation: CreatePods) -> asyncio.Task[None]:
        what = "measured pods" if operation.measured else "pods"
        self._say(f"creating {operation.count:,} {what}")
        before = self._pods.bound_count

        async def show() -> None:
            while True:
                await asyncio.sleep(PROGRESS_SECONDS)
                self._say(f"{self._pods.bound_count - before:,} of {operation.count:,} {what} bound")

        return asyncio.create_task(show())

    async def _delete_pods(self, operation: DeletePods) -> None:
        names = self._pods.names(operation.namespace, operation.labels)
        self._say(f"deleting {len(names):,} pods" + (f", {operation.per_second}/s" if operation.per_second else ""))

        async def delete() -> None:
            path = f"/api/v1/namespaces/{operation.namespace}/pods"
            if not operation.per_second:
                await self._api.send_all([Request("DELETE", f"{path}/{name}")] for name in names)
                return
            async for name in paced(names, operation.per_second):
                await self._unless_gone(self._api.send(Request("DELETE", f"{path}/{name}")))

        if operation.waits:
            await delete()
        else:
            self._background.append(asyncio.create_task(delete()))

    @staticmethod
    async def _unless_gone(sending: Awaitable[bytes]) -> None:
        try:
            await sending
        except Refused as error:
            if error.status != 404:
                raise

    async def _churn(self, operation: Churn) -> None:
        await self._need_namespace(operation.namespace)
        self._background.append(asyncio.create_task(self._churning(operation)))

    async def _churning(self, operation: Churn) -> None:
        """Without an end in itself: it ends with the workload."""
        alive: list[dict[int, str]] = [{} for _ in operation.templates]
        limit = operation.number or None
        ticks = range(limit) if limit and not operation.recreate else itertools.count()
        async for tick in paced(ticks, 1 / operation.interval_seconds):
            for number, template in enumerate(operation.templates):
                slot = tick % operation.number if operation.recreate else tick
                path = alive[number].pop(slot, "") if operation.recreate else ""
                if path:
                    await self._unless_gone(self._api.send(Request("DELETE", path)))
                else:
                    alive[number][slot] = await self._churned(operation, template, tick)

    async def _churned(self, operation: Churn, template: Path, tick: int) -> str:
        body = self._object(template, tick, 1, operation.namespace)
        name = objects.name_object(body, str(tick))
        await self._api.send(objects.create(body))
        return f"{collection_of(body)}/{name}"

    # -- waiting and measuring -----------------------------------------------------------------------------------------

    async def _barrier(self, operation: Barrier) -> None:
        unawaited = self._state.unawaited
        for namespace in operation.namespaces or list(unawaited):
            wanted = unawaited.get(namespace, 0)
            await self._pods.wait(
                self._reached(namespace, operation, wanted), f"{wanted:,} pods of {namespace}", self._alive
            )
            if not operation.attempted:
                unawaited.pop(namespace, None)

    def _reached(self, namespace: str, operation: Barrier, wanted: int) -> Callable[[], bool]:
        def reached() -> bool:
            pods = self._pods.matching([namespace], operation.labels)
            there = (pod for pod in pods if not pod.deleted)
            return sum(1 for pod in there if pod.bound or (operation.attempted and pod.attempted)) >= wanted

        return reached

    def _start_measuring(self, operation: StartMeasuring) -> None:
        self._began()
        self._measuring = (operation, time.monotonic())

    def _stop_measuring(self, names: Sequence[str] | None = None) -> None:
        if self._measuring is None:
            raise RuntimeError("stopCollectingMetrics without startCollectingMetrics")
        operation, began = self._measuring
        self._measuring = None
        pods: Iterator[Seen] = self._pods.matching(operation.namespaces, operation.labels)
        if names is not None:
            known = (self._pods.get(operation.namespaces[0], name) for name in names)
            pods = (pod for pod in known if pod is not None)
        bound = [pod for pod in pods if pod.bound is not None and pod.bound >= began]
        self._measured = Measured(bound, began, time.monotonic())
        self._ended()


async def paced(items: Iterable[Item], per_second: float) -> AsyncIterator[Item]:
    """The items, so many a second; 0: as fast as they are taken. A tick that was missed is made up for."""
    began = time.monotonic()
    for count, item in enumerate(items, start=1):
        if per_second:
            await asyncio.sleep(max(0.0, began + count / per_second - time.monotonic()))
        yield item
