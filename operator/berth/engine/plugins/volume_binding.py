"""VolumeBinding: a pod goes where its bound volumes can be reached.

pre-filter: every claim of the pod must be there and Bound; until then the pod waits with the reason.
filter: the node must match the node affinity of each claim's volume.

Claims are not bound here: one that waits for its first consumer is refused in words, as nobody would bind it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from berth.engine.events import Event
from berth.engine.plugin import BadArgument, Plugin, Query
from berth.engine.selection import match_selector
from berth.engine.state import State
from berth.engine.verdict import PROCEED, SKIP, Code, PreFilter, Rows, Verdicts
from berth.model import Claim, Pod, PodVolume

REASON_NODE = "node(s) didn't match PersistentVolume's node affinity"
REASON_NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
REASON_UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
_REASONS = {1: REASON_NODE, 2: REASON_NO_VOLUME}
_DEFAULT_BIND_TIMEOUT_SECONDS = 600


class VolumeBinding(Plugin):
    name = "VolumeBinding"
    filters = True
    scores = True
    wakes_on = frozenset(
        {Event.NODE_ADDED, Event.NODE_LABELS, Event.CLAIM, Event.VOLUME, Event.STORAGE_CLASS, Event.CSI_NODE}
    )

    def __init__(self, args: Mapping[str, Any]) -> None:
        for field, value in args.items():
            if field != "bindTimeoutSeconds" or value != _DEFAULT_BIND_TIMEOUT_SECONDS:
                raise BadArgument(field, "VolumeBinding cannot be configured in this version; leave the argument out")

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        pod = query.pod
        wanted = [volume for volume in pod.volumes if volume.claim]
        if not wanted:
            return SKIP
        for volume in wanted:
            claim = state.claim(pod.namespace, str(volume.claim))
            problem = _broken(pod, volume, claim)
            if problem is not None:
                return PreFilter(code=Code.UNRESOLVABLE, reasons=(problem,))
        unbound = [claim for claim in self._claims(query, state) if not _is_bound(claim)]
        return _refuse_unbound(unbound, state) if unbound else PROCEED

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        table = state.table
        causes = np.zeros(table.capacity, dtype=np.int64)
        for claim in self._claims(query, state):
            volume = state.volume(claim.volume_name)
            if volume is None:
                causes[causes == 0] = 2
                break
            if volume.node_affinity is not None:
                causes[~match_selector(table, volume.node_affinity)] = 1
        codes = (causes[rows] > 0).astype(np.int8) * np.int8(Code.UNRESOLVABLE)
        return Verdicts(codes, causes[rows], lambda cause: (_REASONS[cause],))

    def pre_score(self, query: Query, state: State) -> bool:
        return False  # scores only volumes that are still to be bound

    def _claims(self, query: Query, state: State) -> Iterator[Claim]:
        for volume in query.pod.volumes:
            claim = state.claim(query.pod.namespace, volume.claim) if volume.claim else None
            if claim is not None:
                yield claim


def _is_bound(claim: Claim) -> bool:
    return claim.phase == "Bound" and bool(claim.volume_name)


def _broken(pod: Pod, volume: PodVolume, claim: Claim | None) -> str | None:
    if claim is None and volume.ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{volume.claim}"'
    if claim is None:
        return f'persistentvolumeclaim "{volume.claim}" not found'
    if claim.phase == "Lost":
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume_name}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    if volume.ephemeral and claim.controller_uid != pod.uid:
        return f"PVC {pod.namespace}/{claim.name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"
    return None


def _refuse_unbound(claims: list[Claim], state: State) -> PreFilter:
    for claim in claims:
        storage_class = state.storage_class(claim.storage_class or "")
        if storage_class is not None and storage_class.binding_mode == "WaitForFirstConsumer" and not claim.volume_name:
            reason = (
                f'persistentvolumeclaim "{claim.name}" is not Bound: its storage class {storage_class.name} waits for '
                "the first consumer, which this version of Berth cannot bind (plugin VolumeBinding)"
            )
            return PreFilter(code=Code.UNRESOLVABLE, reasons=(reason,), unsupported=True)
    return PreFilter(code=Code.UNRESOLVABLE, reasons=(REASON_UNBOUND,))
