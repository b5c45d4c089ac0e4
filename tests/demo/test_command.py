"""The arguments of `berth demo`."""

import argparse

import pytest

from berth.demo import add_arguments, main
from berth.demo.operator_process import SOURCE_ROOT, process_environment


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="berth demo")
    add_arguments(parser)
    return parser.parse_args(words)


def test_by_itself_it_is_200_nodes_and_ends_at_the_end() -> None:
    options = parse()
    assert (options.nodes, options.seed, options.keep, options.picture) == (200, 0, False, None)


@pytest.mark.parametrize("words", [("--nodes", "2"), ("--nodes", "10", "--pods", "601"), ("--pods", "1")])
def test_numbers_that_make_no_demo_are_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(parse(*words)) == 2
    assert capsys.readouterr().err.startswith("berth demo: --")


def test_what_is_no_number_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--nodes", "many")
    assert '"many" is not a whole number' in capsys.readouterr().err


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    text = capsys.readouterr().out
    assert "exit codes:" in text
    assert "berth demo --keep" in text


def test_the_operator_inherits_no_settings_of_a_real_cluster_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_LOG_LEVEL", "nonsense")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    inherited = process_environment()
    assert "BERTH_LOG_LEVEL" not in inherited
    assert inherited["NO_PROXY"] == "*"
    assert inherited["PYTHONPATH"].split(":") == [str(SOURCE_ROOT), "/elsewhere"]
