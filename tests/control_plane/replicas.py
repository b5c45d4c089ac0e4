"""Several Berths on one cluster, each behind a proxy of its own, so that each can be killed, frozen and cut off.

    with Replicas(plane, folder, lifetime_seconds=5) as replicas:
        replicas.wait_leader().berth.kill()

Each has a kubeconfig of its own, made by `kubeconfig(number, port)` for the API server behind that port; `users` are
what the audit log calls them. What the replicas have asked for (`binds`) is the API server's audit log where there is
one, else what the proxies have read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from control_plane.berth_process import BerthProcess
from control_plane.embedded import EmbeddedPlane
from control_plane.launcher import USERS, Bind, ControlPlane
from control_plane.process import ProgramFailed
from control_plane.proxy import Proxy

POLL_SECONDS = 0.05
LEADER_SECONDS = 120.0
FENCE = re.compile(r"The fence is (open|closed) at ([0-9T:.-]+Z)")

Kubeconfig = Callable[[int, int], Path]


@dataclass(frozen=True, slots=True)
class Opening:
    """A time during which a replica's fence was open; without an end, it was killed, or is open still."""

    begin: datetime
    end: datetime | None


class Replica:
    """One Berth and the proxy that it goes through."""

    def __init__(self, name: str, proxy: Proxy, kubeconfig: Path, log: Path, arguments: Sequence[str]) -> None:
        self.name = name
        self.proxy = proxy
        self.kills: list[datetime] = []
        self.berth = BerthProcess(kubeconfig, *arguments, log=log, standalone=False)

    @property
    def leads(self) -> bool:
        return self.berth.process.running and self.berth.leads

    def kill(self) -> None:
        self.berth.kill()
        self.kills.append(datetime.now(UTC))

    def openings(self) -> list[Opening]:
        """As its log tells; an opening that was not closed ended with the next kill."""
        found: list[Opening] = []
        for what, text in FENCE.findall(self.berth.process.log_text()):
            moment = datetime.fromisoformat(text)
            if what == "open":
                found.append(Opening(moment, next((kill for kill in self.kills if kill > moment), None)))
            elif found and (found[-1].end is None or found[-1].end > moment):
                found[-1] = Opening(found[-1].begin, moment)
        return found


class Replicas:
    """See the module's text."""

    def __init__(
        self,
        plane: ControlPlane | EmbeddedPlane,
        folder: Path,
        *,
        count: int = 3,
        lifetime_seconds: int = 5,
        kubeconfig: Kubeconfig | None = None,
        users: Sequence[str] = USERS,
        arguments: Sequence[str] = (),
    ) -> None:
        self._plane = plane
        self._folder = folder
        self._count = count
        self._kubeconfig = kubeconfig or self._default_kubeconfig
        self._users = users
        self._arguments = [f"--peering-lifetime-seconds={lifetime_seconds}", *arguments]
        self._ends = ExitStack()
        self.each: list[Replica] = []

    def __enter__(self) -> Self:
        with ExitStack() as ends:
            for number in range(self._count):
                proxy = ends.enter_context(Proxy("127.0.0.1", self._plane.port))
                kubeconfig = self._kubeconfig(number, proxy.port)
                log = self._folder / f"{USERS[number]}.log"
                self.each.append(Replica(self._users[number], proxy, kubeconfig, log, self._arguments))
                ends.callback(self.each[-1].berth.kill)
            with ThreadPoolExecutor() as starters:  # all at once, which is also when two might enter at once
                list(starters.map(lambda replica: replica.berth.start(), self.each))
            self._ends = ends.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def _default_kubeconfig(self, number: int, port: int) -> Path:
        path = self._folder / f"{USERS[number]}.kubeconfig"
        if isinstance(self._plane, ControlPlane):
            return self._plane.write_kubeconfig(USERS[number], path, port=port)
        text = self._plane.kubeconfig.read_text().replace(self._plane.url, f"http://127.0.0.1:{port}")
        path.write_text(text)
        return path

    @property
    def leader(self) -> Replica | None:
        return next((replica for replica in self.each if replica.leads), None)

    def wait_leader(self, *others: Replica, timeout_seconds: float = LEADER_SECONDS) -> Replica:
        """Whoever leads and is none of these."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            leader = next((replica for replica in self.each if replica not in others and replica.leads), None)
            if leader is not None:
                return leader
            time.sleep(POLL_SECONDS)
        raise ProgramFailed(f"no replica leads after {timeout_seconds:.0f} s; {self.tails()}")

    def binds(self) -> list[Bind]:
        """What the API server was asked to bind, by replica, in the order of arrival."""
        if isinstance(self._plane, ControlPlane):
            return self._plane.binds()
        found = [
            Bind(datetime.fromtimestamp(moment, UTC), replica.name, pod, 0)
            for replica in self.each
            for moment, pod in replica.proxy.binds
        ]
        return sorted(found, key=lambda bind: bind.received)

    def finish(self) -> list[int | None]:
        """Stop all of them; their exit statuses."""
        return [replica.berth.stop() for replica in self.each]

    def tails(self) -> str:
        return "\n\n".join(replica.berth.process.tail(60) for replica in self.each)
