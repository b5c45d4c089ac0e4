"""What the watches and the census have shown, of every kind: who hands it over, and what is known of it."""

from collections.abc import Callable, Mapping
from typing import Any

from berth.cluster.bodies import ObjectBodies
from berth.scheduler.cache import Cache
from berth.scheduler.scheduler import Scheduler
from berth.scheduler.versions import Register

POLICY = "SchedulingPolicy"


class View:
    """What the census asks and tells: the cache for most kinds, and a register of our own for policies."""

    def __init__(
        self,
        cache: Cache,
        scheduler: Scheduler,
        bodies: ObjectBodies,
        on_change: Callable[[str, Mapping[str, Any], bool], None],
    ) -> None:
        """`on_change`: told of every object after it was handed over, and whether it was removed."""
        self._cache = cache
        self._scheduler = scheduler
        self._bodies = bodies
        self._on_change = on_change
        self._policies = Register()

    def known(self, kind: str) -> Mapping[str, str]:
        return self._policies.known if kind == POLICY else self._cache.known(kind)

    def behind(self, kind: str, versions: Mapping[str, int]) -> list[str]:
        return self._policies.behind(versions) if kind == POLICY else self._cache.behind(kind, versions)

    def newest(self, kind: str) -> int:
        return self._policies.newest if kind == POLICY else self._cache.newest(kind)

    def observe(self, kind: str, body: Mapping[str, Any]) -> None:
        if kind == POLICY:
            policy = self._policies.identify(body)
            if not self._policies.is_news(policy):
                return
            self._policies.record(policy)
        self._scheduler.observe(kind, body)
        self._bodies.observe(kind, body)
        self._on_change(kind, body, False)

    def remove(self, kind: str, body: Mapping[str, Any]) -> None:
        if kind == POLICY:
            self._policies.remove(self._policies.identify(body))
        self._scheduler.remove(kind, body)
        self._bodies.remove(kind, body)
        self._on_change(kind, body, True)
