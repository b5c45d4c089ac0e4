"""The echo of our own binds: what we wrote must come back through the watch.

An assumed pod never expires (#106361). One whose echo is 30 s late is read from the API, and what the API says is
done: bound, then it is so; gone or unbound although the API server had acknowledged the bind, then its room is free
and the pod is tried again, unless the watch says that it is gone.
A pod whose bind is still under way belongs to its binding and is left alone, unless it turns out to be bound already.

A late echo of an acknowledged bind is also the sign of a watch that died alone. Such pods count as missing until the
watch speaks of them again: reading them from the API mends the cache, not the watch.
"""

from collections.abc import Mapping
from typing import Any

from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.pod_states import Assumption
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.event_intake import EventIntake
from berth.scheduler.ports import Clock, Cluster, Unavailable

LATE_SECONDS = 30.0
SWEEP_SECONDS = 5.0


class BindConfirmations:
    """Which binds the watch still owes us, and since when."""

    def __init__(self, cache: Cache, intake: EventIntake, cluster: Cluster, clock: Clock, faults: ErrorLog) -> None:
        self._cache = cache
        self._intake = intake
        self._cluster = cluster
        self._clock = clock
        self._faults = faults
        self._since: dict[str, float] = {}
        self._missing: set[str] = set()

    def expect(self, uid: str) -> None:
        """A bind was sent, or has just been acknowledged: its echo should come from now on."""
        self._since.pop(uid, None)  # the oldest are the first
        self._since[uid] = self._clock.now()

    def heard(self, uid: str) -> None:
        """The watch spoke of this pod."""
        self._missing.discard(uid)

    @property
    def missing(self) -> int:
        """How many acknowledged binds the watch has been silent about for too long."""
        return len(self._missing)

    def is_missing(self, seconds: float) -> bool:
        """Whether the watch has been silent about an acknowledged bind for so many seconds."""
        latest = self._clock.now() - seconds
        for uid, since in self._since.items():  # few are that old: a sweep takes out those that were shown
            if since > latest:
                return False
            held = self._cache.assumed().get(uid)
            if held is not None and held.acknowledged:
                return True
        return False

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            try:
                await self.sweep()
            except Exception as error:
                self._faults.note("sweeping", "assumed pods", error)

    async def sweep(self) -> None:
        """Read every pod whose echo is late; those that cannot be read now are read at the next sweep."""
        self._missing &= self._cache.known("Pod").keys()  # of one that is gone the watch may speak no more
        for uid in self._late():
            held = self._cache.assumed().get(uid)
            if held is None:
                continue
            if held.acknowledged:
                self._missing.add(uid)
            await self._look(uid, held)

    def _late(self) -> list[str]:
        assumed = self._cache.assumed()
        self._since = {uid: since for uid, since in self._since.items() if uid in assumed}
        latest = self._clock.now() - LATE_SECONDS
        return [uid for uid, since in self._since.items() if since <= latest]

    async def _look(self, uid: str, held: Assumption) -> None:
        try:
            body = await self._cluster.read_pod(held.pod)
        except Unavailable:
            return
        except Exception as error:
            self._faults.note("reading", held.pod, error)
            return
        if self._cache.assumed().get(uid) is held:  # else it was settled while we were reading
            self._settle(uid, held, body)

    def _settle(self, uid: str, held: Assumption, body: Mapping[str, Any] | None) -> None:
        if body is not None and node_of(body):
            self._intake.observe_pod(body)
        elif not held.acknowledged:
            return
        elif body is None:
            self._intake.give_back(uid)
        else:
            self._intake.correct(uid, body)


def node_of(body: Mapping[str, Any]) -> str:
    """The node that a pod's body is bound to; empty when it is not."""
    return str((body.get("spec") or {}).get("nodeName") or "")
