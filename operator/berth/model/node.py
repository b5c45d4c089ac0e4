"""Nodes: allocatable resources, labels, taints, images and conditions.

Mappings in a record are plain dicts that must not be modified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .bounds import MOST_TAINTS
from .fields import (
    MAX_INT64,
    NOTHING,
    Body,
    FieldError,
    read,
    read_flag,
    read_integer,
    read_items,
    read_list,
    read_object,
    read_text,
    read_texts,
)
from .metadata import read_metadata
from .resources import read_amounts
from .taints import Taint, build_taint


@dataclass(frozen=True, slots=True)
class Node:
    """A node as decisions see it.

    `allocatable` has millicores for cpu, bytes for memory and ephemeral-storage, "pods" as a count, and whole units of
    other resources; a missing name means zero. `images` has the size in bytes under every name of an image.
    `conditions` has the status of each condition type.
    """

    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Mapping[str, int]
    images: Mapping[str, int]
    conditions: Mapping[str, str]
    declared_features: tuple[str, ...]

    def __hash__(self) -> int:
        return hash(self.uid)


def parse_node(body: object) -> Node:
    """Parse the API body of a node; raises InvalidObject."""
    return read("Node", body, _build)


def _build(body: Body) -> Node:
    metadata = read_metadata(body, namespaced=False)
    spec, status = read_object(body, "spec"), read_object(body, "status")
    try:
        if (found := len(read_items(spec, "taints"))) > MOST_TAINTS:
            raise FieldError("taints", f"has {found:,} entries, and a node may have {MOST_TAINTS:,}")
        taints, unschedulable = read_list(spec, "taints", build_taint), read_flag(spec, "unschedulable")
    except FieldError as error:
        raise error.within("spec") from None
    try:
        return Node(
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            labels=metadata.labels,
            annotations=metadata.annotations,
            taints=taints,
            unschedulable=unschedulable,
            allocatable=read_amounts(status, "allocatable"),
            images=_images(status),
            conditions=dict(read_list(status, "conditions", _condition)),
            declared_features=read_texts(status, "declaredFeatures"),
        )
    except FieldError as error:
        raise error.within("status") from None


def _images(status: Body) -> Mapping[str, int]:
    """Sizes by name; if two images share a name, the first one counts."""
    if not read_items(status, "images"):
        return NOTHING
    sizes: dict[str, int] = {}
    for names, size in read_list(status, "images", _image):
        for name in names:
            sizes.setdefault(name, size)
    return sizes


def _image(body: Body) -> tuple[tuple[str, ...], int]:
    """The API server does not validate sizes: a negative one counts as zero."""
    return read_texts(body, "names"), max(0, read_integer(body, "sizeBytes", -MAX_INT64 - 1, MAX_INT64, 0))


def _condition(body: Body) -> tuple[str, str]:
    return read_text(body, "type"), read_text(body, "status")
