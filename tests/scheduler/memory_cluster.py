"""A cluster in memory: objects as the API server has them, the rules by which it binds, and a watch that a test steps.

What is written here is the truth at once. What the scheduler hears of it waits in `feed` until the test delivers it,
in any order that the test likes. A bind can be told to go wrong by the pod's name; reads can be told to fail.
"""

import asyncio
import copy
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from berth.model import Claim, Pod, Volume
from berth.scheduler import (
    BindRefused,
    NotEvicted,
    NotLeading,
    NotWritten,
    OutcomeUnknown,
    PodEvent,
    Scheduler,
    Unavailable,
)
from berth.scheduler.object_events import observed, removed

Body = dict[str, Any]


class Fault(Enum):
    """What goes wrong with a bind."""

    CUT_BEFORE = auto()  # the request never arrives, and the caller cannot know
    CUT_AFTER = auto()  # it is carried out, but the answer is lost
    LATE = auto()  # the caller gives up; it is carried out when the test says so
    FENCED = auto()  # another replica leads, and nothing is sent
    BROKEN = auto()  # an exception that no contract speaks of


@dataclass(frozen=True)
class Refusal:
    """The API server says no for a reason of its own."""

    code: int
    message: str


@dataclass
class Hang:
    """The bind waits until released, and is carried out then."""

    released: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Report:
    """One watch event on its way."""

    kind: str
    body: Body
    gone: bool


class MemoryCluster:
    """The Cluster port over a dict."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Body]] = defaultdict(dict)
        self.feed: list[Report] = []
        self.faults: dict[str, Fault | Refusal | Hang] = {}
        self.reads_fail = False
        self.reads: list[str] = []
        self.attempts: list[tuple[str, str]] = []  # (pod name, node) of every bind that was asked for
        self.bound: list[tuple[str, str]] = []  # (UID, node) of every bind that was carried out
        self.events: list[tuple[str, PodEvent]] = []
        self.volume_writes: list[tuple[str, str]] = []  # (volume, claim) and (claim, node), as they were written
        self.volume_writes_fail = False
        self.conditions: dict[str, tuple[str, str]] = {}
        self.settled: list[str] = []
        self.evictions: list[str] = []  # names of the pods that were asked to go
        self.eviction_faults: dict[str, str | Hang] = {}
        self.nominations: list[tuple[str, str]] = []  # (pod name, node) as they were written
        self.nominations_fail = False
        self.running_binds = 0
        self.most_running_binds = 0
        self._version = 0
        self._late: list[tuple[Pod, str, Mapping[str, str]]] = []

    # --- the truth, as others change it --------------------------------------------------------------------------

    def write(self, kind: str, body: Body) -> Body:
        """Create or replace an object."""
        self._version += 1
        stored = copy.deepcopy(body)
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.objects[kind][_key(stored)] = stored
        self.feed.append(Report(kind, copy.deepcopy(stored), gone=False))
        return stored

    def change(self, kind: str, key: str, edit: Callable[[Body], object]) -> Body:
        """Edit an object in place, as a new version."""
        body = copy.deepcopy(self.objects[kind][key])
        edit(body)
        return self.write(kind, body)

    def delete(self, kind: str, key: str) -> None:
        """Delete an object at once."""
        self._version += 1
        body = self.objects[kind].pop(key)
        body["metadata"]["resourceVersion"] = str(self._version)
        self.feed.append(Report(kind, body, gone=True))

    def annotations_of(self, name: str) -> dict[str, str]:
        """What is written on the pod of this name in the default namespace."""
        return dict(self.objects["Pod"][f"default/{name}"]["metadata"].get("annotations", {}))

    def node_of(self, name: str) -> str:
        """Where the pod of this name in the default namespace is bound."""
        return str(self.objects["Pod"][f"default/{name}"]["spec"].get("nodeName", ""))

    # --- the watch -----------------------------------------------------------------------------------------------

    def deliver(self, scheduler: Scheduler) -> None:
        """Hand over everything that waits in the feed, in order."""
        feed, self.feed = self.feed, []
        for report in feed:
            self.hand_over(scheduler, report)

    def hand_over(self, scheduler: Scheduler, report: Report) -> None:
        """Hand over one report."""
        scheduler.on_event((removed if report.gone else observed)(report.kind, report.body))

    # --- the port ------------------------------------------------------------------------------------------------

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None) -> None:
        self.attempts.append((pod.name, node_name))
        self.running_binds += 1
        self.most_running_binds = max(self.running_binds, self.most_running_binds)
        try:
            await self._bind(pod, node_name, annotations or {})
        finally:
            self.running_binds -= 1

    async def settle(self, pod: Pod) -> None:
        self.settled.append(pod.name)

    async def _bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str]) -> None:
        await asyncio.sleep(0)
        fault = self.faults.get(pod.name)
        if isinstance(fault, Hang):
            await fault.released.wait()
        elif isinstance(fault, Refusal):
            raise BindRefused(fault.code, fault.message)
        elif fault is Fault.CUT_BEFORE:
            raise OutcomeUnknown("connection reset")
        elif fault is Fault.FENCED:
            raise NotLeading("another replica leads")
        elif fault is Fault.BROKEN:
            raise RuntimeError("no contract speaks of this")
        elif fault is Fault.LATE:
            self._late.append((pod, node_name, annotations))
            raise OutcomeUnknown("timed out")
        self.carry_out(pod, node_name, annotations)
        if fault is Fault.CUT_AFTER:
            raise OutcomeUnknown("connection reset")

    def land_late_binds(self) -> None:
        """Carry out the binds that their callers gave up, as far as they are still allowed."""
        late, self._late = self._late, []
        for pod, node_name, annotations in late:
            try:
                self.carry_out(pod, node_name, annotations)
            except BindRefused:
                continue

    def carry_out(self, pod: Pod, node_name: str, annotations: Mapping[str, str]) -> None:
        body = self.objects["Pod"].get(f"{pod.namespace}/{pod.name}")
        self._check(pod, body)
        self.bound.append((pod.uid, node_name))

        def edit(body: Body) -> None:
            body["spec"]["nodeName"] = node_name
            body.get("status", {}).pop("nominatedNodeName", None)
            if annotations:
                body["metadata"].setdefault("annotations", {}).update(annotations)

        self.change("Pod", f"{pod.namespace}/{pod.name}", edit)

    @staticmethod
    def _check(pod: Pod, body: Body | None) -> None:
        if body is None:
            raise BindRefused(404, f'pods "{pod.name}" not found')
        uid = body["metadata"]["uid"]
        if uid != pod.uid:
            raise BindRefused(409, f"Precondition failed: UID in precondition: {pod.uid}, UID in object meta: {uid}")
        if body["metadata"].get("deletionTimestamp"):
            raise BindRefused(409, f"pod {pod.name} is being deleted, cannot be assigned to a host")
        if body["spec"].get("nodeName"):
            raise BindRefused(409, f'pod {pod.name} is already assigned to node "{body["spec"]["nodeName"]}"')
        if body["spec"].get("schedulingGates"):
            raise BindRefused(409, f"pod {pod.name} has non-empty .spec.schedulingGates")

    async def read_pod(self, pod: Pod) -> Mapping[str, Any] | None:
        self.reads.append(pod.name)
        await asyncio.sleep(0)
        if self.reads_fail:
            raise Unavailable("connection refused")
        body = self.objects["Pod"].get(f"{pod.namespace}/{pod.name}")
        return copy.deepcopy(body) if body is not None and body["metadata"]["uid"] == pod.uid else None

    async def keep_volume(self, volume: Volume, claim: Claim) -> None:
        reference = {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
        await self.write_volume("PersistentVolume", volume, lambda body: body["spec"].update(claimRef=reference))
        self.volume_writes.append((volume.name, claim.name))

    async def select_node(self, claim: Claim, node_name: str) -> None:
        selected = {"volume.kubernetes.io/selected-node": node_name}
        await self.write_volume(
            "PersistentVolumeClaim", claim, lambda body: body["metadata"].setdefault("annotations", {}).update(selected)
        )
        self.volume_writes.append((claim.name, node_name))

    async def write_volume(self, kind: str, record: Claim | Volume, edit: Callable[[Body], object]) -> None:
        await asyncio.sleep(0)
        if self.volume_writes_fail:
            raise NotWritten("connection reset")
        key = f"{record.namespace}/{record.name}" if isinstance(record, Claim) else record.name
        body = self.objects[kind].get(key)
        if body is None or body["metadata"]["resourceVersion"] != record.resource_version:
            raise NotWritten(f'Operation cannot be fulfilled on "{record.name}": the object has been modified')
        self.change(kind, key, edit)

    async def evict(self, victim: Pod, preemptor: Pod, go_on: Callable[[], bool]) -> bool:
        """Marks it and begins its end; a pod on a node stays until the test plays its kubelet (`finish`)."""
        await asyncio.sleep(0)
        if not go_on():
            raise NotEvicted("it has not to go any more")
        self.evictions.append(victim.name)
        fault = self.eviction_faults.get(victim.name)
        if isinstance(fault, Hang):
            await fault.released.wait()
        elif fault is not None:
            raise NotEvicted(fault)
        key = f"{victim.namespace}/{victim.name}"
        body = self.objects["Pod"].get(key)
        if body is None or body["metadata"]["uid"] != victim.uid:
            return False
        message = f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod"
        target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": message}

        def mark(body: Body) -> None:
            status = body.setdefault("status", {})
            others = [kept for kept in status.get("conditions", []) if kept["type"] != "DisruptionTarget"]
            status["conditions"] = [*others, target]

        self.change("Pod", key, mark)
        if not go_on():
            raise NotEvicted("it has not to go any more")
        if not body["spec"].get("nodeName"):
            self.delete("Pod", key)
        else:
            self.change("Pod", key, lambda body: body["metadata"].update(deletionTimestamp="2026-01-01T00:00:30Z"))
        return True

    def finish(self, name: str) -> None:
        """The kubelet has ended the pod of this name in the default namespace."""
        self.delete("Pod", f"default/{name}")

    def nominated(self, name: str) -> str:
        """The node that the pod of this name in the default namespace is nominated to."""
        return str(self.objects["Pod"][f"default/{name}"].get("status", {}).get("nominatedNodeName", ""))

    def nominate(self, pod: Pod, node_name: str, written: Callable[[str], None]) -> None:
        """Written at once, unless writes fail."""
        key = f"{pod.namespace}/{pod.name}"
        body = self.objects["Pod"].get(key)
        if self.nominations_fail or body is None or body["metadata"]["uid"] != pod.uid:
            return
        self.nominations.append((pod.name, node_name))
        name = {"nominatedNodeName": node_name} if node_name else {}

        def edit(body: Body) -> None:
            status = {field: value for field, value in body.get("status", {}).items() if field != "nominatedNodeName"}
            body["status"] = {**status, **name}

        written(self.change("Pod", key, edit)["metadata"]["resourceVersion"])

    def report_condition(self, pod: Pod, reason: str, message: str) -> None:
        """Written at once, so that its echo is among the reports that the scheduler has to bear."""
        self.conditions[pod.uid] = (reason, message)
        key = f"{pod.namespace}/{pod.name}"
        body = self.objects["Pod"].get(key)
        if body is None or body["metadata"]["uid"] != pod.uid:
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        others = [kept for kept in body.get("status", {}).get("conditions", []) if kept["type"] != "PodScheduled"]
        if body.get("status", {}).get("conditions") != [condition]:
            self.change("Pod", key, lambda body: body.setdefault("status", {}).update(conditions=[*others, condition]))

    def record_event(self, pod: Pod, event: PodEvent) -> None:
        self.events.append((pod.name, event))


def _key(body: Body) -> str:
    metadata = body["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])
