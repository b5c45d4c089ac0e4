"""Disks of the old in-tree kinds, as the CSI drivers that have taken them over see them.

Which kinds are taken over is fixed in Kubernetes 1.36: EBS, GCE PD, Azure Disk, Cinder and Portworx. vSphere and Azure
File can be translated too, but kube-scheduler does not do so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from berth.model import NodeSelector, NodeSelectorTerm, PodVolume, Requirement, Volume

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"


class Untranslatable(Exception):
    """The volume makes no sense to the CSI driver."""


@dataclass(frozen=True)
class InTree:
    """An in-tree kind of volume; `zone_key` is the zone label that its driver gives nodes, "" if it has none."""

    plugin: str
    driver: str
    zone_key: str = ""


# By source, as the API calls it.
MIGRATED: Mapping[str, InTree] = {
    "awsElasticBlockStore": InTree("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    "gcePersistentDisk": InTree("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    "azureDisk": InTree("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    "cinder": InTree("kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    "portworxVolume": InTree("kubernetes.io/portworx-volume", "pxd.portworx.com"),
}
DRIVER_OF_PLUGIN: Mapping[str, str] = {kind.plugin: kind.driver for kind in MIGRATED.values()}

# Translatable, but never translated.
LEFT_ALONE_SOURCES = ("azureFile", "vsphereVolume")
LEFT_ALONE_PLUGINS = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")


def handle_of_inline(volume: PodVolume) -> str:
    """What the driver calls a disk that a pod names directly."""
    details = volume.details
    match volume.source:
        case "awsElasticBlockStore":
            return _ebs_handle(str(details["volumeID"]))
        case "gcePersistentDisk":
            return f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{details['pdName']}"
        case "azureDisk":
            return _azure_handle(details)
        case _:
            return str(details["volumeID"])


def handle_of_persistent(volume: Volume) -> str:
    """What the driver calls a persistent volume of an in-tree kind."""
    details = volume.details
    match volume.source:
        case "awsElasticBlockStore":
            return _ebs_handle(str(details["volumeID"]))
        case "gcePersistentDisk":
            zones = (volume.labels.get(BETA_ZONE) or volume.labels.get(ZONE, "")).split(ZONE_DELIMITER)
            place = f"zones/{zones[0] or 'UNSPECIFIED'}" if len(zones) == 1 else f"regions/{_gce_region(zones)}"
            return f"projects/UNSPECIFIED/{place}/disks/{details['pdName']}"
        case "azureDisk":
            return _azure_handle(details)
        case _:
            return str(details["volumeID"])


def translated(volume: Volume) -> Volume:
    """The volume with the node affinity that its CSI driver gives it."""
    handle_of_persistent(volume)  # says whether it can be translated at all
    zone_key = MIGRATED[volume.source].zone_key
    if not zone_key:
        return volume
    zone, region = _topology_labels(volume)
    terms = volume.node_affinity.terms if volume.node_affinity else ()
    if _values(terms, zone):
        terms = _renamed(terms, zone, zone_key)
    elif zones := sorted({part.strip() for part in volume.labels.get(zone, "").split(ZONE_DELIMITER)} - {""}):
        wanted = Requirement(zone_key, "In", tuple(zones))
        terms = tuple(
            replace(term, expressions=(*term.expressions, wanted)) for term in terms or (NodeSelectorTerm(()),)
        )
    elif volume.node_affinity is None:
        return volume
    if region == BETA_REGION and _values(terms, region):
        terms = _renamed(terms, region, REGION)
    return replace(volume, node_affinity=NodeSelector(terms))


def _ebs_handle(volume_id: str) -> str:
    """The id at the end of aws://zone/id; anything else is the id itself."""
    if not volume_id.startswith("aws://"):
        return volume_id
    handle = unquote(urlsplit(volume_id).path).strip("/")
    if not re.fullmatch(r"vol-[^/]*", handle):
        raise Untranslatable(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )
    return handle


def _azure_handle(details: Mapping[str, object]) -> str:
    kind = str(details["kind"])
    if kind and kind.lower() != "managed":
        raise Untranslatable(f"kind({kind}) is not supported in csi migration")
    return str(details["diskURI"])


def _gce_region(zones: list[str]) -> str:
    """Zones are called locale-region-zone."""
    regions = set()
    for zone in zones:
        if zone.count("-") != 2:
            raise Untranslatable(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add(zone.rpartition("-")[0])
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise Untranslatable(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{listed}]"
        )
    return regions.pop()


def _topology_labels(volume: Volume) -> tuple[str, str]:
    """The zone and region labels that this volume uses: affinity before labels, today's names before the old ones."""
    terms = volume.node_affinity.terms if volume.node_affinity else ()
    keys = {requirement.key for term in terms for requirement in term.expressions}
    for used in (keys, volume.labels):
        if ZONE in used:
            return ZONE, REGION
        if BETA_ZONE in used:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _values(terms: tuple[NodeSelectorTerm, ...], key: str) -> set[str]:
    return {v for term in terms for r in term.expressions if r.key == key for v in r.values}


def _renamed(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        replace(term, expressions=tuple(replace(r, key=new) if r.key == old else r for r in term.expressions))
        for term in terms
    )
