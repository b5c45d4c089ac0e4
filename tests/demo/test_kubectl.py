"""The demo's cluster with the real kubectl, of two versions, and with helm. Needs kubectl, hence the marker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from berth.cluster.clock import RealClock
from berth.demo.environment import EmbeddedEnvironment
from berth.demo.scenario import make_plan
from chart.rendering import helm
from control_plane.programs import MissingPrograms, find_programs, kubectl_before, kubectl_before_version
from demo.kubectl_commands import COMMANDS, MANIFESTS, Command

pytestmark = pytest.mark.cluster

NODES, PODS = 6, 20
NODE = "zone-a-001"
EDITOR = """import pathlib, sys
path = pathlib.Path(sys.argv[1])
path.write_text(path.read_text().replace("a: b", "a: edited"))
"""


@pytest.fixture(params=["the same version", "the version before"])
def program(request: pytest.FixtureRequest) -> Path:
    if request.param == "the version before":
        if not kubectl_before().exists():
            pytest.skip(f"kubectl {kubectl_before_version()} is not built: `make control-plane` tries to")
        return kubectl_before()
    try:
        return find_programs().kubectl
    except MissingPrograms as error:
        pytest.exit(f"control plane: {error}", returncode=2)


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedEnvironment]:
    async with EmbeddedEnvironment(RealClock(), seed=0) as environment:
        await environment.make_cluster(make_plan(NODES, PODS, 0))
        yield environment
        assert environment.problem() is None, environment.operator_log()


class Kubectl:
    """Runs commands while the cluster goes on in this thread's loop."""

    def __init__(self, program: Path, kubeconfig: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        for name, manifest in MANIFESTS.items():
            (folder / name).write_text(json.dumps(manifest))
        (folder / "edit.py").write_text(EDITOR)
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(folder),
            "KUBE_EDITOR": f"{sys.executable} {folder / 'edit.py'}",
        }

    async def run(self, line: str) -> subprocess.CompletedProcess[str]:
        words = [word.replace("{folder}", str(self._folder)).replace("{node}", NODE) for word in line.split()]
        return await asyncio.to_thread(
            subprocess.run,
            [str(self._program), *words],
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=180,
        )


def _ends_as_expected(command: Command, done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode == command.code and command.says in done.stdout + done.stderr


async def test_everyday_commands_work_or_say_what_is_missing(
    program: Path, cluster: EmbeddedEnvironment, tmp_path: Path
) -> None:
    kubectl = Kubectl(program, cluster.kubeconfig, tmp_path)
    failed = []
    for command in COMMANDS:
        done = await kubectl.run(command.line)
        if not _ends_as_expected(command, done):
            failed.append(f"kubectl {command.line}: {done.returncode}\n{done.stdout[-600:]}{done.stderr[-600:]}")
    assert not failed, "\n".join(failed)


def _chart(folder: Path) -> Path:
    """A small chart: a Deployment with a Service and its settings."""
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 0.1.0\n")
    web = {**MANIFESTS["api.json"], "metadata": {"name": "small"}}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small"}, "data": {"a": "b"}}
    ports = {"selector": {"app": "api"}, "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "small"}, "spec": ports}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "small"}}
    for body in (web, settings, service, account):
        (folder / "templates" / f"{body['kind']}.yaml").write_text(json.dumps(body))
    return folder


async def test_a_chart_is_installed_upgraded_and_uninstalled(cluster: EmbeddedEnvironment, tmp_path: Path) -> None:
    chart = str(_chart(tmp_path / "small"))

    async def run(*arguments: str) -> str:
        done = await asyncio.to_thread(helm, *arguments, kubeconfig=cluster.kubeconfig)
        return done.stdout

    assert "STATUS: deployed" in await run("install", "web", chart, "--wait", "--timeout", "90s")
    (tmp_path / "small" / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 0.2.0\n")
    assert "REVISION: 2" in await run("upgrade", "web", chart, "--wait", "--timeout", "90s")
    assert "small-0.2.0" in await run("list")
    assert 'release "web" uninstalled' in await run("uninstall", "web", "--wait")
