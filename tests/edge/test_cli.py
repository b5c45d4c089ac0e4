"""The command line: what it says, where, and the exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from berth.cli import _parser, _Settings, _settings, main
from berth.runtime import Options
from edge.server import write_kubeconfig

GOOD = """
apiVersion: berth.dev/v1alpha1
kind: SchedulingPolicy
metadata: {name: good}
spec: {schedulerName: berth}
"""
BAD = """
apiVersion: berth.dev/v1alpha1
kind: SchedulingPolicy
metadata: {name: bad}
spec:
  schedulerName: berth
  predicates: [{name: NoSuchPlugin}]
  priorities: [{name: ImageLocality, weight: -1}]
"""

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.startswith(("BERTH_", "KUBE")):
            monkeypatch.delenv(variable)


def exit_code(*arguments: str) -> int:
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("run", "--help"), ("judge", "--help"), ("policy", "--help"), ("policy", "lint", "--help")],
)
def test_help_teaches_and_names_the_exit_codes(capsys: Captured, arguments: tuple[str, ...]) -> None:
    assert exit_code(*arguments) == 0
    out = capsys.readouterr().out
    assert "exit codes:" in out
    assert "usage: " in out


def test_the_help_of_the_plugin_is_called_as_users_call_it(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-berth"])
    assert exit_code("--help") == 0
    assert "usage: kubectl berth" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [("version",), ("--version",)])
def test_the_version_is_printed(capsys: Captured, arguments: tuple[str, ...]) -> None:
    assert exit_code(*arguments) == 0
    assert capsys.readouterr().out.startswith("berth ")


@pytest.mark.parametrize(
    "arguments", [(), ("nonsense",), ("run", "--seed", "x"), ("policy",), ("run", "--standalone=1")]
)
def test_a_wrong_question_is_2(arguments: tuple[str, ...]) -> None:
    assert exit_code(*arguments) == 2


def test_more_than_one_replica_is_refused_in_words(capsys: Captured) -> None:
    assert exit_code("run") == 2
    assert "--standalone" in capsys.readouterr().err


def test_an_address_that_others_could_reach_is_refused_in_words(capsys: Captured) -> None:
    assert exit_code("run", "--standalone", "--http-address", "0.0.0.0:1") == 2
    assert "loopback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BERTH_SEED", "x"),
        ("BERTH_LOG_LEVEL", "loud"),
        ("BERTH_CENSUS_SECONDS", "-5"),
        ("BERTH_CENSUS_SECONDS", "0"),
        ("BERTH_HTTP_ADDRESS", "0.0.0.0:1"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert exit_code("run", "--standalone") == 2
    assert variable in capsys.readouterr().err


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: `run` sets up logging and signals."""
    source = Path(__file__).parents[2] / "operator"
    command = [sys.executable, "-c", "import sys; from berth.cli import main; sys.exit(main())", "run", "--standalone"]
    environment = {"PYTHONPATH": str(source), "PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    return subprocess.run(
        [*command, "--http-address", "", *arguments], capture_output=True, text=True, env=environment, timeout=60
    )


def test_a_cluster_that_cannot_be_is_one_line_and_1(tmp_path: Path) -> None:
    there = str(write_kubeconfig(tmp_path, "https://no-such-host.invalid:6443"))
    cases = {
        "no kubeconfig": [],
        "there is no kubeconfig at /nowhere": ["--kubeconfig", "/nowhere"],
        'is "staging" the name of a context': ["--kubeconfig", there, "--context", "staging"],
        "cannot be reached": ["--kubeconfig", there],
    }
    for words, arguments in cases.items():
        done = run(*arguments)
        assert (done.returncode, words in done.stderr) == (1, True), done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.strip().count("\n") == 0


def test_lint_is_silent_about_nothing(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(GOOD + "---" + BAD)
    assert exit_code("policy", "lint", str(path)) == 1
    out = capsys.readouterr().out
    assert f"{path}: good: ok" in out
    assert "bad: spec.predicates[0]" in out
    assert "bad: spec.priorities[0].weight" in out


def test_lint_of_good_policies_is_0_and_speaks_json(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD)
    assert exit_code("policy", "lint", "-o", "json", str(path)) == 0
    assert json.loads(capsys.readouterr().out) == [{"file": str(path), "policy": "good", "field": "", "message": ""}]


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "has no policy"), ("a: [", "is not YAML"), ("- 1", "is not an object"), ("kind: Pod", "kind")],
)
def test_lint_says_what_is_no_policy(tmp_path: Path, capsys: Captured, text: str, words: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    assert exit_code("policy", "lint", str(path)) == 1
    assert words in capsys.readouterr().out


def test_lint_of_a_file_that_is_not_there(capsys: Captured) -> None:
    assert exit_code("policy", "lint", "/nowhere.yaml") == 1
    assert "cannot be read" in capsys.readouterr().out


def test_judging_a_file_that_is_not_there_is_1(capsys: Captured) -> None:
    assert exit_code("judge", "/nowhere.jsonl") == 1
    assert "/nowhere.jsonl" in capsys.readouterr().err


def test_no_cases_give_no_verdicts(tmp_path: Path) -> None:
    cases, verdicts = tmp_path / "cases", tmp_path / "verdicts"
    cases.write_text("")
    assert exit_code("judge", str(cases), "-o", str(verdicts)) == 0
    assert verdicts.read_text() == ""


@pytest.mark.parametrize("arguments", [("version",), ("run", "--help"), ("judge", "/dev/null")])
def test_the_environment_of_run_does_not_break_other_commands(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    for variable in ("BERTH_SEED", "BERTH_CENSUS_SECONDS", "BERTH_LOG_LEVEL", "BERTH_HTTP_ADDRESS"):
        monkeypatch.setenv(variable, "x")
    assert exit_code(*arguments) == 0


def test_flags_win_over_the_environment_and_the_environment_over_defaults() -> None:
    flags = _parser("berth").parse_args(["run", "--seed", "0", "--http-address", "", "--log-format", "json"])
    environment = {"BERTH_SEED": "5", "BERTH_HTTP_ADDRESS": "127.0.0.1:5", "BERTH_CENSUS_SECONDS": "9"}
    settings = _settings(flags, environment | {"BERTH_LOG_LEVEL": "debug", "BERTH_LOG_FORMAT": "text"})
    assert settings.options == Options(None, None, "", 0, 9)
    assert (settings.log_level, settings.log_format) == ("debug", "json")
    assert _settings(_parser("berth").parse_args(["run"]), {}) == _Settings(Options(), "info", "text")


@pytest.mark.parametrize("kind", ["List", "SchedulingPolicyList"])
def test_lint_looks_into_lists(tmp_path: Path, capsys: Captured, kind: str) -> None:
    path = tmp_path / "list.yaml"
    items = [yaml.safe_load(text) for text in (GOOD, BAD)]
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": kind, "items": items}))
    assert exit_code("policy", "lint", str(path)) == 1
    out = capsys.readouterr().out
    assert f"{path}: good: ok" in out
    assert "bad: spec.priorities[0].weight" in out
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": kind, "items": []}))
    assert exit_code("policy", "lint", str(path)) == 1
    assert "has no policy in it" in capsys.readouterr().out
