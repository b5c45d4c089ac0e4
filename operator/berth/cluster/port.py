"""The scheduler's Cluster port over a real API server.

One object that puts binder, conditions and events together, in the order that keeps a pod's status true: before a bind,
whatever is still to be written about the pod's failures is withdrawn, or awaited if it is on its way. All of them pass
one gate, where the others give way to binds; what is written about volumes counts as part of a bind.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from berth.cluster.api import Api
from berth.cluster.binder import Binder
from berth.cluster.conditions import Conditions
from berth.cluster.events import EventRecorder
from berth.cluster.evictions import Evictions
from berth.cluster.fence import Fence
from berth.cluster.gate import BIND, URGENT, WriteGate
from berth.cluster.volumes import VolumeWriter
from berth.model import Claim, Pod, Volume
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.object_events import MAPPINGS, ObjectEvent
from berth.scheduler.ports import Clock, PodEvent

FLUSH_SECONDS = 5.0
SERVER_SHARE = 0.8  # of the time that a request may take


class KubernetesCluster:
    """Implements `berth.scheduler.ports.Cluster`."""

    def __init__(self, api: Api, clock: Clock, instance: str, errors: ErrorLog, fence: Fence) -> None:
        self._fence = fence
        self._binder = _make_binder(api, clock, fence)
        self._evictions = Evictions(api, clock, fence)
        self._volumes = VolumeWriter(api, clock, fence)
        self.gate = WriteGate(clock)
        self._conditions = Conditions(api, clock, errors, self.gate, fence)
        self.events = EventRecorder(api, clock, instance, errors, self.gate)

    def start(self) -> None:
        self.gate.start()
        self._conditions.start()
        self.events.start()

    async def stop(self) -> None:
        """Post what waits, within a limit, and stop writing."""
        await self.events.flush(FLUSH_SECONDS)
        await self._conditions.stop()
        await self.gate.stop()

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None) -> None:
        with self._binding():
            await self.settle(pod)
            await self._binder.bind(pod, node_name, annotations)

    async def settle(self, pod: Pod) -> None:
        await self._conditions.settle(pod.uid)
        self._fence.check()

    def withdraw_all(self) -> None:
        """Another replica writes from now on: nothing of what waits is written, but events of what was done here."""
        self._conditions.withdraw_all()

    async def read_pod(self, pod: Pod) -> Mapping[str, Any] | None:
        return await self._binder.read_pod(pod)

    async def keep_volume(self, volume: Volume, claim: Claim) -> None:
        with self._binding():
            await self._volumes.keep(volume, claim)

    async def select_node(self, claim: Claim, node_name: str) -> None:
        with self._binding():
            await self._volumes.select(claim, node_name)

    async def evict(self, victim: Pod, preemptor: Pod, go_on: Callable[[], bool]) -> bool:
        await self.gate.wait(URGENT)
        try:
            return await self._evictions.evict(victim, preemptor, go_on)
        finally:
            self.gate.end(URGENT)

    def nominate(self, pod: Pod, node_name: str, written: Callable[[str], None]) -> None:
        self._conditions.nominate(pod, node_name, written)

    def nominates(self, uid: str) -> bool:
        """Whether a nomination of the pod has yet to be written."""
        return self._conditions.nominates(uid)

    def report_condition(self, pod: Pod, reason: str, message: str) -> None:
        self._conditions.report(pod, reason, message)

    def record_event(self, pod: Pod, event: PodEvent) -> None:
        self.events.record(pod, event)

    def on_event(self, event: ObjectEvent) -> None:
        """A pod that is bound or gone: nothing is left to say about its failures."""
        if event.kind == "Pod" and (event.is_removal or _is_bound(event.body)):
            self._conditions.forget(event.identity.uid)

    def statistics(self) -> dict[str, Mapping[str, Any]]:
        return {
            "conditions": self._conditions.statistics(),
            "events": self.events.statistics(),
            "writes": self.gate.statistics(),
        }

    @contextmanager
    def _binding(self) -> Iterator[None]:
        """Others give way meanwhile."""
        self.gate.begin(BIND)
        try:
            yield
        finally:
            self.gate.end(BIND)


def _is_bound(body: Mapping[str, Any]) -> bool:
    spec = body.get("spec")
    return isinstance(spec, MAPPINGS) and bool(spec.get("nodeName"))


def _make_binder(api: Api, clock: Clock, fence: Fence) -> Binder:
    """Where there are other replicas, it reads and binds in the time of the fence, and the server gives up before."""
    seconds = fence.request_seconds
    if math.isinf(seconds):
        return Binder(api, clock, fence)
    return Binder(api, clock, fence, client_seconds=seconds, server_seconds=round(SERVER_SHARE * seconds, 3))
