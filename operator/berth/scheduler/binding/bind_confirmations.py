"""Bind confirmations: every bind that we send must be confirmed by the watch.

An assumed pod never expires (#106361). If its confirmation is 30 s late, the pod is read from the API server and the
cache is corrected. If the pod is bound, the cache takes that over. If it is gone or unbound although the API server
acknowledged the bind, it is forgotten and tried again, unless the watch reports its deletion. While a bind is still
running, the pod is left to `BackgroundBinder`, unless the API server shows it as bound already.

A late confirmation of an acknowledged bind also indicates a watch that has stopped silently. Such pods count as missing
until the watch reports them: reading a pod from the API server repairs the cache, not the watch.
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
    """The binds that the watch has yet to confirm, and since when."""

    def __init__(self, cache: Cache, intake: EventIntake, cluster: Cluster, clock: Clock, faults: ErrorLog) -> None:
        self._cache = cache
        self._intake = intake
        self._cluster = cluster
        self._clock = clock
        self._faults = faults
        self._since: dict[str, float] = {}
        self._missing: set[str] = set()

    def expect(self, uid: str) -> None:
        """A bind was sent, or has just been acknowledged: wait for its confirmation from now on."""
        self._since.pop(uid, None)  # the oldest are the first
        self._since[uid] = self._clock.now()

    def heard(self, uid: str) -> None:
        """The watch reported this pod."""
        self._missing.discard(uid)

    @property
    def missing(self) -> int:
        """The number of acknowledged binds whose confirmation is late."""
        return len(self._missing)

    def is_missing(self, seconds: float) -> bool:
        """Whether an acknowledged bind has not been confirmed for this many seconds."""
        latest = self._clock.now() - seconds
        for uid, since in self._since.items():  # few are that old: a sweep removes confirmed ones
            if since > latest:
                return False
            held = self._cache.assumed().get(uid)
            if held is not None and held.acknowledged:
                return True
        return False

    async def run(self) -> None:
        """Sweep forever."""
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            try:
                await self.sweep()
            except Exception as error:
                self._faults.note("sweeping", "assumed pods", error)

    async def sweep(self) -> None:
        """Read every pod whose confirmation is late; pods that cannot be read are read at the next sweep."""
        self._missing &= self._cache.known("Pod").keys()  # the watch reports removed pods no more
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
        if self._cache.assumed().get(uid) is held:  # else it was confirmed or forgotten while it was read
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
    """The node name in the body of a pod; empty if it is not bound."""
    return str((body.get("spec") or {}).get("nodeName") or "")
