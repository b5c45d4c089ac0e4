"""Upstream's own tables about devices, with upstream's answers: written by Kubernetes' code when a test asks for them.

The tables are Go code in tests of k8s.io/dynamic-resource-allocation. Nothing of it is in this repository: the module
is copied from Go's module cache into the cache folder, the small tests in tables/ are put beside its own, and built.
The programs are kept under a hash of these tests and the module's version.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from conformance.oracle.build import CURRENT
from control_plane.go_build import BuildFailed, locked, part_of
from control_plane.programs import MissingPrograms, cache_base, go_platform

Json = dict[str, Any]

HERE: Final = Path(__file__).resolve().parent / "tables"
MODULE: Final = "k8s.io/dynamic-resource-allocation"
PACKAGES: Final[Mapping[str, str]] = {"selectors": "cel", "allocations": "structured/internal/incubating"}


def table(name: str) -> list[Json]:
    """The cases of a table (selectors or allocations) with upstream's answers."""
    return _run(name, "TestBerthTable", {})


def answers(questions: Iterable[Json]) -> list[Json]:
    """What upstream says of devices: a question has an expression, a driver and a device."""
    with TemporaryDirectory() as folder:
        asked = Path(folder, "questions")
        asked.write_text("".join(json.dumps(question) + "\n" for question in questions))
        return _run("selectors", "TestBerthAnswers", {"BERTH_QUESTIONS": str(asked)})


def require_tables() -> None:
    """Builds what is missing. Raises MissingPrograms without go, BuildFailed when a build fails."""
    missing = [name for name in PACKAGES if not _program(name).exists()]
    if missing and shutil.which("go") is None:
        raise MissingPrograms("go is not installed and the tables are not built yet: install go, run the tests again")
    for name in missing:
        with locked(_program(name).parent):
            if not _program(name).exists():  # another run may have built it while we waited
                _build(name)


def _run(name: str, test: str, variables: Mapping[str, str]) -> list[Json]:
    with TemporaryDirectory() as folder:
        written = Path(folder, "table")
        told = {**os.environ, **variables, "BERTH_TABLE": str(written)}
        command = [str(_program(name)), "-test.run", f"^{test}$"]
        subprocess.run(command, env=told, cwd=folder, check=True, capture_output=True)
        return [json.loads(line) for line in written.read_text().splitlines()]


def _program(name: str) -> Path:
    digest = sha256(_source(name).read_bytes()).hexdigest()[:12]
    version = f"{CURRENT.kubernetes_version}-{digest}"
    return cache_base() / "tables" / "-".join(go_platform()) / version / name


def _source(name: str) -> Path:
    return HERE / f"{name}_test.go"


def _build(name: str) -> None:
    program, part = _program(name), part_of(_program(name))
    with TemporaryDirectory(dir=program.parent) as folder:
        copy = Path(folder, "module")
        shutil.copytree(_module_folder(), copy, copy_function=shutil.copyfile)
        shutil.copyfile(_source(name), copy / PACKAGES[name] / "berth_test.go")
        flags = ["-mod=readonly", "-buildvcs=false", "-trimpath", "-o", str(part)]
        _go(["test", "-c", *flags, f"./{PACKAGES[name]}"], copy)
    part.rename(program)


def _module_folder() -> Path:
    """The module's folder in Go's module cache; fetched if need be."""
    _go(["mod", "download", MODULE], CURRENT.module_folder)
    return Path(_go(["list", "-m", "-f", "{{.Dir}}", MODULE], CURRENT.module_folder).strip())


def _go(arguments: list[str], folder: Path) -> str:
    told = {"HOME": str(Path.home()), **os.environ, "GOWORK": "off", "GOFLAGS": ""}
    run = subprocess.run(["go", *arguments], cwd=folder, env=told, capture_output=True, text=True, check=False)
    if run.returncode:
        raise BuildFailed(f"go {' '.join(arguments)} failed:\n{run.stderr[-3000:]}")
    return run.stdout
