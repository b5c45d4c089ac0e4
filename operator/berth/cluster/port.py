"""The scheduler's Cluster port over a real API server.

One object that puts binder, conditions and events together, in the order that keeps a pod's status true: before a bind,
whatever is still to be written about the pod's failures is withdrawn, or awaited if it is on its way.
"""

from collections.abc import Mapping
from typing import Any

from berth.cluster.api import Api
from berth.cluster.binder import Binder
from berth.cluster.conditions import Conditions
from berth.cluster.events import EventRecorder
from berth.cluster.volumes import VolumeWriter
from berth.model import Claim, Pod, Volume
from berth.scheduler.faults import Faults
from berth.scheduler.ports import Clock, PodEvent

FLUSH_SECONDS = 5.0


class KubernetesCluster:
    """Implements `berth.scheduler.ports.Cluster`."""

    def __init__(self, api: Api, clock: Clock, instance: str, faults: Faults) -> None:
        self._binder = Binder(api, clock)
        self._volumes = VolumeWriter(api, clock)
        self._conditions = Conditions(api, clock, faults)
        self._events = EventRecorder(api, clock, instance, faults)

    def start(self) -> None:
        self._conditions.start()
        self._events.start()

    async def stop(self) -> None:
        """Post what waits, within a limit, and stop writing."""
        await self._events.flush(FLUSH_SECONDS)
        await self._conditions.stop()

    async def bind(self, pod: Pod, node_name: str) -> None:
        await self._conditions.settle(pod.uid)
        await self._binder.bind(pod, node_name)

    async def read_pod(self, pod: Pod) -> Mapping[str, Any] | None:
        return await self._binder.read_pod(pod)

    async def keep_volume(self, volume: Volume, claim: Claim) -> None:
        await self._volumes.keep(volume, claim)

    async def select_node(self, claim: Claim, node_name: str) -> None:
        await self._volumes.select(claim, node_name)

    def report_condition(self, pod: Pod, reason: str, message: str) -> None:
        self._conditions.report(pod, reason, message)

    def record_event(self, pod: Pod, event: PodEvent) -> None:
        self._events.record(pod, event)

    def pod_settled(self, uid: str) -> None:
        """The watch shows that the pod is bound or gone: nothing is left to say about its failures."""
        self._conditions.forget(uid)

    def statistics(self) -> dict[str, dict[str, int]]:
        return {"conditions": self._conditions.statistics(), "events": self._events.statistics()}
