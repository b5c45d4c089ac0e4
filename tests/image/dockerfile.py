"""The Dockerfile, read and carried out without docker, where no image can be built.

    _, [build, final] = read(ROOT / "Dockerfile")
    carry_out(build, folder, python)       # its steps, with /opt and /src below the folder

Reading knows the instructions that ours uses, each in the one form that it uses; anything else is refused, so that what
is tried here is what would be built. Two things are not as in an image: its base is missing, whose Python is replaced
by the one that runs the tests; and pip may use its cache, so that packages are not fetched again for each test.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAPPED = ("/opt/", "/src")
EXEC_FORM = ("RUN", "ENTRYPOINT", "CMD")


class NotUnderstood(Exception):
    """An instruction in a form that nobody here knows; the text is the instruction."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction; `words` are those of its exec form, or what it was split into."""

    instruction: str
    words: tuple[str, ...]


@dataclass(slots=True)
class Stage:
    base: str
    name: str
    steps: list[Step] = field(default_factory=list)

    def all(self, instruction: str) -> list[Step]:
        return [step for step in self.steps if step.instruction == instruction]

    def one(self, instruction: str) -> tuple[str, ...]:
        [step] = self.all(instruction)
        return step.words

    def settings(self, instruction: str) -> dict[str, str]:
        """The pairs of all LABELs, ENVs or ARGs."""
        pairs = [word.partition("=") for step in self.all(instruction) for word in step.words]
        return {name: value for name, _, value in pairs}


def read(path: Path) -> tuple[dict[str, str], list[Stage]]:
    """The arguments before the first stage, and the stages."""
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for instruction, rest in _instructions(path.read_text()):
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(base, name))
        elif not stages:
            name, _, value = rest.partition("=")
            arguments[name] = value
        else:
            stages[-1].steps.append(_step(instruction, rest))
    return arguments, stages


def _instructions(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined.splitlines()]


def _step(instruction: str, rest: str) -> Step:
    if instruction in EXEC_FORM:
        return Step(instruction, _exec_form(rest))
    if instruction == "HEALTHCHECK":
        options, _, command = rest.partition(" CMD ")
        return Step(instruction, (*options.split(), *_exec_form(command)))
    if instruction in ("WORKDIR", "COPY", "USER", "EXPOSE"):
        return Step(instruction, tuple(rest.split()))
    if instruction in ("ENV", "LABEL", "ARG"):
        words = tuple(shlex.split(rest))
        if all("=" in word for word in words):
            return Step(instruction, words)
    raise NotUnderstood(f"{instruction} {rest}")


def _exec_form(text: str) -> tuple[str, ...]:
    """A list of words: a command in the other form would need a shell."""
    try:
        words = json.loads(text)
    except json.JSONDecodeError as error:
        raise NotUnderstood(f"not in exec form: {text}") from error
    return tuple(str(word) for word in words)


# --- carrying out ----------------------------------------------------------------------------------------------------


def carry_out(stage: Stage, folder: Path, python: Path) -> None:
    """Take the steps of a building stage, with this Python; AssertionError with a step that fails, and its words."""
    work = folder
    for step in stage.steps:
        if step.instruction == "WORKDIR":
            work = Path(mapped(step.words[0], folder))
            work.mkdir(parents=True, exist_ok=True)
        elif step.instruction == "COPY":
            _copy(step.words[:-1], work / step.words[-1])
        elif step.instruction == "RUN":
            _run(step.words, folder, work, python)
        else:
            raise NotUnderstood(f"{step.instruction} in a stage that builds")


def mapped(text: str, folder: Path) -> str:
    """Paths of the image as they are here."""
    for path in MAPPED:
        text = re.sub(rf"(^|[=:]){path}", rf"\g<1>{folder}{path}", text)
    return text


def _run(words: Sequence[str], folder: Path, work: Path, python: Path) -> None:
    program, *others = (mapped(word, folder) for word in words if word != "--no-cache-dir")
    if program == "python":
        program = str(python)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([program, *others], cwd=work, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}{done.stdout}")


def _copy(sources: Sequence[str], target: Path) -> None:
    for source in sources:
        path = ROOT / source
        if path.is_dir():
            for file in sent_to_builder(path):
                _copy_file(file, target / file.relative_to(path))
        else:
            assert path in sent_to_builder(ROOT), f".dockerignore leaves out {source}"
            _copy_file(path, target / path.name)


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def sent_to_builder(folder: Path) -> set[Path]:
    """The files of the folder that .dockerignore lets through."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    tops = [path for path in ROOT.iterdir() if not is_ignored((path.name,), patterns)]
    files = {file for top in tops for file in ([top] if top.is_file() else top.rglob("*")) if file.is_file()}
    kept = {file for file in files if not is_ignored(file.relative_to(ROOT).parts, patterns)}
    return {file for file in kept if file.is_relative_to(folder)}


def is_ignored(parts: tuple[str, ...], patterns: Sequence[str]) -> bool:
    """Docker's rules, for patterns of one name, with `!` before or `**/` in front: the last one that matches counts."""
    ignored = False
    for pattern in patterns:
        name = pattern.removeprefix("!")
        if name.startswith("**/"):
            matches = any(fnmatch(part, name.removeprefix("**/")) for part in parts)
        elif "/" in name:
            raise NotUnderstood(f".dockerignore: {pattern}")
        else:
            matches = fnmatch(parts[0], name)
        if matches:
            ignored = not pattern.startswith("!")
    return ignored


def python_for_everybody(folder: Path) -> Path:
    """The Python that runs the tests, and not that of its virtual environment, which has packages already. One that
    other users cannot reach, in somebody's home, is copied into the folder."""
    program = Path(sys.executable).resolve()
    if all(parent.stat().st_mode & 0o001 for parent in program.parents):
        return program
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    home = folder / "usr" / "local"
    left_out = shutil.ignore_patterns("site-packages", "test", "idlelib", "config-*")
    shutil.copytree(Path(sys.base_prefix) / "lib" / version, home / "lib" / version, ignore=left_out)
    for library in (Path(sys.base_prefix) / "lib").glob("libpython*.so*"):
        shutil.copy(library, home / "lib")
    (home / "bin").mkdir()
    return Path(shutil.copy(program, home / "bin" / version))


def environment_of(stage: Stage, folder: Path) -> Mapping[str, str]:
    """What the image sets for its process, with the paths as they are here, and where a copied Python's library is."""
    libraries = {"LD_LIBRARY_PATH": str(folder / "usr" / "local" / "lib")}
    return {name: mapped(value, folder) for name, value in stage.settings("ENV").items()} | libraries
