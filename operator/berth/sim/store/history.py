"""The objects of one kind, their latest changes, and the watches.

A `StoredCollection` is a dict of bodies with its keys in order, and a log of changes. Each change has the body before
and after, so that everything else follows from it:

    watch from a version    the log's changes after it, then each new one as it happens
    list at a version       what there is now, with the later changes undone
    410                     the version is older than what the log remembers (it is bounded, and `compact` empties it)

Selectors turn changes into events as Kubernetes does: an object that begins to match is ADDED, one that ceases to is
DELETED, with the body that matched last and the version of the change. Nothing is copied for a watcher.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from berth.sim.errors import expired
from berth.sim.objects import Object, with_version
from berth.sim.selection import Selection

Event = tuple[str, Object]
View = Callable[[Object], Object]
Contents = dict[str, Object]

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(slots=True)
class StoredChange:
    """One write. `before` None: created; `after` None: deleted."""

    revision: int
    key: str
    before: Object | None
    after: Object | None
    _last: Object | None = field(default=None, repr=False)

    @property
    def last(self) -> Object:
        """What a DELETED event carries: the body as it was, at the version of this change."""
        if self._last is None:
            assert self.before is not None, "only what was there can go"
            self._last = with_version(self.before, self.revision)
        return self._last


class StoredCollection:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._objects: dict[str, Object] = {}
        self._keys: list[str] = []
        self._log: deque[StoredChange] = deque()
        self._forgotten = 0
        self._watches: dict[Watch, None] = {}  # in the order in which they began: each seed has them so again

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def forgotten(self) -> int:
        """Versions below this one cannot be watched or listed any more."""
        return self._forgotten

    @property
    def remembered(self) -> int:
        return len(self._log)

    @property
    def watchers(self) -> int:
        return len(self._watches)

    def get(self, key: str) -> Object | None:
        return self._objects.get(key)

    def write(self, revision: int, key: str, after: Object | None) -> StoredChange:
        """Put or, with None, remove an object, and tell the watchers."""
        change = StoredChange(revision, key, self._objects.get(key), after)
        if after is None:
            del self._objects[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if change.before is None:
                insort(self._keys, key)
            self._objects[key] = after
        self._log.append(change)
        if len(self._log) > self._limit:
            self._forgotten = self._log.popleft().revision
        for watch in tuple(self._watches):
            watch.offer(change)
        return change

    def compact(self, revision: int) -> None:
        """Forget what happened up to and including this version. Open watches go on."""
        self._log.clear()
        self._forgotten = max(self._forgotten, revision)

    def contents(self) -> Contents:
        """What there is now, to be put back one day."""
        return dict(self._objects)

    def put_back(self, contents: Contents, revision: int) -> None:
        """Have these objects and no history, as after a restore of a backup of that version. Watches end."""
        self.end_watches()
        self._objects = dict(contents)
        self._keys = sorted(contents)
        self._log.clear()
        self._forgotten = revision

    # -- reading -----------------------------------------------------------------------------------------------------

    def scan(self, prefix: str, after_key: str = "") -> Iterator[tuple[str, Object]]:
        """What there is now, in the order of keys, below a prefix and behind a key."""
        first = bisect_left(self._keys, max(prefix, after_key))
        for key in self._keys[first : self._end(prefix)]:
            if key != after_key:
                yield key, self._objects[key]

    def count(self, prefix: str) -> int:
        return self._end(prefix) - bisect_left(self._keys, prefix)

    def scan_at(self, revision: int, prefix: str, after_key: str = "") -> Iterator[tuple[str, Object]]:
        """The same as of an older version."""
        undone: dict[str, Object | None] = {}
        for change in reversed(self._log):
            if change.revision <= revision:
                break
            if change.key.startswith(prefix):
                undone[change.key] = change.before
        keys = {key for key, _ in self.scan(prefix)} | undone.keys()
        for key in sorted(keys):
            body = undone[key] if key in undone else self._objects[key]
            if body is not None and key > after_key:
                yield key, body

    def _end(self, prefix: str) -> int:
        # "0" is the character behind "/", which ends every prefix that is not empty.
        return bisect_left(self._keys, f"{prefix[:-1]}0") if prefix else len(self._keys)

    # -- watching ----------------------------------------------------------------------------------------------------

    def attach(self, watch: Watch, revision: int) -> None:
        """Give a watch what happened after a version, and from now on what happens."""
        if revision < self._forgotten:
            raise expired(f"too old resource version: {revision} ({self._forgotten})")
        missed: list[StoredChange] = []
        for change in reversed(self._log):
            if change.revision <= revision:
                break
            missed.append(change)
        for change in reversed(missed):
            watch.offer(change)
        self._watches[watch] = None

    def end_watches(self) -> None:
        for watch in tuple(self._watches):
            watch.close()

    def detach(self, watch: Watch) -> None:
        self._watches.pop(watch, None)


class Watch:
    """Async iterator of (type, object). Waiting for the next may be cancelled: nothing is lost. Ends after close()."""

    def __init__(
        self,
        collection: StoredCollection,
        prefix: str,
        selection: Selection,
        view: View,
        bookmark: Callable[[], Object] | None,
        after_revision: int,
    ) -> None:
        self._collection = collection
        self._prefix = prefix
        self._selection = selection
        self._view = view
        self._bookmark = bookmark
        self._after_revision = after_revision
        self._ready: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Event:
        while not self._ready:
            if self._closed:
                raise StopAsyncIteration
            if self._waiter is None or self._waiter.done():
                self._waiter = asyncio.get_running_loop().create_future()
            # A shield: one waiter that gives up must not end the wait of another.
            await asyncio.shield(self._waiter)
        return self._ready.popleft()

    def take_ready(self) -> list[Event]:
        """What is there now, without waiting."""
        ready = list(self._ready)
        self._ready.clear()
        return ready

    def bookmark(self, *, ends_initial_events: bool = False) -> None:
        """Queue a BOOKMARK with the current version behind what is waiting; nothing if none were asked for.

        Nor if the watch began at a version that the store has not come to: it hears nothing before that.
        """
        if self._bookmark is None or self._closed:
            return
        body = self._bookmark()
        if int(body["metadata"]["resourceVersion"]) < self._after_revision:
            return
        if ends_initial_events:
            body["metadata"]["annotations"] = {INITIAL_EVENTS_END: "true"}
        self._put("BOOKMARK", body)

    def close(self) -> None:
        """Ends the iteration once what is waiting has been taken."""
        self._closed = True
        self._collection.detach(self)
        self._wake()

    # -- what the collection says --------------------------------------------------------------------------------------

    def begin_with(self, body: Object) -> None:
        """An object that was there when the watch began."""
        self._put("ADDED", self._view(body))

    def offer(self, change: StoredChange) -> None:
        if self._closed or change.revision <= self._after_revision or not change.key.startswith(self._prefix):
            return
        matched = change.before is not None and self._matches(change.before)
        if change.after is not None and self._matches(change.after):
            self._put("MODIFIED" if matched else "ADDED", self._view(change.after))
        elif matched:
            self._put("DELETED", self._view(change.last))

    def _matches(self, body: Object) -> bool:
        return self._selection.everything or self._selection.matches(body)

    def _put(self, kind: str, body: Object) -> None:
        self._ready.append((kind, body))
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
