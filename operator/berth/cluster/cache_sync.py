"""Syncs the cache with the API server: tells when every object of a kind has arrived, and repairs what differs later.

kopf hands over objects one by one. It neither says when a list is complete nor, after a relist, what was deleted in
the gap. So a metadata-only list of our own is compared with what has arrived, kind by kind.

    list --> listed, not seen: missing ---(the watch delivers)---> none missing: the kind is synced
         |                         +---(it stays silent)---> read one by one: drift
         +-> listed in a newer version than seen: on its way, or stale ---(still so after a while)---> read: drift
         +-> seen before the list began, not listed: gone, if that is proven (`proof`), and removed
         |                         +---(the watch does not say so)---> drift
         +-> older than what was seen before it began, twice: the store has gone back in time (`Drift.note_rewound`)

An answer that is not a list of the kind proves nothing and changes nothing (`listing`). The list is requested again.

Where the lists of the watch are read in bulk (`bulk`), they do say when they are complete. Then our first list is a
sample, no more than a page: a kind is synced when the watch has listed it in full and shown everything on that page.
On a small cluster this page is all there is. The full comparison follows soon after. Every later list of the watch is
the truth of its moment: what it lacks is removed as soon as that is proven.

A kind is compared at the start, until it is synced. It is resynced soon after objects were listed again or a watch was
opened again, when the API server comes back after an outage, when the confirmation of a bind is missing, on request
(`report`), and regularly. Once synced, a kind stays synced: a resync repairs (`drift`). A kind whose API is not served
is synced and empty, and every regular resync looks at it again.

A store that was restored from a backup has older versions than before. That is reported (`Drift.note_rewound`), and the
kind is not compared until `start_over`. From then on no kind is synced; each becomes so when everything listed was
shown anew.

A replica that is about to lead needs more (`confirm`): the watch has shown everything that exists *now*. Nothing is
read for that; a watch that shows nothing fails it.

Placed elsewhere than we assumed, bound without our knowing, resized, finished, labelled: whatever happened to an object
has given it a newer version, so the versions are all that has to be compared.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from berth.cluster.api import Api
from berth.cluster.drift import GHOST, MISSING, STALE, Drift, Known
from berth.cluster.errors import ApiError, Malformed, Unreachable
from berth.cluster.identity import ClusterIdentity
from berth.cluster.listing import PART, Listing, ListInProgress, WatchedResource, list_metadata, version_now
from berth.cluster.proof import Proof
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.object_events import removed_from_list
from berth.scheduler.ports import Clock
from berth.scheduler.waiting import wait_for_signal

REGULAR_SECONDS = 300.0
SETTLE_SECONDS = 2.0
SILENCE_SECONDS = 15.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
LONGEST_LIST_SECONDS = 60.0
COMPLAINT_SECONDS = 30.0
CONFIRM_LOOK_SECONDS = 0.02
AFRESH_SECONDS = 15.0  # a watch that is opened again does not have a kind compared more often than that

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _KindSync:
    """How far the sync of one kind has come."""

    resource: WatchedResource
    missing: dict[str, str] = field(default_factory=dict)
    ghosts: dict[str, str] = field(default_factory=dict)  # removed, and the watch may still say so
    gone: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)  # by the watch, since the list began
    listing: bool = False
    version: int = 0  # the newest that a list was of, or that the watch went on from
    compared_seconds: float = 0.0  # when a list was last compared
    is_due: bool = False  # is to be compared some time after that
    report_wanted: bool = False
    synced: bool = False
    served: bool = True
    problem: str = "not listed yet"
    listed_seconds: float = 0.0  # when an object last came from a list of the watch
    progress_seconds: float = 0.0  # when a missing object last arrived
    heard_seconds: float = 0.0  # when anything was last heard of the kind: an object of the watch, or our own list
    samples: bool = False  # the first list need not be a full one
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    listed: asyncio.Event = field(default_factory=asyncio.Event)  # in full, by the watch


class CacheSync:
    """Syncs every kind; `on_synced` is called when all are synced for the first time, and again after `start_over`."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        errors: ErrorLog,
        known: Known,
        resources: tuple[WatchedResource, ...],
        *,
        drift: Drift,
        identity: ClusterIdentity,
        on_synced: Callable[[], None],
        regular_seconds: float = REGULAR_SECONDS,
        bulk: Collection[str] = (),
    ) -> None:
        """`bulk`: the kinds whose lists are read in bulk."""
        self._api = api
        self._clock = clock
        self._errors = errors
        self._known = known
        self._drift = drift
        self._on_synced = on_synced
        self._proof = Proof(api, clock, identity)
        self._regular_seconds = regular_seconds
        self._syncs = {resource.kind: _KindSync(resource, samples=resource.kind in bulk) for resource in resources}
        self._tasks: list[asyncio.Task[None]] = []
        self._proofs: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self._has_reported = False
        self._gone_lately: dict[str, set[str]] | None = None  # by kind, while `confirm` runs

    @property
    def is_running(self) -> bool:
        """Between `start` and `stop`."""
        return bool(self._tasks)

    def start(self) -> None:
        for sync in self._syncs.values():
            sync.heard_seconds = self._clock.now()
        self._tasks = [
            asyncio.create_task(self._watch_over(sync), name=f"sync-{kind}") for kind, sync in self._syncs.items()
        ]

    @property
    def proofs(self) -> int:
        """The number of comparisons with a complete list that are under way."""
        return len(self._proofs)

    async def stop(self) -> None:
        tasks = [*self._tasks, *self._proofs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks = []

    async def start_over(self) -> None:
        """The store has gone back in time and `known` knows it: sync every kind as if for the first time."""
        await self.stop()
        self._has_reported = False
        self._syncs = {kind: _KindSync(sync.resource) for kind, sync in self._syncs.items()}
        self.start()

    # --- what the watch says -------------------------------------------------------------------------------------

    def note(self, kind: str, uid: str, *, listed: bool, removed: bool) -> None:
        """An object has arrived; `listed`: from a list of the watch, not as a change."""
        sync = self._syncs[kind]
        sync.heard_seconds = self._clock.now()
        if removed:
            sync.ghosts.pop(uid, None)
            if sync.listing:
                sync.gone.add(uid)
            if self._gone_lately is not None:
                self._gone_lately[kind].add(uid)
        elif sync.listing:
            sync.shown.add(uid)
        if sync.missing:
            self._note_arrival(sync, uid)
        if listed and sync.synced:
            sync.listed_seconds = self._clock.now()
            sync.wanted.set()

    def begin_list(self, kind: str) -> ListInProgress:
        """The watch lists the kind, and the list is read in bulk."""
        sync = self._syncs[kind]
        newest = max(self._known.newest(kind), sync.version)
        return ListInProgress(kind, self._known.known(kind).copy(), newest)

    def end_list(self, listed: ListInProgress) -> None:
        """Such a list is complete, and everything on it has been noted: what it lacks is gone, if that is proven."""
        sync = self._syncs[listed.kind]
        if listed.is_sound and self.is_running:
            task = asyncio.create_task(self._believe(sync, listed), name=f"list-{listed.kind}")
            self._proofs[task] = None
            task.add_done_callback(self._proofs.pop)

    async def _believe(self, sync: _KindSync, listed: ListInProgress) -> None:
        """Never raises. Where nothing is proven, the kind is compared soon."""
        try:
            await self._remove_unlisted(sync, listed)
        except (ApiError, Unreachable) as error:
            _log.debug("%s: what a list of the watch lacks cannot be judged: %s", listed.kind, error)
            sync.wanted.set()
        except Exception as error:
            self._errors.note("judging a list of", sync.resource.plural, error)
            sync.wanted.set()

    async def _remove_unlisted(self, sync: _KindSync, listed: ListInProgress) -> None:
        kind, listing = listed.kind, await listed.listing()
        if not listing.number or await self._is_rewound(sync, listed.newest, listing):
            sync.wanted.set()
            return
        sync.version = max(sync.version, listing.number)
        sync.listed.set()
        gone = await self._proof.gone(sync.resource, listed.before, listing, alone=False)
        # What was shown in a newer version than the list's was made, or made again, after it.
        for uid in self._known.behind(kind, dict.fromkeys(gone, listing.number + 1)):
            self._known.on_event(removed_from_list(kind, uid, gone[uid]))

    async def check_watch(self, kind: str, version: int) -> None:
        """The watch goes on from this version: see that the store has come so far. Never raises.

        An API server whose store was restored from a backup sends nothing to such a watch, and says nothing of it. If
        it has been written to so often since that its versions are as great as before, only the objects tell: the kind
        is compared as well, though not after every interruption of a watch that is interrupted again and again.
        """
        sync = self._syncs[kind]
        sync.version = max(sync.version, version)
        try:
            number = await version_now(self._api, sync.resource)
            if 0 < number < version:
                number = await version_now(self._api, sync.resource)  # one answer alone may come from anywhere
            if 0 < number < version and self._syncs[kind] is sync:
                self._drift.note_rewound(kind, f"version {number}, and the watch goes on from {version}")
        except (ApiError, Unreachable) as error:
            _log.debug("%s: the current version cannot be read: %s", kind, error)
            self.want(kind)
        await self._compare_later(sync)

    async def _compare_later(self, sync: _KindSync) -> None:
        """Have the kind compared, some time after the last comparison."""
        if sync.synced and not sync.is_due:
            sync.is_due = True
            try:
                await self._clock.sleep(max(0.0, sync.compared_seconds + AFRESH_SECONDS - self._clock.now()))
                sync.wanted.set()
            finally:
                sync.is_due = False

    def want(self, kind: str | None = None) -> None:
        """Compare this kind, or all of them, soon."""
        for sync in self._syncs.values() if kind is None else (self._syncs[kind],):
            sync.wanted.set()

    async def confirm(self, seconds: float) -> bool:
        """Whether the watch has shown everything that exists now, or shows it within so many seconds.

        What is known and does not exist takes too much room, not too little: it is looked for soon, not waited for.
        Raises ApiError or Unreachable. One at a time.
        """
        self._gone_lately = {kind: set() for kind in self._syncs}
        give_up_seconds = self._clock.now() + seconds
        try:
            work = [self._confirm(sync, give_up_seconds) for sync in self._syncs.values()]
            return all(await asyncio.gather(*work))
        finally:
            self._gone_lately = None
            self.want()

    async def _confirm(self, sync: _KindSync, give_up_seconds: float) -> bool:
        kind = sync.resource.kind
        before, newest = self._known.known(kind).copy(), max(self._known.newest(kind), sync.version)
        listing = await list_metadata(self._api, sync.resource)
        if await self._is_rewound(sync, newest, listing):
            _log.warning("%s: the list is older than what was seen before: nothing is confirmed by it", kind)
            return False
        await self._proof.gone(sync.resource, before, listing)  # a list that lacks what is there confirms nothing
        waiting: Collection[str] = listing.objects
        versions: Mapping[str, int] = listing.versions
        while True:
            await self._take_turns()
            behind = set(await self._behind(kind, versions))
            known, gone = self._known.known(kind).uids, (self._gone_lately or {}).get(kind, ())
            waiting = [uid for uid in waiting if (uid in behind or uid not in known) and uid not in gone]
            if not waiting:
                return True
            versions = {uid: version for uid in waiting if (version := listing.versions.get(uid))}
            if self._clock.now() >= give_up_seconds:
                text = "%s: %d of %d that exist have not been shown by the watch, as %s"
                _log.warning(text, kind, len(waiting), len(listing.objects), listing.objects[waiting[0]])
                return False
            await self._clock.sleep(CONFIRM_LOOK_SECONDS)

    async def _parts(self, versions: Mapping[str, int]) -> AsyncIterator[dict[str, int]]:
        """The same in parts, with everything else that is ready to run after each."""
        items = iter(versions.items())
        while part := dict(islice(items, PART)):
            yield part
            await self._take_turns()

    async def _take_turns(self) -> None:
        """Let everything else that is ready run: a pass over all objects of a kind takes as long as a step may."""
        await asyncio.sleep(0)

    def report(self) -> None:
        """Compare every kind soon, and log the result, also where nothing had drifted."""
        for kind, sync in self._syncs.items():
            sync.report_wanted = True
            if not sync.synced:
                _log.info("%s: cannot be compared yet: %s", kind, sync.problem)
        self.want()

    # --- what can be seen of it ----------------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        return all(sync.synced for sync in self._syncs.values())

    def sync_state(self) -> dict[str, str]:
        """Kind to "ok", or to what it waits for. Every client may read that, so it names no server and no object."""
        return {kind: "ok" if sync.synced else sync.problem for kind, sync in self._syncs.items()}

    def statistics(self) -> dict[str, Any]:
        """`age_seconds`: for how long nothing has been heard of the kind, since the start at most."""
        now = self._clock.now()
        return {
            "age_seconds": {kind: now - sync.heard_seconds for kind, sync in self._syncs.items() if self._tasks},
            "synced": {kind: int(sync.synced) for kind, sync in self._syncs.items()},
            "drift": {kind: dict(counts) for kind, counts in self._drift.counts.items()},
        }

    def _note_arrival(self, sync: _KindSync, uid: str) -> None:
        if sync.missing.pop(uid, None) is not None:
            sync.progress_seconds = self._clock.now()
        if not sync.missing:
            sync.complete.set()

    # --- comparing -----------------------------------------------------------------------------------------------

    async def _watch_over(self, sync: _KindSync) -> None:
        while True:
            try:
                is_report = sync.report_wanted
                listing = await self._sync_kind(sync)
                await self._judge_again(sync, listing)
                if is_report:
                    sync.report_wanted = False
                    self._say(sync, listing)
                await self._wait_wanted(sync, AFRESH_SECONDS if listing.is_sample else self._regular_seconds)
            except Exception as error:
                sync.problem = f"cannot be synced: {type(error).__name__}"
                self._errors.note("counting", sync.resource.plural, error)
                await self._clock.sleep(LONGEST_PAUSE_SECONDS)

    async def _wait_wanted(self, sync: _KindSync, seconds: float) -> None:
        """Waits until the next comparison is due, or until one is wanted and what arrives has calmed down."""
        await wait_for_signal(sync.wanted, self._clock, seconds)
        if sync.wanted.is_set():
            await self._wait_calm(sync, SETTLE_SECONDS, SILENCE_SECONDS)

    async def _wait_calm(self, sync: _KindSync, least_seconds: float, most_seconds: float) -> None:
        """For a while, and longer while the watch is listing the kind again."""
        give_up_seconds = self._clock.now() + most_seconds
        await self._clock.sleep(least_seconds)
        while self._clock.now() - sync.listed_seconds < SETTLE_SECONDS and self._clock.now() < give_up_seconds:
            await self._clock.sleep(SETTLE_SECONDS)

    async def _sync_kind(self, sync: _KindSync) -> Listing:
        """Compares one kind until nothing is missing; returns the last list."""
        pause_seconds = FIRST_PAUSE_SECONDS
        sync.progress_seconds = self._clock.now()
        while True:
            sync.wanted.clear()
            began_seconds = self._clock.now()
            listing = await self._list(sync)
            # While nothing could be listed, nothing could be watched either: that time is not the watch's silence.
            sync.progress_seconds += self._clock.now() - began_seconds
            self._compare(sync, listing)
            if await self._wait_complete(sync, pause_seconds) and await self._wait_listed(sync, listing):
                self._declare_synced(sync)
                return listing
            pause_seconds = min(pause_seconds * 2, LONGEST_PAUSE_SECONDS)
            if self._clock.now() - sync.progress_seconds >= SILENCE_SECONDS:
                await self._read_missing(sync)

    async def _wait_listed(self, sync: _KindSync, listing: Listing) -> bool:
        """Whether nothing but the list is to be gone by, or the watch has listed the kind in full.

        If it has not after a while, for instance because its lists cannot be read in bulk, ours are full ones.
        """
        if not listing.is_sample:
            return True
        await wait_for_signal(sync.listed, self._clock, SILENCE_SECONDS)
        sync.samples = False
        return sync.listed.is_set()

    async def _list(self, sync: _KindSync) -> Listing:
        """The list, however long it takes to get one that can be believed."""
        pause_seconds, complained_seconds = FIRST_PAUSE_SECONDS, 0.0
        while True:
            sync.gone.clear()
            sync.shown.clear()
            sync.listing = True
            try:
                return await self._list_once(sync)
            except (ApiError, Unreachable) as error:
                sync.problem = f"cannot be listed: {_briefly(error)}"
                # An unreachable API server is logged once, by the runtime (`OutageLog`), not once a kind.
                is_answer = isinstance(error, ApiError | Malformed)
                if is_answer and self._clock.now() - complained_seconds >= COMPLAINT_SECONDS:
                    complained_seconds = self._clock.now()
                    _log.warning("%s cannot be listed, trying again: %s", sync.resource.plural, error)
            finally:
                sync.listing = False
            await self._clock.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, LONGEST_PAUSE_SECONDS)

    async def _list_once(self, sync: _KindSync) -> Listing:
        """A list that can be believed; what it proves to be gone is removed."""
        resource, kind = sync.resource, sync.resource.kind
        before, newest = self._known.known(kind).copy(), max(self._known.newest(kind), sync.version)
        listing = await list_metadata(self._api, resource, sample=sync.samples)
        if listing.is_sample:
            return listing
        if await self._is_rewound(sync, newest, listing):
            listing = await list_metadata(self._api, resource)  # one alone may come from anywhere
            if await self._is_rewound(sync, newest, listing):
                self._report_rewound(sync, newest, listing)
        if not sync.synced:
            await self._proof.check_first(resource, listing)
        gone = await self._proof.gone(resource, before, listing)
        await self._take_turns()
        sync.heard_seconds = sync.compared_seconds = self._clock.now()
        sync.version = max(sync.version, listing.number)
        self._remove_ghosts(sync, gone)
        return listing

    def _remove_ghosts(self, sync: _KindSync, gone: Mapping[str, str]) -> None:
        kind = sync.resource.kind
        known = self._known.known(kind).uids
        ghosts = {uid: key for uid, key in gone.items() if uid in known and uid not in sync.shown}
        for uid, key in ghosts.items():
            self._known.on_event(removed_from_list(kind, uid, key))
        sync.ghosts |= ghosts

    async def _is_rewound(self, sync: _KindSync, newest: int, listing: Listing) -> bool:
        """A list is never older than what was seen before it began, unless the store itself is."""
        if not listing.number:
            return False
        if listing.number < newest:
            return True
        async for part in self._parts(listing.versions):
            if self._known.contradicted(sync.resource.kind, part, listing.number):
                return True
        return False

    async def _behind(self, kind: str, versions: Mapping[str, int]) -> list[str]:
        """Those of these UIDs that are known in an older version than this."""
        return [uid async for part in self._parts(versions) for uid in self._known.behind(kind, part)]

    def _report_rewound(self, sync: _KindSync, newest: int, listing: Listing) -> None:
        """Raises Malformed: what such a list says is believed when everything starts over."""
        kind = sync.resource.kind
        words = f"version {listing.number} after {newest}"
        if listing.number >= newest:
            some = self._known.contradicted(kind, listing.versions, listing.number)
            words = f"{listing.objects[some[0]]} is older than it was, and so are {len(some) - 1} more"
        self._drift.note_rewound(kind, words)
        raise Malformed("its versions are older than they were, as after a restore from a backup")

    def _compare(self, sync: _KindSync, listing: Listing) -> None:
        if sync.served and not listing.is_served:
            _log.info("The API server does not serve %s", sync.resource.path)
        sync.served = listing.is_served
        kind = sync.resource.kind
        known, unsure = self._known.known(kind).uids, self._known.unsure(kind)
        sync.missing = {
            uid: key
            for uid, key in listing.objects.items()
            if (uid not in known or uid in unsure) and uid not in sync.gone
        }
        sync.complete.clear()
        if sync.missing:
            sync.problem = f"{len(sync.missing)} of {len(listing.objects)} listed objects have not arrived yet"
        else:
            sync.complete.set()

    async def _wait_complete(self, sync: _KindSync, seconds: float) -> bool:
        """Whether everything that was missing has arrived; waits as long as some of it keeps arriving."""
        while not sync.complete.is_set():
            before_seconds = sync.progress_seconds
            await wait_for_signal(sync.complete, self._clock, seconds)
            if sync.progress_seconds == before_seconds:
                break
        return sync.complete.is_set()

    def _declare_synced(self, sync: _KindSync) -> None:
        sync.samples = False
        if not sync.synced:
            sync.synced = True
            _log.info("%s: cache synced (%d objects)", sync.resource.plural, len(self._known.known(sync.resource.kind)))
        if self.synced and not self._has_reported:
            self._on_synced()
            self._has_reported = True

    # --- drift ---------------------------------------------------------------------------------------------------

    async def _judge_again(self, sync: _KindSync, listing: Listing) -> None:
        """What the list says otherwise may be on its way: what still differs after a while has drifted."""
        kind = sync.resource.kind
        await self._take_turns()
        behind = await self._behind(kind, listing.versions)
        if behind or sync.ghosts:
            await self._wait_calm(sync, SILENCE_SECONDS, LONGEST_LIST_SECONDS)
            self._drift.note(kind, GHOST, sync.ghosts.values())
            sync.ghosts.clear()
            await self._drift.read(
                sync.resource,
                STALE,
                {uid: listing.objects[uid] for uid in behind},
                lambda uid: bool(self._known.behind(kind, {uid: listing.versions[uid]})),
            )

    def _say(self, sync: _KindSync, listing: Listing) -> None:
        kind = sync.resource.kind
        drift = ", ".join(f"{number} {what}" for what, number in self._drift.counts.get(kind, {}).items())
        text = "%s: compared with the API server: %d there, %d known, drift since the start: %s"
        _log.info(text, kind, len(listing.objects), len(self._known.known(kind)), drift or "none")

    async def _read_missing(self, sync: _KindSync) -> None:
        await self._drift.read(sync.resource, MISSING, dict(sync.missing), sync.missing.__contains__)
        kind = sync.resource.kind
        known, unsure = self._known.known(kind).uids, self._known.unsure(kind)
        sync.missing = {uid: key for uid, key in sync.missing.items() if uid not in known or uid in unsure}


def _briefly(error: ApiError | Unreachable) -> str:
    """The error without words that may name servers; those are in the log. A missing right is reported in full:
    it names only the resource and our own account.
    """
    if isinstance(error, Malformed):
        return error.reason
    if isinstance(error, Unreachable):
        return "the API server does not answer"
    return str(error) if error.status == 403 else f"{error.status} {error.reason}"
