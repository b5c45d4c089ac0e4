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

from berth.scheduler.binding.unconfirmed_binds import UnconfirmedBinds
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.pod_states import Assumption
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.event_intake import EventIntake
from berth.scheduler.object_events import ObjectEvent, observed
from berth.scheduler.ports import Clock, Cluster, Unavailable

LATE_SECONDS = 30.0
SWEEP_SECONDS = 5.0


class BindConfirmations:
    """Looks for binds whose confirmation is late."""

    def __init__(
        self,
        unconfirmed: UnconfirmedBinds,
        cache: Cache,
        intake: EventIntake,
        cluster: Cluster,
        clock: Clock,
        errors: ErrorLog,
    ) -> None:
        self._unconfirmed = unconfirmed
        self._cache = cache
        self._intake = intake
        self._cluster = cluster
        self._clock = clock
        self._errors = errors
        self._missing: set[str] = set()

    def on_event(self, event: ObjectEvent) -> None:
        """The watch reports the pod: its confirmation is not missing any more."""
        if event.kind == "Pod":
            self._missing.discard(event.identity.uid)

    @property
    def missing(self) -> int:
        """The number of acknowledged binds whose confirmation is late."""
        return len(self._missing)

    async def run(self) -> None:
        """Sweep forever."""
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            try:
                await self.sweep()
            except Exception as error:
                self._errors.note("sweeping", "assumed pods", error)

    async def sweep(self) -> None:
        """Read every pod whose confirmation is late; pods that cannot be read are read at the next sweep."""
        self._missing &= self._cache.known("Pod").keys()  # the watch reports removed pods no more
        for uid in self._unconfirmed.late(LATE_SECONDS):
            held = self._cache.assumed().get(uid)
            if held is None:
                continue
            if held.acknowledged:
                self._missing.add(uid)
            await self._look(uid, held)

    async def _look(self, uid: str, held: Assumption) -> None:
        try:
            body = await self._cluster.read_pod(held.pod)
        except Unavailable:
            return
        except Exception as error:
            self._errors.note("reading", held.pod, error)
            return
        if self._cache.assumed().get(uid) is held:  # else it was confirmed or forgotten while it was read
            self._settle(uid, held, body)

    def _settle(self, uid: str, held: Assumption, body: Mapping[str, Any] | None) -> None:
        if body is not None and node_of(body):
            self._intake.observe_pod(observed("Pod", body))
        elif not held.acknowledged:
            return
        elif body is None:
            self._intake.give_back(uid)
        else:
            self._intake.correct(uid, body)


def node_of(body: Mapping[str, Any]) -> str:
    """The node name in the body of a pod; empty if it is not bound."""
    return str((body.get("spec") or {}).get("nodeName") or "")
