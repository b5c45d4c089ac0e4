"""`go build` of one program into a cache folder: under a temporary name until it is finished, with its progress shown.

A broken run leaves nothing that looks finished, and a lock keeps two runs apart.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from control_plane.programs import go_platform

PLAIN_PROGRESS_SECONDS = 15.0
TERMINAL_PROGRESS_SECONDS = 1.0
SILENT_SECONDS = 10.0
SHOWN_LINES_OF_A_FAILED_BUILD = 30


class BuildFailed(Exception):
    """go could not build a program; the text carries its last words."""


class Progress:
    """One line a program: rewritten every second on a terminal, repeated every 15 s elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started = time.monotonic()
        self._shown = self._started
        self._terminal = sys.stderr.isatty()
        self._interval = TERMINAL_PROGRESS_SECONDS if self._terminal else PLAIN_PROGRESS_SECONDS
        self._write("building")

    def tick(self, activity: str) -> None:
        if time.monotonic() - self._shown >= self._interval:
            self._shown = time.monotonic()
            self._write(activity)

    def finish(self, outcome: str) -> None:
        self._write(outcome)
        if self._terminal:
            print(file=sys.stderr)

    def _write(self, activity: str) -> None:
        text = f"{self._name:<16} {activity}, {time.monotonic() - self._started:.0f} s"
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, made if need be, for this run alone while building; freed by the kernel however the holder ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another run is at work in {folder}, waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        for left in folder.glob(".*.part"):  # by a run that was killed; nobody else is at work
            left.unlink()
        yield


def part_of(program: Path) -> Path:
    """Where a program is while it is made."""
    return program.with_name(f".{program.name}.{os.getpid()}.part")


def build_program(package: str, module_folder: Path, program: Path, linked: str = "") -> None:
    """Builds a package of the module as `program`; `linked` are more flags for the linker. Raises BuildFailed."""
    part, log = part_of(program), program.with_name(f".{program.name}.log")
    progress = Progress(program.name)
    with log.open("w") as output:
        build = subprocess.Popen(
            _command(package, part, linked), cwd=module_folder, env=_environment(), stdout=output, stderr=output
        )
        try:
            while not _ended_within(build, 0.5):
                progress.tick(_activity(log))
        except BaseException:
            build.terminate()
            build.wait()
            part.unlink(missing_ok=True)
            raise
    if build.returncode != 0:
        progress.finish("failed")
        part.unlink(missing_ok=True)
        last_words = "\n".join(log.read_text(errors="replace").splitlines()[-SHOWN_LINES_OF_A_FAILED_BUILD:])
        raise BuildFailed(f"go build of {program.name} failed:\n{last_words}")
    part.rename(program)
    log.unlink()
    progress.finish("built")


def _command(package: str, output: Path, linked: str) -> list[str]:
    # Said here, they win over GOFLAGS.
    flags = ["-mod=readonly", "-buildvcs=false", "-trimpath", f"-ldflags=-s -w {linked}".rstrip()]
    return ["go", "build", *flags, "-o", str(output), package]


def _environment() -> dict[str, str]:
    system, machine = go_platform()
    ours = {"CGO_ENABLED": "0", "GOOS": system, "GOARCH": machine, "GOWORK": "off", "GO111MODULE": "on"}
    return {"HOME": str(Path.home()), **os.environ, **ours}


def _activity(log: Path) -> str:
    """What go is doing: it names the modules that it fetches, and is silent while it compiles."""
    silent_seconds = time.time() - log.stat().st_mtime
    fetched = log.read_text(errors="replace").count("go: downloading")
    return f"fetching modules ({fetched})" if fetched and silent_seconds < SILENT_SECONDS else "building"


def _ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
