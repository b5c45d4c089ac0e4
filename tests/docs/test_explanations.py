"""The examples of docs/explanations.md are what the commands print."""

import re
import shlex
from pathlib import Path

import pytest

from berth.explain.records import PodState, PreemptionCode
from support.commands import exit_code, forget_settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanations.md").read_text()


def examples() -> list[tuple[str, list[str]]]:
    """Each command with the lines that the page shows of its output."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        for part in block.split("$ ")[1:]:
            command, *lines = part.splitlines()
            found.append((command, lines))
    return found


@pytest.mark.parametrize(("command", "lines"), examples(), ids=[command for command, _ in examples()])
def test_a_command_prints_what_the_page_shows(
    command: str, lines: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_settings(monkeypatch)
    monkeypatch.chdir(ROOT)
    program, *arguments = shlex.split(command)
    assert program == "berth"
    assert exit_code(*arguments) == 0
    printed = iter(capsys.readouterr().out.splitlines())
    for line in lines:
        assert line in printed, f"{line!r} is not printed, or not in this order"


def test_every_state_and_every_code_of_preemption_is_on_the_page() -> None:
    for name in (*PodState, *PreemptionCode):
        assert f"`{name}`" in PAGE
