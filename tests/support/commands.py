"""The command line in this process, with nothing of the machine's own settings around it."""

import os

import pytest

from berth.cli import COMMANDS, main
from berth.cli.policy import ACTIONS

# All commands but `version`, which has no module of its own: each as the words of a command line.
ALL_COMMANDS = (*((name,) for name in COMMANDS if name != "policy"), *(("policy", action) for action in ACTIONS))


def forget_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable says anything to Berth or of a cluster."""
    for variable in list(os.environ):
        if variable.startswith(("BERTH_", "KUBE")):
            monkeypatch.delenv(variable)


def exit_code(*arguments: str) -> int:
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
