"""Hands over what the watches and the cache sync have shown, of every kind, and says what is known of it."""

from collections.abc import Callable, Mapping, Set
from typing import Any

from berth.cluster.bodies import ObjectBodies
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.versions import KnownKeys, Register
from berth.scheduler.scheduler import Scheduler

POLICY = "SchedulingPolicy"


class EventFanout:
    """What the cache sync reads and updates: the cache for most kinds, and a register of our own for policies."""

    def __init__(
        self,
        cache: Cache,
        scheduler: Scheduler,
        bodies: ObjectBodies,
        on_change: Callable[[str, Mapping[str, Any], bool], None],
    ) -> None:
        """`on_change` is called with every object after it was handed over, and with whether it was removed."""
        self._cache = cache
        self._scheduler = scheduler
        self._bodies = bodies
        self._on_change = on_change
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

    def observe(self, kind: str, body: Mapping[str, Any]) -> None:
        if kind == POLICY:
            policy = self._policies.identify(body)
            if not self._policies.is_news(policy):
                return
            if policy.uid in self._policies.unsure:
                # An older generation than the one in force would be taken for a confirmation.
                self._scheduler.remove(kind, body)
            self._policies.record(policy)
        self._scheduler.observe(kind, body)
        self._bodies.observe(kind, body)
        self._on_change(kind, body, False)

    def remove(self, kind: str, body: Mapping[str, Any], *, told: bool = True) -> None:
        if kind == POLICY:
            self._policies.remove(self._policies.identify(body), told=told)
        self._scheduler.remove(kind, body, told=told)
        self._bodies.remove(kind, body)
        self._on_change(kind, body, True)
