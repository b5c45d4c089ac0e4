"""docs/getting-started.md, followed on the demo's cluster."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from control_plane.programs import find_programs
from end_to_end.pages import Page

KUBECTL_PART = "Use it with kubectl"


@pytest.mark.cluster  # for its kubectl
def test_every_command_of_getting_started_works_as_pasted(tmp_path: Path) -> None:
    kubectl = find_programs().kubectl
    command = next(
        command
        for command, _ in Page("docs/getting-started.md", tmp_path, kubectl, Path()).commands(KUBECTL_PART)
        if command.startswith("make demo")
    )
    with demo(command, tmp_path / "demo.log") as kubeconfig:
        folder = tmp_path / "second-terminal"
        folder.mkdir()
        Page("docs/getting-started.md", folder, kubectl, kubeconfig).run(
            KUBECTL_PART, skip=lambda each: each == command
        )


@contextmanager
def demo(command: str, log: Path) -> Iterator[Path]:
    """The demo as the page starts it; yields the KUBECONFIG that it prints once it stays."""
    found = re.fullmatch(r"make demo ARGS='(.*)'", command)
    assert found is not None
    arguments = [str(Path(sys.executable).parent / "berth"), "demo", *shlex.split(found[1])]
    with log.open("w") as output:
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=output, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        exported = next(line for line in lines if "export KUBECONFIG=" in line)
        yield Path(exported.partition("=")[2].strip())
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 0
