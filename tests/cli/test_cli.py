"""The command line: what it says, where, and the exit code."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from berth.cli import make_parser
from berth.cli.run import read_options
from berth.runtime import Options
from cluster.server import write_kubeconfig
from control_plane.berth_process import SOURCE_ROOT
from support.commands import ALL_COMMANDS, exit_code, forget_settings

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("policy", "--help"),
        *((*command, "--help") for command in ALL_COMMANDS),
    ],
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


@pytest.mark.parametrize("arguments", [("version",), ("--version",), ("run", "--version")])
def test_the_version_is_printed(capsys: Captured, arguments: tuple[str, ...]) -> None:
    assert exit_code(*arguments) == 0
    assert capsys.readouterr().out.startswith("berth ")


@pytest.mark.parametrize(
    "arguments", [(), ("nonsense",), ("run", "--seed", "x"), ("policy",), ("run", "--standalone=1")]
)
def test_a_wrong_question_is_2(arguments: tuple[str, ...]) -> None:
    assert exit_code(*arguments) == 2


@pytest.mark.parametrize("lifetime", ["4", "61", "ten"])
def test_a_lifetime_that_would_not_do_is_refused_in_words(capsys: Captured, lifetime: str) -> None:
    assert exit_code("run", "--peering-lifetime-seconds", lifetime) == 2
    assert "--peering-lifetime-seconds" in capsys.readouterr().err


def test_an_address_that_others_could_reach_is_refused_in_words(capsys: Captured) -> None:
    assert exit_code("run", "--standalone", "--http-address", "0.0.0.0:1") == 2
    assert "loopback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BERTH_SEED", "x"),
        ("BERTH_LOG_LEVEL", "loud"),
        ("BERTH_RESYNC_SECONDS", "-5"),
        ("BERTH_RESYNC_SECONDS", "0"),
        ("BERTH_HTTP_ADDRESS", "0.0.0.0:1"),
        ("BERTH_HTTPS_ADDRESS", "0.0.0.0"),
        ("BERTH_DEBUG_ENDPOINTS", "yes"),
        ("BERTH_STANDALONE", "yes"),
        ("BERTH_PEERING_NAME", "Berth!"),
        ("BERTH_PEERING_LIFETIME_SECONDS", "3"),
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
    source = SOURCE_ROOT
    command = [sys.executable, "-c", "import sys; from berth.cli import main; sys.exit(main())", "run", "--standalone"]
    environment = {"PYTHONPATH": str(source), "PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    return subprocess.run(
        [*command, "--https-address", "", *arguments], capture_output=True, text=True, env=environment, timeout=60
    )


def complaint_of(done: subprocess.CompletedProcess[str]) -> str:
    """What is said after the introduction, which is the first line of every log."""
    introduction, complaint = done.stderr.splitlines()
    assert "begins, with the configuration" in introduction
    return complaint


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
        assert (done.returncode, words in complaint_of(done)) == (1, True), done.stderr


def test_half_a_certificate_is_2_and_one_that_cannot_be_used_is_1(tmp_path: Path, capsys: Captured) -> None:
    for half in ("--tls-cert-file", "--tls-private-key-file"):
        assert exit_code("run", "--standalone", half, "x") == 2
        assert "give both, or none" in capsys.readouterr().err
    assert exit_code("run", "--standalone", "--https-address=", "--tls-cert-file=x", "--tls-private-key-file=y") == 2
    kubeconfig = str(write_kubeconfig(tmp_path, "http://127.0.0.1:1"))
    arguments = ["--https-address=127.0.0.1:0", "--tls-cert-file=/nowhere", "--tls-private-key-file=/nowhere"]
    done = run("--kubeconfig", kubeconfig, *arguments)
    assert done.returncode == 1
    assert complaint_of(done) == "berth run: --tls-cert-file /nowhere: No such file or directory"


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
    for variable in ("BERTH_SEED", "BERTH_RESYNC_SECONDS", "BERTH_LOG_LEVEL", "BERTH_HTTP_ADDRESS"):
        monkeypatch.setenv(variable, "x")
    assert exit_code(*arguments) == 0


def test_flags_win_over_the_environment_and_the_environment_over_defaults() -> None:
    flags = make_parser("berth").parse_args(["run", "--seed", "0", "--http-address", "", "--log-format", "json"])
    environment = {"BERTH_SEED": "5", "BERTH_HTTP_ADDRESS": "127.0.0.1:5", "BERTH_RESYNC_SECONDS": "9"}
    options = read_options(flags, environment | {"BERTH_LOG_LEVEL": "debug", "BERTH_LOG_FORMAT": "text"})
    assert options == Options(seed=0, resync_seconds=9, log_level="debug", log_format="json")
    assert read_options(make_parser("berth").parse_args(["run"]), {}) == Options()


def test_a_reader_who_has_seen_enough_is_no_traceback(tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text("---\n{}\n" * 500)
    program = "import sys; from berth.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE_ROOT)}
    command = [sys.executable, "-c", program, "policy", "lint", str(policies)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (1, "")


def test_a_packed_file_that_is_cut_off_is_one_line_and_1(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "cases.gz"
    path.write_bytes(gzip.compress(b'{"id": 1}\n' * 5000)[:-20])
    assert exit_code("judge", str(path), "-o", "/dev/null") == 1
    assert capsys.readouterr().err.startswith("berth judge: ")
