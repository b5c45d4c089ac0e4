"""The operator's process: how it ends, and what is said when it ends by itself."""

import asyncio
import sys
from pathlib import Path

from berth.demo.operator_process import OperatorProcess, process_environment

WAIT_SECONDS = 60.0
WATCHING_ITS_PARENT = "from berth.demo.parent_watch import watch_parent; watch_parent(); import signal; signal.pause()"


async def test_an_operator_that_ends_by_itself_is_a_problem_and_its_log_says_why(tmp_path: Path) -> None:
    operator = OperatorProcess(tmp_path / "nowhere", tmp_path / "log", 0)
    assert operator.problem() is None
    assert operator.tail() == "the operator has not been started"
    await operator.start()
    await asyncio.wait_for(operator.wait_ended(), WAIT_SECONDS)
    assert operator.problem() == "the operator ended with exit code 1"
    assert "there is no kubeconfig at" in operator.tail()
    await operator.stop()
    assert operator.problem() == "the operator ended with exit code 1"


async def test_a_process_on_a_leash_ends_when_the_other_end_is_let_go() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WATCHING_ITS_PARENT, stdin=asyncio.subprocess.PIPE, env=process_environment()
    )
    assert process.stdin is not None
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), WAIT_SECONDS) == -15
