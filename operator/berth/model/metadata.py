"""Metadata of an object: its identity, labels and annotations.

Names and UIDs are required, and namespaces for namespaced kinds: all objects are indexed by these, and the API server
always sets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .fields import Body, FieldError, read_object, read_required_text, read_text, read_text_map


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata that the simpler kinds need; namespace is "" for cluster-scoped kinds."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    deleting: bool


def read_metadata(body: Body, *, namespaced: bool) -> Metadata:
    """The metadata of an object."""
    metadata = read_object(body, "metadata")
    try:
        return Metadata(
            read_required_text(metadata, "namespace") if namespaced else "",
            read_required_text(metadata, "name"),
            read_required_text(metadata, "uid"),
            read_text(metadata, "resourceVersion"),
            read_text_map(metadata, "labels"),
            read_text_map(metadata, "annotations"),
            read_text(metadata, "deletionTimestamp") != "",
        )
    except FieldError as error:
        raise error.within("metadata") from None
