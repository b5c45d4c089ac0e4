"""The example package: it installs without a network, its own tests pass, and its plugins keep our contract suite."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from berth.engine.registry import PLUGINS
from berth.engine.testing import check_contract
from engine.worlds import worlds

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "berth-plugin-rack-power"
ARGS = {
    "RackPower": {"maxWatts": 40, "wattsPerCore": 8, "label": "zone"},
    "TenantLimit": {"most": 2, "label": "app"},
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip puts the package into; it builds in a copy, and leaves the sources as they are."""
    source, target = tmp_path_factory.mktemp("source") / EXAMPLE.name, tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, source)
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    run([sys.executable, "-m", "pip", "install", *offline, "--target", str(target), str(source)], source)
    return target


def run(command: list[str], folder: Path, **environment: str) -> str:
    env = {**os.environ, **environment}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_own_tests_pass_where_it_is_installed(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    for file in ("pyproject.toml", "policy.yaml"):
        shutil.copy(EXAMPLE / file, tmp_path / file)
    path = os.pathsep.join([str(installed), str(ROOT / "operator")])
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    assert " passed" in run([sys.executable, "-m", "pytest", *options], tmp_path, PYTHONPATH=path)


@pytest.mark.parametrize("name", sorted(ARGS))
def test_its_plugins_keep_the_contract_on_clusters_of_every_flavour(
    installed: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(installed)
    [kind] = [base for base in PLUGINS[name].__mro__ if base.__module__.startswith("berth_rack_power")][-1:]
    for world in worlds():
        check_contract(kind, ARGS[name], world.objects, [world.pod])
