"""`kopf run operator/main.py` that cannot start says why in one line, and ends with 1."""

import socket
import subprocess
import sys
from pathlib import Path

from cluster.server import write_kubeconfig
from control_plane.berth_process import SOURCE_ROOT, berth_environment


def kopf_run(**settings: str) -> tuple[int, list[str]]:
    """Exit code and log, without the first line, which is that of every start."""
    command = [sys.executable, "-m", "kopf", "run", str(SOURCE_ROOT / "main.py"), "--standalone", "--all-namespaces"]
    environment = {**berth_environment(), **settings}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    introduction, *lines = done.stderr.splitlines()
    assert "begins, with the configuration" in introduction
    return done.returncode, lines


def test_a_port_in_use_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    kubeconfig = str(write_kubeconfig(tmp_path, "http://127.0.0.1:1"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = kopf_run(BERTH_KUBECONFIG=kubeconfig, BERTH_HTTPS_ADDRESS=address)
    way_out = "stop the other process, or give another address"
    assert said == (1, [f"berth: --https-address {address}: Address already in use: {way_out}"])


def test_a_kubeconfig_that_is_not_there_is_one_line_and_exit_code_1() -> None:
    code, [line] = kopf_run(BERTH_KUBECONFIG="/nowhere", BERTH_HTTPS_ADDRESS="")
    assert code == 1
    assert line.startswith("berth: there is no kubeconfig at /nowhere")
