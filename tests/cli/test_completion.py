"""`berth completion`: scripts made from the parsers; that of bash is run by bash."""

import shlex
import shutil
import subprocess
from importlib.metadata import entry_points

import pytest

from berth.cli import COMMANDS
from berth.cli.completion import bash_script, complete, fish_script, kubectl_main, read_commands, zsh_script

Captured = pytest.CaptureFixture[str]


def bash_completes(*words: str) -> set[str]:
    """What bash offers for the last of these words."""
    script = bash_script(read_commands())
    setting = f"COMP_WORDS=({shlex.join(['berth', *words])}); COMP_CWORD={len(words)}"
    asked = f'{script}\n{setting}\n_berth\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    return set(subprocess.run([bash, "-c", asked], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("",), {*COMMANDS, "version"}),
        (("st",), {"status"}),
        (("why", "-o", ""), {"wide", "json", "yaml", "name"}),
        (("why", "web", "--output", "j"), {"json"}),
        (("why", "--na"), {"--namespace"}),
        (("policy", ""), {"lint", "import", "diff", "show"}),
        (("policy", "diff", "--clu"), {"--cluster"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
        (("why", "--context", ""), set()),
    ],
)
def test_bash_and_kubectl_offer_commands_options_and_values(words: tuple[str, ...], offered: set[str]) -> None:
    assert bash_completes(*words) == offered
    *finished, last = words
    assert set(complete(read_commands(), finished, last) or ()) == offered


def test_files_are_offered_where_files_are_read() -> None:
    assert complete(read_commands(), ["why", "--snapshot"], "x") is None
    assert complete(read_commands(), ["policy", "lint"], "x") is None
    assert bash_completes("policy", "lint", "/et") == {"/etc"}
    assert bash_completes("why", "--snapshot", "/et") == {"/etc"}


def test_fish_and_zsh_have_all_commands_with_what_they_do() -> None:
    commands = read_commands()
    script = fish_script(commands)
    for name, (text, _) in COMMANDS.items():
        assert f"-a {name} -d '{text}'" in script
    assert "-s o -l output -x -a 'wide json yaml name'" in script
    assert zsh_script(commands).endswith(bash_script(commands))
    assert "bashcompinit" in zsh_script(commands)


def test_kubectl_is_answered_in_its_own_form(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-berth", "why", "-o", "y"])
    assert kubectl_main() == 0
    assert capsys.readouterr().out == "yaml\n:4\n"
    monkeypatch.setattr("sys.argv", ["kubectl_complete-berth", "why", "--snapshot", ""])
    assert kubectl_main() == 0
    assert capsys.readouterr().out == ":0\n"


def test_the_programs_that_kubectl_looks_for_are_installed() -> None:
    names = {point.name for point in entry_points(group="console_scripts") if point.value.startswith("berth.")}
    assert {"berth", "kubectl-berth", "kubectl_complete-berth"} <= names
