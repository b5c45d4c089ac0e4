"""CSI migration: translates in-tree volumes to volumes of the CSI drivers that replaced the in-tree plugins.

kube-scheduler treats an in-tree disk as a volume of its CSI driver: under the driver's name, with a handle made from
the disk's name, and with the zone of its node affinity under the driver's own label. Of the seven in-tree kinds that
have a CSI driver, five are migrated here (`MIGRATED`). The other two are migratable, but are not translated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from berth.model import NodeSelector, NodeSelectorTerm, Requirement, Volume
from berth.model.volumes import Detail

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"  # between the zones in the label of a volume that lies in several


class Untranslatable(ValueError):
    """The disk cannot be translated to a CSI volume."""


@dataclass(frozen=True, slots=True)
class Successor:
    """The CSI driver that replaced an in-tree `plugin`; `zone_label` is the driver's node label for the zone."""

    plugin: str
    driver: str
    zone_label: str | None = None


MIGRATED: Final[Mapping[str, Successor]] = {
    "awsElasticBlockStore": Successor("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    "gcePersistentDisk": Successor("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    "azureDisk": Successor("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    "cinder": Successor("kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    "portworxVolume": Successor("kubernetes.io/portworx-volume", "pxd.portworx.com"),
}
MIGRATABLE: Final = frozenset({*MIGRATED, "azureFile", "vsphereVolume"})
_LEFT_ALONE: Final = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
_DRIVERS: Final = {successor.plugin: successor.driver for successor in MIGRATED.values()}


def driver_of(provisioner: str) -> str:
    """Returns the CSI driver of a provisioner; "" if it is an in-tree one that is not migrated."""
    return "" if provisioner in _LEFT_ALONE else _DRIVERS.get(provisioner, provisioner)


def inline_handle(source: str, details: Mapping[str, Detail]) -> str:
    """Returns the handle of a disk that is inline in a pod."""
    return _handle(source, details, ())


def volume_handle(volume: Volume) -> str:
    """Returns the handle of a PersistentVolume with an in-tree source."""
    zones = volume.labels.get(OLD_ZONE) or volume.labels.get(ZONE, "")
    return _handle(volume.source, volume.details, tuple(zones.split(ZONE_DELIMITER)) if zones else ())


def translated_affinity(volume: Volume) -> NodeSelector | None:
    """Returns the node affinity of an in-tree volume on nodes where its plugin is migrated."""
    volume_handle(volume)  # a volume without a handle has no translation at all
    label = MIGRATED[volume.source].zone_label
    return volume.node_affinity if label is None else _with_zone_label(volume, label)


def _handle(source: str, details: Mapping[str, Detail], zones: tuple[str, ...]) -> str:
    match source:
        case "gcePersistentDisk":
            return f"projects/UNSPECIFIED/{_gce_place(zones)}/disks/{details['pdName']}"
        case "azureDisk":
            kind = str(details.get("kind") or "")
            if kind and kind.lower() != "managed":
                raise Untranslatable(f"kind({kind}) is not supported in csi migration")
            return str(details["diskURI"])
        case "awsElasticBlockStore":
            return _ebs_volume_id(str(details["volumeID"]))
        case _:
            return str(details["volumeID"])


def _gce_place(zones: tuple[str, ...]) -> str:
    if len(zones) < 2:
        return f"zones/{zones[0] if zones else 'UNSPECIFIED'}"
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise Untranslatable(
                "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, "
                f"got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise Untranslatable(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{listed}]"
        )
    return f"regions/{regions.pop()}"


def _ebs_volume_id(name: str) -> str:
    """Returns the volume of aws://<zone>/<volume>, or the name unchanged."""
    if not name.startswith("aws://"):
        return name
    _, _, path = name.removeprefix("aws://").partition("/")
    volume = path.strip("/")
    if not volume.startswith("vol-") or "/" in volume:
        raise Untranslatable(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({name})"
        )
    return volume


def _with_zone_label(volume: Volume, label: str) -> NodeSelector | None:
    """Returns the affinity with zones under the driver's label; if it names none, with those of the volume's labels."""
    affinity = volume.node_affinity
    zone, region = _labels_in_use(volume)
    if _values(affinity, zone):
        affinity = _renamed(affinity, zone, label)
    elif zone in volume.labels:
        named = sorted({part.strip() for part in volume.labels[zone].split(ZONE_DELIMITER)} - {""})
        if named:
            affinity = _narrowed(affinity, Requirement(label, "In", tuple(named)))
    if region == OLD_REGION and _values(affinity, region):
        affinity = _renamed(affinity, region, REGION)
    return affinity


def _labels_in_use(volume: Volume) -> tuple[str, str]:
    """Returns the zone and region labels that the volume uses: the current or the deprecated ones."""
    keys = {r.key for term in (volume.node_affinity.terms if volume.node_affinity else ()) for r in term.expressions}
    for named in (keys, volume.labels):
        if ZONE in named:
            return ZONE, REGION
        if OLD_ZONE in named:
            return OLD_ZONE, OLD_REGION
    return ZONE, REGION


def _values(affinity: NodeSelector | None, key: str) -> bool:
    return any(r.key == key and r.values for t in (affinity.terms if affinity else ()) for r in t.expressions)


def _renamed(affinity: NodeSelector | None, old: str, new: str) -> NodeSelector | None:
    if affinity is None:
        return None
    return NodeSelector(
        tuple(
            replace(term, expressions=tuple(replace(r, key=new) if r.key == old else r for r in term.expressions))
            for term in affinity.terms
        )
    )


def _narrowed(affinity: NodeSelector | None, requirement: Requirement) -> NodeSelector:
    terms = affinity.terms if affinity is not None and affinity.terms else (NodeSelectorTerm(()),)
    return NodeSelector(tuple(replace(term, expressions=(*term.expressions, requirement)) for term in terms))
