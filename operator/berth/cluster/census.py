"""Is what the scheduler knows everything there is, and is everything it knows still there?

kopf hands over objects one by one. It neither says when a list is complete nor, after a relist, what was deleted in
the gap. So each kind is counted: a metadata-only list of ours is compared with what has arrived.

    list --> listed but not seen: missing ---(the watch delivers)---> none missing: the kind is whole
         |                            +---(it stays silent)---> fetched one by one (`fetched`)
         +-> seen before the list began, not listed: a ghost, removed

A kind is counted at the start, until it is whole; soon after objects were listed again (the watch was interrupted),
when the API server comes back after an outage, when the echo of a bind is missing; and regularly. Once whole, a kind
stays whole: later counts repair. A kind whose API is not served (404) is whole and empty, and is looked at again by
every regular count.

What it does not find: a change of a known object that the watch never delivered. kopf drops a silent watch after a
minute and resumes where it was, so changes come late rather than never.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from berth.cluster.api import Api
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.listing import Listing, Resource, list_metadata
from berth.scheduler.faults import Faults
from berth.scheduler.ports import Clock
from berth.scheduler.waiting import wait_for_signal

REGULAR_SECONDS = 300.0
SETTLE_SECONDS = 2.0
SILENCE_SECONDS = 15.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
FETCHES_AT_ONCE = 8
COMPLAINT_SECONDS = 30.0
NAMED = 5

_log = logging.getLogger(__name__)


class Known(Protocol):
    """What the census asks and tells: the scheduler's view of a kind."""

    def known(self, kind: str) -> Mapping[str, str]:
        """UID to key of everything seen and not removed."""
        ...

    def observe(self, kind: str, body: Mapping[str, Any]) -> None: ...

    def remove(self, kind: str, body: Mapping[str, Any]) -> None: ...


@dataclass(slots=True)
class _Count:
    """How far the counting of one kind has come."""

    resource: Resource
    missing: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    listing: bool = False
    whole: bool = False
    served: bool = True
    problem: str = "not counted yet"
    listed_seconds: float = 0.0  # when an object last came from a list of the watch
    progress_seconds: float = 0.0  # when a missing object last arrived
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    complete: asyncio.Event = field(default_factory=asyncio.Event)


class Census:
    """Counts every kind; `on_whole` is called once, when all of them are whole for the first time."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        faults: Faults,
        known: Known,
        resources: tuple[Resource, ...],
        *,
        on_whole: Callable[[], None],
        regular_seconds: float = REGULAR_SECONDS,
    ) -> None:
        self._api = api
        self._clock = clock
        self._faults = faults
        self._known = known
        self._on_whole = on_whole
        self._regular_seconds = regular_seconds
        self._counts = {resource.kind: _Count(resource) for resource in resources}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_told = False
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._watch_over(count), name=f"census-{kind}") for kind, count in self._counts.items()
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    # --- what the watch says -------------------------------------------------------------------------------------

    def note(self, kind: str, uid: str, *, listed: bool, removed: bool) -> None:
        """An object has arrived; `listed`: from a list of the watch, not as a change."""
        count = self._counts[kind]
        if count.listing and removed:
            count.gone.add(uid)
        if count.missing:
            self._note_arrival(count, uid)
        if listed and count.whole:
            count.listed_seconds = self._clock.now()
            count.wanted.set()

    def want(self, kind: str | None = None) -> None:
        """Count this kind, or all of them, soon."""
        for count in self._counts.values() if kind is None else (self._counts[kind],):
            count.wanted.set()

    # --- what can be seen of it ----------------------------------------------------------------------------------

    @property
    def whole(self) -> bool:
        return all(count.whole for count in self._counts.values())

    def wholeness(self) -> dict[str, str]:
        """Kind to "ok", or to what it is waiting for."""
        return {kind: "ok" if count.whole else count.problem for kind, count in self._counts.items()}

    def statistics(self) -> dict[str, Any]:
        return {"whole": {kind: int(count.whole) for kind, count in self._counts.items()}, **self.counts}

    def _note_arrival(self, count: _Count, uid: str) -> None:
        if count.missing.pop(uid, None) is not None:
            count.progress_seconds = self._clock.now()
        if not count.missing:
            count.complete.set()

    # --- counting ------------------------------------------------------------------------------------------------

    async def _watch_over(self, count: _Count) -> None:
        while True:
            try:
                await self._count(count)
                await self._wait_wanted(count)
            except Exception as error:
                count.problem = f"cannot be counted: {type(error).__name__}: {error}"
                self._faults.note("counting", count.resource.plural, error)
                await self._clock.sleep(LONGEST_PAUSE_SECONDS)

    async def _wait_wanted(self, count: _Count) -> None:
        """Until the next regular count, or until one is wanted and what arrives has calmed down."""
        await wait_for_signal(count.wanted, self._clock, self._regular_seconds)
        if not count.wanted.is_set():
            return
        give_up_seconds = self._clock.now() + SILENCE_SECONDS
        await self._clock.sleep(SETTLE_SECONDS)
        while self._clock.now() - count.listed_seconds < SETTLE_SECONDS and self._clock.now() < give_up_seconds:
            await self._clock.sleep(SETTLE_SECONDS)

    async def _count(self, count: _Count) -> None:
        """Count one kind until nothing is missing."""
        pause_seconds = FIRST_PAUSE_SECONDS
        count.progress_seconds = self._clock.now()
        while True:
            count.wanted.clear()
            began_seconds = self._clock.now()
            listing = await self._list(count)
            # While nobody could list, nobody could watch either: that time is not the watch's silence.
            count.progress_seconds += self._clock.now() - began_seconds
            self._compare(count, listing)
            if await self._wait_complete(count, pause_seconds):
                return self._declare_whole(count)
            pause_seconds = min(pause_seconds * 2, LONGEST_PAUSE_SECONDS)
            if self._clock.now() - count.progress_seconds >= SILENCE_SECONDS:
                await self._fetch_missing(count)

    async def _list(self, count: _Count) -> Listing:
        """The list, however long it takes to get one."""
        pause_seconds, complained_seconds = FIRST_PAUSE_SECONDS, 0.0
        while True:
            count.gone.clear()
            count.listing = True
            before = frozenset(self._known.known(count.resource.kind))
            try:
                listing = await list_metadata(self._api, count.resource)
            except (ApiError, Unreachable) as error:
                count.problem = f"cannot be listed: {error}"
                # That nobody can be reached at all is said once, by whoever keeps house, not once a kind.
                if isinstance(error, ApiError) and self._clock.now() - complained_seconds >= COMPLAINT_SECONDS:
                    complained_seconds = self._clock.now()
                    _log.warning("%s cannot be listed, trying again: %s", count.resource.plural, error)
            else:
                self._remove_ghosts(count, before, listing)
                return listing
            finally:
                count.listing = False
            await self._clock.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, LONGEST_PAUSE_SECONDS)

    def _remove_ghosts(self, count: _Count, before: frozenset[str], listing: Listing) -> None:
        kind = count.resource.kind
        known = self._known.known(kind)
        ghosts = {uid: known[uid] for uid in before.difference(listing.objects) if uid in known}
        for uid, key in ghosts.items():
            self._known.remove(kind, _stub(uid, key, listing.version))
        if ghosts:
            self.counts["ghosts"] += len(ghosts)
            _log.info("%s deleted without a word from the watch, removed: %s", kind, _some(ghosts.values()))

    def _compare(self, count: _Count, listing: Listing) -> None:
        if count.served and not listing.is_served:
            _log.info("The API server does not serve %s", count.resource.path)
        count.served = listing.is_served
        known = self._known.known(count.resource.kind)
        count.missing = {uid: key for uid, key in listing.objects.items() if uid not in known and uid not in count.gone}
        count.complete.clear()
        if count.missing:
            count.problem = f"{len(count.missing)} of {len(listing.objects)} listed objects have not arrived yet"
        else:
            count.complete.set()

    async def _wait_complete(self, count: _Count, seconds: float) -> bool:
        """Whether everything that was missing has arrived; waits as long as some of it keeps arriving."""
        while not count.complete.is_set():
            before_seconds = count.progress_seconds
            await wait_for_signal(count.complete, self._clock, seconds)
            if count.progress_seconds == before_seconds:
                break
        return count.complete.is_set()

    def _declare_whole(self, count: _Count) -> None:
        if not count.whole:
            count.whole = True
            _log.info("%s: whole (%d)", count.resource.plural, len(self._known.known(count.resource.kind)))
        if self.whole and not self._is_told:
            self._on_whole()
            self._is_told = True

    # --- objects that the watch does not deliver -------------------------------------------------------------------

    async def _fetch_missing(self, count: _Count) -> None:
        slots = asyncio.Semaphore(FETCHES_AT_ONCE)
        missing = dict(count.missing)
        fetched = await asyncio.gather(*(self._fetch(count, uid, key, slots) for uid, key in missing.items()))
        if any(fetched):
            keys = [key for key, is_fetched in zip(missing.values(), fetched, strict=True) if is_fetched]
            self.counts["missed"] += len(keys)
            _log.warning("%s that the watch has not delivered, fetched: %s", count.resource.kind, _some(keys))

    async def _fetch(self, count: _Count, uid: str, key: str, slots: asyncio.Semaphore) -> bool:
        """Whether the object was fetched and handed over."""
        resource = count.resource
        async with slots:
            if uid not in count.missing:
                return False
            try:
                _, body = await self._api.request("GET", resource.object_path(key))
            except (ApiError, Unreachable) as error:
                _log.debug("%s %s cannot be fetched: %s", resource.kind, key, error)
                return False
        if uid not in count.missing or body.get("metadata", {}).get("uid") != uid:
            return False
        self._known.observe(resource.kind, body)
        count.missing.pop(uid, None)
        return True


def _some(keys: Iterable[str]) -> str:
    """The first few, and how many more: a log line for each would be thousands after an outage."""
    ordered = sorted(keys)
    more = len(ordered) - NAMED
    return ", ".join(ordered[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _stub(uid: str, key: str, version: str) -> dict[str, Any]:
    namespace, _, name = key.rpartition("/")
    metadata = {"uid": uid, "name": name}
    if namespace:
        metadata["namespace"] = namespace
    if version:
        metadata["resourceVersion"] = version
    return {"metadata": metadata}
