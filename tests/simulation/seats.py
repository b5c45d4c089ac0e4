"""Several replicas: invariants 19 and 20, one fence and seats that nobody loses for nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from berth.cluster import peering
from simulation.berth_process import LIFETIME_SECONDS, BerthProcess
from simulation.network import Request
from simulation.trace import Trace


class Seats:
    """Stands beside all replicas."""

    def __init__(self, now: Callable[[], float], trace: Trace, replicas: Callable[[], Sequence[BerthProcess]]) -> None:
        self._now = now
        self._trace = trace
        self._replicas = replicas
        self._stamps: dict[str, Any] = {}  # by identity: the time that its record says
        self._renewed: dict[str, float] = {}  # by identity: when its last renewal landed

    def check_step(self) -> None:
        """At most one fence is open, by what each replica finds by its own clock."""
        leading = [berth for berth in self._replicas() if berth.leads]
        if len(leading) > 1:
            self._check_alone([berth for berth in leading if berth.is_open])

    def _check_alone(self, there: Sequence[BerthProcess]) -> None:
        if len(there) > 1:
            names = [berth.name for berth in there]
            self._trace.violate("19 one fence", f"the fences of {names} are open at once", *names)

    def on_landed(self, sender: BerthProcess, request: Request) -> None:
        if request.delivery_seconds is not None or _is_about_policy(request):
            others = [berth for berth in self._replicas() if berth is not sender and berth.is_open]
            if others:
                said = f"{request.method} {request.path} of {sender.name} arrives while {others[0].name} leads"
                self._trace.violate("19 one fence", said, sender.name, others[0].name)
        if request.method == "PATCH" and peering.PLURAL in request.path:
            for identity, record in self._changes(orjson.loads(request.raw)):
                self._follow(sender, identity, record)

    def _changes(self, patch: Any) -> list[tuple[str, Any]]:
        """The records that the patch writes, None for those that it removes."""
        if isinstance(patch, dict):
            return list((patch.get("status") or {}).items())
        tests = {step["path"]: step["value"] for step in patch if step["op"] == "test"}
        removed = [step["path"] for step in patch if step["op"] == "remove" and step["path"].startswith("/status/")]
        identities = [path.removeprefix("/status/") for path in removed if "/" not in path.removeprefix("/status/")]
        return [
            (identity, None)
            for identity in identities
            if tests.get(f"/status/{identity}/lastseen") in (None, self._stamps.get(identity))
        ]

    def _follow(self, sender: BerthProcess, identity: str, record: Any) -> None:
        """The removal of a record can be judged: it names the renewal that it is about."""
        if record is not None:
            self._renewed[identity] = self._now()
            self._stamps[identity] = record.get("lastseen")
            return
        owner = next((berth for berth in self._replicas() if _identity(berth) == identity), None)
        if owner is None or owner is sender or not owner.is_alive:
            return
        self._trace.note(f"{sender.name} removes the record of {owner.name}", sender.name, owner.name)
        ago = self._now() - self._renewed.get(identity, 0.0)
        if ago < LIFETIME_SECONDS:
            said = f"{sender.name} removes the record of {owner.name}, which was renewed {ago:.1f} s before"
            self._trace.violate("20 seats", said, sender.name, owner.name)


def _identity(berth: BerthProcess) -> str:
    lead = berth.runtime.leader
    return "" if lead is None else lead.leadership.identity


def _is_about_policy(request: Request) -> bool:
    """Whether it is an event about a policy: only the leader reports on policies."""
    return request.method == "POST" and "/events" in request.path and b'"SchedulingPolicy"' in request.raw
