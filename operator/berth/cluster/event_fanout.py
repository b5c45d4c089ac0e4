"""Event fan-out: hands every event of the watches and the cache sync to the listeners, and says what is known.

Which version of an object is newer is judged by the cache for most kinds. Policies are not in the cache: they have a
register here, so that outdated versions of them are dropped as well.
"""

from collections.abc import Callable, Mapping, Sequence, Set

from berth.cluster.resources import POLICY
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.versions import KnownKeys, Register
from berth.scheduler.object_events import EventListener, ObjectEvent


class EventFanout:
    """Implements `berth.cluster.drift.Known`."""

    def __init__(
        self, cache: Cache, listeners: Sequence[EventListener], *, forget_policy: Callable[[str, str], None]
    ) -> None:
        """The listeners are called in their order, the one that updates the cache first.

        `forget_policy` is called with the name and UID of a policy whose next version may be older than the known one.
        """
        self._cache = cache
        self._listeners = tuple(listeners)
        self._forget_policy = forget_policy
        self._policies = Register()

    def known(self, kind: str) -> KnownKeys:
        return self._policies.known if kind == POLICY else self._cache.known(kind)

    def behind(self, kind: str, versions: Mapping[str, int]) -> list[str]:
        return self._policies.behind(versions) if kind == POLICY else self._cache.behind(kind, versions)

    def newest(self, kind: str) -> int:
        return self._policies.newest if kind == POLICY else self._cache.newest(kind)

    def contradicted(self, kind: str, versions: Mapping[str, int], version: int) -> list[str]:
        if kind == POLICY:
            return self._policies.contradicted(versions, version)
        return self._cache.contradicted(kind, versions, version)

    def unsure(self, kind: str) -> Set[str]:
        return self._policies.unsure if kind == POLICY else self._cache.unsure(kind)

    def start_over(self) -> None:
        """The store has gone back in time: no version that was reported means anything any more."""
        self._policies.start_over()
        self._cache.start_over()

    def on_event(self, event: ObjectEvent) -> None:
        """Hand the event to every listener; an outdated version of a policy to none."""
        if event.kind == POLICY and not self._register_policy(event):
            return
        for listener in self._listeners:
            listener.on_event(event)

    def _register_policy(self, event: ObjectEvent) -> bool:
        """Whether the listeners have to hear of the policy."""
        identity = event.identity
        if event.is_removal:
            self._policies.remove(identity, reported_by_watch=event.reported_by_watch)
            return True
        if not self._policies.is_news(identity):
            return False
        if identity.uid in self._policies.unsure:
            # An older generation than the one in force would be taken for a confirmation.
            self._forget_policy(identity.key, identity.uid)
        self._policies.record(identity)
        return True
