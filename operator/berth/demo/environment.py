"""The embedded cluster of the demo: API server, kubelets, workload controllers, and the operator beside them.

    this process                                                    a process of its own
    store <- API server <-- HTTP -- kubelets, workloads, the story
                        <-- HTTP ------------------------------------ berth run

All that is made or changed goes through the API server, as kubectl would do it. Only the eye of the demo looks into
the store itself: it sees the events that any watch is sent, without a second copy of them on the wire.

`kubeconfig` is for a user's kubectl, for as long as the environment runs.
"""

import asyncio
import contextlib
import secrets
import shutil
import socket
import tempfile
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

import yaml

from berth.demo.operator_process import OperatorProcess
from berth.demo.play import Trouble, WatchEvent
from berth.demo.scenario import NAMESPACE, POLICY, Plan, Wave, Workload
from berth.scheduler.ports import Clock
from berth.shipped import crd_files, policy_files
from berth.sim.actors import (
    Controller,
    Disruption,
    HttpApi,
    Kubelets,
    Namespaces,
    Provisioner,
    Refused,
    ServerUnreachable,
    Workloads,
)
from berth.sim.actors.api import JSON, MERGE_PATCH
from berth.sim.server import SimServer
from berth.sim.server.reviews import EVERYTHING, Account
from berth.sim.store import Store, Watch

CRDS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES_PATH = "/apis/berth.dev/v1alpha1/schedulingpolicies"
DEPLOYMENTS_PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
JOBS_PATH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
WATCHED = (
    ("SchedulingPolicy", "berth.dev", "v1alpha1", "schedulingpolicies"),
    ("Node", "", "v1", "nodes"),
    ("Pod", "", "v1", "pods"),
)
STORAGE_CLASSES_PATH = "/apis/storage.k8s.io/v1/storageclasses"
# For the pods of users who ask for no scheduler: with nothing but its name, a policy decides as kube-scheduler does.
DEFAULT_SCHEDULER = {
    "apiVersion": "berth.dev/v1alpha1",
    "kind": "SchedulingPolicy",
    "metadata": {"name": "default-scheduler"},
    "spec": {"schedulerName": "default-scheduler"},
}
STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "berth.dev/simulated",
    "volumeBindingMode": "WaitForFirstConsumer",
}
API_SERVICES_PATH = "/apis/apiregistration.k8s.io/v1/apiservices"
EXPLAIN_API = "explain.berth.dev/v1alpha1"
EXPLAIN_NAMESPACE, EXPLAIN_SERVICE = "kube-system", "berth-explain"
AT_ONCE = 20
STOP_SECONDS = 5.0


class EmbeddedEnvironment:
    """Implements `berth.demo.play.Stage`; use it as an async context manager."""

    def __init__(self, clock: Clock, seed: int) -> None:
        self._clock = clock
        self._random = Random(seed)
        self._seed = seed
        self._folder = Path(tempfile.mkdtemp(prefix="berth-demo-"))
        self.kubeconfig = self._folder / "kubeconfig"
        self._store = Store(clock.wall, seed=seed)
        self.header_file = self._folder / "header"
        """The header with the token of an administrator, for the operator's metrics: curl -H @FILE."""
        token = secrets.token_urlsafe(32)
        administrator = Account("demo", groups=(EVERYTHING, "system:authenticated"))
        # Without a token for the API server itself: kubectl sends none over plain HTTP.
        self._server = SimServer(self._store, clock=clock.wall, accounts={token: administrator})
        _write_secret(self.header_file, f"Authorization: Bearer {token}\n")
        http_port, self._explain_port = _free_ports(2)
        self.operator_address = f"127.0.0.1:{http_port}"
        """Where the operator serves health and metrics, over plain HTTP."""
        self._operator = OperatorProcess(
            self.kubeconfig,
            self._folder / "operator.log",
            seed,
            f"--http-address={self.operator_address}",
            f"--explain-address=127.0.0.1:{self._explain_port}",
            f"--explain-service={EXPLAIN_NAMESPACE}/{EXPLAIN_SERVICE}",
        )
        self._api: HttpApi | None = None
        self._actors: list[Controller] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._watches: list[tuple[str, Watch]] = []

    # --- life --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._operator.stop()
            await self._dismiss_actors()
            for _, watch in self._watches:
                watch.close()
            if self._api is not None:
                await self._api.close()
            await self._server.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _dismiss_actors(self) -> None:
        for actor in self._actors:
            await actor.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def end(self) -> str | None:
        """Stops the operator; returns what had failed until then, or how it ended."""
        problem = self.problem()
        await self._operator.stop()
        return problem or self._operator.problem()

    def operator_log(self) -> str:
        """The end of it."""
        return self._operator.tail()

    @property
    def page(self) -> str:
        """The address of the page. The embedded API server is on this machine, and asks for no credentials."""
        return f"{self._server.url}/apis/{EXPLAIN_API}/ui/"

    async def wait_broken(self) -> None:
        """Return when something that should last has ended."""
        lasting = [asyncio.ensure_future(self._operator.wait_ended()), *self._tasks]
        await asyncio.wait(lasting, return_when=asyncio.FIRST_COMPLETED)

    # --- the story's side --------------------------------------------------------------------------------------------

    async def make_cluster(self, plan: Plan) -> None:
        """See `Environment`. The operator comes last: it finds a cluster, as it does elsewhere."""
        await self._start_server()
        self._api = HttpApi(self._server.url)
        for body in _documents(crd_files()):
            await self._create(CRDS_PATH, body)
        for body in (*_documents([policy_files()[POLICY]]), DEFAULT_SCHEDULER):
            await self._create(POLICIES_PATH, body)
        await self._create(STORAGE_CLASSES_PATH, STORAGE_CLASS)
        await self._register_explanations()
        self._open_eyes()
        await self._start_operator()
        await self._create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await self._at_once([self._create("/api/v1/nodes", machine.body()) for machine in plan.machines])
        self._engage_actors(self._api)

    async def _start_server(self) -> None:
        try:
            await self._server.start()
            self._server.write_kubeconfig(self.kubeconfig)
        except OSError as error:
            raise Trouble(f"the API server cannot be started: {error}") from error

    async def _register_explanations(self) -> None:
        """The operator's API behind `kubectl get why`, `berth status` and `berth top`, as the chart registers it."""
        service = {"namespace": EXPLAIN_NAMESPACE, "name": EXPLAIN_SERVICE, "port": self._explain_port}
        spec = {"type": "ExternalName", "externalName": "localhost"}
        await self._create(
            f"/api/v1/namespaces/{EXPLAIN_NAMESPACE}/services", {"metadata": {"name": EXPLAIN_SERVICE}, "spec": spec}
        )
        group, _, version = EXPLAIN_API.partition("/")
        priorities = {"groupPriorityMinimum": 100, "versionPriority": 10}
        await self._create(
            API_SERVICES_PATH,
            {
                "metadata": {"name": f"{version}.{group}"},
                "spec": {"group": group, "version": version, **priorities, "service": service},
            },
        )

    def _open_eyes(self) -> None:
        for kind, group, version, plural in WATCHED:
            resource = self._store.find(group, version, plural)
            if resource is None:
                raise Trouble(f"the embedded cluster does not serve {plural}")
            self._watches.append((kind, self._store.watch(resource, send_initial_events=True)))

    def _engage_actors(self, api: HttpApi) -> None:
        clock = self._clock
        self._actors = [
            Kubelets(api, clock, self._random),
            Workloads(api, clock),
            Namespaces(api, clock),
            Disruption(api, clock),
            Provisioner(api, clock),
        ]
        self._tasks = [asyncio.create_task(actor.run(), name=type(actor).__name__) for actor in self._actors]

    async def _start_operator(self) -> None:
        try:
            await self._operator.start()
        except OSError as error:
            raise Trouble(f"the operator cannot be started: {error}") from error

    async def play(self, wave: Wave) -> None:
        """See `Environment`."""
        await self._at_once([self._leave(name) for name in wave.leave])
        await self._at_once([self._arrive(workload) for workload in wave.arrive])
        if wave.giant is not None:
            await self._create(PODS_PATH, wave.giant)

    async def _arrive(self, workload: Workload) -> None:
        await self._create(JOBS_PATH if workload.is_job else DEPLOYMENTS_PATH, workload.body())

    async def _leave(self, name: str) -> None:
        await self._patch(f"{DEPLOYMENTS_PATH}/{name}", {"spec": {"replicas": 0}})

    async def change_policy(self, patch: Mapping[str, Any]) -> None:
        """See `Environment`."""
        await self._patch(f"{POLICIES_PATH}/{POLICY}", patch)

    def events(self) -> Iterable[WatchEvent]:
        """See `Environment`."""
        for kind, watch in self._watches:
            for type_, body in watch.take_ready():
                yield kind, type_, body

    def problem(self) -> str | None:
        """See `Environment`."""
        for task in self._tasks:
            if task.done():
                error = None if task.cancelled() else task.exception()
                return f"the simulated {task.get_name().lower()} ended: {error!r}"
        return self._operator.problem()

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _create(self, path: str, body: Mapping[str, Any]) -> None:
        await self._request("POST", path, body)

    async def _patch(self, path: str, patch: Mapping[str, Any]) -> None:
        await self._request("PATCH", path, patch, MERGE_PATCH)

    async def _request(self, method: str, path: str, body: Mapping[str, Any], content_type: str = JSON) -> None:
        assert self._api is not None, "make_cluster comes first"
        try:
            await self._api.request(method, path, body=body, content_type=content_type)
        except (Refused, ServerUnreachable) as error:
            raise Trouble(f"{method} {path}: {error}") from error

    async def _at_once(self, requests: Sequence[Coroutine[Any, Any, None]]) -> None:
        """All of them, some at a time."""
        for start in range(0, len(requests), AT_ONCE):
            await asyncio.gather(*requests[start : start + AT_ONCE])


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in listeners]


def _documents(paths: Sequence[Path]) -> list[dict[str, Any]]:
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return [document for text in texts for document in yaml.safe_load_all(text) if document is not None]
