"""What kopf tells Berth about one kind: a list, then changes, in order for one object and in no order between objects.

    list --> every object, with type None --> watch from the list's version --> ADDED, MODIFIED, DELETED
      ^                                          |   ^
      +---------- 410: what was deleted          |   +--- cut: again from the last version that was read
                  meanwhile is never told -------+

Each object has a queue of its own, as in kopf, and what is late in it holds up what is behind it. Where lists and
watches are read in bulk there is one queue, of changes and of pieces of lists, and what is due goes to a `Taker`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from berth.cluster.bulk import Change, Taker
from berth.cluster.listing import ListInProgress, WatchedResource
from berth.model import object_key
from berth.sim.errors import StatusError
from berth.sim.loop import SeededLoop
from berth.sim.store import Object, Page, Store
from berth.sim.store.history import Watch
from simulation.network import Link
from simulation.weather import Weather

HandOver = Callable[[str, str | None, Mapping[str, Any]], None]
Piece = tuple[ListInProgress, list[Object] | None]  # None: the list ends
Note = Callable[..., None]

PAUSE_SECONDS = (0.25, 3.0)
LATE_SECONDS = (0.2, 20.0)
QUIET_SHARE = 0.3  # of the faults of watches, for kinds that decisions depend on less
PAST_VERSIONS = 40
PIECE = 3  # objects of a list that are handed over at once
CUT_SECONDS = 0.25  # between two tries to connect again


def _nothing(*_: object) -> None:
    """Nobody takes it down."""


class Watcher:
    """Runs inside the process that it tells."""

    def __init__(
        self,
        loop: SeededLoop,
        store: Store,
        weather: Weather,
        resource: WatchedResource,
        hand_over: HandOver,
        link: Link,
        note: Note = _nothing,
        *,
        is_reliable: bool = False,
        label_selector: str = "",
        taker: Taker | None = None,
    ) -> None:
        """`is_reliable`: it is cut and told 410, but what it says is all there is, in time and once. `taker`: whom
        everything is handed over to in bulk.
        """
        self._taker = taker
        self._bulk: deque[tuple[float, Piece | Change]] = deque()
        self._loop = loop
        self._link = link
        self._is_reliable = is_reliable
        self._note = note
        self._store = store
        self._weather = weather
        self._kind = resource.kind
        self._fields = resource.field_selector
        self._labels = label_selector
        self._find = (resource.group, resource.version, resource.plural)
        self._hand_over = hand_over
        self._queues: dict[str, deque[tuple[str | None, Mapping[str, Any]]]] = {}
        self._due: dict[str, float] = {}
        self._watch: Watch | None = None
        self._is_expired = False
        self._deaf_until = 0.0
        self._share = 1.0 if resource.kind in ("Pod", "Node") else QUIET_SHARE
        self._lists = 0
        self.first_version = 0

    async def run(self) -> None:
        """For ever."""
        while True:
            version = await self._list()
            while not self._is_expired:
                version = await self._read(version)
                await asyncio.sleep(self._weather.latency_seconds())
            self._is_expired = False

    def deafen(self, seconds: float) -> None:
        """The connection stays open, and says nothing for so long."""
        self._deaf_until = self._loop.time() + seconds

    def close(self) -> None:
        """Nobody is told anything any more."""
        if self._watch is not None:
            self._watch.close()

    # --- lists -------------------------------------------------------------------------------------------------------

    async def _list(self) -> str:
        while True:
            await asyncio.sleep(self._weather.latency_seconds())
            is_away = self._link.is_cut or self._loop.time() < self._weather.outage_until
            if not is_away and not self._weather.on_request("GET", is_bind=False):
                break
            await asyncio.sleep(self._weather.between(*PAUSE_SECONDS))
        page = self._page()
        self._lists += 1
        self.first_version = self.first_version or int(page.resource_version)
        self._show(self._shown(page), page.resource_version)
        return page.resource_version

    def _show(self, bodies: list[Object], version: str) -> None:
        if self._taker is None:
            for body in bodies:
                self._put(None, body)
            return
        listed = self._taker.begin_list(self._kind)
        listed.begin_page({"resourceVersion": version}, is_first=True)
        for begin in range(0, len(bodies), PIECE):
            self._put_in_bulk((listed, bodies[begin : begin + PIECE]))
        self._put_in_bulk((listed, None))

    def _shown(self, page: Page) -> list[Object]:
        """kopf takes whatever is on a list for the whole of it, and removes nothing for what is not."""
        if self._is_reliable:
            return page.items
        if self._weather.happens("watch begins with an empty list"):
            self._tell_of_watch("begins with an empty list")
            return []
        if self._weather.happens("watch begins with half a list"):
            self._tell_of_watch("begins with half a list")
            return page.items[::2]
        return page.items

    def _page(self) -> Page:
        resource = self._store.find(*self._find)
        if resource is None:
            return Page([], str(self._store.revision), "", None)
        if self._lists and not self._is_reliable and self._weather.happens("relist from the past", self._share):
            past = max(1, self._store.revision - self._weather.random.randint(1, PAST_VERSIONS))
            try:
                page = self._store.list(
                    resource, field_selector=self._fields, resource_version=str(past), match="Exact"
                )
            except StatusError:
                pass  # that long ago is not remembered
            else:
                self._tell_of_watch(f"begins with a list of v{past}, {self._store.revision - past} changes ago")
                if self._kind in ("Pod", "Node"):
                    self._weather.counts[f"relist of {resource.plural} from the past"] += 1
                return page
        return self._store.list(resource, field_selector=self._fields, label_selector=self._labels)

    # --- changes -----------------------------------------------------------------------------------------------------

    async def _read(self, version: str) -> str:
        """Until the connection ends; the last version that was read."""
        resource = self._store.find(*self._find)
        if resource is None:
            await asyncio.sleep(5.0)
            self._is_expired = True
            return version
        while self._link.is_cut:  # noqa: ASYNC110, as a client tries
            await asyncio.sleep(CUT_SECONDS)
        watch = self._watch = self._store.watch(
            resource, field_selector=self._fields, label_selector=self._labels, resource_version=version
        )
        lifetime = self._loop.call_later(self._weather.watch_lifetime_seconds(self._share), watch.close)
        try:
            async for type_, body in watch:
                version = body["metadata"]["resourceVersion"]
                self._take(type_, body)
        finally:
            lifetime.cancel()
            watch.close()
        if self._weather.happens("watch 410"):
            self._tell_of_watch("gets 410")
            self._is_expired = True
        return version

    def _take(self, type_: str, body: Mapping[str, Any]) -> None:
        if self._is_reliable:
            self._put(type_, body)
            return
        if self._loop.time() < self._deaf_until:
            self._weather.counts["event not heard"] += 1
            self._tell(type_, body, "is not heard")
            return
        if self._weather.happens("event dropped"):
            self._tell(type_, body, "is dropped")
            return
        self._put(type_, body)
        if self._weather.happens("event doubled"):
            self._tell(type_, body, "is doubled")
            self._loop.call_later(self._weather.between(0.0, 10.0), self._put, type_, body)

    def _tell_of_watch(self, what: str) -> None:
        """What befalls pods and nodes concerns everybody."""
        plural = self._find[2]
        self._note(f"the watch of {plural} {what}", *(() if self._kind in ("Pod", "Node") else (plural,)))

    def _tell(self, type_: str | None, body: Mapping[str, Any], what: str) -> None:
        metadata, key = body["metadata"], object_key(body)
        said = f"{type_ or 'LISTED'} {self._kind} {key} v{metadata['resourceVersion']} {what}"
        self._note(said, key, metadata["uid"])

    def _put_in_bulk(self, item: Piece | Change) -> None:
        """Behind everything that came before it."""
        late = self._weather.happens("event late")
        seconds = self._weather.between(*LATE_SECONDS) if late else self._weather.latency_seconds()
        due = max(self._bulk[-1][0] if self._bulk else 0.0, self._loop.time() + seconds)
        self._bulk.append((due, item))
        self._loop.call_at(due, self._deliver_in_bulk)

    def _deliver_in_bulk(self) -> None:
        """All that is due by now, changes that follow each other at once."""
        assert self._taker is not None
        changes: list[Change] = []
        while self._bulk and self._bulk[0][0] <= self._loop.time():
            _, (what, said) = self._bulk.popleft()
            if isinstance(what, str):
                assert isinstance(said, dict)
                changes.append((what, said))
                continue
            self._taker.on_changes(self._kind, changes)
            changes = []
            if said is None:
                self._taker.end_list(what)
            else:
                assert isinstance(said, list)
                self._taker.on_list(what, said)
        self._taker.on_changes(self._kind, changes)

    def _put(self, type_: str | None, body: Mapping[str, Any]) -> None:
        if self._taker is not None:
            assert type_ is not None
            self._put_in_bulk((type_, dict(body)))
            return
        uid = body["metadata"]["uid"]
        late = not self._is_reliable and self._weather.happens("event late")
        seconds = self._weather.between(*LATE_SECONDS) if late else self._weather.latency_seconds()
        if late:
            self._tell(type_, body, f"is {seconds:.1f} s late")
        due = max(self._due.get(uid, 0.0), self._loop.time() + seconds)
        self._due[uid] = due
        self._queues.setdefault(uid, deque()).append((type_, body))
        self._loop.call_at(due, self._deliver, uid)

    def _deliver(self, uid: str) -> None:
        queue = self._queues[uid]
        type_, body = queue.popleft()
        if not queue:
            del self._queues[uid], self._due[uid]
        self._hand_over(self._kind, type_, body)
