"""What a signal makes of a Berth that runs as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from berth.sim.server import SimServer
from contract.asking import plain
from control_plane.berth_process import BerthProcess
from control_plane.client import PODS, Client, Object
from support.builders import make_node, make_pod

LIMIT_SECONDS = 60


def is_bound(pods: Mapping[str, Object]) -> bool:
    return bool(pods) and all(pod["spec"].get("nodeName") for pod in pods.values())


async def test_sigusr2_writes_what_is_known_and_how_it_compares_and_stops_nothing(
    server: SimServer, api: Client, tmp_path: Path
) -> None:
    server.write_kubeconfig(tmp_path / "kubeconfig")
    await api.create_many([plain(make_node("n1"))])
    log = tmp_path / "berth.log"
    berth = BerthProcess(tmp_path / "kubeconfig", log=log)
    await asyncio.to_thread(berth.start)
    try:
        await api.create_many([plain(make_pod("web", cpu="1"))])
        await api.wait_until(PODS, is_bound, timeout_seconds=LIMIT_SECONDS)
        os.kill(berth.process.pid, signal.SIGUSR2)
        async with asyncio.timeout(LIMIT_SECONDS):
            while "Pod: compared with the API server: 1 there, 1 known" not in log.read_text():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    except BaseException:
        await asyncio.to_thread(berth.kill)
        raise
    await asyncio.to_thread(berth.finish)
    text = log.read_text()
    assert "Node n1: cpu 1000m of 4000m" in text
    assert "Node n1 runs: default/web [" in text
    assert "Queue: 0 active" in text
