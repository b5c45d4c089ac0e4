"""The operator as a user runs it, `berth run --standalone --kubeconfig F`: a process of its own.

A process and not a task of ours, for two reasons: it is the real thing, which knows nothing of the demo and talks HTTP
only, and it has a processor core of its own. Ctrl-C on the terminal does not reach it (it has its own session): the
demo ends it, in order. If the demo itself is killed, the operator ends as well (`parent_watch`).
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import IO

import berth

PROGRAM = (
    "import sys; from berth.demo.parent_watch import watch_parent; watch_parent(); "
    "from berth.cli import main; sys.exit(main(sys.argv[1:]))"
)
STOP_SECONDS = 10.0
TAIL_LINES = 15
SOURCE_ROOT = Path(berth.__file__).resolve().parents[1]


class OperatorProcess:
    """`start` once, `stop` once."""

    def __init__(self, kubeconfig: Path, log: Path, seed: int, *addresses: str) -> None:
        """`addresses`: the flags that say where it listens, and who finds it there."""
        self._arguments = [
            "run",
            "--standalone",
            f"--kubeconfig={kubeconfig}",
            "--https-address=",
            *addresses,
            "--reserved-scheduler-names=-",  # the policy of default-scheduler is the demo's own
            f"--seed={seed}",
        ]
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._stopped = False

    async def start(self) -> None:
        """OSError when there is no process to be had."""
        with self._log.open("wb") as log:
            self._process = await self._spawn(log)

    async def _spawn(self, log: IO[bytes]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # nothing is imported from the current folder
            "-c",
            PROGRAM,
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=process_environment(),
            start_new_session=True,
        )

    def problem(self) -> str | None:
        """Returns a problem if it ended by itself or with an error; None otherwise."""
        code = None if self._process is None else self._process.returncode
        if code is None or (self._stopped and code == 0):
            return None
        return f"the operator ended with exit code {code}"

    async def wait_ended(self) -> None:
        """Return when it has ended, for whatever reason."""
        if self._process is not None:
            await self._process.wait()

    def tail(self) -> str:
        """The end of its log."""
        if not self._log.is_file():
            return "the operator has not been started"
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(["the end of the operator's log:", *(f"  {line}" for line in lines[-TAIL_LINES:])])

    async def stop(self) -> None:
        """SIGTERM; SIGKILL if that does not help."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._stopped = True
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


def process_environment() -> dict[str, str]:
    """Ours, with our sources, without settings of a Berth that is meant for a real cluster, and without a proxy."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
    paths = [str(SOURCE_ROOT), *filter(None, [inherited.get("PYTHONPATH")])]
    return inherited | {"PYTHONPATH": os.pathsep.join(paths), "NO_PROXY": "*", "no_proxy": "*"}
