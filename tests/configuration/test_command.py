"""Configuration on the command line: what `berth run` writes, refuses and says, and what `kopf run` reads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from berth import __version__
from berth.configuration import Options, as_mapping, read
from berth.configuration.introduction import introduce
from berth.serving.logs import JsonFormatter
from control_plane.berth_process import SOURCE_ROOT
from support.commands import exit_code, forget_settings

Captured = pytest.CaptureFixture[str]
OPERATOR = SOURCE_ROOT


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)


def test_what_is_in_effect_is_written_and_reads_back(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "berth.yaml"
    arguments = ("--seed", "7", "--feature-gates", "Expressions=false", "--peering-lifetime-seconds", "30")
    assert exit_code("run", *arguments, "--write-config-to", str(path)) == 0
    options = read({}, config=str(path))
    assert (options.seed, options.peering_lifetime_seconds) == (7, 30)
    assert not options.feature_gates["Expressions"]
    assert exit_code("run", "--config", str(path), "--write-config-to", "-") == 0
    assert capsys.readouterr().out == path.read_text()


def test_every_setting_is_explained_where_it_is_written(capsys: Captured) -> None:
    assert exit_code("run", "--write-config-to", "-") == 0
    lines = capsys.readouterr().out.splitlines()
    for key in as_mapping(Options()):
        place = next(number for number, line in enumerate(lines) if line.startswith(f"{key}:"))
        assert lines[place - 1].startswith("# ")


def test_a_place_that_cannot_be_written_to_is_one_line_and_1(capsys: Captured) -> None:
    assert exit_code("run", "--write-config-to", "/nowhere/berth.yaml") == 1
    assert capsys.readouterr().err == "berth run: --write-config-to /nowhere/berth.yaml: No such file or directory\n"


def test_words_that_belong_to_no_flag_are_refused_with_the_usage_of_run(capsys: Captured) -> None:
    for words in (("berth.yaml",), ("--standalone", "now"), ("--nonsense",)):
        assert exit_code("run", *words) == 2
        said = capsys.readouterr().err
        assert said.startswith("usage: berth run ")
        assert f"unrecognized arguments: {words[-1]}" in said


def test_a_wrong_file_is_2_with_a_line_for_each_problem(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "berth.yaml"
    path.write_text("apiVersion: berth.dev/v1alpha1\nkind: BerthConfiguration\nsede: 1\nlogLevel: loud\n")
    assert exit_code("run", "--standalone", "--config", str(path)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith(f"berth run: {path}: ") for line in lines] == [True, True]
    assert exit_code("run", "--standalone", "--config", str(path), "--write-config-to", "-") == 2


def test_a_slip_in_a_variable_is_2_with_what_was_meant(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_HTTPS_ADRESS", "x")
    assert exit_code("run", "--write-config-to", "/dev/null") == 2
    assert "BERTH_HTTPS_ADRESS: is not a setting; did you mean BERTH_HTTPS_ADDRESS?" in capsys.readouterr().err


def test_standalone_may_come_from_a_variable(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_STANDALONE", "on")
    assert exit_code("run", "--kubeconfig", "/nowhere") == 1
    assert "no kubeconfig at /nowhere" in capsys.readouterr().err


def test_the_beginning_is_logged_with_version_and_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    introduce(Options(kubeconfig=str(tmp_path / "k"), tls_cert_file="/c", tls_private_key_file="/p"))
    (record,) = caplog.records
    said = record.getMessage()
    assert json.loads(said[said.index("{") :]) == as_mapping(
        Options(kubeconfig=str(tmp_path / "k"), tls_cert_file="/c", tls_private_key_file="/p")
    )
    assert "\n" not in said
    line = json.loads(JsonFormatter().format(record))
    assert line["version"] == __version__
    assert line["configuration"]["tlsPrivateKeyFile"] == "/p"


def test_kopf_run_reads_the_same_variables_and_the_file(tmp_path: Path) -> None:
    path = tmp_path / "berth.yaml"
    path.write_text("apiVersion: berth.dev/v1alpha1\nkind: BerthConfiguration\nseeed: 1\n")
    command = [sys.executable, "-m", "kopf", "run", str(OPERATOR / "main.py"), "--standalone", "--all-namespaces"]
    environment = {"PYTHONPATH": str(OPERATOR), "PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    environment |= {"BERTH_CONFIG": str(path), "BERTH_RESYNC_SECONDS": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 2
    assert "did you mean seed?" in done.stderr
    assert "BERTH_RESYNC_SECONDS: 0 is not from 1 to 86400" in done.stderr
