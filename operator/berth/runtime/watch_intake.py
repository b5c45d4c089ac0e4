"""Watch intake: takes what the watches report, one object at a time or in bulk, and passes it on as events.

The identity of an object is read here, once. What has no name and no UID is no object of any API server: it is counted
and left out. None of the methods raises, because they are called by kopf's own machinery.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from berth.cluster import peering
from berth.cluster.cache_sync import CacheSync
from berth.cluster.errors import OtherCluster
from berth.cluster.event_fanout import EventFanout
from berth.cluster.identity import SYSTEM, ClusterIdentity
from berth.cluster.leader import Leader
from berth.cluster.listing import ListInProgress
from berth.cluster.neighbours import Neighbours
from berth.cluster.resources import NAMESPACE
from berth.model import object_key
from berth.runtime.watch_control import WatchControl
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.object_events import Identity, ObjectEvent, identify, version_number

DELETED = "DELETED"

_log = logging.getLogger(__name__)


class WatchIntake:
    """Implements `berth.cluster.bulk.Taker`."""

    def __init__(
        self,
        fanout: EventFanout,
        cache_sync: CacheSync,
        identity: ClusterIdentity,
        watch_control: WatchControl,
        errors: ErrorLog,
    ) -> None:
        self._fanout = fanout
        self._cache_sync = cache_sync
        self._identity = identity
        self._watch_control = watch_control
        self._errors = errors
        self._checks: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self.nameless: Counter[str] = Counter()
        """How often something without a name and a UID was reported, by kind."""
        self.restarts = 0
        """How often kopf's operator has ended and was started again."""

    def on_event(self, kind: str, type_: str | None, body: Mapping[str, Any]) -> None:
        """Take an object as kopf hands it over. The type is None for an item of a list, DELETED for a removal."""
        if self._watch_control.takes_events:
            self._take(kind, type_, body)

    def begin_list(self, kind: str) -> ListInProgress:
        """The watch lists the kind, and hands the list over in bulk."""
        return self._cache_sync.begin_list(kind)

    def on_list(self, listed: ListInProgress, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Take the next objects of such a list."""
        if not self._watch_control.takes_events:
            listed.discard()
            return
        for body in bodies:
            identity = self._take(listed.kind, None, body)
            if identity is None:
                listed.discard()
            else:
                listed.note(identity)

    def end_list(self, listed: ListInProgress) -> None:
        """The list is complete."""
        if self._watch_control.takes_events:
            self._cache_sync.end_list(listed)

    def on_changes(self, kind: str, changes: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Take what a watch reports, many changes at a time and in its order."""
        if self._watch_control.takes_events:
            for type_, body in changes:
                self._take(kind, type_, body)

    def _take(self, kind: str, type_: str | None, body: Mapping[str, Any]) -> Identity | None:
        """Pass the object on; returns its identity, or None if it is no object."""
        identity = identify(body)
        if identity is None:
            self._note_nameless(kind)
            return None
        try:
            if kind == NAMESPACE and identity.key == SYSTEM:
                self._identity.note(identity.uid)
            is_removal = type_ == DELETED
            self._fanout.on_event(ObjectEvent(kind, identity, body, is_removal))
            self._cache_sync.note(kind, identity.uid, listed=type_ is None, removed=is_removal)
        except OtherCluster:
            pass
        except Exception as error:
            # Its name and nothing else of it: annotations may hold a copy of the whole object.
            self._errors.note("handing over", f"{kind} {identity.key}", error, kind=kind)
        return identity

    def _note_nameless(self, kind: str) -> None:
        """Logged once a kind, counted always."""
        self.nameless[kind] += 1
        if self.nameless[kind] == 1:
            said = "A %s without a name and a UID of its own was reported: it is left out"
            _log.warning(said, kind, extra={"kind": kind})

    def on_watch(self, kind: str, version: str) -> None:
        """A watch is opened, or opened again, and goes on from this version: have that checked."""
        number = version_number(version)
        if number is not None and self._watch_control.takes_events and self._cache_sync.is_running:
            task = asyncio.create_task(self._cache_sync.check_watch(kind, number), name=f"watch-{kind}")
            self._checks[task] = None
            task.add_done_callback(self._checks.pop)

    def note_restart(self) -> None:
        """kopf's operator has ended by itself, and is started again."""
        self.restarts += 1

    async def stop(self) -> None:
        """Cancel the checks of watches."""
        checks = list(self._checks)
        for check in checks:
            check.cancel()
        await asyncio.gather(*checks, return_exceptions=True)


class PeeringIntake:
    """Takes the peering object, by which replicas elect a leader."""

    def __init__(self, leader: Leader, neighbours: Neighbours, watch_control: WatchControl, errors: ErrorLog) -> None:
        self._leader = leader
        self._neighbours = neighbours
        self._watch_control = watch_control
        self._errors = errors

    def on_event(self, type_: str | None, body: Mapping[str, Any]) -> None:
        """Take a peering object, ours or that of another installation. Never raises."""
        if not self._watch_control.takes_events:
            return
        try:
            if body["metadata"]["name"] == self._leader.peering.name:
                self._leader.peering.show(body if type_ != DELETED else {}, jumped=type_ is None)
                self._neighbours.look(self._leader.leadership.others())
        except Exception as error:
            self._errors.note("handing over", f"{peering.KIND} {object_key(body)}", error, kind=peering.KIND)
