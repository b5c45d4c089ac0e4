"""docs/cli.md has every command, and the exit codes that its help names."""

import re
from pathlib import Path

import pytest

from support.commands import ALL_COMMANDS, exit_code

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
NAMES = [" ".join(command) for command in ALL_COMMANDS]
COMMAND_ROWS, CODE_ROWS = (
    {cells[1].strip(): cells[2:-1] for line in part.splitlines() if (cells := line.split("|"))[1:] and "`berth" in line}
    for part in PAGE.split("## Exit codes")
)
CODES = ("0", "1", "2", "3", "130")


def test_both_tables_have_all_commands_and_no_other() -> None:
    expected = {f"`berth {name}`" for name in (*NAMES, "version")}
    assert COMMAND_ROWS.keys() == CODE_ROWS.keys() == expected


@pytest.mark.parametrize("name", NAMES)
def test_the_codes_are_those_of_the_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*name.split(), "--help") == 0
    helped = re.findall(r"^  (\d+)  ", capsys.readouterr().out.partition("exit codes:")[2], re.MULTILINE)
    row = CODE_ROWS[f"`berth {name}`"]
    assert [code for code, cell in zip(CODES, row, strict=True) if cell.strip()] == helped
