"""Apply a mutation to a copy of the source and run the tests that should notice it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from support.patience import VARIABLE

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "operator"
LONGEST_SECONDS = 300.0
UNCHANGED_SECONDS = 1800.0  # for all tests that any mutation names, in one process
LIMIT_SECONDS = 10  # for whatever a test waits for: with a mutation it may never come

PASSED, FAILED = 0, 1  # pytest's exit codes; any other one says that it could not run the tests


class Inapplicable(Exception):
    """The code that a mutation replaces is not there, or not just once."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """`before` is replaced by `after` in `file`, a path below operator/berth; `tests` are arguments for pytest."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def mutate(self, source: str) -> str:
        found = source.count(self.before)
        if found != 1:
            raise Inapplicable(f"{self.name}: {self.file} has the code to replace {found} times, must be once")
        return source.replace(self.before, self.after)

    def apply(self, copy: Path) -> None:
        """To a copy of operator/."""
        path = copy / "berth" / self.file
        path.write_text(self.mutate(path.read_text()))


@dataclass(frozen=True, slots=True)
class Outcome:
    """`problem`: why the mutation does not count as caught; empty if the tests noticed it."""

    name: str
    problem: str
    seconds: float


def test(mutation: Mutation) -> Outcome:
    """Whether the named tests fail with the mutation. They must be able to run: an import that fails proves nothing."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="berth-mutation-") as folder:
        copy = Path(folder) / "operator"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        mutation.apply(copy)
        code, output = _pytest(copy, mutation.tests)
    if code == PASSED:
        problem = "SURVIVED"
    elif code == FAILED:
        problem = ""
    else:
        problem = f"pytest could not run the tests (exit code {code}):\n{output}"
    return Outcome(mutation.name, problem, time.monotonic() - began)


test.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it


def run_unchanged(tests: tuple[str, ...]) -> str:
    """What is wrong with the tests where nothing was changed; empty if they pass."""
    code, output = _pytest(SOURCE, tests, UNCHANGED_SECONDS)
    return "" if code == PASSED else f"the tests fail without any mutation (exit code {code}):\n{output}"


def _pytest(source: Path, tests: tuple[str, ...], seconds: float = LONGEST_SECONDS) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=line"]
    command += ["-m", "not cluster", "--hypothesis-profile=full", "-o", f"pythonpath={source} tests", *tests]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    environment[VARIABLE] = str(LIMIT_SECONDS)
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:  # a mutation that has the tests wait for ever is noticed as well
        return FAILED, f"not done after {seconds:g} s"
    return done.returncode, done.stdout[-2000:] + done.stderr[-2000:]
