"""Volumes of pods: those that decisions can depend on.

A claim ties a pod to where its volume is or may be. Some in-tree disks can be attached only once, or only in a limited
number per node; for these the fields that identify the disk are kept. A volume of any other source (emptyDir,
configMap, projected, ...) fits anywhere and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from .fields import (
    MAX_INT32,
    NOTHING,
    Body,
    FieldError,
    as_object,
    read_flag,
    read_integer,
    read_items,
    read_object,
    read_required_text,
    read_text,
    read_texts,
)

Detail: TypeAlias = str | bool | int | tuple[str, ...]

_read_lun: Final = partial(read_integer, least=0, most=MAX_INT32, default=0)
_read_pool: Final = partial(read_text, default="rbd")

# By source: the fields that are kept, by their API names.
POD_VOLUME_SOURCES: Final[Mapping[str, Mapping[str, Callable[[Body, str], Detail]]]] = {
    "persistentVolumeClaim": {"claimName": read_required_text, "readOnly": read_flag},
    "ephemeral": {},
    "csi": {"driver": read_required_text, "readOnly": read_flag},
    "gcePersistentDisk": {"pdName": read_required_text, "readOnly": read_flag},
    "awsElasticBlockStore": {"volumeID": read_required_text, "readOnly": read_flag},
    "azureDisk": {"diskName": read_text, "diskURI": read_text, "kind": read_text, "readOnly": read_flag},
    "azureFile": {"shareName": read_text, "readOnly": read_flag},
    "cinder": {"volumeID": read_required_text, "readOnly": read_flag},
    "vsphereVolume": {"volumePath": read_text},
    "portworxVolume": {"volumeID": read_text, "readOnly": read_flag},
    "rbd": {"monitors": read_texts, "pool": _read_pool, "image": read_text, "readOnly": read_flag},
    "iscsi": {"targetPortal": read_text, "iqn": read_text, "lun": _read_lun, "readOnly": read_flag},
    "image": {"reference": read_text},
}


@dataclass(frozen=True, slots=True)
class PodVolume:
    """A volume that decisions can depend on.

    `claim` is the claim's name in the pod's namespace: the one that is named, or "<pod>-<volume>" for an ephemeral
    volume, whose claim must belong to the pod. `source` and the keys of `details` are the API's own names.
    """

    name: str
    source: str
    claim: str | None = None
    ephemeral: bool = False
    details: Mapping[str, Detail] = field(default_factory=dict, hash=False)

    @property
    def signature(self) -> Hashable:
        """Everything that scheduling reads of it; the volume's own name is not part of that."""
        return self.source, self.claim, self.ephemeral, tuple(self.details.items())


def read_volumes(spec: Body, pod_name: str) -> tuple[PodVolume, ...]:
    """The volumes in a pod's spec that decisions can depend on."""
    items = read_items(spec, "volumes")
    if not items:
        return ()
    volumes: list[PodVolume] = []
    for index, item in enumerate(items):
        try:
            volume = as_object(item)
            source = next((name for name in volume if name in POD_VOLUME_SOURCES and volume[name] is not None), None)
            if source is not None:
                volumes.append(_volume(volume, source, pod_name))
        except FieldError as error:
            raise error.within(f"volumes[{index}]") from None
    return tuple(volumes)


def read_source_details(owner: Body, source: str) -> Mapping[str, Detail]:
    """The fields of a source that are kept; empty for a source that decisions do not read."""
    readers = POD_VOLUME_SOURCES.get(source)
    if not readers:
        return NOTHING
    body = read_object(owner, source)
    try:
        return {name: reader(body, name) for name, reader in readers.items()}
    except FieldError as error:
        raise error.within(source) from None


def _volume(body: Body, source: str, pod_name: str) -> PodVolume:
    name = read_required_text(body, "name")
    details = read_source_details(body, source)
    if source == "ephemeral":
        return PodVolume(name, source, f"{pod_name}-{name}", True, details)
    claim = details.get("claimName")
    return PodVolume(name, source, claim if isinstance(claim, str) else None, False, details)
