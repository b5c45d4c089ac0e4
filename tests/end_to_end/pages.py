"""Pages of the documentation as a user follows them: their commands, in order, with the output that they show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


class Page:
    """A page, by its path in the repository, section by section."""

    def __init__(self, name: str, folder: Path, kubectl: Path, kubeconfig: Path) -> None:
        """Commands run in `folder`, which has the same files as a checkout, so that what they write stays out of it."""
        sections = re.split(r"^## ", (ROOT / name).read_text(), flags=re.MULTILINE)[1:]
        self._sections = {section.partition("\n")[0]: section for section in sections}
        self._folder = folder
        for entry in ("crds", "examples", "policies"):
            (folder / entry).symlink_to(ROOT / entry)
        path = f"{Path(sys.executable).parent}:{kubectl.parent}:{os.environ['PATH']}"
        self._environment: Mapping[str, str] = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path}

    def commands(self, section: str) -> list[tuple[str, str]]:
        """Returns the commands of a section, each with the output that the page shows for it."""
        blocks = re.findall(r"^```console\n(.*?)^```", self._sections[section], flags=re.MULTILINE | re.DOTALL)
        return [command for block in blocks for command in _commands(block)]

    def run(
        self, section: str, skip: Callable[[str], bool] = lambda command: False, allowed: Collection[int] = (0,)
    ) -> None:
        """Runs the commands of a section. Each must end with an allowed exit code, and print what the page shows."""
        for command, expected in self.commands(section):
            if not skip(command):
                self._run(command, expected, allowed)

    def yaml_of(self, section: str) -> Any:
        """Returns the YAML block of a section."""
        (block,) = re.findall(r"^```yaml\n(.*?)^```", self._sections[section], flags=re.MULTILINE | re.DOTALL)
        return yaml.safe_load(block)

    def _run(self, command: str, expected: str, allowed: Collection[int]) -> None:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in allowed, f"{command}\n{done.stdout}{done.stderr}"
        assert expected in ("", done.stdout), command


def _commands(block: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output
