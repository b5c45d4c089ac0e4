"""Nothing here names a distribution that is not ours or pinned: a name that is somebody else's installs their code."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.repository import ROOT, text_files
from tools.lock import pins
from tools.sbom import ROOT as OF_THE_BILL

OURS = "berth-scheduler"
PINNED = pins().keys() | {"pip"}  # pip comes with Python
INSTALLS = re.compile(r"pip[\"', ]+install[\"', ]+(.*)")
TOML_BLOCK = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_distribution_is_ours_and_the_bill_of_materials_begins_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == OF_THE_BILL == OURS
    assert {"berth", "kubectl-berth"} <= project["scripts"].keys()


def required(project: dict[str, Any]) -> Iterator[str]:
    """All that a pyproject.toml wants installed."""
    yield from project.get("build-system", {}).get("requires", ())
    yield from project.get("project", {}).get("dependencies", ())
    for extra in project.get("project", {}).get("optional-dependencies", {}).values():
        yield from extra


def definitions() -> Iterator[tuple[str, str]]:
    """Where a pyproject.toml is, or a block of a page that looks like one, and its text."""
    for path in text_files():
        text = path.read_text(encoding="utf-8")
        if path.name == "pyproject.toml":
            yield str(path.relative_to(ROOT)), text
        elif path.suffix == ".md":
            for block in TOML_BLOCK.findall(text):
                yield str(path.relative_to(ROOT)), block


def installed(text: str) -> Iterator[str]:
    """The distributions that commands in the text have pip fetch; folders, files and options are none."""
    for line in text.replace("\\\n", " ").splitlines():
        for words in INSTALLS.findall(line):
            for word in re.split(r"[\s\"'()]+|, |\]$", re.split(r"#|&&|;|\||`", words)[0]):
                name = re.match(r"[A-Za-z0-9][\w.-]*(?:\[[\w,]+\])?(?:[=<>~!]=.*)?$", word)
                if name is not None and not word.endswith((".whl", ".lock", ".txt")):
                    yield re.split(r"[\[=<>~!]", word)[0]


@pytest.mark.parametrize(("where", "text"), list(definitions()), ids=lambda value: value if len(value) < 60 else "")
def test_a_definition_requires_what_is_ours_or_pinned(where: str, text: str) -> None:
    names = {canonicalize_name(Requirement(line).name) for line in required(tomllib.loads(text))}
    assert names <= PINNED | {OURS}, where


def test_no_command_installs_what_is_neither_ours_nor_pinned() -> None:
    strange = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in text_files()
        if path.suffix != ".py"
        for name in installed(path.read_text(encoding="utf-8"))
        if canonicalize_name(name) not in PINNED | {OURS}
    }
    assert strange == set()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("$ pip install berth", ["berth"]),
        ("`pip install .` into the environment", []),
        ("pip install --no-deps --target /plugins berth-plugin-rack-power", ["berth-plugin-rack-power"]),
        ('RUN ["/opt/berth/bin/pip", "install", "--no-deps", "kopf"]', ["kopf"]),
        ("python -m pip install 'berth-scheduler[dev]==0.1.0'  # not berth", ["berth-scheduler"]),
        ("pip install dist/berth_scheduler-0.1.0-py3-none-any.whl ./plugin", []),
    ],
)
def test_what_a_command_installs_is_seen(command: str, expected: list[str]) -> None:
    assert list(installed(command)) == expected
