"""Object events: an object was added, modified or removed. Every component hears of it as one record, by one method.

    watch, cache sync --> ObjectEvent --> EventListener.on_event, of every listener in the order of the list

The identity of the object is read from the body once, when the event is made (`identify`), and passed on with it.
Events are made where bodies come in: by the watches, by the cache sync, and by reads of single pods.

Both records are tuples and not dataclasses, because making a frozen dataclass takes twice as long, and bulk intake
makes tens of thousands of them a second.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

LARGEST_VERSION = 2**63 - 1  # etcd counts its revisions in an int64
MOST_DIGITS = 19
MAPPINGS = (dict, Mapping)  # dict first: it is by far the most common, and checked much faster


class Identity(NamedTuple):
    """Which object, in which version: read from the metadata alone, so that it works for invalid objects.

    `key` is "namespace/name", or "name" for a kind without namespaces. `version` is None if it cannot be compared.
    """

    uid: str
    key: str
    version: int | None


class ObjectEvent(NamedTuple):
    """An object as it is now, or as it was when it was removed.

    `reported_by_watch` matters for removals only. False: a list does not contain the object, so that the removal is a
    conclusion, and a later event restores the object.
    """

    kind: str
    identity: Identity
    body: Mapping[str, Any]
    is_removal: bool = False
    reported_by_watch: bool = True


class EventListener(Protocol):
    """A component that hears of changed objects."""

    def on_event(self, event: ObjectEvent) -> None:
        """Called once for each event, after the cache includes it. Most listeners need certain kinds only."""
        ...


def identify(body: object) -> Identity | None:
    """The identity of the object; None if the body has no name or no UID: no API server has such an object."""
    metadata = body.get("metadata") if isinstance(body, MAPPINGS) else None
    if not isinstance(metadata, MAPPINGS):
        return None
    uid, name = metadata.get("uid"), metadata.get("name")
    if not (isinstance(uid, str) and uid and isinstance(name, str) and name):
        return None
    namespace = metadata.get("namespace")
    key = f"{namespace}/{name}" if namespace else name
    return Identity(uid, key, version_number(metadata.get("resourceVersion")))


def observed(kind: str, body: Mapping[str, Any]) -> ObjectEvent:
    """The object was added or modified; ValueError if the body has no name or no UID."""
    return ObjectEvent(kind, _identify(kind, body), body)


def removed(kind: str, body: Mapping[str, Any], *, reported_by_watch: bool = True) -> ObjectEvent:
    """The object was removed; ValueError if the body has no name or no UID."""
    return ObjectEvent(kind, _identify(kind, body), body, True, reported_by_watch)


def removed_from_list(kind: str, uid: str, key: str) -> ObjectEvent:
    """A list of the kind does not contain the object; nothing else is known of it, so that the body is empty."""
    return ObjectEvent(kind, Identity(uid, key, None), {}, True, False)


def _identify(kind: str, body: Mapping[str, Any]) -> Identity:
    identity = identify(body)
    if identity is None:
        raise ValueError(f"a {kind} without a name and a UID")
    return identity


def version_number(version: object) -> int | None:
    """A resourceVersion as an integer; None if it is missing, no string, or beyond what a store can reach.

    A version that no store reaches must not count as seen: every later list would look older, as after a restored
    backup.
    """
    if not isinstance(version, str) or len(version) > MOST_DIGITS or not (version.isascii() and version.isdigit()):
        return None
    number = int(version)
    return number if number <= LARGEST_VERSION else None
