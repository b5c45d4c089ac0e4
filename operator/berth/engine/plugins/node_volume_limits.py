"""NodeVolumeLimits: a node can have no more volumes of a CSI driver than its CSINode allows.

filter: for each driver of the pod's volumes, the distinct volumes on the node and those that the pod adds must stay
within the limit. Volumes of migrated in-tree plugins count for their CSI driver; an unbound claim counts as one volume
of its class's driver. A node without a CSINode, or whose CSINode has no limit, is accepted.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.plugin import Dependencies, FilterPlugin, Query
from berth.engine.plugins.common.hints import fits_there, has_storage, in_use
from berth.engine.state.csi_nodes import NO_LIMIT
from berth.engine.state.migration import MIGRATABLE, Untranslatable
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.state.volume_index import NotItsOwn
from berth.engine.verdict import PROCEED, SKIP, BoolColumn, Code, PreFilter, Rows, Verdicts
from berth.model import Pod, PodVolume

REASON = "node(s) exceed max volume count"
_FAILED = 'running "NodeVolumeLimits" filter plugin: '
_FULL = 1
_FIRST_FAILURE = 2  # causes from here on are indexes of failures


class NodeVolumeLimits(FilterPlugin):
    name = "NodeVolumeLimits"
    retry_events = frozenset(
        {
            Event.NODE_ADDED,
            Event.POD_REMOVED,
            Event.CLAIM,
            Event.VOLUME,
            Event.STORAGE_CLASS,
            Event.CSI_NODE,
        }
    )

    def __init__(self, args: Mapping[str, Any]) -> None:
        super().__init__(args)
        # Not node_local, although only the node matters: a node that is too full may reject when a pod leaves.
        self.dependencies = Dependencies(version=self._version)

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.volumes)

    def _version(self, query: Query, state: State) -> Hashable:
        wanted, failures = self._wanted(query, state)
        return frozenset(wanted), tuple(failures), state.revision("CSINode"), state.volumes.version

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED if any(map(_may_count, query.pod.volumes)) else SKIP

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        codes = np.zeros(state.table.capacity, dtype=np.int8)
        causes = np.zeros(state.table.capacity, dtype=np.int64)
        wanted, failures = self._wanted(query, state)
        texts = [text for text, _, _ in failures]
        for number, (_, code, everywhere) in enumerate(failures):
            failed = (codes == 0) & (everywhere or state.volumes.csi_nodes.known())
            codes[failed], causes[failed] = code, _FIRST_FAILURE + number
        if wanted:
            full = self._is_full(wanted, state) & (codes == 0)
            codes[full], causes[full] = Code.UNSCHEDULABLE, _FULL
            limited = state.volumes.csi_nodes.limited()
            for row, why in state.volumes.failures():
                if limited[row] and codes[row] in (0, Code.UNSCHEDULABLE):
                    codes[row], causes[row] = Code.ERROR, _FIRST_FAILURE + len(texts)
                    texts.append(f"{_FAILED}{why}")
        return Verdicts(
            codes[rows], causes[rows], lambda cause: (REASON if cause == _FULL else texts[cause - _FIRST_FAILURE],)
        )

    def affected_by_nominated(self, query: Query, nominated: NominatedRows) -> BoolColumn:
        return nominated.with_volumes

    def hint(self, query: Query, state: State, change: Change) -> bool:
        gone, changed = change.old, change.new or change.old
        if not change.node:
            return has_storage(query.pod, state, changed) or in_use(state, changed)
        return (not isinstance(gone, Pod) or bool(gone.volumes)) and fits_there(self, query, state, change)

    def _wanted(self, query: Query, state: State) -> tuple[set[tuple[str, str]], list[tuple[str, Code, bool]]]:
        """Returns the pod's CSI volumes by driver and handle, and failures to resolve them: (text, code, everywhere).

        A failure of an inline disk applies only to nodes with a CSINode.
        """
        pod, wanted, failures = query.pod, set(), []
        for volume in pod.volumes:
            if volume.claim is not None and state.claim(pod.namespace, volume.claim) is None:
                missing = f'persistentvolumeclaim "{volume.claim}" not found'
                failures.append((f"looking up PVC {pod.namespace}/{volume.claim}: {missing}", Code.UNRESOLVABLE, True))
                continue
            try:
                attachment = state.volumes.attachment(pod, volume)
            except (NotItsOwn, Untranslatable) as error:
                failures.append((f"{_FAILED}{error}", Code.ERROR, isinstance(error, NotItsOwn)))
                continue
            if attachment is not None:
                wanted.add(attachment)
        return wanted, failures

    def _is_full(self, wanted: set[tuple[str, str]], state: State) -> BoolColumn:
        """Returns bool[all rows]: the nodes where the volumes exceed the limit of their driver."""
        full = np.zeros(state.table.capacity, dtype=np.bool_)
        for driver in {driver for driver, _ in wanted}:
            limit = state.volumes.csi_nodes.limit(driver)
            handles = [handle for of, handle in wanted if of == driver]
            added = np.full(state.table.capacity, len(handles), dtype=np.int64)
            for handle in handles:
                added[state.volumes.rows_attached(driver, handle)] -= 1
            full |= (limit != NO_LIMIT) & (added > 0) & (state.volumes.attached(driver) + added > limit)
        return full


def _may_count(volume: PodVolume) -> bool:
    return volume.claim is not None or volume.source in MIGRATABLE
