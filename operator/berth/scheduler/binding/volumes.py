"""Volume binding before the pod is bound: bind chosen volumes, have others provisioned, wait until all are bound.

    reserved --> written: claimRef of volumes, selected node of claims --> waiting --- all bound --------> released
        |           |                                                         |--- failed, or timed out: NotBound
        |           +--- rejected, or outcome unknown: NotBound
        +---------------------------- the pod does not get the node: released

Volumes are reserved in the same step as the decision, so that no later decision uses the same volume
(`VolumeReservations`). The reservation ends with the wait: by then the API objects show what was reserved. As in
kube-scheduler, nothing that was written is undone: the next attempt finds the claimRef and the selected node, unless a
provisioner that failed has removed the latter.

If another client has used a volume or claim since the decision, it keeps it: a volume with another claimRef, a claim
with another volume or another selected node. The attempt has failed then.

The state of volumes and claims comes through the watch: an event of the node, or of one of the claims and volumes,
makes a wait check again. When volumes are bound within the binding cycle, and what happens to the pod, is decided by
`BindingCycle`.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from berth.engine.events import Event
from berth.engine.plugin import Plugin
from berth.engine.plugins.volume_binding import VolumeBinding, is_bound, is_reached
from berth.engine.state.volume_reservations import SELECTED_NODE, VolumePlan
from berth.model import Claim, ClaimReference, Node, Pod, Volume
from berth.scheduler.cache.cache import Cache
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.ports import Clock, Cluster, NotWritten
from berth.scheduler.queue.queue import Queue
from berth.scheduler.waiting import wait_for_signal

RELEASED: Final = frozenset({Event.VOLUME, Event.CLAIM})


class NotBound(Exception):
    """The volumes are not bound, and waiting longer does not help; the message is for users."""


Subject = tuple[str, str]
"""Kind and key of an object that a wait depends on."""


@dataclass(slots=True, eq=False)
class _Wait:
    """A pod whose volumes are being bound; `written` holds the object versions that our writes replaced."""

    uid: str
    plan: VolumePlan
    seconds: float
    signal: asyncio.Event = field(default_factory=asyncio.Event)
    written: set[str] = field(default_factory=set)

    def subjects(self) -> Iterator[Subject]:
        """The objects whose events may end the wait."""
        yield "Node", self.plan.node
        for claim in (*(claim for claim, _ in self.plan.bindings), *self.plan.provisions):
            yield "PersistentVolumeClaim", f"{claim.namespace}/{claim.name}"
        for _, volume in self.plan.bindings:
            yield "PersistentVolume", volume.name


class VolumeBinder:
    """The assumed pods whose volumes are not bound yet, by UID."""

    def __init__(self, *, cache: Cache, queue: Queue, cluster: Cluster, clock: Clock) -> None:
        self._state = cache.state
        self._queue = queue
        self._cluster = cluster
        self._clock = clock
        self._waits: dict[str, _Wait] = {}
        self._interested: dict[Subject, dict[str, _Wait]] = {}  # by UID of the pod, in the order of the decisions
        self.outcomes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waits)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waits

    def claims_of(self, uid: str) -> tuple[str, ...]:
        """The names of the claims whose volumes the pod waits for."""
        wait = self._waits.get(uid)
        if wait is None:
            return ()
        return tuple(claim.name for claim in (*(claim for claim, _ in wait.plan.bindings), *wait.plan.provisions))

    def reserve(self, pod: Pod, plan: VolumePlan, seconds: float) -> None:
        """Reserve the volumes of an assumed pod until `release`; it may wait this many seconds for them."""
        wait = _Wait(pod.uid, plan, seconds)
        self._state.volumes.reservations.reserve(wait.uid, plan)
        self._waits[wait.uid] = wait
        for subject in wait.subjects():
            self._interested.setdefault(subject, {})[wait.uid] = wait

    async def bind(self, uid: str) -> None:
        """Bind all that is reserved for the pod, then release it; raises NotBound."""
        wait = self._waits.get(uid)
        if wait is None:
            return
        try:
            await self._write(wait)
            await self._wait_bound(wait)
        except NotWritten as error:
            raise NotBound(str(error)) from error
        self.release(uid, "bound")

    def release(self, uid: str, outcome: str, *, seen: bool = True) -> None:
        """End the reservation of the pod: its volumes are bound, or it does not get the node. Only the first call
        counts.

        Volumes that were not bound may help other pods, so an event is sent; not if no other decision has `seen` the
        reservation.
        """
        wait = self._waits.pop(uid, None)
        if wait is None:
            return
        for subject in set(wait.subjects()):
            self._interested[subject].pop(uid, None)
            if not self._interested[subject]:
                del self._interested[subject]
        self._state.volumes.reservations.release(uid)
        self.outcomes[outcome] += 1
        if outcome != "bound" and seen:
            self._queue.wake(RELEASED)

    def on_event(self, event: ObjectEvent) -> None:
        """Have the waits for this object check again."""
        for subject in _subjects(event) if self._waits else ():
            for wait in self._interested.get(subject, {}).values():
                wait.signal.set()

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _write(self, wait: _Wait) -> None:
        for planned, volume in wait.plan.bindings:
            claim, kept = self._claim(planned, "binding volumes"), self._state.volume(volume.name)
            if kept is None:
                raise NotBound(f'persistentvolume "{volume.name}" not found')
            if kept.deleting:
                raise NotBound(f'persistentvolume "{volume.name}" is being deleted')
            _check_still_ours(claim, kept)
            if kept.claim_ref is None or not kept.claim_ref.uid:
                await self._cluster.keep_volume(kept, claim)
                wait.written.add(_version(kept))
        for planned in wait.plan.provisions:
            claim = self._claim(planned, "binding volumes")
            selected = claim.annotations.get(SELECTED_NODE, wait.plan.node)
            if selected != wait.plan.node:
                raise NotBound(f'persistentvolumeclaim "{claim.name}" has been given node "{selected}"')
            if SELECTED_NODE not in claim.annotations:
                await self._cluster.select_node(claim, wait.plan.node)
                wait.written.add(_version(claim))

    # --- waiting -----------------------------------------------------------------------------------------------------

    async def _wait_bound(self, wait: _Wait) -> None:
        deadline = self._clock.now() + wait.seconds
        while (missing := self._missing(wait)) is not None:
            left_seconds = deadline - self._clock.now()
            if left_seconds <= 0:
                raise NotBound(f"binding volumes: timed out after {wait.seconds:g} s: {missing}")
            wait.signal.clear()
            await wait_for_signal(wait.signal, self._clock, left_seconds)

    def _missing(self, wait: _Wait) -> str | None:
        """What is not bound yet, None if everything is bound; raises NotBound."""
        node = self._state.table.node(wait.plan.node)
        if node is None:
            raise NotBound(f'binding volumes: node "{wait.plan.node}" not found')
        for planned, volume in wait.plan.bindings:
            if not self._is_kept(wait, node, planned, volume):
                return f'persistentvolumeclaim "{planned.name}" is not bound to persistentvolume "{volume.name}"'
        for planned in wait.plan.provisions:
            if not self._is_made(wait, node, planned):
                return f'persistentvolumeclaim "{planned.name}" has no volume yet'
        return None

    def _is_kept(self, wait: _Wait, node: Node, planned: Claim, volume: Volume) -> bool:
        kept = self._state.volume(volume.name)
        if kept is None:
            raise NotBound(f'binding volumes: failed to check binding: persistentvolume "{volume.name}" not found')
        claim = self._claim(planned, "binding volumes: failed to check binding")
        if _version(kept) in wait.written:
            return False
        self._check_reach(kept, node)
        if kept.claim_ref is None or not kept.claim_ref.uid:
            raise NotBound(f'binding volumes: ClaimRef got reset for pv "{kept.name}"')
        _check_still_ours(claim, kept)
        return is_bound(claim)

    def _is_made(self, wait: _Wait, node: Node, planned: Claim) -> bool:
        claim = self._claim(planned, "binding volumes: failed to check provisioning pvc")
        if _version(claim) in wait.written:
            return False
        if claim.annotations.get(SELECTED_NODE) != node.name:
            raise NotBound(f'binding volumes: provisioning failed for PVC "{claim.name}"')
        made = self._state.volume(claim.volume_name)
        if made is not None:
            self._check_reach(made, node)
        return made is not None and is_bound(claim)

    def _claim(self, planned: Claim, doing: str) -> Claim:
        claim = self._state.claim(planned.namespace, planned.name)
        if claim is None or claim.uid != planned.uid:
            raise NotBound(f'{doing}: persistentvolumeclaim "{planned.name}" not found')
        return claim

    def _check_reach(self, volume: Volume, node: Node) -> None:
        if not is_reached(volume, node, self._state):
            raise NotBound(f'binding volumes: pv "{volume.name}" node affinity doesn\'t match node "{node.name}"')


def _check_still_ours(claim: Claim, volume: Volume) -> None:
    """Raises NotBound if the volume or the claim is bound to a third object."""
    kept_for = volume.claim_ref or ClaimReference(claim.namespace, claim.name, claim.uid)
    same_name = (kept_for.namespace, kept_for.name) == (claim.namespace, claim.name)
    if not same_name or kept_for.uid not in ("", claim.uid):
        raise NotBound(f'persistentvolume "{volume.name}" is kept for another claim')
    if claim.volume_name not in ("", volume.name):
        raise NotBound(f'persistentvolumeclaim "{claim.name}" has another volume, "{claim.volume_name}"')


def _subjects(event: ObjectEvent) -> Iterator[Subject]:
    """The object that an event is about; for a volume also the claim in its claimRef."""
    yield event.kind, event.identity.key
    reference = (event.body.get("spec") or {}).get("claimRef") if event.kind == "PersistentVolume" else None
    if reference:
        yield "PersistentVolumeClaim", _key(reference)


def _key(names: Mapping[str, Any]) -> str:
    return f"{names['namespace']}/{names.get('name')}" if names.get("namespace") else str(names.get("name"))


def _version(record: Claim | Volume) -> str:
    return f"{record.uid} {record.resource_version}"


def volume_plan(pod: Pod, node_name: str, filters: Sequence[Plugin], cache: Cache) -> tuple[VolumePlan, float] | None:
    """How the pod gets its volumes on the node, and the timeout; None if there is nothing to bind."""
    for plugin in filters if pod.volumes else ():
        if isinstance(plugin, VolumeBinding):
            plan = plugin.plan(pod, cache.state, node_name)
            return None if plan is None else (plan, plugin.bind_timeout_seconds)
    return None
