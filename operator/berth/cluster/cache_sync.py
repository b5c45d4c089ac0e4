"""Is what the scheduler knows everything there is, and is everything it knows still so?

kopf hands over objects one by one. It neither says when a list is complete nor, after a relist, what was deleted in
the gap. So each kind is counted: a metadata-only list of ours is compared with what has arrived.

    list --> listed, not seen: missing ---(the watch delivers)---> none missing: the kind is whole
         |                         +---(it stays silent)---> read one by one: drift
         +-> listed in a newer version than seen: on its way, or stale ---(still so after a while)---> read: drift
         +-> seen before the list began, not listed: gone, if that is proven (`proof`), and removed
         |                         +---(the watch does not say so)---> drift
         +-> older than what was seen before it began, twice: the store has gone back in time (`on_rewound`)

An answer that is not a list of the kind proves nothing and changes nothing (`listing`); it is asked for again.

Where the lists of the watch are read in bulk (`bulk`), they do say when they are complete. Then the first list of ours
is a sample, no more than a page: a kind is synced when the watch has listed it in full and shown everything on that
page. On a small cluster this page is all there is. The full comparison follows soon after. Every later list of the
watch is the truth of its moment: what it lacks is removed as soon as that is proven.

A kind is counted at the start, until it is synced; soon after objects were listed again or a watch was opened again,
when the API server comes back after an outage, when the echo of a bind is missing, when somebody asks for it
(`report`); and regularly. Once whole, a kind stays whole: later counts repair (`drift`). A kind whose API is not served
is synced and empty, and is looked at again by every regular count.

A store that was restored from a backup has older versions than before. `on_rewound` is told, and the kind is not
compared until `start_over`. From then on no kind is synced; each becomes so when everything listed was shown anew.

Whoever is about to lead asks for more (`confirm`): that the watch has shown everything that exists *now*. Nothing is
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
from berth.cluster.drift import GHOST, MISSING, REWOUND, STALE, Drift, Known
from berth.cluster.errors import ApiError, Malformed, Unreachable
from berth.cluster.identity import ClusterIdentity
from berth.cluster.listing import PART, Listing, ListInProgress, WatchedResource, list_metadata, version_now
from berth.cluster.proof import Proof
from berth.scheduler.error_log import ErrorLog
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
class _Count:
    """How far the counting of one kind has come."""

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
    whole: bool = False
    served: bool = True
    problem: str = "not counted yet"
    listed_seconds: float = 0.0  # when an object last came from a list of the watch
    progress_seconds: float = 0.0  # when a missing object last arrived
    heard_seconds: float = 0.0  # when anything was last heard of the kind: an object of the watch, or a list of ours
    samples: bool = False  # the first list need not be a full one
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    listed: asyncio.Event = field(default_factory=asyncio.Event)  # in full, by the watch


class CacheSync:
    """Counts every kind; `on_whole` is called when all are whole for the first time, and again after `start_over`."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        faults: ErrorLog,
        known: Known,
        resources: tuple[WatchedResource, ...],
        *,
        identity: ClusterIdentity,
        on_whole: Callable[[], None],
        on_rewound: Callable[[str], None],
        regular_seconds: float = REGULAR_SECONDS,
        bulk: Collection[str] = (),
    ) -> None:
        """`bulk`: the kinds whose lists are read in bulk."""
        self._api = api
        self._clock = clock
        self._faults = faults
        self._known = known
        self._on_whole = on_whole
        self._on_rewound = on_rewound
        self._proof = Proof(api, clock, identity)
        self._regular_seconds = regular_seconds
        self._counts = {resource.kind: _Count(resource, samples=resource.kind in bulk) for resource in resources}
        self._tasks: list[asyncio.Task[None]] = []
        self._proofs: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self._is_told = False
        self._gone_lately: dict[str, set[str]] | None = None  # by kind, while somebody has it confirmed
        self._drift = Drift(api, known)

    def start(self) -> None:
        for count in self._counts.values():
            count.heard_seconds = self._clock.now()
        self._tasks = [
            asyncio.create_task(self._watch_over(count), name=f"census-{kind}") for kind, count in self._counts.items()
        ]

    async def stop(self) -> None:
        tasks = [*self._tasks, *self._proofs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks = []

    async def start_over(self) -> None:
        """The store has gone back in time and `known` knows it: count every kind as if for the first time."""
        await self.stop()
        self._is_told = False
        self._counts = {kind: _Count(count.resource) for kind, count in self._counts.items()}
        self.start()

    # --- what the watch says -------------------------------------------------------------------------------------

    def note(self, kind: str, uid: str, *, listed: bool, removed: bool) -> None:
        """An object has arrived; `listed`: from a list of the watch, not as a change."""
        count = self._counts[kind]
        count.heard_seconds = self._clock.now()
        if removed:
            count.ghosts.pop(uid, None)
            if count.listing:
                count.gone.add(uid)
            if self._gone_lately is not None:
                self._gone_lately[kind].add(uid)
        elif count.listing:
            count.shown.add(uid)
        if count.missing:
            self._note_arrival(count, uid)
        if listed and count.whole:
            count.listed_seconds = self._clock.now()
            count.wanted.set()

    def begin_list(self, kind: str) -> ListInProgress:
        """The watch lists the kind, and the list is read in bulk."""
        count = self._counts[kind]
        newest = max(self._known.newest(kind), count.version)
        return ListInProgress(kind, self._known.known(kind).copy(), newest)

    def end_list(self, listed: ListInProgress) -> None:
        """Such a list is complete, and everything on it has been noted: what it lacks is gone, if that is proven."""
        count = self._counts[listed.kind]
        if listed.is_sound and self._tasks:
            task = asyncio.create_task(self._believe(count, listed), name=f"list-{listed.kind}")
            self._proofs[task] = None
            task.add_done_callback(self._proofs.pop)

    async def _believe(self, count: _Count, listed: ListInProgress) -> None:
        """Never raises. Where nothing is proven, the kind is compared soon."""
        try:
            await self._remove_unlisted(count, listed)
        except (ApiError, Unreachable) as error:
            _log.debug("%s: what a list of the watch lacks cannot be judged: %s", listed.kind, error)
            count.wanted.set()
        except Exception as error:
            self._faults.note("judging a list of", count.resource.plural, error)
            count.wanted.set()

    async def _remove_unlisted(self, count: _Count, listed: ListInProgress) -> None:
        kind, listing = listed.kind, await listed.listing()
        if not listing.number or await self._is_rewound(count, listed.newest, listing):
            count.wanted.set()
            return
        count.version = max(count.version, listing.number)
        count.listed.set()
        gone = await self._proof.gone(count.resource, listed.before, listing, alone=False)
        # What was shown in a newer version than the list's was made, or made again, after it.
        for uid in self._known.behind(kind, dict.fromkeys(gone, listing.number + 1)):
            self._known.remove(kind, _stub(uid, gone[uid]), told=False)

    async def check_watch(self, kind: str, version: int) -> None:
        """The watch goes on from this version: see that the store has come so far. Never raises.

        An API server whose store was restored from a backup sends nothing to such a watch, and says nothing of it. If
        it has been written to so often since that its versions are as great as before, only the objects tell: the kind
        is compared as well, though not after every interruption of a watch that is interrupted again and again.
        """
        count = self._counts[kind]
        count.version = max(count.version, version)
        try:
            number = await version_now(self._api, count.resource)
            if 0 < number < version:
                number = await version_now(self._api, count.resource)  # one answer alone may come from anywhere
            if 0 < number < version and self._counts[kind] is count:
                self.tell_rewound(kind, f"version {number}, and the watch goes on from {version}")
        except (ApiError, Unreachable) as error:
            _log.debug("%s: which version there is cannot be told: %s", kind, error)
            self.want(kind)
        await self._compare_later(count)

    async def _compare_later(self, count: _Count) -> None:
        """Have the kind compared, some time after the last comparison."""
        if count.whole and not count.is_due:
            count.is_due = True
            try:
                await self._clock.sleep(max(0.0, count.compared_seconds + AFRESH_SECONDS - self._clock.now()))
                count.wanted.set()
            finally:
                count.is_due = False

    def want(self, kind: str | None = None) -> None:
        """Count this kind, or all of them, soon."""
        for count in self._counts.values() if kind is None else (self._counts[kind],):
            count.wanted.set()

    async def confirm(self, seconds: float) -> bool:
        """Whether the watch has shown everything that exists now, or shows it within so many seconds.

        What is known and does not exist takes too much room, not too little: it is looked for soon, not waited for.
        Raises ApiError or Unreachable. One at a time.
        """
        self._gone_lately = {kind: set() for kind in self._counts}
        give_up_seconds = self._clock.now() + seconds
        try:
            work = [self._confirm(count, give_up_seconds) for count in self._counts.values()]
            return all(await asyncio.gather(*work))
        finally:
            self._gone_lately = None
            self.want()

    async def _confirm(self, count: _Count, give_up_seconds: float) -> bool:
        kind = count.resource.kind
        before, newest = self._known.known(kind).copy(), max(self._known.newest(kind), count.version)
        listing = await list_metadata(self._api, count.resource)
        if await self._is_rewound(count, newest, listing):
            _log.warning("%s: the list is older than what was seen before: nothing is confirmed by it", kind)
            return False
        await self._proof.gone(count.resource, before, listing)  # a list that lacks what is there confirms nothing
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

    def tell_rewound(self, kind: str, words: str) -> None:
        """The versions of this kind are older than they were."""
        self._drift.note(kind, REWOUND, (words,))
        self._on_rewound(f"{kind}: {words}")

    def report(self) -> None:
        """Count every kind soon, and say in the log what came of it, also where nothing had drifted."""
        for kind, count in self._counts.items():
            count.report_wanted = True
            if not count.whole:
                _log.info("%s: cannot be compared yet: %s", kind, count.problem)
        self.want()

    # --- what can be seen of it ----------------------------------------------------------------------------------

    @property
    def whole(self) -> bool:
        return all(count.whole for count in self._counts.values())

    def wholeness(self) -> dict[str, str]:
        """Kind to "ok", or to what it is waiting for; anybody may read that, so it names no server and no object."""
        return {kind: "ok" if count.whole else count.problem for kind, count in self._counts.items()}

    def statistics(self) -> dict[str, Any]:
        """`age_seconds`: for how long nothing has been heard of the kind, since the start at most."""
        now = self._clock.now()
        return {
            "age_seconds": {kind: now - count.heard_seconds for kind, count in self._counts.items() if self._tasks},
            "whole": {kind: int(count.whole) for kind, count in self._counts.items()},
            "drift": {kind: dict(counts) for kind, counts in self._drift.counts.items()},
        }

    def _note_arrival(self, count: _Count, uid: str) -> None:
        if count.missing.pop(uid, None) is not None:
            count.progress_seconds = self._clock.now()
        if not count.missing:
            count.complete.set()

    # --- counting ------------------------------------------------------------------------------------------------

    async def _watch_over(self, count: _Count) -> None:
        while True:
            try:
                is_report = count.report_wanted
                listing = await self._count(count)
                await self._judge_again(count, listing)
                if is_report:
                    count.report_wanted = False
                    self._say(count, listing)
                await self._wait_wanted(count, AFRESH_SECONDS if listing.is_sample else self._regular_seconds)
            except Exception as error:
                count.problem = f"cannot be counted: {type(error).__name__}"
                self._faults.note("counting", count.resource.plural, error)
                await self._clock.sleep(LONGEST_PAUSE_SECONDS)

    async def _wait_wanted(self, count: _Count, seconds: float) -> None:
        """Until the next count is due, or until one is wanted and what arrives has calmed down."""
        await wait_for_signal(count.wanted, self._clock, seconds)
        if count.wanted.is_set():
            await self._wait_calm(count, SETTLE_SECONDS, SILENCE_SECONDS)

    async def _wait_calm(self, count: _Count, least_seconds: float, most_seconds: float) -> None:
        """For a while, and longer while the watch is listing the kind again."""
        give_up_seconds = self._clock.now() + most_seconds
        await self._clock.sleep(least_seconds)
        while self._clock.now() - count.listed_seconds < SETTLE_SECONDS and self._clock.now() < give_up_seconds:
            await self._clock.sleep(SETTLE_SECONDS)

    async def _count(self, count: _Count) -> Listing:
        """Count one kind until nothing is missing; the list that had nothing more to say."""
        pause_seconds = FIRST_PAUSE_SECONDS
        count.progress_seconds = self._clock.now()
        while True:
            count.wanted.clear()
            began_seconds = self._clock.now()
            listing = await self._list(count)
            # While nobody could list, nobody could watch either: that time is not the watch's silence.
            count.progress_seconds += self._clock.now() - began_seconds
            self._compare(count, listing)
            if await self._wait_complete(count, pause_seconds) and await self._wait_listed(count, listing):
                self._declare_whole(count)
                return listing
            pause_seconds = min(pause_seconds * 2, LONGEST_PAUSE_SECONDS)
            if self._clock.now() - count.progress_seconds >= SILENCE_SECONDS:
                await self._read_missing(count)

    async def _wait_listed(self, count: _Count, listing: Listing) -> bool:
        """Whether nothing but the list is to be gone by, or the watch has listed the kind in full.

        If it has not after a while, for instance because its lists cannot be read in bulk, ours are full ones.
        """
        if not listing.is_sample:
            return True
        await wait_for_signal(count.listed, self._clock, SILENCE_SECONDS)
        count.samples = False
        return count.listed.is_set()

    async def _list(self, count: _Count) -> Listing:
        """The list, however long it takes to get one that can be believed."""
        pause_seconds, complained_seconds = FIRST_PAUSE_SECONDS, 0.0
        while True:
            count.gone.clear()
            count.shown.clear()
            count.listing = True
            try:
                return await self._list_once(count)
            except (ApiError, Unreachable) as error:
                count.problem = f"cannot be listed: {_briefly(error)}"
                # That nobody can be reached at all is said once, by whoever keeps house, not once a kind.
                is_answer = isinstance(error, ApiError | Malformed)
                if is_answer and self._clock.now() - complained_seconds >= COMPLAINT_SECONDS:
                    complained_seconds = self._clock.now()
                    _log.warning("%s cannot be listed, trying again: %s", count.resource.plural, error)
            finally:
                count.listing = False
            await self._clock.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, LONGEST_PAUSE_SECONDS)

    async def _list_once(self, count: _Count) -> Listing:
        """A list that can be believed; what it proves to be gone is removed."""
        resource, kind = count.resource, count.resource.kind
        before, newest = self._known.known(kind).copy(), max(self._known.newest(kind), count.version)
        listing = await list_metadata(self._api, resource, sample=count.samples)
        if listing.is_sample:
            return listing
        if await self._is_rewound(count, newest, listing):
            listing = await list_metadata(self._api, resource)  # one alone may come from anywhere
            if await self._is_rewound(count, newest, listing):
                self._tell_rewound(count, newest, listing)
        if not count.whole:
            await self._proof.check_first(resource, listing)
        gone = await self._proof.gone(resource, before, listing)
        await self._take_turns()
        count.heard_seconds = count.compared_seconds = self._clock.now()
        count.version = max(count.version, listing.number)
        self._remove_ghosts(count, gone)
        return listing

    def _remove_ghosts(self, count: _Count, gone: Mapping[str, str]) -> None:
        kind = count.resource.kind
        known = self._known.known(kind).uids
        ghosts = {uid: key for uid, key in gone.items() if uid in known and uid not in count.shown}
        for uid, key in ghosts.items():
            self._known.remove(kind, _stub(uid, key), told=False)
        count.ghosts |= ghosts

    async def _is_rewound(self, count: _Count, newest: int, listing: Listing) -> bool:
        """A list is never older than what was seen before it began, unless the store itself is."""
        if not listing.number:
            return False
        if listing.number < newest:
            return True
        async for part in self._parts(listing.versions):
            if self._known.contradicted(count.resource.kind, part, listing.number):
                return True
        return False

    async def _behind(self, kind: str, versions: Mapping[str, int]) -> list[str]:
        """Those of these UIDs that are known in an older version than this."""
        return [uid async for part in self._parts(versions) for uid in self._known.behind(kind, part)]

    def _tell_rewound(self, count: _Count, newest: int, listing: Listing) -> None:
        """Raises Malformed: what such a list says is believed when everything starts over."""
        kind = count.resource.kind
        words = f"version {listing.number} after {newest}"
        if listing.number >= newest:
            some = self._known.contradicted(kind, listing.versions, listing.number)
            words = f"{listing.objects[some[0]]} is older than it was, and so are {len(some) - 1} more"
        self.tell_rewound(kind, words)
        raise Malformed("its versions are older than they were, as after a restore from a backup")

    def _compare(self, count: _Count, listing: Listing) -> None:
        if count.served and not listing.is_served:
            _log.info("The API server does not serve %s", count.resource.path)
        count.served = listing.is_served
        kind = count.resource.kind
        known, unsure = self._known.known(kind).uids, self._known.unsure(kind)
        count.missing = {
            uid: key
            for uid, key in listing.objects.items()
            if (uid not in known or uid in unsure) and uid not in count.gone
        }
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
        count.samples = False
        if not count.whole:
            count.whole = True
            _log.info("%s: whole (%d)", count.resource.plural, len(self._known.known(count.resource.kind)))
        if self.whole and not self._is_told:
            self._on_whole()
            self._is_told = True

    # --- drift ---------------------------------------------------------------------------------------------------

    async def _judge_again(self, count: _Count, listing: Listing) -> None:
        """What the list says otherwise may be on its way: what still differs after a while has drifted."""
        kind = count.resource.kind
        await self._take_turns()
        behind = await self._behind(kind, listing.versions)
        if behind or count.ghosts:
            await self._wait_calm(count, SILENCE_SECONDS, LONGEST_LIST_SECONDS)
            self._drift.note(kind, GHOST, count.ghosts.values())
            count.ghosts.clear()
            await self._drift.read(
                count.resource,
                STALE,
                {uid: listing.objects[uid] for uid in behind},
                lambda uid: bool(self._known.behind(kind, {uid: listing.versions[uid]})),
            )

    def _say(self, count: _Count, listing: Listing) -> None:
        kind = count.resource.kind
        drift = ", ".join(f"{number} {what}" for what, number in self._drift.counts.get(kind, {}).items())
        text = "%s: compared with the API server: %d there, %d known, drift since the start: %s"
        _log.info(text, kind, len(listing.objects), len(self._known.known(kind)), drift or "none")

    async def _read_missing(self, count: _Count) -> None:
        await self._drift.read(count.resource, MISSING, dict(count.missing), count.missing.__contains__)
        kind = count.resource.kind
        known, unsure = self._known.known(kind).uids, self._known.unsure(kind)
        count.missing = {uid: key for uid, key in count.missing.items() if uid not in known or uid in unsure}


def _stub(uid: str, key: str) -> dict[str, Any]:
    namespace, _, name = key.rpartition("/")
    return {"metadata": {"uid": uid, "name": name, **({"namespace": namespace} if namespace else {})}}


def _briefly(error: ApiError | Unreachable) -> str:
    """Without words that may name servers; those are in the log. A right that is missing is told in full, however: what
    it names is the resource and our own account.
    """
    if isinstance(error, Malformed):
        return error.reason
    if isinstance(error, Unreachable):
        return "the API server does not answer"
    return str(error) if error.status == 403 else f"{error.status} {error.reason}"
