"""Versions of objects: which of two events is newer, and which object an event replaces.

A name is not an identity: a pod that is deleted and created again keeps its name and gets a new UID. Events about the
two can arrive interleaved: kopf keeps the order for one UID only, and a relist may repeat an older state. One register
per kind answers two questions before anything else is done with an event: is it newer, and which object does it
replace?

Rules, with v the resourceVersion, an integer that grows over all objects of a kind:

1. An event of a known UID with a smaller v is outdated. An equal v is accepted: a repeated event changes nothing.
2. An event of another UID under a known name is about the successor if its v is greater; the older UID is gone from
   then on. With a smaller v it is a late event about a predecessor.
3. A UID that was reported as deleted comes back only with a v greater than that of the deletion: Kubernetes never
   reuses a UID, so anything else is a late event. The memory of deleted UIDs is bounded.
4. A UID that was removed because a list lacked it (`reported_by_watch=False`) comes back with its last known v or a
   greater one: the list may have been wrong, and then the object is no older than before. If that was a late event
   after all, the next comparison with a list removes the object again. If we have written to the object since
   (`outdate`), only a greater v brings it back: it cannot be in the last known version any more.
5. If a v is missing, or is no integer of 64 bits, nothing can be compared: rules 1 to 3 accept the event.

A store that was restored from a backup continues from a smaller v, and deleted objects exist again. `contradicted`
finds what cannot come from one store; `start_over` drops everything that is known about versions. From then on every
UID is `unsure` until it is reported again, and its first event is accepted whatever it says.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Set

from berth.scheduler.object_events import Identity

REMOVED_REMEMBERED = 8192


class KnownKeys(Mapping[str, str]):
    """UID to key of known objects, a live view. `copy` and `uids` are much faster than dict() and `in`."""

    def __init__(self, known: Mapping[str, Identity]) -> None:
        self._known = known

    def __getitem__(self, uid: str) -> str:
        return self._known[uid].key

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, uid: object) -> bool:
        return uid in self._known

    @property
    def uids(self) -> Set[str]:
        return self._known.keys()

    def copy(self) -> dict[str, str]:
        return {uid: identity.key for uid, identity in self._known.items()}


class Register:
    """The known and the recently removed UIDs of one kind."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Identity] = {}
        self._uids: dict[str, str] = {}
        self._removed: OrderedDict[str, int | None] = OrderedDict()
        self._unsure: set[str] = set()
        self._outdated: set[str] = set()
        self.newest = 0
        """The greatest resourceVersion that was ever reported of the kind."""

    @property
    def known(self) -> KnownKeys:
        """UID to key, a live view."""
        return KnownKeys(self._by_uid)

    @property
    def removed(self) -> int:
        """The number of removed UIDs that are remembered."""
        return len(self._removed)

    @property
    def unsure(self) -> Set[str]:
        """Known UIDs that have not been reported since `start_over`."""
        return self._unsure

    def holder(self, key: str) -> str | None:
        """The UID that currently has this name."""
        return self._uids.get(key)

    def behind(self, versions: Mapping[str, int]) -> list[str]:
        """Those of these UIDs that are known in an older version than this."""
        known = self._by_uid
        return [
            uid
            for uid, version in versions.items()
            if (identity := known.get(uid)) is not None and identity.version is not None and identity.version < version
        ]

    def contradicted(self, versions: Mapping[str, int], version: int) -> list[str]:
        """Those of these UIDs whose version in a list of this version is older than one reported before it.

        One store cannot list an object in an older version, or one that it had deleted before.
        """
        found = []
        for uid, listed in versions.items():
            identity = self._by_uid.get(uid)
            reported = identity.version if identity is not None else self._removed.get(uid)
            if reported is not None and listed < reported <= version:
                found.append(uid)
        return found

    def start_over(self) -> None:
        """The store was restored from a backup: no reported version is meaningful any more."""
        self._by_uid = {uid: Identity(uid, each.key, None) for uid, each in self._by_uid.items()}
        self._unsure = set(self._by_uid)
        self._outdated.clear()
        self._removed.clear()
        self.newest = 0

    def outdate(self, uid: str) -> None:
        """The API server has accepted a write of ours: it has a newer version of the object than the known one."""
        if uid in self._by_uid:
            self._outdated.add(uid)

    def is_news(self, identity: Identity) -> bool:
        """Whether the event is accepted as newer (rules 1 to 3)."""
        if identity.uid in self._removed and not _newer(identity.version, self._removed[identity.uid]):
            return False
        holder = self._by_uid.get(self._uids.get(identity.key, ""))
        if holder is None:
            return True
        if holder.uid != identity.uid:
            return _newer(identity.version, holder.version)
        return not _newer(holder.version, identity.version, unknown=False)

    def record(self, identity: Identity) -> str | None:
        """Record an accepted event; returns the UID that it replaces under its name, if any."""
        self._removed.pop(identity.uid, None)
        older = self._uids.get(identity.key)
        replaced = older if older is not None and older != identity.uid else None
        if replaced is not None:
            self.remove(Identity(replaced, identity.key, identity.version))
        self._unsure.discard(identity.uid)
        if identity.uid in self._outdated and self._by_uid[identity.uid].version != identity.version:
            self._outdated.discard(identity.uid)
        self._by_uid[identity.uid] = identity
        self.newest = max(self.newest, identity.version or 0)
        self._uids[identity.key] = identity.uid
        return replaced

    def remove(self, identity: Identity, *, reported_by_watch: bool = True) -> bool:
        """Record that the UID is gone; returns whether it was known. Another UID of the same name stays.

        `reported_by_watch` is False if a list does not contain the object (rule 4).
        """
        known = self._by_uid.pop(identity.uid, None)
        self._unsure.discard(identity.uid)
        if reported_by_watch:
            self._bury(identity.uid, identity.version, known.version if known else None)
        elif known is not None and known.version is not None:
            # The object is never older than its last known version, and newer if we have written to it.
            self._bury(known.uid, known.version if known.uid in self._outdated else known.version - 1)
        self._outdated.discard(identity.uid)
        if known is None:
            return False
        if self._uids.get(known.key) == known.uid:
            del self._uids[known.key]
        return True

    def _bury(self, uid: str, *versions: int | None) -> None:
        """Reject every event of the UID up to the greatest of these versions."""
        all_versions = (*versions, self._removed.pop(uid, None))
        self._removed[uid] = max((version for version in all_versions if version is not None), default=None)
        if len(self._removed) > REMOVED_REMEMBERED:
            self._removed.popitem(last=False)


def _newer(one: int | None, other: int | None, *, unknown: bool = True) -> bool:
    return unknown if one is None or other is None else one > other
