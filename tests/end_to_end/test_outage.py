"""The API server goes away in the middle of it and comes back: nothing lost, nothing bound twice, the same process."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from control_plane.berth_process import SOURCE_ROOT, BerthProcess, berth_environment
from control_plane.client import NODES, PODS, Client
from control_plane.embedded import EmbeddedPlane
from control_plane.launcher import ControlPlane
from control_plane.process import Process, free_port, http_get
from end_to_end.watching import (
    Plane,
    StartBerth,
    are_bound,
    bound,
    bound_twice,
    names,
    overfull_nodes,
    pending,
    refusal,
)
from support.builders import make_node, make_pod

BOTH_INTAKES = True
MAIN = SOURCE_ROOT / "main.py"
OUTAGE_SECONDS = 120  # what is promised: longer than kopf's own patience, which is 54 s
SHORT_OUTAGE_SECONDS = 3


async def test_an_api_server_that_is_away_for_a_while_costs_nothing(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    is_real = isinstance(control_plane, ControlPlane)
    nodes, outage_seconds = (200, OUTAGE_SECONDS) if is_real else (40, SHORT_OUTAGE_SECONDS)
    room = 10 * nodes
    wanted = {f"pod-{i:04}" for i in range(room + 50)}
    await api.create_many(make_node(f"node-{i:03}", cpu="4") for i in range(nodes))
    berth = berth_process()
    pid = berth.process.pid
    making = asyncio.create_task(api.create_many(make_pod(name, cpu="400m") for name in sorted(wanted)))
    await api.wait_until(PODS, lambda pods: len(bound(pods)) >= room // 4, timeout_seconds=60)
    making.cancel()
    await asyncio.gather(making, return_exceptions=True)

    await asyncio.to_thread(control_plane.stop_api_server)
    await asyncio.sleep(outage_seconds)
    assert berth.get("/livez")[0] == 200
    await asyncio.to_thread(control_plane.start_api_server)

    await api.create_many(make_pod(name, cpu="400m") for name in wanted - names(await api.list(PODS)))
    pods = await api.wait_until(
        PODS,
        lambda pods: len(bound(pods)) == room and all(map(refusal, pending(pods))),
        timeout_seconds=180,
    )
    assert names(pods.values()) == wanted
    assert await overfull_nodes(api) == []
    assert (berth.process.pid, berth.ready) == (pid, True)
    assert berth.stop() == 0
    assert await bound_twice(api) == []


async def test_what_is_deleted_while_berth_does_not_look_is_not_counted_any_more(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create_many([make_node("old", cpu="1"), make_node("stays", cpu="1")])
    berth = berth_process()
    await api.create(make_pod("a", cpu="1"))
    await api.create(make_pod("b", cpu="1"))
    await api.wait_until(PODS, are_bound(2), timeout_seconds=30)

    berth.process.signal(signal.SIGSTOP)
    await api.delete_collection("/api/v1/namespaces/default/pods")
    await api.delete(f"{NODES}/old")
    # A new API server knows no history: the watches cannot go on, everything is listed again without what is gone.
    await asyncio.to_thread(control_plane.stop_api_server)
    if isinstance(control_plane, EmbeddedPlane):
        control_plane.forget_history()
    await asyncio.to_thread(control_plane.start_api_server)
    berth.process.signal(signal.SIGCONT)
    # Each kind is compared by itself: were the pods that are gone noticed first, the node would have room for a moment.
    await until_metrics(berth, 'scheduler_cache_size{type="nodes"} 1.0')
    await api.create_many([make_pod("c", cpu="1"), make_pod("d", cpu="1")])

    pods = await api.wait_until(
        PODS, lambda pods: len(bound(pods)) == 1 and all(map(refusal, pending(pods))), timeout_seconds=60
    )
    assert [pod["spec"]["nodeName"] for pod in bound(pods)] == ["stays"]
    assert [refusal(pod) for pod in pending(pods)] == [
        (
            "Unschedulable",
            "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod.",
        )
    ]


async def until_metrics(berth: BerthProcess, line: str) -> None:
    async with asyncio.timeout(60):
        while True:
            _, text = await asyncio.to_thread(berth.get, "/metrics")
            if line in text.splitlines():
                return
            await asyncio.sleep(0.05)


async def test_kopf_run_runs_the_same_operator(api: Client, crds: None, kubeconfig: Path, tmp_path: Path) -> None:
    await api.create(make_node("n"))
    port = free_port()
    command = [sys.executable, "-m", "kopf", "run", str(MAIN), "--standalone", "--all-namespaces"]
    address = {"BERTH_HTTP_ADDRESS": f"127.0.0.1:{port}", "BERTH_HTTPS_ADDRESS": ""}
    environment = {**berth_environment(), "BERTH_KUBECONFIG": str(kubeconfig), **address}
    kopf = Process("kopf", command, tmp_path / "kopf.log", environment=environment)
    kopf.start()
    try:
        await api.create(make_pod("p"))
        await api.wait_until(PODS, are_bound(1), timeout_seconds=60)
        assert http_get(f"http://127.0.0.1:{port}/readyz")[0] == 200
    finally:
        status = await asyncio.to_thread(kopf.stop, 40)
    assert status == 0, kopf.tail()
