"""What bulk intake stands on in kopf. If one of these fails after an update of kopf, it says what kopf changed.

All of it is public: `kopf.on.login` may return a `kopf.AiohttpSession`, whose session has a response class of ours, so
kopf can read nothing that did not pass there. What is not written down anywhere is how kopf reads: lists by `json()`,
watches by `content.iter_chunked()`. If it reads otherwise one day, objects come to the handlers, as with the feature
gate off: slower, and right.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from berth import handlers
from berth.cluster.resources import RESOURCES
from berth.configuration.gates import BULK_INTAKE, DEFAULTS
from berth.handlers import watch
from berth.runtime import Options, Runtime, make_runtime
from berth.runtime.wiring import Components
from cluster.server import Answer, Reaction, Seen, Server, Silence, listed, refusal, until, write_kubeconfig
from cluster.test_bulk import JSON, bookmark, compact, line
from support.builders import make_node

PATH = "/api/v1/nodes"
VERBS = ["get", "list", "watch"]


class Recorder(Runtime):
    """A runtime that remembers which way it was told what."""

    def __init__(self, options: Options) -> None:
        super().__init__(Components(options))
        self.by_kopf: list[str] = []
        self.in_bulk: list[str] = []
        for name in ("on_list", "on_changes", "on_watch"):
            setattr(self.watch_intake, name, getattr(self, name))

    def on_event(self, kind: str, type_: str | None, body: Any) -> None:
        self.by_kopf.append(f"{type_} {kind} {body['metadata']['name']}")

    def on_list(self, listed: Any, bodies: Any) -> None:
        self.in_bulk += [f"None {listed.kind} {body['metadata']['name']}" for body in bodies]

    def on_changes(self, kind: str, changes: Any) -> None:
        self.in_bulk += [f"{type_} {kind} {body['metadata']['name']}" for type_, body in changes]

    def on_watch(self, kind: str, version: str) -> None:
        """Nothing is asked about it here."""


def discovery(server: Server) -> None:
    """Nodes and policies are served, and what kopf asks for itself: namespaces and CRDs."""
    crds = {"name": "customresourcedefinitions", "kind": "CustomResourceDefinition", "verbs": VERBS}
    policies = {"name": "schedulingpolicies", "kind": "SchedulingPolicy", "verbs": VERBS}
    groups = {"apiextensions.k8s.io/v1": crds, "berth.dev/v1alpha1": policies}
    server.answer("GET", "/api", Answer(200, {"versions": ["v1"]}))
    core = [("nodes", "Node"), ("namespaces", "Namespace")]
    named = [
        {"name": name, "kind": kind, "singularName": "", "namespaced": False, "verbs": VERBS} for name, kind in core
    ]
    server.answer("GET", "/api/v1", Answer(200, {"resources": named}))
    server.answer("GET", "/api/v1/namespaces", watched(compact(listed("Namespace"))))
    found = []
    for name, resource in groups.items():
        group, _, version = name.partition("/")
        versions = [{"version": version, "groupVersion": name}]
        found.append({"name": group, "versions": versions, "preferredVersion": versions[0]})
        served = [{"singularName": "", "namespaced": False, **resource}]
        server.answer("GET", f"/apis/{name}", Answer(200, {"groupVersion": name, "resources": served}))
    server.answer("GET", "/apis", Answer(200, {"groups": found}))
    for path in (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/berth.dev/v1alpha1/schedulingpolicies",
    ):
        server.answer("GET", path, watched(Answer(200, {"metadata": {"resourceVersion": "1"}, "items": []})))


def watched(page: Answer, *streams: Reaction) -> Reaction:
    """A list, and what each watch of it says in turn; the last one says nothing."""
    waiting = iter(streams)

    def answer(seen: Seen) -> Any:
        return next(waiting, Silence()) if seen.query.get("watch") else page

    return answer


def stream(*lines: str) -> Answer:
    return Answer(200, "".join(f"{each}\n" for each in lines), JSON)


@asynccontextmanager
async def watching(server: Server, folder: Path, *, bulk: bool = True) -> AsyncIterator[Recorder]:
    path = write_kubeconfig(folder, f"http://127.0.0.1:{server.port}")
    gates = {**DEFAULTS, BULK_INTAKE: bulk}
    runtime = Recorder(Options(kubeconfig=str(path), https_address="", standalone=True, feature_gates=gates))
    await runtime.credentials.load()
    stop = asyncio.Event()
    work = asyncio.create_task(watch(runtime, stop, lambda: None))
    try:
        yield runtime
    finally:
        stop.set()
        await work
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)


def node(name: str, version: str) -> dict[str, Any]:
    body = make_node(name)
    return {"metadata": {**body["metadata"], "resourceVersion": version}, "status": body["status"]}


def watches(server: Server) -> list[str]:
    """From which version each watch of nodes went on."""
    return [request.query["resourceVersion"] for request in server.seen("GET", PATH) if request.query.get("watch")]


async def test_kopf_reads_lists_by_json_and_watches_by_chunks_and_resumes_where_the_bookmark_says(
    server: Server, tmp_path: Path
) -> None:
    discovery(server)
    said = [
        stream(line("ADDED", node("b", "12")), line("DELETED", node("a", "13"))),
        stream(orjson.dumps(bookmark("20")).decode()),
    ]
    server.answer("GET", PATH, watched(compact(listed("Node", node("a", "5"), version="10")), *said))
    async with watching(server, tmp_path) as runtime:
        await until(lambda: len(watches(server)) == 3)
    assert runtime.in_bulk == ["None Node a", "ADDED Node b", "DELETED Node a"], "kopf reads in another way than before"
    assert runtime.by_kopf == [], "kopf got objects that it should not see"
    assert watches(server) == ["10", "13", "20"], "kopf goes on from other versions than before"


async def test_kopf_lists_again_after_410_and_what_came_before_it_in_the_chunk_is_not_lost(
    server: Server, tmp_path: Path
) -> None:
    discovery(server)
    gone = refusal(410, "Expired", "too old").body
    said = stream(line("ADDED", node("b", "12")), line("ERROR", gone))
    server.answer("GET", PATH, watched(compact(listed("Node", node("a", "5"), version="10")), said))
    async with watching(server, tmp_path) as runtime:
        await until(lambda: len(watches(server)) == 2)
    assert runtime.in_bulk == ["None Node a", "ADDED Node b", "None Node a"]


async def test_policies_come_kopfs_way(server: Server, tmp_path: Path) -> None:
    discovery(server)
    policy = {"metadata": {"name": "p", "uid": "p", "resourceVersion": "3"}}
    path = "/apis/berth.dev/v1alpha1/schedulingpolicies"
    server.answer("GET", path, watched(compact(listed("SchedulingPolicy", policy, version="10"))))
    server.answer("GET", PATH, watched(compact(listed("Node"))))
    async with watching(server, tmp_path) as runtime:
        await until(lambda: bool(runtime.by_kopf))
    assert runtime.by_kopf == ["None SchedulingPolicy p"]


async def test_with_the_gate_off_everything_comes_kopfs_way(server: Server, tmp_path: Path) -> None:
    discovery(server)
    said = stream(line("ADDED", node("b", "12")))
    server.answer("GET", PATH, watched(compact(listed("Node", node("a", "5"), version="10")), said))
    async with watching(server, tmp_path, bulk=False) as runtime:
        await until(lambda: len(runtime.by_kopf) == 2)
    assert sorted(runtime.by_kopf) == ["ADDED Node b", "None Node a"]
    assert runtime.in_bulk == []


async def test_a_server_behind_a_path_is_read_in_bulk_too(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://cluster:6443")
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="", standalone=True))
    intake = handlers.bulk_intake(runtime, "https://proxy/k8s/clusters/c-1/")
    assert set(intake.paths) == {f"/k8s/clusters/c-1{resource.path}" for resource in RESOURCES[:-1]}


@pytest.mark.parametrize("gate", [True, False])
def test_the_gate_says_which_kinds_are_read_in_bulk(tmp_path: Path, gate: bool) -> None:
    path = write_kubeconfig(tmp_path, "https://cluster:6443")
    gates = {**DEFAULTS, BULK_INTAKE: gate}
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="", standalone=True, feature_gates=gates))
    kinds = {resource.kind for resource in runtime.resources} - {"SchedulingPolicy"}
    assert {resource.kind for resource in runtime.bulk} == (kinds if gate else set())
