"""Volumes: disks that one pod at a time may have, how many a node takes, where claims are or can be, and zones."""

from __future__ import annotations

from collections.abc import Sequence

from berth.model import Claim, CSINode, Node, NodeSelector, Pod, PodVolume, StorageClass, Volume

from ..plugin import (
    NOTHING_TO_SAY,
    PROCEED,
    UNRESOLVABLE,
    Plugin,
    PreFilter,
    Refusal,
    unresolvable,
    unschedulable,
)
from ..world import World
from .migration import (
    BETA_REGION,
    BETA_ZONE,
    DRIVER_OF_PLUGIN,
    LEFT_ALONE_PLUGINS,
    LEFT_ALONE_SOURCES,
    MIGRATED,
    REGION,
    ZONE,
    ZONE_DELIMITER,
    Untranslatable,
    handle_of_inline,
    handle_of_persistent,
    translated,
)

BOUND_ANNOTATION = "pv.kubernetes.io/bind-completed"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
TODAYS_KEY = {BETA_ZONE: ZONE, BETA_REGION: REGION}


def stopped(reason: str) -> PreFilter:
    return PreFilter(UNRESOLVABLE, (reason,))


def broken(plugin: str, problem: str) -> Refusal:
    """The plugin could not tell; kube-scheduler passes this on as an error."""
    return Refusal("Error", (f'running "{plugin}" filter plugin: {problem}',))


def claim_of(pod: Pod, volume: PodVolume, world: World) -> Claim | None:
    return world.get("PersistentVolumeClaim", volume.claim or "", pod.namespace)


def class_of(claim: Claim, world: World) -> StorageClass | None:
    return world.get("StorageClass", claim.storage_class) if claim.storage_class else None


def claims_named(pod: Pod) -> list[PodVolume]:
    """The volumes that name a claim; the claims of ephemeral volumes are not named."""
    return [volume for volume in pod.volumes if volume.source == "persistentVolumeClaim"]


def not_found(kind: str, name: str | None) -> str:
    return f'{kind} "{name}" not found'


def not_owned(pod: Pod, claim: Claim) -> str:
    return f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"


def is_reachable(affinity: NodeSelector | None, node: Node) -> bool:
    """Whether a volume with this affinity can be used on the node. What it says of node names is not looked at."""
    if affinity is None:
        return True
    return any(
        (term.expressions or term.fields) and all(r.matches(node.labels) for r in term.expressions)
        for term in affinity.terms
    )


class VolumeRestrictions(Plugin):
    """A disk that can be attached once is not wanted twice on a node; a ReadWriteOncePod claim has one pod."""

    name = "VolumeRestrictions"

    DISK_CONFLICT = "node(s) had no available disk"
    CLAIM_CONFLICT = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    )

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        for volume in claims_named(pod):
            if claim_of(pod, volume, world) is None:
                return stopped(not_found("persistentvolumeclaim", volume.claim))
        if any(is_exclusive(volume) for volume in pod.volumes) or self._claim_in_use(pod, world):
            return PROCEED
        return NOTHING_TO_SAY

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        for volume in pod.volumes:
            for other in world.pods_on(node.name):
                if any(conflict(volume, theirs) for theirs in other.volumes):
                    return unschedulable(self.DISK_CONFLICT)
        return unschedulable(self.CLAIM_CONFLICT) if self._claim_in_use(pod, world) else None

    def _claim_in_use(self, pod: Pod, world: World) -> bool:
        """Whether a pod on any known node has a ReadWriteOncePod claim of this pod."""
        exclusive = set()
        for volume in claims_named(pod):
            claim = claim_of(pod, volume, world)
            if claim is not None and "ReadWriteOncePod" in claim.access_modes:
                exclusive.add(claim.name)
        return any(
            volume.claim in exclusive
            for other, node_name in world.pods
            if other.namespace == pod.namespace and node_name in world.nodes
            for volume in claims_named(other)
        )


def is_exclusive(volume: PodVolume) -> bool:
    return volume.source in ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")


def conflict(ours: PodVolume, theirs: PodVolume) -> bool:
    """Whether these are the same disk, and not only to be read."""
    if ours.source != theirs.source:
        return False
    mine, other = ours.details, theirs.details
    match ours.source:
        case "awsElasticBlockStore":
            return mine["volumeID"] == other["volumeID"]
        case "gcePersistentDisk":
            same = mine["pdName"] == other["pdName"]
        case "iscsi":
            same = mine["iqn"] == other["iqn"]
        case "rbd":
            monitors, others = mine["monitors"], other["monitors"]
            assert isinstance(monitors, tuple)
            assert isinstance(others, tuple)
            same = bool({*monitors} & {*others}) and all(mine[key] == other[key] for key in ("pool", "image"))
        case _:
            return False
    return same and not (mine["readOnly"] and other["readOnly"])


class NodeVolumeLimits(Plugin):
    """A node takes only so many volumes of a CSI driver. Volumes that are used twice count once."""

    name = "NodeVolumeLimits"

    EXCEEDED = "node(s) exceed max volume count"

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        for volume in pod.volumes:
            if volume.claim is not None or volume.source in MIGRATED or volume.source in LEFT_ALONE_SOURCES:
                return PROCEED
        return NOTHING_TO_SAY

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        csi_node: CSINode | None = world.get("CSINode", node.name)
        try:
            new = attachable(pod, csi_node, world, to_be_placed=True)
            if not new or csi_node is None:
                return None
            limits = {driver.name: driver.count for driver in csi_node.drivers if driver.count is not None}
            if not limits:
                return None
            attached = {disk for other in world.pods_on(node.name) for disk in attachable(other, csi_node, world)}
        except ClaimNotFound as problem:
            return unresolvable(str(problem))
        except Untranslatable as problem:
            return broken(self.name, str(problem))
        for driver, limit in limits.items():
            wanted = {disk for disk in new - attached if disk[0] == driver}
            present = {disk for disk in attached if disk[0] == driver}
            if wanted and len(present) + len(wanted) > limit:
                return unschedulable(self.EXCEEDED)
        return None


Disk = tuple[str, object]


class ClaimNotFound(Exception):
    """A pod that is to be placed has a claim that is not there."""


def attachable(pod: Pod, csi_node: CSINode | None, world: World, to_be_placed: bool = False) -> set[Disk]:
    """The volumes of a pod that count, as driver and handle. A claim of a placed pod that is gone does not."""
    disks: set[Disk] = set()
    for volume in pod.volumes:
        if volume.claim is None:
            if volume.source in MIGRATED and csi_node is not None:
                try:
                    disks.add((MIGRATED[volume.source].driver, handle_of_inline(volume)))
                except Untranslatable as problem:
                    raise Untranslatable(f"converting volume({volume.name}) from inline to csi: {problem}") from None
            continue
        claim = claim_of(pod, volume, world)
        if claim is None and to_be_placed:
            missing = not_found("persistentvolumeclaim", volume.claim)
            raise ClaimNotFound(f"looking up PVC {pod.namespace}/{volume.claim}: {missing}")
        if claim is None:
            continue
        if volume.ephemeral and claim.controller_uid != pod.uid:
            raise Untranslatable(not_owned(pod, claim))
        if disk := disk_of(claim, csi_node, world):
            disks.add(disk)
    return disks


def disk_of(claim: Claim, csi_node: CSINode | None, world: World) -> Disk | None:
    """The driver and handle of the claim's volume; a volume that is yet to come goes by the claim's name."""
    volume: Volume | None = world.get("PersistentVolume", claim.volume_name) if claim.volume_name else None
    if volume is None:
        storage_class = class_of(claim, world)
        if storage_class is None:
            return None
        driver = storage_class.provisioner
        if driver in LEFT_ALONE_PLUGINS or (driver in DRIVER_OF_PLUGIN and csi_node is None):
            return None
        return DRIVER_OF_PLUGIN.get(driver, driver), (claim.namespace, claim.name)
    if volume.source == "csi":
        handle, driver = volume.csi_handle, volume.csi_driver
    elif volume.source in MIGRATED and csi_node is not None:
        try:
            handle, driver = handle_of_persistent(volume), MIGRATED[volume.source].driver
        except Untranslatable:
            return None
    else:
        return None
    return (driver, handle) if driver and handle else None


class VolumeBinding(Plugin):
    """Bound claims are where their volume can be reached; others find a volume there, or can be provisioned.

    It has a score as well, which Kubernetes 1.36 leaves switched off.
    """

    name = "VolumeBinding"

    NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
    BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
    NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
    VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        with_claim = [volume for volume in pod.volumes if volume.claim is not None]
        for volume in with_claim:
            if problem := self._problem(pod, volume, world):
                return stopped(problem)
        if any(self._is_immediate(claim, world) for claim in self._claims(pod, world) if not is_bound(claim)):
            return stopped("pod has unbound immediate PersistentVolumeClaims")
        return PROCEED if with_claim else NOTHING_TO_SAY

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        claims = self._claims(pod, world)
        try:
            reasons = self._bound([claim for claim in claims if is_bound(claim)], node, world)
        except Untranslatable as problem:
            return broken(self.name, f"could not translate pv: {problem}")
        reasons += self._unbound([claim for claim in claims if not is_bound(claim)], node, world)
        return unresolvable(*reasons) if reasons else None

    def _claims(self, pod: Pod, world: World) -> list[Claim]:
        """The claims of the pod's volumes; one that two volumes have is there twice."""
        found = [claim_of(pod, volume, world) for volume in pod.volumes if volume.claim is not None]
        return [claim for claim in found if claim is not None]

    def _problem(self, pod: Pod, volume: PodVolume, world: World) -> str | None:
        claim = claim_of(pod, volume, world)
        if claim is None:
            if volume.ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{volume.claim}"'
            return not_found("persistentvolumeclaim", volume.claim)
        if claim.phase == "Lost":
            return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume_name}"'
        if claim.deleting:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        if volume.ephemeral and claim.controller_uid != pod.uid:
            return not_owned(pod, claim)
        return None

    def _is_immediate(self, claim: Claim, world: World) -> bool:
        """Whether the claim is to be bound before its pod is placed; one that names a volume is."""
        storage_class = class_of(claim, world)
        waits = storage_class is not None and storage_class.binding_mode == "WaitForFirstConsumer"
        return not waits or claim.volume_name != ""

    def _bound(self, claims: Sequence[Claim], node: Node, world: World) -> list[str]:
        csi_node: CSINode | None = world.get("CSINode", node.name)
        for claim in claims:
            volume: Volume | None = world.get("PersistentVolume", claim.volume_name)
            if volume is None:
                return [self.VOLUME_MISSING]
            if csi_node and volume.source in MIGRATED and MIGRATED[volume.source].plugin in csi_node.migrated_plugins:
                volume = translated(volume)
            if not is_reachable(volume.node_affinity, node):
                return [self.NODE_CONFLICT]
        return []

    def _unbound(self, claims: Sequence[Claim], node: Node, world: World) -> list[str]:
        to_provision, to_match = [], []
        for claim in claims:
            selected = claim.annotations.get(SELECTED_NODE_ANNOTATION)
            if selected is None:
                to_match.append(claim)
            elif selected == node.name:
                to_provision.append(claim)
            else:
                return [self.BIND_CONFLICT]
        taken: set[str] = set()
        for claim in sorted(to_match, key=lambda claim: claim.requested_bytes):
            volume = matching_volume(claim, node, taken, world)
            if volume is None:
                to_provision.append(claim)
            else:
                taken.add(volume.name)
        for claim in to_provision:
            if reason := self._cannot_provision(claim, node, world):
                return [reason]
        return []

    def _cannot_provision(self, claim: Claim, node: Node, world: World) -> str | None:
        storage_class = class_of(claim, world)
        if storage_class is None or storage_class.provisioner == NO_PROVISIONER:
            return self.BIND_CONFLICT
        topologies = storage_class.allowed_topologies
        if topologies and not any(term.matches(node.name, node.labels) for term in topologies):
            return self.BIND_CONFLICT
        return None if has_capacity(claim, storage_class, node, world) else self.NOT_ENOUGH_SPACE


def is_bound(claim: Claim) -> bool:
    return claim.volume_name != "" and BOUND_ANNOTATION in claim.annotations


def matching_volume(claim: Claim, node: Node, taken: set[str], world: World) -> Volume | None:
    """The volume that is kept for the claim, else the smallest that will do; of equal ones the first by name."""
    volumes: list[Volume] = [
        volume
        for volume in sorted(world.all("PersistentVolume"), key=lambda volume: volume.name)
        if volume.name not in taken
        and volume.storage_class == (claim.storage_class or "")
        and volume.capacity_bytes >= claim.requested_bytes
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    ]
    for volume in volumes:
        if is_kept_for(volume, claim):
            return volume if is_reachable(volume.node_affinity, node) else None
    fitting = [
        volume
        for volume in volumes
        if volume.claim_ref is None
        and volume.phase == "Available"
        and (claim.selector is None or claim.selector.matches(volume.labels))
        and is_reachable(volume.node_affinity, node)
        and {*claim.access_modes} <= {*volume.access_modes}
    ]
    return min(fitting, key=lambda volume: volume.capacity_bytes, default=None)


def is_kept_for(volume: Volume, claim: Claim) -> bool:
    reference = volume.claim_ref
    if reference is None or (reference.namespace, reference.name) != (claim.namespace, claim.name):
        return False
    return reference.uid in ("", claim.uid)


def has_capacity(claim: Claim, storage_class: StorageClass, node: Node, world: World) -> bool:
    """Whether one pool that the node reaches is large enough, where the driver says how large its pools are."""
    driver = world.get("CSIDriver", storage_class.provisioner)
    if driver is None or not driver.storage_capacity or not claim.requested_bytes:
        return True
    for pool in world.all("CSIStorageCapacity"):
        if pool.storage_class != storage_class.name or pool.node_topology is None:
            continue
        largest = pool.capacity_bytes if pool.maximum_volume_bytes is None else pool.maximum_volume_bytes
        if pool.node_topology.matches(node.labels) and (largest or 0) >= claim.requested_bytes:
            return True
    return False


class VolumeZone(Plugin):
    """A volume with zone or region labels is used only on nodes of that zone or region."""

    name = "VolumeZone"

    CONFLICT = "node(s) had no available volume zone"
    KEYS = (BETA_ZONE, BETA_REGION, ZONE, REGION)

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        for volume in claims_named(pod):
            if problem := self._problem(pod, volume, world):
                return stopped(problem)
        return PROCEED if self._places(pod, world) else NOTHING_TO_SAY

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        if not any(key in node.labels for key in self.KEYS):
            return None
        for key, values in self._places(pod, world):
            here = node.labels.get(key, node.labels.get(TODAYS_KEY.get(key, key)))
            if here not in values:
                return unresolvable(self.CONFLICT)
        return None

    def _problem(self, pod: Pod, volume: PodVolume, world: World) -> str | None:
        claim = claim_of(pod, volume, world)
        if claim is None:
            return not_found("persistentvolumeclaim", volume.claim)
        if claim.volume_name:
            known = world.get("PersistentVolume", claim.volume_name) is not None
            return None if known else not_found("persistentvolume", claim.volume_name)
        if not claim.storage_class:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = class_of(claim, world)
        if storage_class is None:
            return not_found("storageclass.storage.k8s.io", claim.storage_class)
        return None if storage_class.binding_mode == "WaitForFirstConsumer" else "PersistentVolume had no name"

    def _places(self, pod: Pod, world: World) -> list[tuple[str, set[str]]]:
        """The zone and region labels of the pod's volumes, each with the values that will do."""
        places = []
        for volume in claims_named(pod):
            claim = claim_of(pod, volume, world)
            bound = world.get("PersistentVolume", claim.volume_name) if claim and claim.volume_name else None
            for key in self.KEYS:
                if bound is not None and key in bound.labels:
                    values = {value.strip() for value in bound.labels[key].split(ZONE_DELIMITER)}
                    if "" not in values:
                        places.append((key, values))
        return places


PLUGINS = (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)
