"""MaxEBSVolumeCount, MaxGCEPDVolumeCount, MaxAzureDiskVolumeCount, MaxCinderVolumeCount: limits of disks per node.

They count distinct disks of one kind, inline ones and those of claims; an unbound claim counts if its storage class
provisions such disks. A node is rejected if the disks on it and those that the pod adds exceed its limit:

    1. the node's allocatable resource attachable-volumes-<kind>
    2. else `maxVolumes`
    3. else EBS 39 (25 on instance types c5, m5, r5, t3 and z1d), GCE PD 16, Azure Disk 16, Cinder 256

A pod without such a disk fits on a node that has too many. CSI migration is ignored: a migrated disk counts here, and
in NodeVolumeLimits, too.

Arguments: maxVolumes (a whole number from 1), where Kubernetes had the environment variable KUBE_MAX_PD_VOLS.
"""

import re
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.plugin import Dependencies, FilterPlugin, Query, refuse_unknown
from berth.engine.plugins.common.allocation import require_integer
from berth.engine.plugins.common.hints import fits_there, has_storage, in_use
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, SKIP, BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts, refuse_where
from berth.model import Node, Pod

REASON = "node(s) exceed max volume count"
INSTANCE_TYPES = ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type")
_NITRO = re.compile("^[cmr]5.*|t3|z1d")


class _MaxVolumeCount(FilterPlugin):
    source: ClassVar[str]  # of the disk, as the API calls it
    limit_resource: ClassVar[str]
    default_limit: ClassVar[int]
    retry_events = frozenset(
        {
            Event.NODE_ADDED,
            Event.NODE_ALLOCATABLE,
            Event.POD_REMOVED,
            Event.CLAIM,
            Event.VOLUME,
            Event.STORAGE_CLASS,
        }
    )

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "maxVolumes")
        given = args.get("maxVolumes")
        self._limit = None if given is None else require_integer(given, "maxVolumes", 1, 2**31 - 1)
        self.dependencies = Dependencies(node_local=True, version=self._version, rows_with_pods=self._rows_with_disks)

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.volumes)

    def _version(self, query: Query, state: State) -> Hashable:
        return state.volumes.version, self._wanted(query, state)

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED if self._wanted(query, state) else SKIP

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        wanted = self._wanted(query, state)
        total = state.volumes.disks(self.source) + len(wanted)
        for disk in wanted:
            total[state.volumes.rows_with_disk(self.source, disk)] -= 1
        return refuse_where(total[rows] > self._limits(state)[rows], Code.UNSCHEDULABLE, REASON)

    def affected_by_nominated(self, query: Query, nominated: NominatedRows) -> BoolColumn:
        return nominated.with_volumes

    def hint(self, query: Query, state: State, change: Change) -> bool:
        gone, changed = change.old, change.new or change.old
        if not change.node:
            return has_storage(query.pod, state, changed) or in_use(state, changed)
        return (not isinstance(gone, Pod) or bool(gone.volumes)) and fits_there(self, query, state, change)

    def _rows_with_disks(self, query: Query, state: State) -> BoolColumn:
        return state.volumes.disks(self.source) > 0

    def _wanted(self, query: Query, state: State) -> frozenset[str]:
        return frozenset(name for source, name in state.volumes.disks_of(query.pod) if source == self.source)

    def _limits(self, state: State) -> Int64Column:
        """int64[all rows]: how many disks each node can hold."""
        fact = state.table.fact(f"limit {self.limit_resource}", self._read_limit)
        fallback = self.default_limit if self._limit is None else self._limit
        limits = [self._limit_of(value, fallback) for value in fact.values]
        return np.array(limits, dtype=np.int64)[fact.ids]

    @classmethod
    def _read_limit(cls, node: Node) -> int | str | None:
        """Returns the limit that the node reports, or else its instance type, if the limit depends on it."""
        return node.allocatable.get(cls.limit_resource)

    def _limit_of(self, value: Hashable, fallback: int) -> int:
        return value if isinstance(value, int) else fallback


class MaxEBSVolumeCount(_MaxVolumeCount):
    name = "MaxEBSVolumeCount"
    source = "awsElasticBlockStore"
    limit_resource = "attachable-volumes-aws-ebs"
    default_limit = 39
    nitro_limit: ClassVar[int] = 25
    retry_events = _MaxVolumeCount.retry_events | {Event.NODE_LABELS}

    @classmethod
    def _read_limit(cls, node: Node) -> int | str | None:
        own = super()._read_limit(node)
        named = (node.labels[key] for key in INSTANCE_TYPES if key in node.labels)
        return next(named, None) if own is None else own

    def _limit_of(self, value: Hashable, fallback: int) -> int:
        if isinstance(value, str) and self._limit is None and _NITRO.search(value):
            return self.nitro_limit
        return super()._limit_of(value, fallback)


class MaxGCEPDVolumeCount(_MaxVolumeCount):
    name = "MaxGCEPDVolumeCount"
    source = "gcePersistentDisk"
    limit_resource = "attachable-volumes-gce-pd"
    default_limit = 16


class MaxAzureDiskVolumeCount(_MaxVolumeCount):
    name = "MaxAzureDiskVolumeCount"
    source = "azureDisk"
    limit_resource = "attachable-volumes-azure-disk"
    default_limit = 16


class MaxCinderVolumeCount(_MaxVolumeCount):
    name = "MaxCinderVolumeCount"
    source = "cinder"
    limit_resource = "attachable-volumes-cinder"
    default_limit = 256
