"""Berth as a process of its own, as a user would run it: `berth run --kubeconfig F --standalone`.

    with BerthProcess(control_plane.kubeconfig, log=folder / "berth.log") as berth:
        ...                      # ready: its cache is synced

Ready means that its /readyz answers 200. Leaving the block stops it by SIGTERM and insists on exit status 0: a clean
stop is part of what is promised. To end it in another way, call stop() or kill() first.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import berth
from control_plane.process import Process, ProgramFailed, free_port, http_get

SOURCE_ROOT = Path(berth.__file__).resolve().parents[1]  # of the package under test, which may be a copy
READY_SECONDS = 120.0
STOP_SECONDS = 40.0
WITHOUT_BULK_INTAKE = "--feature-gates=BulkIntake=false"
# Set for a whole run of tests: kopf itself reads lists and watches in every Berth that is started.
KOPF_READS = "TEST_KOPF_READS"
CREDENTIAL_VARIABLES = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")


class BerthProcess:
    """See the module's text. `arguments` are further words for `berth run`; of several replicas none is standalone.

    `token`: what `get` shows, where more than health is to be seen.
    """

    def __init__(self, kubeconfig: Path, *arguments: str, log: Path, standalone: bool = True, token: str = "") -> None:
        self._token = token
        self._port, self._https_port = free_port(), free_port()
        command = [
            *berth_command(),
            "run",
            f"--kubeconfig={kubeconfig}",
            *(["--standalone"] if standalone else []),
            f"--http-address=127.0.0.1:{self._port}",
            f"--https-address=127.0.0.1:{self._https_port}",
            *([WITHOUT_BULK_INTAKE] if os.environ.get(KOPF_READS) else []),
            *arguments,
        ]
        self.process = Process("berth", command, log, environment=berth_environment())
        self._ended_by_us = False

    @property
    def url(self) -> str:
        """Where it serves in the clear, as it was asked to."""
        return f"http://127.0.0.1:{self._port}"

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET from its own server; (0, reason) when nobody answers."""
        return http_get(self.url + path, self._token)

    @property
    def https_url(self) -> str:
        """Where it serves everything that it shows, to those with a token."""
        return f"https://127.0.0.1:{self._https_port}"

    @property
    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    @property
    def leads(self) -> bool:
        """Whether it is the replica that leads, as it says itself."""
        return "[+]leadership ok: leads" in self.get("/readyz?verbose")[1]

    def start(self, *, timeout_seconds: float = READY_SECONDS) -> Self:
        """Start it and wait until it is ready."""
        self._ended_by_us = False
        self.process.start()
        try:
            self.process.wait_ready(lambda: self.ready, timeout_seconds)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> int | None:
        """SIGTERM; returns the exit status (negative: it had to be killed)."""
        self._ended_by_us = True
        return self.process.stop(STOP_SECONDS)

    def kill(self) -> None:
        self._ended_by_us = True
        self.process.kill()

    def finish(self) -> None:
        """Stop it; raises ProgramFailed unless it ends with 0, also when it had ended before by itself.

        One that was ended by stop() or kill() has been dealt with, and is left alone.
        """
        if not self._ended_by_us and (status := self.stop()) != 0:
            raise ProgramFailed(f"berth ended with {status} instead of 0; {self.process.tail()}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()


def berth_command() -> list[str]:
    """The command that `make install` made, or the same from the sources for an environment without it."""
    script = Path(sys.executable).with_name("berth")
    if script.exists():
        return [str(script)]
    return [sys.executable, "-c", "import sys; from berth.cli import main; sys.exit(main())"]


def berth_environment() -> dict[str, str]:
    """Ours, with the sources first; without settings, and without a kubeconfig or a cluster that Berth might find."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in CREDENTIAL_VARIABLES and not name.startswith("BERTH_")
    }
    return {**inherited, "PYTHONPATH": str(SOURCE_ROOT), "PYTHONUNBUFFERED": "1"}
