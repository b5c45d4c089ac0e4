"""`kubectl berth` for krew: the manifest keeps krew's rules, and the archive installs what it has and runs it."""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth import __version__
from support.repository import ROOT
from tools import krew

WHEEL = f"berth_scheduler-{__version__}-py3-none-any.whl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What `make krew` makes, of a wheel that is only a name."""
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / WHEEL).write_bytes(b"a wheel")
    krew.main(tmp_path / "dist")
    return tmp_path / "dist"


def manifest_of(folder: Path) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((folder / krew.MANIFEST).read_text())
    return body


def test_the_manifest_is_one_that_krew_takes(folder: Path) -> None:
    body = manifest_of(folder)
    spec = body["spec"]
    assert (body["apiVersion"], body["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert (body["metadata"]["name"], spec["version"]) == ("berth", f"v{__version__}")
    assert 0 < len(spec["shortDescription"]) <= 50
    assert not spec["shortDescription"].endswith(".")
    assert all(len(line) <= 100 for line in spec["description"].splitlines())
    labels = [each["selector"]["matchLabels"] for each in spec["platforms"]]
    systems = {(each["os"], each["arch"]) for each in labels}
    assert systems == {(system, arch) for system in ("linux", "darwin") for arch in ("amd64", "arm64")}


def test_the_manifest_names_the_archive_of_the_release_and_its_hash(folder: Path) -> None:
    archive = (folder / krew.ARCHIVE).read_bytes()
    for platform in manifest_of(folder)["spec"]["platforms"]:
        assert platform["uri"].endswith(f"/v{__version__}/{krew.ARCHIVE}")
        assert platform["sha256"] == hashlib.sha256(archive).hexdigest()
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            assert opened.getmember(platform["bin"]).mode & 0o111


def test_the_same_files_make_the_same_archive(folder: Path) -> None:
    before = (folder / krew.ARCHIVE).read_bytes()
    krew.main(folder)
    assert (folder / krew.ARCHIVE).read_bytes() == before


def test_two_wheels_are_refused(folder: Path) -> None:
    (folder / "berth_scheduler-9.9.9-py3-none-any.whl").touch()
    with pytest.raises(SystemExit, match="has 2 wheels of Berth, and must have one: make clean wheel"):
        krew.main(folder)


# --- the script ------------------------------------------------------------------------------------------------------

PYTHON = """#!/bin/sh
# Stands in for python3: an environment gets a pip that notes its arguments, and the program that a wheel would bring.
case "$1" in
-c) exit "$OLD" ;;
-m) [ "$2" = venv ] || exit 9
  mkdir -p "$4/bin"
  printf '#!/bin/sh\\necho "$@" >> "%s/pip.log"\\n' "$NOTES" > "$4/bin/python"
  printf '#!/bin/sh\\necho "berth was asked: $*"\\n' > "$4/bin/kubectl-berth"
  chmod +x "$4/bin/python" "$4/bin/kubectl-berth" ;;
esac
"""


@pytest.fixture
def installed(folder: Path, tmp_path: Path) -> Path:
    """The program as krew leaves it: the unpacked archive, and a link to the script."""
    store = tmp_path / "store"
    with tarfile.open(folder / krew.ARCHIVE) as archive:
        archive.extractall(store, filter="data")
    link = tmp_path / "bin" / "kubectl-berth"
    link.parent.mkdir()
    link.symlink_to(store / "kubectl-berth")
    python = tmp_path / "bin" / "python3"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return link


def call(link: Path, *words: str, old: bool = False) -> subprocess.CompletedProcess[str]:
    folder = link.parent.parent
    environment = {
        "PATH": f"{link.parent}:/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "NOTES": str(folder),
        "OLD": str(int(old)),
    }
    return subprocess.run([str(link), *words], env=environment, capture_output=True, text=True)


def test_the_first_call_installs_the_wheel_by_the_pinned_versions_and_the_next_one_only_runs(installed: Path) -> None:
    first, second = call(installed, "why", "web"), call(installed, "version")
    assert first.stdout == "berth was asked: why web\n"
    assert "installing Berth" in first.stderr
    assert (second.stdout, second.stderr) == ("berth was asked: version\n", "")
    [install] = (installed.parent.parent / "pip.log").read_text().splitlines()
    store = installed.resolve().parent
    assert install.endswith(f"--constraint {store}/constraints.txt {store}/{WHEEL}")
    assert (store / "constraints.txt").read_text() == (ROOT / "constraints.txt").read_text()


def test_a_python_that_is_too_old_is_one_line_and_1(installed: Path) -> None:
    done = call(installed, "version", old=True)
    assert done.returncode == 1
    assert done.stderr == "kubectl berth: needs Python 3.11 or later: install it, or name one with BERTH_PYTHON\n"


@pytest.mark.slow
def test_the_archive_of_the_real_wheel_installs_and_runs(wheel: Path, tmp_path: Path) -> None:
    """Dependencies come from the package index."""
    krew.main(wheel.parent)
    with tarfile.open(wheel.parent / krew.ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "BERTH_PYTHON": sys.executable}
    program = str(tmp_path / "kubectl-berth")
    done = subprocess.run([program, "version"], env=environment, capture_output=True, text=True)
    assert done.stdout == f"berth {__version__}\n", done.stderr
