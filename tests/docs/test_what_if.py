"""The pages on simulations show what the commands really say, on the files of examples/what-if."""

import re
import shlex
from pathlib import Path

import pytest

from support.commands import exit_code, forget_settings

ROOT = Path(__file__).parents[2]
PAGES = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("what-if.md", "policies.md")]
EXAMPLE = re.compile(r"```console\n\$ berth ([^\n]* --snapshot [^\n]*)\n(.*?)```", re.DOTALL)
EXAMPLES = [found for page in PAGES for found in EXAMPLE.findall(page)]


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_an_example_says_what_the_page_shows(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_settings(monkeypatch)
    monkeypatch.chdir(ROOT / "examples" / "what-if")
    exit_code(*shlex.split(command))
    assert capsys.readouterr().out == shown


def test_there_is_an_example_of_each_option() -> None:
    used = {word for command, _ in EXAMPLES for word in shlex.split(command) if word.startswith("-")}
    assert {"-f", "--fill", "--scale", "--drain", "--fail-zone", "--add-nodes", "--policy", "--snapshot"} <= used
