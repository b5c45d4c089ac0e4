"""The shipped operator on an embedded cluster and virtual time, for tests of what it makes of lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from berth.cluster.resources import RESOURCES
from berth.runtime import Options, make_runtime
from berth.sim.resources import CRDS, PODS, Resource
from berth.sim.server import SimServer
from berth.sim.store import Store
from cluster.server import until
from scheduler.virtual_clock import START, VirtualClock
from support.builders import Body
from support.crds import POLICIES, crd

REGULAR, GRACE = 300.0, 15.0


class Harness:
    """The shipped operator on an embedded cluster; its watches say nothing but what a test has them say."""

    def __init__(self, folder: Path, server: Callable[[Store], SimServer] = SimServer) -> None:
        self.clock = VirtualClock()
        self.store = Store(lambda: START)
        self.store.create(CRDS, crd(POLICIES))
        self.server = server(self.store)
        self._kubeconfig = folder / "kubeconfig"

    async def start(self) -> None:
        await self.server.start()
        self.server.write_kubeconfig(self._kubeconfig)
        self.begin()
        await self.runtime.start()
        self.relist()
        await until(lambda: self.runtime.readiness().is_ready)

    def begin(self) -> None:
        options = Options(kubeconfig=str(self._kubeconfig), https_address="", seed=1, standalone=True)
        self.runtime = make_runtime(options, clock=self.clock)
        self.cache = self.runtime.components.cache

    async def stop(self) -> None:
        await self.runtime.stop()
        await self.server.stop()

    # --- what happens, and what is told of it ------------------------------------------------------------------------

    def make(self, body: Body) -> Body:
        metadata = {key: value for key, value in body["metadata"].items() if key not in ("uid", "generation")}
        namespace = metadata.get("namespace", "")
        return self.store.create(self.resource_of(body), {**body, "metadata": metadata}, namespace=namespace)

    def change(self, resource: Resource, name: str, patch: Body, subresource: str = "") -> Body:
        namespace = "default" if resource.namespaced else ""
        return self.store.patch(resource, namespace, name, patch, "merge", subresource=subresource)[0]

    def bind(self, name: str, node_name: str) -> Body:
        """Somebody else does it."""
        self.store.bind("default", name, {"metadata": {"name": name}, "target": {"kind": "Node", "name": node_name}})
        return self.store.get(PODS, "default", name)

    def relist(self, *, but: str = "") -> None:
        """The watches begin: everything that there is is shown, but for one kind."""
        for resource in RESOURCES:
            if resource.kind == but:
                continue
            served = self.store.find(resource.group, resource.version, resource.plural)
            for body in self.store.list(served).items if served is not None else ():
                self.tell(body, None)

    def tell(self, body: Body, type_: str | None = "MODIFIED") -> None:
        self.runtime.on_event(body["kind"], type_, body)

    def resource_of(self, body: Body) -> Resource:
        group, _, version = body["apiVersion"].rpartition("/")
        return next(
            each
            for each in self.store.resources()
            if (each.group, each.version, each.kind) == (group, version, body["kind"])
        )

    # --- what is known of it -----------------------------------------------------------------------------------------

    def on(self, node_name: str) -> list[str]:
        return sorted(pod.name for pod in self.cache.state.table.pods_on(node_name).values())

    def drift(self) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = self.runtime.statistics()["cache_sync"]["drift"]
        return counts

    async def pass_time(self, seconds: float) -> None:
        """With everything that goes to the server and comes back meanwhile."""
        for _ in range(round(seconds)):
            await self.clock.advance(1)
            await until(lambda: not self.runtime.components.api.requests_under_way)
        await self.clock.advance(0)
