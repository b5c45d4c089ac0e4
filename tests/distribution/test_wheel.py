"""The wheel alone, without a checkout beside it: every command works, and the example plugin depends on it."""

import shutil
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from berth import __version__
from berth.shipped import policy_files
from distribution.building import LEFT_OUT, OFFLINE, build, run
from support.repository import ROOT

EXAMPLE = ROOT / "examples" / "berth-plugin-rack-power"


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
