"""The wheel alone, without a checkout beside it: every command works, and the example plugin depends on it."""

import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from berth import __version__
from berth.shipped import policy_files
from support.repository import ROOT

EXAMPLE = ROOT / "examples" / "berth-plugin-rack-power"
SOURCES = ("operator", "crds", "policies", "pyproject.toml", "setup.py", "README.md", "LICENSE")
OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info")


def run(*command: str, folder: Path, **environment: str) -> str:
    """What the command prints, in an environment that knows nothing of this checkout."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "KUBECONFIG")
    inherited = {name: value for name, value in os.environ.items() if name not in ours and "BERTH" not in name}
    done = subprocess.run(
        command, cwd=folder, env={**inherited, **environment}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def build(sources: Path, target: Path) -> Path:
    """Builds the wheel of a copy of the sources: building leaves files behind."""
    run(sys.executable, "-m", "pip", "wheel", *OFFLINE, f"--wheel-dir={target}", str(sources), folder=target)
    [wheel] = target.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, sources / name, ignore=LEFT_OUT)
        else:
            shutil.copy(path, sources / name)
    return build(sources, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_is_named_for_the_distribution_and_has_every_file_of_the_library(wheel: Path) -> None:
    assert wheel.name == f"berth_scheduler-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = Parser().parsestr(archive.read(f"berth_scheduler-{__version__}.dist-info/METADATA").decode("utf-8"))
    shipped = {
        f"berth/data/{folder}/{file.name}" for folder in ("crds", "policies") for file in (ROOT / folder).iterdir()
    }
    assert {name for name in names if name.startswith("berth/data/")} == shipped
    assert metadata["Name"] == "berth-scheduler"
    assert {name.split("/")[0] for name in names} == {"berth", f"berth_scheduler-{__version__}.dist-info"}


def test_a_package_without_a_checkout_has_kinds_and_policies(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    run(sys.executable, "-m", "pip", "install", *OFFLINE, f"--target={site}", str(wheel), folder=tmp_path)
    program = "import sys, berth.cli; assert sys.argv.pop(1) in berth.cli.__file__; sys.exit(berth.cli.main())"
    berth = (sys.executable, "-P", "-c", program, str(site))
    assert run(*berth, "crds", folder=tmp_path, PYTHONPATH=str(site)).count("CustomResourceDefinition") == 2
    assert run(*berth, "policy", "lint", *policy_files(), folder=tmp_path, PYTHONPATH=str(site)).count(": ok") == 11


@pytest.mark.slow
def test_a_fresh_environment_with_the_wheel_alone_runs_the_demo_and_takes_the_example_plugin(
    wheel: Path, tmp_path: Path
) -> None:
    """Dependencies come from the package index, by the pinned versions; Berth itself from the wheel."""
    sources = tmp_path / "sources"
    shutil.copytree(EXAMPLE, sources, ignore=LEFT_OUT)
    (tmp_path / "wheels").mkdir()
    plugin = build(sources, tmp_path / "wheels")
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"), folder=tmp_path)
    programs = tmp_path / "venv" / "bin"
    pip = (str(programs / "pip"), "install", "--quiet", "--disable-pip-version-check")
    berth = str(programs / "berth")
    run(*pip, f"--constraint={ROOT / 'constraints.txt'}", str(wheel), folder=tmp_path)
    assert "placed" in run(berth, "demo", "--nodes", "20", "--pods", "60", folder=tmp_path, HOME=str(tmp_path))
    assert run(berth, "policy", "show", folder=tmp_path).count("\n") == 1 + len(policy_files())
    run(*pip, "--no-index", str(plugin), folder=tmp_path)  # with its dependencies: ours and numpy are there
    run(str(programs / "pip"), "check", folder=tmp_path)
    assert "ok" in run(berth, "policy", "lint", str(EXAMPLE / "policy.yaml"), folder=tmp_path)
