"""The embedded cluster with the face of ControlPlane, so that an end-to-end test may run on either.

    with EmbeddedPlane(folder) as plane:
        plane.apply_crds(Path("crds"))
        BerthProcess(plane.kubeconfig, ...)

The server lives in a thread and event loop of its own, as fixtures of a session outlive the loops of tests.
stop_api_server() and start_api_server() are an outage: same port, same objects. kubectl() needs the real kubectl.
Requests need no token; `token` is that of an administrator, for programs that have the server review it.
"""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import threading
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from berth.sim.faults import Faults
from berth.sim.resources import CRDS
from berth.sim.server import SimServer
from berth.sim.server.reviews import EVERYTHING, Account
from berth.sim.store import Backup, Store
from control_plane.launcher import run_kubectl
from control_plane.process import free_port
from control_plane.programs import find_programs

HISTORY = 100_000
CALL_SECONDS = 30.0


class EmbeddedPlane:
    """See the module's text. `folder`: where the kubeconfig and kubectl's cache are put."""

    def __init__(self, folder: Path, *, faults: Faults | None = None) -> None:
        self.folder = folder
        self.token = secrets.token_hex(16)
        self.store = Store(lambda: datetime.now(UTC), history=HISTORY)
        administrator = Account("admin", groups=(EVERYTHING,))
        # A port below those of outgoing connections: while the server is away, nobody is given it by chance.
        self.server = SimServer(self.store, port=free_port(), faults=faults, accounts={self.token: administrator})
        self._backup: Backup | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="embedded cluster", daemon=True)

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def kubectl(
        self, *arguments: str, input: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl; raises KubectlFailed unless `check` is false, and MissingPrograms where there is none."""
        return run_kubectl(find_programs().kubectl, self.kubeconfig, self.folder, arguments, input, check)

    def apply_crds(self, folder: Path) -> None:
        """Define every kind of `folder`, without kubectl."""
        for path in sorted(folder.glob("*.yaml")):
            for definition in yaml.safe_load_all(path.read_text()):
                self.call(self._define(definition))

    async def _define(self, definition: dict[str, Any]) -> None:
        self.store.create(CRDS, definition)

    def tails(self) -> str:
        """There are no logs; what the server counted may help."""
        return f"embedded cluster: {self.server.statistics()}"

    def add_account(self, token: str, account: Account) -> None:
        """Reviews know this token from now on."""
        self._loop.call_soon_threadsafe(self.server.accounts.__setitem__, token, account)

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        self._thread.start()
        self.start_api_server()
        self.server.write_kubeconfig(self.kubeconfig)
        return self

    def stop(self) -> None:
        self.stop_api_server()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def start_api_server(self) -> None:
        self.call(self.server.start())

    def stop_api_server(self) -> None:
        self.call(self.server.stop())

    def forget_history(self) -> None:
        """No watch can go on where it was, as after a restart of a real API server."""
        self._loop.call_soon_threadsafe(self.store.compact)

    def back_up(self) -> None:
        """Keep everything as it is now, for `restore`."""
        self.call(self._back_up())

    async def _back_up(self) -> None:
        self._backup = self.store.back_up()

    def restore(self) -> None:
        """The store goes back to the backup; all connections are cut."""
        assert self._backup is not None, "there is no backup"
        self.call(self.server.restore(self._backup))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)
