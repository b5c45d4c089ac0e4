"""Berth itself, as a process of its own, on the embedded server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from berth.sim.server import SimServer
from contract.asking import plain
from control_plane.berth_process import BerthProcess
from control_plane.client import PODS, Client, Object
from support.builders import make_node, make_pod


def all_bound(pods: Mapping[str, Object]) -> bool:
    return len(pods) == 200 and all(pod["spec"].get("nodeName") for pod in pods.values())


async def test_berth_places_200_pods_on_50_nodes(server: SimServer, api: Client, tmp_path: Path) -> None:
    server.write_kubeconfig(tmp_path / "kubeconfig")
    await api.create_many(plain(make_node(f"n{i}", cpu="4")) for i in range(50))
    berth = BerthProcess(tmp_path / "kubeconfig", log=tmp_path / "berth.log")
    await asyncio.to_thread(berth.start)
    try:
        await api.create_many(plain(make_pod(f"p{i}", cpu="1")) for i in range(200))
        pods = await api.wait_until(PODS, all_bound, timeout_seconds=60)
    except BaseException:
        await asyncio.to_thread(berth.kill)
        raise
    await asyncio.to_thread(berth.finish)
    assert set(Counter(pod["spec"]["nodeName"] for pod in pods.values()).values()) == {4}
    events = await api.list("/api/v1/events")
    assert sum(event["reason"] == "Scheduled" for event in events) > 0
