"""Objects that differ in the cache and the API server, although no event is on its way: repaired, counted, named.

    missing   exists and was never shown          read, and handed over as if the watch had shown it
    stale     exists in a newer version           the same
    ghost     is gone, and no event said so       removed (by the cache sync, at once)
    rewound   the server's versions went back     everything is listed again, and decisions wait for it

`cache_sync` decides what has drifted, and when.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Protocol

from berth.cluster.api import Api
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.listing import WatchedResource
from berth.scheduler.cache.versions import KnownKeys
from berth.scheduler.object_events import EventListener, ObjectEvent, identify

MISSING, STALE, GHOST, REWOUND = "missing", "stale", "ghost", "rewound"
READS_AT_ONCE = 8
NAMED = 5

_TEXTS = {
    MISSING: "%s that the watch has not shown, read: %s",
    STALE: "%s that the watch has shown in older versions only, read: %s",
    GHOST: "%s deleted without a word from the watch, removed: %s",
    REWOUND: "%s have older versions than before, as after a restore from a backup: %s",
}

_log = logging.getLogger(__name__)


class Known(EventListener, Protocol):
    """What is read and updated here: the scheduler's view of a kind."""

    def known(self, kind: str) -> KnownKeys:
        """UID to key of everything seen and not removed."""
        ...

    def behind(self, kind: str, versions: Mapping[str, int]) -> list[str]:
        """Those of these UIDs that are known in an older version than this."""
        ...

    def newest(self, kind: str) -> int:
        """The greatest version seen of the kind."""
        ...

    def contradicted(self, kind: str, versions: Mapping[str, int], version: int) -> list[str]:
        """Those of these UIDs that a list of this version has in an older one than was reported up to then."""
        ...

    def unsure(self, kind: str) -> Set[str]:
        """Known UIDs that have not been shown since the store went back in time."""
        ...


class Drift:
    """Reads what has to be read, and keeps count by kind."""

    def __init__(self, api: Api, known: Known, *, on_rewound: Callable[[str], None]) -> None:
        """`on_rewound` is called when versions have gone back, as after a restore from a backup."""
        self._api = api
        self._known = known
        self._on_rewound = on_rewound
        self.counts: dict[str, Counter[str]] = {}

    def note(self, kind: str, what: str, keys: Iterable[str]) -> None:
        """These objects had drifted, and have been repaired as far as possible."""
        named = sorted(keys)
        if named:
            self.counts.setdefault(kind, Counter())[what] += len(named)
            _log.warning(_TEXTS[what], kind, _some(named), extra={"kind": kind})

    def note_rewound(self, kind: str, words: str) -> None:
        """The versions of this kind are older than they were."""
        self.note(kind, REWOUND, (words,))
        self._on_rewound(f"{kind}: {words}")

    async def read(
        self, resource: WatchedResource, what: str, objects: Mapping[str, str], is_wanted: Callable[[str], bool]
    ) -> None:
        """Read these objects, UID to key, and hand over those that are wanted still; what fails is not counted."""
        waiting, keys = iter(objects.items()), list[str]()

        async def work() -> None:
            for uid, key in waiting:
                if await self._read(resource, uid, key, is_wanted):
                    keys.append(key)

        await asyncio.gather(*(work() for _ in range(min(READS_AT_ONCE, len(objects)))))
        self.note(resource.kind, what, keys)

    async def _read(self, resource: WatchedResource, uid: str, key: str, is_wanted: Callable[[str], bool]) -> bool:
        if not is_wanted(uid):
            return False
        try:
            _, body = await self._api.request("GET", resource.object_path(key))
        except (ApiError, Unreachable) as error:
            _log.debug("%s %s cannot be read: %s", resource.kind, key, error, extra={"kind": resource.kind})
            return False
        identity = identify(body)
        if not is_wanted(uid) or identity is None or identity.uid != uid:
            return False
        self._known.on_event(ObjectEvent(resource.kind, identity, body))
        return True


def _some(keys: list[str]) -> str:
    """The first few, and how many more: a log line for each would be thousands after an outage."""
    more = len(keys) - NAMED
    return ", ".join(keys[:NAMED]) + (f" and {more} more" if more > 0 else "")
