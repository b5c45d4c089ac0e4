"""VolumeBinding: a pod fits on a node if its bound volumes can be used there, and its unbound claims can get volumes.

pre-filter: every claim of the pod must exist and be valid; a claim whose class binds immediately must be bound.
filter: the node must match the node affinity of each bound claim's volume. Unbound claims with WaitForFirstConsumer,
the smallest first, each get the smallest available volume that satisfies them and can be used on the node. If there is
none, the class must be able to provision one there: by its provisioner, its allowedTopologies, and the
CSIStorageCapacity of its driver.
score: nothing, as the feature gate StorageCapacityScoring is off by default.

Arguments: bindTimeoutSeconds (600; how long a pod waits for its volumes to be bound); shape belongs to the gate.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.plugin import BadArgument, Dependencies, FilterPlugin, PodsRead, Query, ScorePlugin, refuse_unknown
from berth.engine.plugins.common.hints import fits_there, has_claim, has_class, has_volume
from berth.engine.plugins.common.volume_matching import Match, match_claims, reaches
from berth.engine.queueing.marks import CLAIM, Marks
from berth.engine.state.free_volumes import reach
from berth.engine.state.migration import MIGRATED, Untranslatable, translated_affinity
from berth.engine.state.node_selection import match_term
from berth.engine.state.state import State
from berth.engine.state.volume_index import foreign_claim
from berth.engine.state.volume_reservations import SELECTED_NODE, VolumePlan
from berth.engine.verdict import PROCEED, SKIP, BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts
from berth.model import Claim, CSIDriver, CSINode, CSIStorageCapacity, Node, Pod, PodVolume, Volume

REASON_NODE = "node(s) didn't match PersistentVolume's node affinity"
REASON_NO_MATCH = "node(s) didn't find available persistent volumes to bind"
REASON_NO_SPACE = "node(s) did not have enough free storage"
REASON_NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
REASON_UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

_NODE, _NO_MATCH, _NO_SPACE, _NO_VOLUME = 1, 2, 4, 8  # bits of a cause
_REASONS = {_NODE: REASON_NODE, _NO_MATCH: REASON_NO_MATCH, _NO_SPACE: REASON_NO_SPACE, _NO_VOLUME: REASON_NO_VOLUME}
_FIRST_FAILURE = 16  # causes from here on are indexes of failures
_OF_NODES = (Event.NODE_ADDED, Event.NODE_LABELS, Event.CSI_NODE)
_STORAGE = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity")


@dataclass(slots=True)
class _Findings:
    """The problems on each row: `causes` int64[rows], 0 if there are none.

    `selected` are unbound claims that have a selected node; `match` is what the other unbound claims would get.
    """

    causes: Int64Column
    failures: list[str] = field(default_factory=list)
    selected: Sequence[Claim] = ()
    match: Match | None = None

    def fail(self, rows: BoolColumn, why: str) -> None:
        self.causes[rows & (self.causes < _FIRST_FAILURE)] = _FIRST_FAILURE + len(self.failures)
        self.failures.append(why)

    def describe(self, cause: int) -> tuple[str, ...]:
        if cause >= _FIRST_FAILURE:
            return (self.failures[cause - _FIRST_FAILURE],)
        return tuple(reason for bit, reason in _REASONS.items() if cause & bit)


class VolumeBinding(FilterPlugin, ScorePlugin):
    name = "VolumeBinding"
    retry_events = frozenset(
        {
            Event.NODE_ADDED,
            Event.NODE_LABELS,
            Event.CLAIM,
            Event.VOLUME,
            Event.STORAGE_CLASS,
            Event.CSI_NODE,
            Event.CSI_DRIVER,
            Event.CSI_CAPACITY,
        }
    )

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "bindTimeoutSeconds", "shape")
        seconds = args.get("bindTimeoutSeconds", 600)
        if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 0:
            raise BadArgument("bindTimeoutSeconds", "must be a number of seconds, 0 or more")
        if args.get("shape") is not None:
            raise BadArgument("shape", "belongs to the feature gate StorageCapacityScoring, which is off: remove it")
        self.bind_timeout_seconds: int = seconds
        self.dependencies = Dependencies(node_local=True, pods=PodsRead.NONE, version=self._version)

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.volumes)

    def _version(self, query: Query, state: State) -> Hashable:
        claims = tuple(_claims(query.pod, state))
        if not all(map(is_bound, claims)):
            return (*map(state.revision, _STORAGE), state.volumes.reservations.version)
        volumes = tuple(state.volume(claim.volume_name) for claim in claims)
        in_tree = any(volume is not None and volume.source in MIGRATED for volume in volumes)
        return claims, volumes, state.revision("CSINode") if in_tree else 0

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        pod = query.pod
        wanted = [volume for volume in pod.volumes if volume.claim]
        if not wanted:
            return SKIP
        for volume in wanted:
            problem = _broken(pod, volume, state.claim(pod.namespace, str(volume.claim)))
            if problem is not None:
                return PreFilter(code=Code.UNRESOLVABLE, reasons=(problem,))
        if any(not is_bound(claim) and not _is_delayed(claim, state) for claim in _claims(pod, state)):
            return PreFilter(code=Code.UNRESOLVABLE, reasons=(REASON_UNBOUND,))
        return PROCEED

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        findings = self._findings(query, state)
        causes = findings.causes[rows]
        codes = (causes > 0).astype(np.int8) * np.int8(Code.UNRESOLVABLE)
        codes[causes >= _FIRST_FAILURE] = Code.ERROR
        return Verdicts(codes, causes, findings.describe)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        pod, old, changed = query.pod, change.old, change.new or change.old
        unbound = [claim for claim in _claims(pod, state) if not is_bound(claim)]
        classes = {claim.storage_class or "" for claim in unbound}
        match changed:
            case Node() | CSINode():  # to find what an unbound claim would get there costs as much as an attempt
                return bool(unbound) or fits_there(self, query, state, change)
            case Volume():
                of_class = any(isinstance(v, Volume) and v.storage_class in classes for v in (old, changed))
                return of_class or has_volume(pod, state, changed)
            case CSIDriver():
                found = (state.storage_class(name) for name in classes)
                return any(known is not None and known.provisioner == changed.name for known in found)
            case CSIStorageCapacity():
                return change.new is not None and changed.storage_class in classes
            case _:
                return has_claim(pod, changed) or has_class(pod, state, changed)

    def hint_marks(self, query: Query, state: State) -> Marks:
        """No node can fix a problem of the pod's claims themselves: only events of the claims have marks then."""
        screened = self.pre_filter(query, state).code is not Code.FITS
        events = frozenset({Event.CLAIM, *(_OF_NODES if screened else ())})
        return Marks(events, frozenset((CLAIM, v.claim, "") for v in query.pod.volumes if v.claim))

    def pre_score(self, query: Query, state: State) -> bool:
        return False

    def plan(self, pod: Pod, state: State, node: str) -> VolumePlan | None:
        """Returns how the pod's unbound claims get volumes on a node that it fits on; None if all are bound."""
        findings, row = self._findings(Query(pod, state.table), state), state.table.row(node)
        if findings.match is None or row is None:
            return None
        bindings, provisions = findings.match.on(row)
        return VolumePlan(node, bindings, (*findings.selected, *provisions))

    def _findings(self, query: Query, state: State) -> _Findings:
        findings: _Findings | None = query.memo.get(self.name)
        if findings is None:
            findings = query.memo[self.name] = _Findings(np.zeros(state.table.capacity, dtype=np.int64))
            claims = list(_claims(query.pod, state))
            _check_bound([claim for claim in claims if is_bound(claim)], state, findings)
            unbound = [claim for claim in claims if not is_bound(claim)]
            if unbound:
                _check_unbound(unbound, state, findings)
        return findings


def is_bound(claim: Claim) -> bool:
    return bool(claim.volume_name) and BIND_COMPLETED in claim.annotations


def is_reached(volume: Volume, node: Node, state: State) -> bool:
    """Whether the volume, which may be an in-tree one that is migrated to CSI there, can be used on the node."""
    affinity = volume.node_affinity
    csi_node = state.objects["CSINode"].get(node.name)
    if volume.source in MIGRATED and csi_node and MIGRATED[volume.source].plugin in csi_node.migrated_plugins:
        try:
            affinity = translated_affinity(volume)
        except Untranslatable:
            return False
    return reaches(affinity, node.labels)


def _claims(pod: Pod, state: State) -> Iterator[Claim]:
    for volume in pod.volumes:
        claim = state.volumes.reservations.claim(pod.namespace, volume.claim) if volume.claim else None
        if claim is not None:
            yield claim


def _broken(pod: Pod, volume: PodVolume, claim: Claim | None) -> str | None:
    if claim is None and volume.ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{volume.claim}"'
    if claim is None:
        return f'persistentvolumeclaim "{volume.claim}" not found'
    if claim.phase == "Lost":
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume_name}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    return foreign_claim(pod, claim) if volume.ephemeral and claim.controller_uid != pod.uid else None


def _is_delayed(claim: Claim, state: State) -> bool:
    """Whether the claim has WaitForFirstConsumer; one that already names a volume is bound by the volume controller."""
    storage_class = state.storage_class(claim.storage_class) if claim.storage_class else None
    return storage_class is not None and storage_class.binding_mode == "WaitForFirstConsumer" and not claim.volume_name


# --- bound claims ----------------------------------------------------------------------------------------------------


def _check_bound(claims: Sequence[Claim], state: State, findings: _Findings) -> None:
    """Notes on each row the first claim whose volume cannot be used there."""
    undecided = np.ones(state.table.capacity, dtype=np.bool_)
    for claim in claims:
        volume = state.volume(claim.volume_name)
        if volume is None:
            findings.causes[undecided] |= _NO_VOLUME
            return
        for where, affinity in _affinities(volume, state):
            if isinstance(affinity, Untranslatable):
                refused = where & undecided
                findings.fail(refused, f'running "VolumeBinding" filter plugin: could not translate pv: {affinity}')
            else:
                refused = where & undecided & ~reach(state.table, affinity)
                findings.causes[refused] |= _NODE
            undecided &= ~refused


def _affinities(volume: Volume, state: State) -> Iterator[tuple[BoolColumn, Any]]:
    """Yields (rows, affinity): the volume's own, and the translated one on nodes where its plugin is migrated."""
    everywhere = np.ones(state.table.capacity, dtype=np.bool_)
    if volume.source not in MIGRATED:
        yield everywhere, volume.node_affinity
        return
    taken_over = state.volumes.csi_nodes.migrated(MIGRATED[volume.source].plugin)
    yield ~taken_over, volume.node_affinity
    try:
        yield taken_over, translated_affinity(volume)
    except Untranslatable as error:
        yield taken_over, error


# --- unbound claims --------------------------------------------------------------------------------------------------


def _check_unbound(claims: Sequence[Claim], state: State, findings: _Findings) -> None:
    """Notes on each row the first claim that cannot get a volume: those with a selected node first, then by size."""
    findings.selected = [claim for claim in claims if SELECTED_NODE in claim.annotations]
    findings.match = match_claims([claim for claim in claims if SELECTED_NODE not in claim.annotations], state)
    causes = np.zeros(state.table.capacity, dtype=np.int64)
    for claim in findings.selected:
        causes[_elsewhere(claim, state)] = _NO_MATCH
    everywhere = np.ones(state.table.capacity, dtype=np.bool_)
    to_provision = chain(((claim, everywhere) for claim in findings.selected), findings.match.missing())
    for claim, needed in to_provision:
        undecided = needed & (causes == 0)
        if undecided.any():
            causes = np.where(undecided, _obstacles(claim, state), causes)
    healthy = findings.causes < _FIRST_FAILURE
    findings.causes[healthy] |= causes[healthy]


def _elsewhere(claim: Claim, state: State) -> BoolColumn:
    elsewhere = np.ones(state.table.capacity, dtype=np.bool_)
    row = state.table.row(claim.annotations[SELECTED_NODE])
    if row is not None:
        elsewhere[row] = False
    return elsewhere


def _obstacles(claim: Claim, state: State) -> Int64Column:
    """Returns int64[rows]: the causes for which the claim's class cannot provision a volume there."""
    table = state.table
    storage_class = state.storage_class(claim.storage_class or "")
    if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
        return np.full(table.capacity, _NO_MATCH, dtype=np.int64)
    causes = np.zeros(table.capacity, dtype=np.int64)
    driver = state.objects["CSIDriver"].get(storage_class.provisioner)
    if driver is not None and driver.storage_capacity and claim.requested_bytes:
        causes[state.volumes.space.largest(storage_class.name) < claim.requested_bytes] = _NO_SPACE
    if storage_class.allowed_topologies:
        allowed = [match_term(table, term) for term in storage_class.allowed_topologies]
        causes[~np.logical_or.reduce(allowed)] = _NO_MATCH
    return causes
