"""Exit codes mean the same in every command: 0 done, 1 failed, 2 a usage error, 3 the answer is no, 130 interrupted."""

import re
from pathlib import Path

import pytest

from support.commands import ALL_COMMANDS, exit_code, forget_settings
from support.repository import ROOT

Captured = pytest.CaptureFixture[str]
WHAT_IF = ROOT / "examples" / "what-if"
SNAPSHOT = ("--snapshot", str(WHAT_IF / "cluster.json"))
NOWHERE = ("--kubeconfig", "/nowhere")

# For each command, arguments with which it cannot do what it is asked to.
FAILING = {
    ("run",): NOWHERE,
    ("why",): ("web", *NOWHERE),
    ("status",): NOWHERE,
    ("ui",): NOWHERE,
    ("decisions",): ("-A", *NOWHERE),
    ("snapshot",): NOWHERE,
    ("leader",): NOWHERE,
    ("simulate",): ("-f", "/nowhere.yaml", *SNAPSHOT),
    ("judge",): ("/nowhere.jsonl",),
    ("policy", "lint"): ("/nowhere.yaml",),
    ("policy", "import"): ("/nowhere.yaml",),
    ("policy", "diff"): ("KubernetesDefault", "/nowhere.yaml", *SNAPSHOT),
    ("policy", "show"): ("nothing",),
}
# These need a terminal, or nothing that could fail.
CANNOT_FAIL_HERE = {("demo",), ("top",), ("completion",), ("crds",)}
# Arguments to which the answer is no. Commands that ask a running scheduler have tests of their own.
SAYING_NO = {
    ("simulate",): ("--scale", "deploy/web=500", "-n", "shop", *SNAPSHOT),
    ("policy", "diff"): ("KubernetesDefault", str(WHAT_IF / "binpack.yaml"), *SNAPSHOT, "--all"),
}
WITH_ANSWERS = {("simulate",), ("policy", "diff"), ("leader",), ("status",)}


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)


def helped(capsys: Captured, command: tuple[str, ...]) -> dict[int, str]:
    """The exit codes that the help names, with what they mean."""
    assert exit_code(*command, "--help") == 0
    listed = capsys.readouterr().out.partition("exit codes:\n")[2]
    return {int(code): text for code, text in re.findall(r"^  (\d+) +(.*)$", listed, re.MULTILINE)}


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=" ".join)
def test_an_option_that_is_not_there_is_2_and_the_usage_is_said(command: tuple[str, ...], capsys: Captured) -> None:
    assert exit_code(*command, "--no-such-option") == 2
    assert f"usage: berth {' '.join(command)}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=" ".join)
def test_the_help_means_by_each_code_what_all_commands_mean(command: tuple[str, ...], capsys: Captured) -> None:
    codes = helped(capsys, command)
    assert codes.keys() <= {0, 1, 2, 3, 130}
    assert codes[2].startswith("usage error")
    assert "interrupted" in codes.get(130, "interrupted")
    assert (3 in codes) is (command in WITH_ANSWERS)


def test_every_command_is_tried() -> None:
    assert FAILING.keys() | CANNOT_FAIL_HERE == set(ALL_COMMANDS)


@pytest.mark.parametrize("command", FAILING, ids=" ".join)
def test_what_cannot_be_done_is_1_and_one_line(command: tuple[str, ...], capsys: Captured) -> None:
    assert exit_code(*command, *FAILING[command]) == 1
    said = capsys.readouterr()
    last = (said.err or said.out).splitlines()[-1]
    assert "/nowhere" in last or "nothing" in last
    assert "Traceback" not in said.err


@pytest.mark.parametrize("command", SAYING_NO, ids=" ".join)
def test_an_answer_that_is_no_is_3_and_no_failure(command: tuple[str, ...], capsys: Captured) -> None:
    assert exit_code(*command, *SAYING_NO[command]) == 3
    said = capsys.readouterr()
    assert said.out
    assert said.err == ""


def test_an_interrupt_is_130_without_a_traceback(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("berth.cli.crds.crd_files", interrupted)
    assert exit_code("crds") == 130
    assert capsys.readouterr().err == ""
