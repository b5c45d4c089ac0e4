"""VolumeIndex: the volumes that placed pods use on each row, and the storage that is available.

A placed pod is indexed (a booking) by what its volumes resolve to: CSI volumes by driver and handle, in-tree disks by
source and name, disks that only one pod may write to, and claims. A booking is made again when an object that it was
made from changes. Decisions only look up; they never walk over nodes or pods here.

    attached(driver)              int64[rows]    distinct CSI volumes of the driver on the row
    rows_attached(driver, handle) intp[k]        the rows that hold this one
    disks(source)                 int64[rows]    distinct in-tree disks on the row, inline or through claim and volume;
                                                 `source` is the API's name: awsElasticBlockStore, azureDisk, ...
    rows_with_disk(source, name)  intp[k]        the rows that hold this one
    disks_of(pod)                 (source, name) of every in-tree disk of a pod, placed or not
    rows_in_conflict(volume)      intp[k]        the rows where another pod uses this disk in a way that excludes it
    users(claim key)                             the pods on known nodes that name the claim as their volume
    csi_nodes                                    volume limits and migrated plugins, from the CSINodes
    reservations                                   available and reserved PersistentVolumes
    space                                        the largest volume per class and node, from CSIStorageCapacities

An unbound claim counts as a volume of the driver, or a disk of the source, that its storage class will make.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.columns import grown
from berth.engine.state.csi_nodes import CSINodeColumns
from berth.engine.state.migration import MIGRATED, Untranslatable, driver_of, inline_handle, volume_handle
from berth.engine.state.storage_space import StorageSpace
from berth.engine.state.volume_reservations import VolumeReservations
from berth.engine.verdict import Int64Column
from berth.model import Claim, Pod, PodVolume, StorageClass

if TYPE_CHECKING:
    from berth.engine.state.state import State

STORAGE_KINDS: Final = frozenset(
    {"PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity"}
)
EXCLUSIVE: Final = frozenset({"gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"})
_DISK_NAMES: Final[Mapping[str, str]] = {
    "awsElasticBlockStore": "volumeID",
    "gcePersistentDisk": "pdName",
    "azureDisk": "diskName",
    "cinder": "volumeID",
}
_FIRST_ROWS = 64
_NO_ROWS: Final[NDArray[np.intp]] = np.zeros(0, dtype=np.intp)


class NotItsOwn(ValueError):
    """The claim of an ephemeral volume was made for another pod."""


@dataclass(frozen=True, slots=True)
class _Booking:
    """What a placed pod holds. `read` are the objects it was computed from; `failure`: why it cannot be counted."""

    pod: Pod
    row: int
    read: tuple[tuple[str, str], ...]
    attached: tuple[tuple[str, str], ...]
    failure: str | None
    disks: tuple[tuple[str, str], ...]
    exclusive: tuple[tuple[Hashable, bool], ...]


class _Holdings:
    """Which rows hold which handles, and how many distinct ones each row holds."""

    def __init__(self) -> None:
        self.handles: dict[str, dict[int, int]] = {}  # handle -> row -> how many pods hold it there
        self._distinct: Int64Column = np.zeros(_FIRST_ROWS, dtype=np.int64)

    def move(self, handle: str, row: int, sign: int) -> None:
        rows = self.handles.setdefault(handle, {})
        before = rows.get(row, 0)
        rows[row] = before + sign
        if not rows[row]:
            del rows[row]
        if not rows:
            del self.handles[handle]
        if not before or not before + sign:
            self.column(row + 1)[row] += sign

    def column(self, capacity: int) -> Int64Column:
        if len(self._distinct) < capacity:
            self._distinct = grown(self._distinct, max(capacity, 2 * len(self._distinct)))
        return self._distinct

    def rows(self, handle: str) -> NDArray[np.intp]:
        return _row_array(self.handles.get(handle, ()))


class VolumeIndex:
    def __init__(self, state: State) -> None:
        self._state = state
        self.csi_nodes = CSINodeColumns(state)
        self.reservations = VolumeReservations(state)
        self.space = StorageSpace(state)
        self.version = 0  # moves whenever what placed pods hold changes
        self._bookings: dict[str, _Booking] = {}
        self._readers: dict[tuple[str, str], set[str]] = {}
        self._attached: dict[str, _Holdings] = {}
        self._disks: dict[str, _Holdings] = {}
        self._exclusive: dict[Hashable, dict[int, list[int]]] = {}  # disk -> row -> [pods that read, pods that write]
        self._failures: dict[int, dict[str, str]] = {}  # row -> uid -> why

    # --- following ---------------------------------------------------------------------------------------------------

    def add(self, pod: Pod, row: int) -> None:
        """The pod is placed on the row."""
        booking = self._read(pod, row)
        self._bookings[pod.uid] = booking
        for source in booking.read:
            self._readers.setdefault(source, set()).add(pod.uid)
        self._account(booking, 1)

    def discard(self, pod: Pod, row: int) -> None:
        """The pod is no longer on the row."""
        booking = self._bookings.pop(pod.uid)
        for source in booking.read:
            readers = self._readers[source]
            readers.discard(pod.uid)
            if not readers:
                del self._readers[source]
        self._account(booking, -1)

    def changed(self, kind: str, key: str) -> None:
        """Updates everything that depends on an object of STORAGE_KINDS that was added, changed or removed."""
        for uid in tuple(self._readers.get((kind, key), ())):
            booking = self._bookings[uid]
            self.discard(booking.pod, booking.row)
            self.add(booking.pod, booking.row)
        if kind == "CSINode":
            self.csi_nodes.changed(key)
        elif kind == "PersistentVolume":
            self.reservations.changed(key)
        elif kind == "CSIStorageCapacity":
            self.space.changed(key)

    # --- what rows hold ----------------------------------------------------------------------------------------------

    def attached(self, driver: str) -> Int64Column:
        return self._column(self._attached.get(driver))

    def rows_attached(self, driver: str, handle: str) -> NDArray[np.intp]:
        holdings = self._attached.get(driver)
        return _NO_ROWS if holdings is None else holdings.rows(handle)

    def disks(self, source: str) -> Int64Column:
        return self._column(self._disks.get(source))

    def rows_with_disk(self, source: str, name: str) -> NDArray[np.intp]:
        holdings = self._disks.get(source)
        return _NO_ROWS if holdings is None else holdings.rows(name)

    def rows_in_conflict(self, volume: PodVolume) -> NDArray[np.intp]:
        rows: set[int] = set()
        for disk, shares in _exclusive_disks(volume):
            held = self._exclusive.get(disk, {})
            rows.update(row for row, (_, writers) in held.items() if writers or not shares)
        return _row_array(rows)

    def users(self, key: str) -> Iterator[Pod]:
        """The pods on known nodes that name the claim as their volume, ephemeral ones aside."""
        table = self._state.table
        for uid in self._readers.get(("PersistentVolumeClaim", key), ()):
            booking = self._bookings[uid]
            named = any(v.claim == key.partition("/")[2] and not v.ephemeral for v in booking.pod.volumes)
            if named and table.row(table.name(booking.row)) is not None:
                yield booking.pod

    def counts_with(self, kind: str, key: str) -> bool:
        """Whether what a placed pod holds depends on this object of STORAGE_KINDS."""
        return (kind, key) in self._readers

    def failures(self) -> Iterator[tuple[int, str]]:
        """Rows with a pod whose volumes cannot be counted, and why."""
        return ((row, min(reasons.values())) for row, reasons in self._failures.items())

    def statistics(self) -> dict[str, int]:
        return {
            "pods_with_volumes": len(self._bookings),
            "volume_drivers": len(self._attached),
            "volume_handles": sum(len(holdings.handles) for holdings in self._attached.values()),
            "volume_objects_read": len(self._readers),
            "disk_sources": len(self._disks),
            "exclusive_disks": len(self._exclusive),
            "rows_with_failures": len(self._failures),
            **self.reservations.statistics(),
            **self.space.statistics(),
        }

    # --- what a pod holds, placed or not -----------------------------------------------------------------------------

    def attachment(self, pod: Pod, volume: PodVolume) -> tuple[str, str] | None:
        """Returns driver and handle of the CSI volume, migrated ones included; None if it is not a CSI volume.

        Raises NotItsOwn or Untranslatable where kube-scheduler returns an error.
        """
        if volume.claim is None:
            if volume.source not in MIGRATED:
                return None
            return MIGRATED[volume.source].driver, _inline(volume)
        claim = self._state.claim(pod.namespace, volume.claim)
        if claim is None:
            return None
        if volume.ephemeral and claim.controller_uid != pod.uid:
            raise NotItsOwn(foreign_claim(pod, claim))
        return self._claimed(claim)

    def disks_of(self, pod: Pod) -> Iterator[tuple[str, str]]:
        for volume in pod.volumes:
            if volume.source in _DISK_NAMES:
                yield volume.source, str(volume.details[_DISK_NAMES[volume.source]])
            elif volume.claim is not None and not volume.ephemeral:
                claim = self._state.claim(pod.namespace, volume.claim)
                disk = self._claimed_disk(claim) if claim is not None else None
                if disk is not None:
                    yield disk

    def _claimed(self, claim: Claim) -> tuple[str, str] | None:
        volume = self._state.volume(claim.volume_name)
        if volume is None:
            storage_class = self._class_of(claim)
            driver = driver_of(storage_class.provisioner) if storage_class is not None else ""
            return (driver, _placeholder(claim)) if driver else None
        if volume.csi_driver:
            return (volume.csi_driver, volume.csi_handle) if volume.csi_handle else None
        if volume.source not in MIGRATED:
            return None
        try:
            handle = volume_handle(volume)
        except Untranslatable:
            return None
        return (MIGRATED[volume.source].driver, handle) if handle else None

    def _claimed_disk(self, claim: Claim) -> tuple[str, str] | None:
        volume = self._state.volume(claim.volume_name)
        if volume is not None:
            name = _DISK_NAMES.get(volume.source)
            return (volume.source, str(volume.details[name])) if name is not None else None
        storage_class = self._class_of(claim)
        for source in _DISK_NAMES:
            if storage_class is not None and storage_class.provisioner == MIGRATED[source].plugin:
                return source, _placeholder(claim)
        return None

    def _class_of(self, claim: Claim) -> StorageClass | None:
        return self._state.storage_class(claim.storage_class) if claim.storage_class else None

    # --- internals ---------------------------------------------------------------------------------------------------

    def _column(self, holdings: _Holdings | None) -> Int64Column:
        capacity = self._state.table.capacity
        if holdings is None:
            return np.zeros(capacity, dtype=np.int64)
        return holdings.column(capacity)[:capacity]

    def _read(self, pod: Pod, row: int) -> _Booking:
        attached: dict[tuple[str, str], None] = {}
        failure = None
        try:
            for volume in pod.volumes:
                attachment = self.attachment(pod, volume)
                if attachment is not None:
                    attached[attachment] = None
        except (NotItsOwn, Untranslatable) as error:
            failure = str(error)
        return _Booking(
            pod,
            row,
            tuple(dict.fromkeys(self._sources(pod))),
            tuple(attached),
            failure,
            tuple(dict.fromkeys(self.disks_of(pod))),
            tuple(disk for volume in pod.volumes for disk in _exclusive_disks(volume)),
        )

    def _sources(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """Yields the objects, by kind and key, that the pod's volumes depend on."""
        for volume in pod.volumes:
            if volume.claim is None:
                continue
            yield "PersistentVolumeClaim", f"{pod.namespace}/{volume.claim}"
            claim = self._state.claim(pod.namespace, volume.claim)
            if claim is not None:
                yield "PersistentVolume", claim.volume_name
                if claim.storage_class and self._state.volume(claim.volume_name) is None:
                    yield "StorageClass", claim.storage_class

    def _account(self, booking: _Booking, sign: int) -> None:
        self.version += 1
        for holdings, held in ((self._attached, booking.attached), (self._disks, booking.disks)):
            for group, handle in held:
                of_group = holdings.setdefault(group, _Holdings())
                of_group.move(handle, booking.row, sign)
                if not of_group.handles:
                    del holdings[group]
        for disk, shares in booking.exclusive:
            rows = self._exclusive.setdefault(disk, {})
            pods = rows.setdefault(booking.row, [0, 0])
            pods[not shares] += sign
            if not any(pods):
                del rows[booking.row]
            if not rows:
                del self._exclusive[disk]
        if booking.failure is not None:
            self._note_failure(booking, sign, booking.failure)

    def _note_failure(self, booking: _Booking, sign: int, why: str) -> None:
        reasons = self._failures.setdefault(booking.row, {})
        if sign > 0:
            reasons[booking.pod.uid] = why
        else:
            del reasons[booking.pod.uid]
        if not reasons:
            del self._failures[booking.row]


def foreign_claim(pod: Pod, claim: Claim) -> str:
    return f"PVC {pod.namespace}/{claim.name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"


def _inline(volume: PodVolume) -> str:
    try:
        return inline_handle(volume.source, volume.details)
    except Untranslatable as error:
        raise Untranslatable(f"converting volume({volume.name}) from inline to csi: {error}") from error


def _placeholder(claim: Claim) -> str:
    """Returns a handle for the volume that an unbound claim will get; no driver has a handle like this."""
    return f"claim {claim.namespace}/{claim.name}"


def _exclusive_disks(volume: PodVolume) -> Iterator[tuple[Hashable, bool]]:
    """Yields the disk, once per address (rbd monitor), and whether it may be shared with other readers."""
    details = volume.details
    match volume.source:
        case "gcePersistentDisk":
            yield ("gcePersistentDisk", details["pdName"]), bool(details["readOnly"])
        case "awsElasticBlockStore":
            yield ("awsElasticBlockStore", details["volumeID"]), False
        case "iscsi":
            yield ("iscsi", details["iqn"]), bool(details["readOnly"])
        case "rbd":
            monitors = details["monitors"]
            for monitor in dict.fromkeys(monitors if isinstance(monitors, tuple) else ()):
                yield ("rbd", monitor, details["pool"], details["image"]), bool(details["readOnly"])


def _row_array(rows: Iterable[int]) -> NDArray[np.intp]:
    return np.fromiter(rows, dtype=np.intp)
