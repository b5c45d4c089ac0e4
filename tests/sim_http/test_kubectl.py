"""kubectl on the embedded server: the recorded session, and what it prints. Needs kubectl, hence the marker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from berth.sim.server import SimServer
from contract.kubectl_session import COMMANDS, MANIFESTS
from control_plane.programs import MissingPrograms, find_programs

pytestmark = pytest.mark.cluster

# Nobody makes the pod ready.
NEVER_TRUE = {"wait --for=condition=Ready pod/session-pod --timeout=1s": 1}


class Kubectl:
    """Runs kubectl against the embedded server, which goes on serving in this thread's loop."""

    def __init__(self, program: Path, server: SimServer, folder: Path) -> None:
        self._program = program
        self._folder = folder
        server.write_kubeconfig(folder / "kubeconfig")
        for name, manifest in MANIFESTS.items():
            (folder / name).write_text(json.dumps(manifest))

    async def run(self, command: str) -> subprocess.CompletedProcess[str]:
        words = [word.replace("{folder}", str(self._folder)) for word in command.split()]
        return await asyncio.to_thread(
            subprocess.run,
            [str(self._program), "--kubeconfig", str(self._folder / "kubeconfig"), *words],
            capture_output=True,
            text=True,
            env={**os.environ, "HOME": str(self._folder), "KUBECACHEDIR": str(self._folder / "cache")},
            timeout=60,
        )

    async def says(self, command: str) -> str:
        done = await self.run(command)
        assert done.returncode == 0, f"kubectl {command}: {done.stderr}"
        return done.stdout


@pytest.fixture
def kubectl(server: SimServer, tmp_path: Path) -> Kubectl:
    try:
        program = find_programs().kubectl
    except MissingPrograms as error:
        pytest.exit(f"control plane: {error}", returncode=2)
    return Kubectl(program, server, tmp_path)


async def test_every_command_of_the_session_ends_as_on_a_real_server(kubectl: Kubectl) -> None:
    expected = {command: NEVER_TRUE.get(command, 0) for command in COMMANDS}
    ended = {}
    for command in COMMANDS:
        done = await kubectl.run(command)
        ended[command] = done.returncode
        if done.returncode != expected[command]:
            print(f"kubectl {command}: {done.returncode} {done.stderr} {done.stdout}")
    assert ended == expected


async def test_get_prints_the_usual_columns(kubectl: Kubectl) -> None:
    for manifest in ("node", "pod", "bound", "policy"):
        await kubectl.says(f"apply -f {{folder}}/{manifest}.json")
    pods = (await kubectl.says("get pods -o wide")).splitlines()
    assert " ".join(pods[0].split()) == ("NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES")
    assert [line.split()[0] for line in pods[1:]] == ["session-bound", "session-pod"]
    assert (await kubectl.says("get nodes")).splitlines()[1].split()[:2] == ["session-node", "Ready"]
    header, row = (await kubectl.says("get sp")).splitlines()
    assert " ".join(header.split()) == "NAME SCHEDULER MODE READY ACTIVE ACCEPTED IN FORCE PLACED PENDING AGE"
    assert row.split()[:2] == ["session", "session"]


async def test_describe_and_explain_know_the_objects(kubectl: Kubectl) -> None:
    for manifest in ("node", "pod", "bound", "policy"):
        await kubectl.says(f"apply -f {{folder}}/{manifest}.json")
    assert "session-bound" in await kubectl.says("describe node session-node")
    assert "session-node" in await kubectl.says("describe pod session-bound")
    assert "NodeResourcesFit" in await kubectl.says("describe sp session")
    said = await kubectl.says("explain sp.spec.priorities")
    assert "KIND:       SchedulingPolicy" in said
    assert "weight" in said


async def test_apply_says_what_it_did_and_refuses_what_is_wrong(kubectl: Kubectl) -> None:
    name = "schedulingpolicy.berth.dev/session"
    assert await kubectl.says("apply -f {folder}/policy.json") == f"{name} created\n"
    assert await kubectl.says("apply -f {folder}/policy-changed.json") == f"{name} configured\n"
    assert await kubectl.says("apply -f {folder}/pod.json") == "pod/session-pod created\n"
    assert await kubectl.says("apply -f {folder}/pod.json") == "pod/session-pod unchanged\n"
    assert await kubectl.says("apply -f {folder}/pod-changed.json") == "pod/session-pod configured\n"
    done = await kubectl.run("apply -f {folder}/policy-bad.json")
    assert done.returncode == 1
    assert 'spec.tieBreak: Unsupported value: "Dice"' in done.stderr


async def test_a_deleted_pod_is_waited_for(kubectl: Kubectl) -> None:
    await kubectl.says("apply -f {folder}/pod.json")
    assert await kubectl.says("delete pod session-pod") == 'pod "session-pod" deleted from default namespace\n'
    assert "not found" in (await kubectl.run("get pod session-pod")).stderr
