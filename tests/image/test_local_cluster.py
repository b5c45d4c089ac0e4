"""From a clone to pods on kind, k3d or minikube: the commands of docs/install.md, with stand-ins for what they need."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from berth import __version__
from support.repository import ROOT

PAGE = (ROOT / "docs" / "install.md").read_text()
IMAGE = f"localhost/berth:{__version__}"
CREATING = {"kind": "kind create cluster", "k3d": "k3d cluster create", "minikube": "minikube start"}


def commands(heading: str, page: str = PAGE) -> list[str]:
    """The commands of the first block below a heading."""
    found = re.search(rf"^#+ {heading}\n.*?```console\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return [line.removeprefix("$ ") for line in found[1].splitlines()]


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine with some of the programs; each is a stand-in."""

    folder: Path

    def add(self, *names: str) -> Machine:
        for name in names:
            program = self.folder / name
            program.write_text(f"#!{sys.executable}\nfrom image.standin import main\nmain()\n")
            program.chmod(0o755)
        return self

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.folder}:/usr/bin:/bin",
            "PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT / "tests"),
            "STANDIN_STATE": str(self.folder / "state.json"),
            "STANDIN_HELM": str(Path(sys.executable).with_name("helm")),
            "HOME": str(self.folder),
        }
        return subprocess.run(command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True)

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        return state


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("cluster", CREATING)
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_the_path_of_the_page_works_as_pasted(machine: Machine, engine: str, cluster: str) -> None:
    machine.add(engine, cluster, "kubectl", "helm")
    creating, *others = commands("On your machine")
    assert creating == CREATING["kind"]
    for command in (CREATING[cluster], *others):
        done = machine.run(f"{command} ENGINE={engine}" if command.startswith("make ") else command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    assert machine.state["images"] == [IMAGE]
    assert list(machine.state["clusters"].values()) == [[IMAGE]]
    assert machine.state["releases"] == {"berth": "berth-system"}
    assert machine.state["pods"] == ["hello"]


def test_the_installation_of_readme_works_as_pasted(machine: Machine) -> None:
    machine.add("docker", "kind", "kubectl", "helm")
    for command in (CREATING["kind"], *commands("Install", (ROOT / "README.md").read_text())):
        done = machine.run(command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    assert machine.state["pods"] == ["web"]


def test_an_image_for_a_registry_is_built_and_pushed_and_installed(machine: Machine) -> None:
    machine.add("docker", "kubectl", "helm", "kind")
    assert machine.run("kind create cluster").returncode == 0
    for command in (*commands("The image"), *commands("Install")[:3]):
        done = machine.run(command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    assert machine.state["pushed"] == [f"registry.example.com/berth:{__version__}"]


@pytest.mark.parametrize(
    ("programs", "command", "said"),
    [
        ((), "make image ENGINE=podmann", "there is no podmann here: install one of them, or name it: ENGINE=..."),
        (("docker",), "make load", "which cluster: kind, k3d, minikube? kubectl has no current context: name it"),
        (("docker",), "make load CLUSTER=kine:dev", '"kine" must be one of kind, k3d, minikube'),
        (("docker",), "make load CLUSTER=minikube", "there is no minikube here: install it, or push the image"),
        (("docker", "kind"), "make load CLUSTER=kind", f"there is no image {IMAGE} yet: build it with make image"),
        (("docker", "kind"), "make image && make load CLUSTER=kind:dev", "kind load failed: see above"),
    ],
)
def test_what_is_missing_is_said_with_the_way_out(
    machine: Machine, programs: tuple[str, ...], command: str, said: str
) -> None:
    machine.add("kubectl", *programs)
    done = machine.run(command)
    assert done.returncode != 0
    assert f"image: {said}" in done.stderr


def test_an_installation_whose_image_was_not_loaded_is_refused_by_the_stand_in(machine: Machine) -> None:
    """What shows that the other tests would notice."""
    machine.add("docker", "kind", "kubectl", "helm")
    creating, building, _, installing, *_ = commands("On your machine")
    for command in (creating, building):
        assert machine.run(command).returncode == 0
    done = machine.run(installing)
    assert (done.returncode, done.stderr) == (1, f"helm: no node has the image {IMAGE}\n")
