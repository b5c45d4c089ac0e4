"""The control plane that the other tests here stand on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from control_plane.cleaning import remove_everything
from control_plane.client import NAMESPACES, NODES, PODS, ApiError, Client, Object
from control_plane.launcher import ControlPlane, KubectlFailed
from control_plane.programs import assets_folder, kubernetes_version
from end_to_end.watching import only_real

pytestmark = only_real

TESTS = Path(__file__).resolve().parents[1]


def a_pod(name: str, namespace: str = "default") -> Object:
    containers = [{"name": "main", "image": "example.com/main"}]
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def a_node(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def test_kubectl_talks_to_an_api_server_of_the_version_that_go_mod_names(control_plane: ControlPlane) -> None:
    versions = json.loads(control_plane.kubectl("version", "-o", "json").stdout)

    assert versions["serverVersion"]["gitVersion"].startswith("v1.")
    if assets_folder() is None:
        assert versions["serverVersion"]["gitVersion"] == kubernetes_version()
        assert versions["clientVersion"]["gitVersion"] == kubernetes_version()


def test_what_kubectl_refuses_is_an_error_with_its_words(control_plane: ControlPlane) -> None:
    with pytest.raises(KubectlFailed, match="notakind"):
        control_plane.kubectl("get", "notakind")

    assert control_plane.kubectl("get", "notakind", check=False).returncode != 0


async def test_a_new_node_carries_no_taint_and_a_pod_needs_no_service_account(api: Client) -> None:
    await api.create(a_node("bare"))
    await api.create(a_pod("plain"))

    assert "taints" not in (await api.get(f"{NODES}/bare"))["spec"]
    assert "nodeName" not in (await api.get(f"{NAMESPACES}/default/pods/plain"))["spec"]


async def test_the_data_is_still_there_when_the_api_server_comes_back(control_plane: ControlPlane, api: Client) -> None:
    made = await api.create(a_node("survivor"))
    address = control_plane.url

    control_plane.stop_api_server()
    control_plane.start_api_server()

    assert control_plane.url == address
    assert (await api.get(f"{NODES}/survivor"))["metadata"]["uid"] == made["metadata"]["uid"]


async def test_hundreds_of_objects_are_made_watched_and_removed(api: Client) -> None:
    assert await api.create_many(a_node(f"node-{number}") for number in range(300)) == 300
    await api.wait_until(NODES, lambda nodes: len(nodes) == 300, timeout_seconds=60)

    await api.delete_collection(NODES)

    await api.wait_until(NODES, lambda nodes: not nodes, timeout_seconds=60)


async def test_waiting_for_what_does_not_come_says_what_there_was(api: Client) -> None:
    await api.create(a_pod("lonely"))

    with pytest.raises(TimeoutError, match="default/lonely"):
        await api.wait_until(PODS, lambda pods: len(pods) == 2, timeout_seconds=0.5)


async def test_a_refusal_of_the_api_server_carries_its_status_and_words(api: Client) -> None:
    await api.create(a_node("twin"))

    with pytest.raises(ApiError, match="already exists") as refusal:
        await api.create(a_node("twin"))
    assert refusal.value.status == 409


async def test_the_cluster_is_emptied_of_other_namespaces_claims_and_their_finalizers(api: Client) -> None:
    await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    await api.create(a_pod("guest", "elsewhere"))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await api.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "disk", "namespace": "elsewhere"},
            "spec": claim,
        }
    )

    await remove_everything(api)

    assert await api.list(PODS) == []
    assert await api.list("/api/v1/persistentvolumeclaims") == []
    assert not await api.exists(f"{NAMESPACES}/elsewhere")
    assert await api.exists(f"{NAMESPACES}/default")


def test_nothing_keeps_running_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    output = tmp_path / "output"
    os.mkfifo(output)  # reading it ends when the last process that may write to it has ended
    script = (
        "import os, pathlib, signal, sys\n"
        "from control_plane.process import Process\n"
        "late = [sys.executable, '-c', 'import time; time.sleep(20); print(\"still here\")']\n"
        f"Process('late', late, pathlib.Path({str(output)!r})).start()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    with subprocess.Popen([sys.executable, "-c", script], env={"PYTHONPATH": str(TESTS)}) as killed:
        written = output.read_bytes()

    assert killed.returncode == -signal.SIGKILL
    assert written == b""
