"""What a command has imported by the time it answers, or asks: nobody waits for what another command needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from berth.cluster.cache_sync import REGULAR_SECONDS
from berth.configuration import Options
from berth.policy.limits import PROTECTED_NAMESPACES, RESERVED_NAMES
from berth.scheduler.decision_memory import MOST_DECISIONS
from support.commands import ALL_COMMANDS

OPERATOR = Path(__file__).parents[2] / "operator"
ENGINE = {"numpy", "cel_expr_python", "berth.engine", "berth.model"}
EDGE = {"kopf", "prometheus_client", "cryptography", "rich", "berth.sim"}
CLIENT = {"aiohttp", "kubernetes_asyncio"}
TELL = "import atexit, sys; atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\n"


def imported_by(program: str, *arguments: str) -> set[str]:
    """The modules that are there when the program ends."""
    done = subprocess.run(
        [sys.executable, "-c", TELL + program, *arguments],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(OPERATOR)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("--help",),
        ("version",),
        ("run", "--version"),
        ("policy", "--help"),
        *((*command, "--help") for command in ALL_COMMANDS),
    ],
    ids=" ".join,
)
def test_help_and_version_need_neither_engine_nor_client(arguments: tuple[str, ...]) -> None:
    """An answer takes a tenth of a second that way, and one or two with them."""
    assert not imported_by("from berth.cli import main; main()", *arguments) & (ENGINE | EDGE | CLIENT)


def test_the_first_request_is_sent_before_the_engine_and_kopf_are_imported() -> None:
    there = imported_by("import berth.cli.start")
    assert there >= {"aiohttp"}
    assert not there & (ENGINE | EDGE)


def test_a_policy_without_expressions_needs_no_cel() -> None:
    there = imported_by("from berth.policy import BUILT_IN, compile_policy; compile_policy(BUILT_IN)")
    assert "cel_expr_python" not in there


def test_the_defaults_of_the_options_are_those_of_the_modules_that_they_are_for() -> None:
    assert Options().resync_seconds == REGULAR_SECONDS
    assert Options().remembered_decisions == MOST_DECISIONS
    assert Options().reserved_scheduler_names == RESERVED_NAMES
    assert Options().protected_namespaces == PROTECTED_NAMESPACES
