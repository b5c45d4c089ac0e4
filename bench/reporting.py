"""What the benchmarks on a real API server have in common: they end with a report, or with what kept them from it."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from control_plane.launcher import KubectlFailed
from control_plane.process import ProgramFailed
from control_plane.programs import MissingPrograms

Report = dict[str, Any]
Compare = Callable[[argparse.Namespace], Coroutine[Any, Any, Report]]
Failures = tuple[type[Exception], ...]

PROGRAMS_FAIL: Failures = (MissingPrograms, ProgramFailed, KubectlFailed)


def run(compare: Compare, options: argparse.Namespace, table: Callable[[Report], str], failures: Failures) -> int:
    """The exit code. The report is shown as a table and written to the file `options.json`; a program that fails, or
    one of these failures, is said in a line.
    """
    options.json.unlink(missing_ok=True)  # a run that fails must not leave the figures of another
    try:
        report = asyncio.run(compare(options))
    except PROGRAMS_FAIL + failures as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(table(report))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0
