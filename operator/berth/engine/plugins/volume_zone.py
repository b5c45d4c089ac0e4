"""VolumeZone: a node must be in the zone and region in the labels of the pod's volumes.

pre-filter: every claim that the pod names must exist and be bound to a volume, or have WaitForFirstConsumer.
filter: if a node has zone or region labels at all, it must match the labels of each volume. A deprecated
failure-domain.beta.kubernetes.io label is compared with the topology.kubernetes.io one if the node has only that.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.plugin import Dependencies, FilterPlugin, PodsRead, Query
from berth.engine.plugins.common.hints import fits_there, has_storage
from berth.engine.state.migration import OLD_REGION, OLD_ZONE, REGION, ZONE, ZONE_DELIMITER
from berth.engine.state.node_table import NodeTable
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, SKIP, BoolColumn, Code, PreFilter, Rows, Verdicts, refuse_where
from berth.model import Claim, Node, Pod, Volume

REASON = "node(s) had no available volume zone"
REASON_NO_CLASS = "PersistentVolumeClaim had no pv name and storageClass name"
REASON_UNBOUND = "PersistentVolume had no name"
_LABELS = (OLD_ZONE, OLD_REGION, ZONE, REGION)
_SUCCESSORS = {OLD_ZONE: ZONE, OLD_REGION: REGION}

Place = tuple[str, frozenset[str]]
"""A label, and the values of it that a volume can be reached from."""


class VolumeZone(FilterPlugin):
    name = "VolumeZone"
    retry_events = frozenset({Event.NODE_ADDED, Event.NODE_LABELS, Event.CLAIM, Event.VOLUME, Event.STORAGE_CLASS})

    def __init__(self, args: Mapping[str, Any]) -> None:
        super().__init__(args)
        self.dependencies = Dependencies(node_local=True, pods=PodsRead.NONE, version=self._version)

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.volumes)

    def _version(self, query: Query, state: State) -> Hashable:
        return self._first_problem(query, state), self._places(query, state)

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        problem = self._first_problem(query, state)
        if problem is not None:
            return PreFilter(code=Code.UNRESOLVABLE, reasons=(problem,))
        return PROCEED if self._places(query, state) else SKIP

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        table = state.table
        somewhere = np.logical_or.reduce([table.label(key)[0] >= 0 for key in _LABELS])
        elsewhere = np.zeros(table.capacity, dtype=np.bool_)
        for key, values in self._places(query, state):
            elsewhere |= ~_is_at(table, key, values)
        return refuse_where((somewhere & elsewhere)[rows], Code.UNRESOLVABLE, REASON)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        pod, old, new = query.pod, change.old, change.new
        if isinstance(old, Node) and isinstance(new, Node):
            moved = any(old.labels.get(key) != new.labels.get(key) for key in _LABELS)
            return moved and fits_there(self, query, state, change)
        if isinstance(new, Node):
            return fits_there(self, query, state, change)
        return has_storage(pod, state, new or old)

    def _first_problem(self, query: Query, state: State) -> str | None:
        for volume in query.pod.volumes:
            if volume.source == "persistentVolumeClaim":
                problem = _problem(state.claim(query.pod.namespace, str(volume.claim)), str(volume.claim), state)
                if problem is not None:
                    return problem
        return None

    def _places(self, query: Query, state: State) -> tuple[Place, ...]:
        found: list[Place] = []
        for volume in query.pod.volumes:
            if volume.source == "persistentVolumeClaim":
                claim = state.claim(query.pod.namespace, str(volume.claim))
                bound = state.volume(claim.volume_name) if claim is not None else None
                found.extend(places_of(bound) if bound is not None else ())
        return tuple(dict.fromkeys(found))


def _problem(claim: Claim | None, name: str, state: State) -> str | None:
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if claim.volume_name:
        missing = state.volume(claim.volume_name) is None
        return f'persistentvolume "{claim.volume_name}" not found' if missing else None
    if not claim.storage_class:
        return REASON_NO_CLASS
    storage_class = state.storage_class(claim.storage_class)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    return None if storage_class.binding_mode == "WaitForFirstConsumer" else REASON_UNBOUND


def places_of(volume: Volume) -> Iterator[Place]:
    """Yields the labels that a node must have for the volume, each with the values that will do."""
    for key in _LABELS:
        if key in volume.labels:
            values = frozenset(part.strip() for part in volume.labels[key].split(ZONE_DELIMITER))
            if "" not in values:  # kube-scheduler ignores a label that it cannot parse
                yield key, values


def _is_at(table: NodeTable, key: str, values: frozenset[str]) -> BoolColumn:
    """Returns bool[all rows]: the nodes whose label has one of the values; the newer label's, if it lacks this one."""
    ids, vocabulary = table.label(key)
    wanted = np.zeros(len(vocabulary.ids) + 1, dtype=np.bool_)
    wanted[[vocabulary.ids[value] for value in values if value in vocabulary.ids]] = True
    if key not in _SUCCESSORS:
        return wanted[ids]
    return np.where(ids < 0, _is_at(table, _SUCCESSORS[key], values), wanted[ids])
