"""Objects as bytes: each version of an object is serialised once, for all lists, reads and watches.

The store never changes an object that it has handed out, so an object's bytes are known by its API version, UID and
resourceVersion. Two exceptions are never cached: the object of a DELETED event (a selector that stopped matching sends
the old object with the new version) and the outcome of a dry run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from berth.sim.resources import Resource
from berth.sim.store import Page

KEPT_OBJECTS = 50_000

Key = tuple[str, str, str]


class Encoder:
    """Serialises objects and remembers the bytes of the latest ones."""

    def __init__(self, kept_objects: int = KEPT_OBJECTS) -> None:
        self._kept_objects = kept_objects
        self._young: dict[Key, bytes] = {}
        self._old: dict[Key, bytes] = {}
        self._hits = 0
        self._misses = 0

    def object(self, body: Mapping[str, Any]) -> bytes:
        """The bytes of an object as it is stored."""
        key = _key(body)
        if key is None:
            return orjson.dumps(body)
        found = self._young.get(key)
        if found is not None:
            self._hits += 1
            return found
        return self._keep(key, body)

    def _keep(self, key: Key, body: Mapping[str, Any]) -> bytes:
        """Two generations instead of an order of use: when the young one is half of all, the old one goes."""
        encoded = self._old.get(key)
        if encoded is None:
            self._misses += 1
            encoded = orjson.dumps(body)
        else:
            self._hits += 1
        if len(self._young) >= self._kept_objects // 2:
            self._old, self._young = self._young, {}
        self._young[key] = encoded
        return encoded

    def list(self, resource: Resource, page: Page) -> bytes:
        items = b",".join(map(self.object, page.items))
        return list_envelope(resource.list_kind, resource.api_version, page, items)

    def event(self, event_type: str, body: Mapping[str, Any]) -> bytes:
        encoded = orjson.dumps(body) if event_type in ("DELETED", "BOOKMARK", "ERROR") else self.object(body)
        return envelope(event_type, encoded)

    def statistics(self) -> dict[str, int]:
        return {"reused": self._hits, "encoded": self._misses, "kept": len(self._young) + len(self._old)}


def metadata_only(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body.get("metadata") or {}}


def metadata_list(page: Page) -> bytes:
    items = b",".join(orjson.dumps(metadata_only(item)) for item in page.items)
    return list_envelope("PartialObjectMetadataList", "meta.k8s.io/v1", page, items)


def list_metadata(page: Page) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": page.resource_version}
    if page.continue_:
        metadata["continue"] = page.continue_
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
    return metadata


def list_envelope(kind: str, api_version: str, page: Page, items: bytes) -> bytes:
    head = orjson.dumps({"kind": kind, "apiVersion": api_version, "metadata": list_metadata(page)})
    return head[:-1] + b',"items":[' + items + b"]}"


def envelope(event_type: str, encoded: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"' + event_type.encode() + b'","object":' + encoded + b"}\n"


def _key(body: Mapping[str, Any]) -> Key | None:
    metadata = body.get("metadata")
    if not metadata:
        return None
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    return (body.get("apiVersion", ""), uid, version) if uid and version else None
