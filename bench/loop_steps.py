"""The longest step of the event loop in a large cluster: what everything else has to wait for, at worst.

    make bench-loop-steps ARGS='--nodes 5000 --json FILE'

A runtime on an API server in memory, with ten pods a node. It reads the cluster, compares it with the API server's
lists, shows its metrics, reports, dumps, takes policies, follows changes and places pods. Each step of its loop is
timed.

    longest   the longest step of the phase, in milliseconds of processor time
    over      how many of its steps took longer than the budget
    what      the task or callback that the longest one was a step of
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import tempfile
import time
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import orjson

from bench import worlds
from bench.terminal import positive, say
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials, Source
from berth.cluster.http1 import Answer, Request
from berth.cluster.listing import METADATA_ONLY, METADATA_PAGE
from berth.collector import Collector
from berth.configuration import Options
from berth.runtime import Runtime, make_runtime
from berth.serving.metrics import render
from cluster.server import write_kubeconfig

Body = dict[str, Any]

BUDGET_MS = 20.0
NEW_PODS = 500
PATIENCE_SECONDS = 300.0
BATCH = 32
LIST_VERSION = str(10**12)  # newer than anything that is listed, or changes later


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    longest_ms: float
    over: int
    what: str


class Steps:
    """Times every step of the event loop."""

    def __init__(self, budget_ms: float = BUDGET_MS) -> None:
        self.phases: list[Phase] = []
        self._budget_ms = budget_ms
        self._steps: list[tuple[float, str]] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        run = events.Handle._run

        def timed(handle: events.Handle) -> None:
            what = _name(handle)
            begun = time.thread_time()
            run(handle)
            self._steps.append((1000 * (time.thread_time() - begun), what))

        with mock.patch.object(events.Handle, "_run", timed):
            yield

    def end_phase(self, name: str) -> None:
        longest, what = max(self._steps, default=(0.0, ""))
        over = sum(1 for step, _ in self._steps if step > self._budget_ms)
        self.phases.append(Phase(name, round(longest, 1), over, what))
        self._steps.clear()
        say(f"{name:<32}{longest:>8.1f} ms {over:>5}  {what}")


def _name(handle: Any) -> str:
    """Of the task that the step belongs to, or of the callback."""
    callback = handle._callback
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    return str(getattr(callback, "__qualname__", callback))


class MemoryServer:
    """The API server: objects by the path of their list, and how requests get to it."""

    is_closed = False
    under_way = 0

    def __init__(self, objects: dict[str, list[Body]]) -> None:
        self._objects = objects
        self._pages: dict[tuple[str, str, str, int], bytes] = {}

    async def exchange(self, request: Request, limit_seconds: float, before_sending: Callable[[], None]) -> Answer:
        before_sending()
        await asyncio.sleep(0)
        if request.method != "GET":
            return Answer(201, "Created", b"{}", 0.0)
        query = dict(request.query or {})
        begin, limit = int(query.get("continue", "0")), int(query.get("limit", "500"))
        return Answer(200, "OK", self._page(request.path, request.accept, begin, limit), 0.0)

    def _page(self, path: str, accept: str, begin: int, limit: int) -> bytes:
        key = (path, accept, str(begin), limit)
        if key not in self._pages:
            self._pages[key] = _encode_page(path, self._objects.get(path, []), accept, begin, limit)
        return self._pages[key]

    def prepare(self, path: str, accept: str, limit: int) -> None:
        """Have the pages ready, so that no step of the loop pays for them."""
        for begin in range(0, max(1, len(self._objects.get(path, []))), limit):
            self._page(path, accept, begin, limit)

    async def retire(self) -> None:
        """Nothing is open."""

    async def close(self) -> None:
        """Nothing is open."""


KINDS = {"pods": "Pod", "nodes": "Node", "namespaces": "Namespace"}


def _encode_page(path: str, objects: Sequence[Body], accept: str, begin: int, limit: int) -> bytes:
    items = objects[begin : begin + limit]
    head: Body = {"resourceVersion": LIST_VERSION}
    if begin + limit < len(objects):
        head["continue"] = str(begin + limit)
    if accept == METADATA_ONLY:
        body = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": head}
        return orjson.dumps({**body, "items": [{"metadata": item["metadata"]} for item in items]})
    return orjson.dumps({"kind": "List", "apiVersion": "v1", "metadata": head, "items": items})


def make_objects(nodes: int) -> dict[str, list[Body]]:
    """As an API server has them, with the metadata that it adds."""
    with mock.patch.multiple(worlds, parse_node=_same, parse_pod=_same):
        made_nodes: list[Any] = [worlds._node(number, nodes) for number in range(nodes)]
        made_pods: list[Any] = [body for body, _ in worlds._pods(nodes)]
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "uid-kube-system"}}
    default = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "uid": "uid-default"}}
    fields: Body = {f"f:field-{number}": {"f:value": {}} for number in range(20)}
    managed = [{"manager": "kubelet", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}]
    for version, body in enumerate((*made_nodes, *made_pods, system, default), start=1):
        body["metadata"] |= {"resourceVersion": str(version), "managedFields": managed}
    return {"/api/v1/nodes": made_nodes, "/api/v1/pods": made_pods, "/api/v1/namespaces": [system, default]}


def _same(body: Any) -> Any:
    return body


async def run(nodes: int, course_of: Callable[[Runtime, dict[str, list[Body]]], Course]) -> list[Phase]:
    say(f"making {nodes:,} nodes and {nodes * worlds.PODS_PER_NODE:,} pods")
    objects = make_objects(nodes)
    server = MemoryServer(objects)
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = str(write_kubeconfig(Path(folder), "http://127.0.0.1:1"))
        credentials = Credentials(Source(kubeconfig, None))
        api = Api(credentials, open_transport=lambda *_, **__: server)
        options = Options(kubeconfig=kubeconfig, https_address="", standalone=True, seed=1, resync_seconds=86_400)
        runtime = make_runtime(options, api=api, credentials=credentials, collector=Collector())
        for resource in runtime.resources:
            server.prepare(resource.path, METADATA_ONLY, METADATA_PAGE)
        course = course_of(runtime, objects)
        await course.run()
        await runtime.stop()
    return course.steps.phases


class Course:
    """The phases, one after the other."""

    def __init__(self, runtime: Runtime, objects: dict[str, list[Body]], budget_ms: float = BUDGET_MS) -> None:
        self.runtime = runtime
        self.steps = Steps(budget_ms)
        self._objects = {path: [orjson.dumps(body) for body in bodies] for path, bodies in objects.items()}
        self._version = 2_000_000

    async def run(self) -> None:
        with self.steps.watched():
            await self.runtime.start()
            for phase in self.phases():
                await asyncio.create_task(phase(), name="bench")
                await asyncio.sleep(0)
                self.steps.end_phase(phase.__name__.replace("_", " "))

    def phases(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        return (
            self.read_lists,
            self.become_ready,
            self.be_calm,
            self.compare,
            self.confirm,
            self.follow_changes,
            self.show_metrics,
            self.place_pods,
            self.report,
            self.take_policies,
            self.dump,
            self.replace_pods,
        )

    async def read_lists(self) -> None:
        for resource in self.runtime.resources:
            listed = self.runtime.watch_intake.begin_list(resource.kind)
            listed.begin_page({"resourceVersion": LIST_VERSION}, is_first=True)
            raws = self._objects.get(resource.path, [])
            for begin in range(0, len(raws), BATCH):
                self.runtime.watch_intake.on_list(listed, [orjson.loads(raw) for raw in raws[begin : begin + BATCH]])
                await asyncio.sleep(0)
            self.runtime.watch_intake.end_list(listed)

    async def become_ready(self) -> None:
        await self.wait(lambda: self.runtime.readiness().is_ready)

    async def be_calm(self) -> None:
        """What follows by itself: the comparison of what was only sampled, the first reports."""
        await asyncio.sleep(25)

    async def follow_changes(self) -> None:
        """The status of every other pod changes."""
        await self._change(self._objects["/api/v1/pods"][::2], "MODIFIED", _touch)

    async def replace_pods(self) -> None:
        """Every pod is deleted, and another one is made in its place."""
        for begin in range(0, len(self._objects["/api/v1/pods"]), 1000):
            raws = self._objects["/api/v1/pods"][begin : begin + 1000]
            await self._change(raws, "DELETED", _touch)
            await self._change(raws, "ADDED", _rename)

    async def _change(self, raws: Sequence[bytes], type_: str, change: Callable[[Body], None]) -> None:
        for begin in range(0, len(raws), BATCH):
            changes = []
            for raw in raws[begin : begin + BATCH]:
                body = orjson.loads(raw)
                change(body)
                body["metadata"]["resourceVersion"] = self.next_version()
                changes.append((type_, body))
            self.runtime.watch_intake.on_changes("Pod", changes)
            await asyncio.sleep(0)

    async def show_metrics(self) -> None:
        for _ in range(5):
            render(self.runtime.statistics)
            await asyncio.sleep(0)

    async def report(self) -> None:
        await self.runtime.components.policy_reports.report()

    async def place_pods(self) -> None:
        """New pods that fit, and as many that do not."""
        for number in range(2 * NEW_PODS):
            cpu = 100 if number % 2 else 1_000_000
            body = worlds.pod_body(f"new-{number}", cpu_millicores=cpu, labels={"app": "new"}, image="example.com/new")
            body["metadata"]["resourceVersion"] = self.next_version()
            self.runtime.watch_intake.on_changes("Pod", [("ADDED", body)])
            if number % BATCH == 0:
                await asyncio.sleep(0)
        await self.wait(lambda: self.attempts() >= 2 * NEW_PODS)

    def attempts(self) -> int:
        """How many there were since the start."""
        return sum(self.runtime.statistics()["scheduler"]["attempts"].values())

    def next_version(self) -> str:
        """The resourceVersion of the next change."""
        self._version += 1
        return str(self._version)

    async def take_policies(self) -> None:
        """A policy for every pod that waits, changed a few times."""
        for generation in range(1, 6):
            body = {
                "apiVersion": "berth.dev/v1alpha1",
                "kind": "SchedulingPolicy",
                "metadata": {
                    "name": "steps",
                    "uid": "uid-steps",
                    "generation": generation,
                    "resourceVersion": self.next_version(),
                },
                "spec": {"schedulerName": "berth", "base": "KubernetesDefault", "tieBreak": "Random"},
            }
            self.runtime.watch_intake.on_changes("SchedulingPolicy", [("MODIFIED", body)])
            await asyncio.sleep(0.5)

    async def compare(self) -> None:
        self.runtime.components.cache_sync.want()
        await asyncio.sleep(25)

    async def confirm(self) -> None:
        await self.runtime.components.cache_sync.confirm(1.0)
        await asyncio.sleep(20)  # it has every kind compared afterwards
        await self.runtime.components.cache_sync.stop()  # the lists stay as they are, whatever changes from here on

    async def dump(self) -> None:
        with mock.patch.object(logging.getLogger("berth"), "disabled", True):
            self.runtime.dump()
            await self.runtime.components.dump.wait()

    async def wait(self, is_so: Callable[[], bool]) -> None:
        """Until it is so."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            if time.monotonic() > give_up:
                raise SystemExit("bench.loop_steps: it does not get ready")
            await asyncio.sleep(0.02)


def _touch(body: Body) -> None:
    body["status"]["phase"] = "Running"


def _rename(body: Body) -> None:
    body["metadata"]["name"] += "-again"
    body["metadata"]["uid"] += "-again"


def main() -> None:
    report("bench.loop_steps", __doc__.partition("\n")[0], Course)


def report(program: str, text: str, course_of: Callable[[Runtime, dict[str, list[Body]]], Course]) -> None:
    """Runs the course with the options of the command line, and says which step was the longest."""
    parser = argparse.ArgumentParser(prog=program, description=text)
    parser.add_argument("--nodes", type=positive, default=5000, metavar="N", help="(default: 5000)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    options = parser.parse_args()
    phases = asyncio.run(run(options.nodes, course_of))
    worst = max(phases, key=lambda phase: phase.longest_ms)
    print(f"longest step: {worst.longest_ms} ms, in {worst.name} ({worst.what})")
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(phase) for phase in phases], indent=2) + "\n")


if __name__ == "__main__":
    main()
