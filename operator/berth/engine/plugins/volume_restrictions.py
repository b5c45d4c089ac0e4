"""VolumeRestrictions: a disk that cannot be shared has one pod per node, a ReadWriteOncePod claim one per cluster.

pre-filter: the claims that the pod names must exist.
filter: no pod on the node may use one of the pod's disks in a conflicting way. A GCE disk, iSCSI target or RBD image
may be shared by pods that all mount it read-only, an EBS disk by none; RBD images are the same if they share a
monitor. If a placed pod uses a claim with the access mode ReadWriteOncePod, the pod is rejected on every node.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.plugin import Dependencies, FilterPlugin, Query
from berth.engine.plugins.common.hints import fits_there, has_claim
from berth.engine.queueing.marks import CLAIM, DISK, Marks
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.state.volume_index import EXCLUSIVE
from berth.engine.verdict import PROCEED, SKIP, BoolColumn, Code, PreFilter, Rows, Verdicts
from berth.model import Node, Pod

REASON_DISK = "node(s) had no available disk"
REASON_CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_REASONS = {1: REASON_DISK, 2: REASON_CLAIM}


class VolumeRestrictions(FilterPlugin):
    name = "VolumeRestrictions"
    retry_events = frozenset({Event.NODE_ADDED, Event.NODE_REMOVED, Event.POD_REMOVED, Event.CLAIM})

    def __init__(self, args: Mapping[str, Any]) -> None:
        super().__init__(args)
        self.dependencies = Dependencies(node_local=True, version=self._version)

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.volumes)

    def _version(self, query: Query, state: State) -> Hashable:
        return _missing_claim(query.pod, state), self._claim_in_use(query, state)

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        missing = _missing_claim(query.pod, state)
        if missing is not None:
            return PreFilter(code=Code.UNRESOLVABLE, reasons=(f'persistentvolumeclaim "{missing}" not found',))
        has_disks = any(volume.source in EXCLUSIVE for volume in query.pod.volumes)
        return PROCEED if has_disks or self._claim_in_use(query, state) else SKIP

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        causes = np.full(state.table.capacity, 2 if self._claim_in_use(query, state) else 0, dtype=np.int64)
        for volume in query.pod.volumes:
            if volume.source in EXCLUSIVE:
                causes[state.volumes.rows_in_conflict(volume)] = 1
        asked = causes[rows]
        codes = (asked > 0).astype(np.int8) * np.int8(Code.UNSCHEDULABLE)
        return Verdicts(codes, asked, lambda cause: (_REASONS[cause],))

    def affected_by_nominated(self, query: Query, nominated: NominatedRows) -> BoolColumn:
        return nominated.with_volumes

    def hint(self, query: Query, state: State, change: Change) -> bool:
        pod, old, new = query.pod, change.old, change.new
        if isinstance(old, Pod):
            return bool(_shared(pod) & _shared(old))
        if isinstance(old, Node):  # pods on a removed node do not use their claims any more
            return bool(_named_claims(pod))
        if isinstance(new, Node):
            return fits_there(self, query, state, change)
        return has_claim(pod, new or old)

    def hint_marks(self, query: Query, state: State) -> Marks:
        disks = (volume.source for volume in query.pod.volumes if volume.source in EXCLUSIVE)
        marks = {*((DISK, source, "") for source in disks), *((CLAIM, name, "") for name in _named_claims(query.pod))}
        return Marks(frozenset({Event.POD_REMOVED, Event.CLAIM}), frozenset(marks))

    def _claim_in_use(self, query: Query, state: State) -> bool:
        """Whether placed pods use one of the pod's ReadWriteOncePod claims.

        Pods that are moved tentatively count as in kube-scheduler: a claim is in use once, however many pods use it,
        and each volume of a removed pod subtracts one use, by the name of its claim alone.
        """
        names = _exclusive_claims(query.pod, state)
        if not names:
            return False
        tried: Counter[tuple[str, str]] = Counter()
        for pod, _, sign in state.table.tried:
            for name in _named_claims(pod):
                tried[pod.namespace, name] += sign
        uses = sum(count for (_, name), count in tried.items() if name in names)
        for name in names:
            key = query.pod.namespace, name
            uses += sum(_named_claims(pod).count(name) for pod in state.volumes.users("/".join(key))) > tried[key]
        return uses > 0


def _shared(pod: Pod) -> set[str]:
    """Returns what the pod may have to share: kinds of disks, and claims by name (as tentatively moved pods count)."""
    disks = (f"disk {volume.source}" for volume in pod.volumes if volume.source in EXCLUSIVE)
    return {*disks, *_named_claims(pod)}


def _named_claims(pod: Pod) -> list[str]:
    """Returns the claims that the pod names, once for each volume; without those of ephemeral volumes."""
    return [str(volume.claim) for volume in pod.volumes if volume.source == "persistentVolumeClaim"]


def _missing_claim(pod: Pod, state: State) -> str | None:
    return next((name for name in _named_claims(pod) if state.claim(pod.namespace, name) is None), None)


def _exclusive_claims(pod: Pod, state: State) -> set[str]:
    claims = ((name, state.claim(pod.namespace, name)) for name in _named_claims(pod))
    return {name for name, claim in claims if claim is not None and "ReadWriteOncePod" in claim.access_modes}
