"""A program as a child process that writes to a log file and never outlives us.

Three things see to the end of it: stop(), which is also run at exit, ends the whole process group, first politely and
then not; and should we be killed, the kernel kills the child (leash.py). The kernel means by parent the *thread* that
started the child, so every child is started from one thread that lives as long as we do: a test may start one from any
thread.

Ports are taken from below the range that the kernel gives to outgoing connections. Above it, a client that keeps
trying to reach a stopped server may be given the server's own port, and the server could not come back to it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from ssl import CERT_NONE, SSLContext, create_default_context

TAIL_LINES = 30
POLL_SECONDS = 0.05
LOWEST_PORT, HIGHEST_PORT = 12_000, 32_000
PORT_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")

_given_ports: set[int] = set()
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="starter")


class ProgramFailed(Exception):
    """A program ended or was not ready in time; the text carries the tail of its log."""


class Process:
    """One program with its log; `start` may be called again after `stop`, the log goes on."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._environment = dict(environment) if environment is not None else None
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id while it runs and after it ended, 0 before it was started."""
        return self._child.pid if self._child else 0

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._child.poll() if self._child else None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        if self.running:
            raise RuntimeError(f"{self.name} is running already")
        self._child = _starter.submit(self._spawn).result()
        atexit.register(self.kill)

    def _spawn(self) -> subprocess.Popen[bytes]:
        leash = [sys.executable, "-I", "-S", str(Path(__file__).with_name("leash.py")), str(os.getpid())]
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*leash, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                start_new_session=True,
            )

    def wait_ready(self, ready: Callable[[], bool], timeout_seconds: float) -> None:
        """Poll `ready` until it is true; raises ProgramFailed when the program ends or the time is over."""
        deadline = time.monotonic() + timeout_seconds
        while not ready():
            if not self.running:
                raise ProgramFailed(f"{self.name} ended with {self.exit_code} before it was ready; {self.tail()}")
            if time.monotonic() > deadline:
                raise ProgramFailed(f"{self.name} was not ready after {timeout_seconds:.0f} s; {self.tail()}")
            time.sleep(POLL_SECONDS)

    def stop(self, timeout_seconds: float = 20.0) -> int | None:
        """SIGTERM, and SIGKILL when that takes too long; returns the exit code, None if it was never started."""
        if self._child is None:
            return None
        if self.running:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(timeout_seconds)
        self.kill()
        return self.exit_code

    def kill(self) -> None:
        """End the whole group at once, also what its leader has left behind."""
        atexit.unregister(self.kill)
        if self._child is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def signal(self, number: signal.Signals) -> None:
        if self._child is not None and self.running:
            self._child.send_signal(number)

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The end of the log, with a heading that says where the rest is."""
        return f"end of {self.log}:\n" + "\n".join(self.log_text().splitlines()[-lines:])


def free_port() -> int:
    """A loopback port that is free now; another program may still be faster, so callers retry.

    None is given twice: the process that was given one may not listen on it yet, or not for a while. So processes
    that run tests side by side (pytest-xdist) draw from different ports.
    """
    highest = min(HIGHEST_PORT, _lowest_outgoing_port() - 1)
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    ours = range(LOWEST_PORT + int(worker.removeprefix("gw")), highest, int(workers))
    candidates = random.sample(ours, 200) if len(ours) > 200 else [0] * 200
    for port in candidates:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found = int(probe.getsockname()[1])
            if found not in _given_ports:
                _given_ports.add(found)
                return found
    raise OSError(f"no free port between {LOWEST_PORT} and {highest}")


def _lowest_outgoing_port() -> int:
    try:
        return int(PORT_RANGE_FILE.read_text().split()[0])
    except OSError:
        return HIGHEST_PORT


def http_get(url: str, token: str = "", timeout_seconds: float = 30.0) -> tuple[int, str]:
    """Status and body of a GET, whatever the status; (0, reason) when nobody answers. Certificates are not verified."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unverified_tls())
    )
    try:
        with opener.open(request, timeout=timeout_seconds) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(errors="replace")
    except OSError as error:
        return 0, str(error)


@cache
def unverified_tls() -> SSLContext:
    """For servers of ours on loopback, whose certificates they made themselves a moment ago.

    One for all: to make one reads all the certificates of the machine, which a benchmark that polls would notice.
    """
    context = create_default_context()
    context.check_hostname = False
    context.verify_mode = CERT_NONE
    return context
