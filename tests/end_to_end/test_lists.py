"""Lists that are answered wrongly while a stream fills the cluster, and a store that is restored from a backup."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

from control_plane.berth_process import BerthProcess
from control_plane.client import PODS, Client
from control_plane.launcher import ControlPlane
from control_plane.list_proxy import WAYS, ListProxy
from control_plane.replicas import Replica, Replicas
from end_to_end.test_outage import until_metrics
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
MORE = 30  # pods than there is room for: whatever is forgotten gives them a place
PATIENCE_SECONDS = 80


async def test_lists_that_are_answered_wrongly_lose_nothing_and_give_no_room_away_twice(
    control_plane: Plane, api: Client, crds: None, tmp_path: Path
) -> None:
    lies, nodes = (100, 20) if isinstance(control_plane, ControlPlane) else (24, 10)
    room = 10 * nodes
    await api.create_many(make_node(f"node-{i:03}", cpu="4") for i in range(nodes))
    with ListProxy(control_plane.url) as proxy:
        proxy.lie(lies)
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", proxy.url, control_plane.token)
        berth = BerthProcess(kubeconfig, "--resync-seconds=1", log=tmp_path / "berth.log", token=control_plane.token)
        with berth:
            wanted = [f"pod-{i:04}" for i in range(room + MORE)]
            for begin in range(0, len(wanted), room // 10):
                await api.create_many(make_pod(name, cpu="400m") for name in wanted[begin : begin + room // 10])
                await asyncio.sleep(0.2)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while proxy.told.total() < lies:
                    await asyncio.sleep(0.1)
                    assert await overfull_nodes(api) == []
            pods = await api.wait_until(
                PODS,
                lambda pods: len(bound(pods)) == room and all(map(refusal, pending(pods))),
                timeout_seconds=PATIENCE_SECONDS,
            )
            assert names(pods.values()) == set(wanted)
            await until_metrics(berth, f'scheduler_cache_size{{type="pods"}} {float(room)}')
            assert await overfull_nodes(api) == []
            assert berth.ready
    assert set(proxy.told) == set(WAYS)
    assert await bound_twice(api) == []


async def test_a_store_that_is_restored_from_a_backup_is_noticed_and_scheduling_goes_on(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create_many(make_node(f"node-{i}", cpu="1") for i in range(4))
    berth = berth_process()
    await api.create_many(make_pod(f"early-{i}", cpu="100m") for i in range(20))
    await api.wait_until(PODS, are_bound(20), timeout_seconds=60)
    await asyncio.to_thread(control_plane.back_up)
    await api.delete_collection("/api/v1/namespaces/default/pods")
    await api.wait_until(PODS, lambda pods: not pods, timeout_seconds=60)
    await api.create_many(make_pod(f"undone-{i}", cpu="100m") for i in range(40))
    await api.wait_until(PODS, are_bound(40), timeout_seconds=60)

    await asyncio.to_thread(control_plane.restore)
    await api.create_many(make_pod(f"new-{i}", cpu="100m") for i in range(20 + MORE))

    pods = await api.wait_until(
        PODS, lambda pods: len(bound(pods)) == 40 and all(map(refusal, pending(pods))), timeout_seconds=120
    )
    assert names(pods.values()) == {f"early-{i}" for i in range(20)} | {f"new-{i}" for i in range(20 + MORE)}
    assert await overfull_nodes(api) == []
    assert berth.ready
    assert "gone back in time" in berth.process.log_text()


async def test_replicas_go_on_after_a_restore_and_one_leads(
    control_plane: Plane, api: Client, crds: None, tmp_path: Path
) -> None:
    await api.create_many(make_node(f"node-{i}", cpu="1") for i in range(2))
    with Replicas(control_plane, tmp_path, count=2) as replicas:
        await asyncio.to_thread(replicas.wait_leader)
        await asyncio.to_thread(control_plane.back_up)
        await api.create_many(make_pod(f"undone-{i}", cpu="100m") for i in range(20))
        await api.wait_until(PODS, are_bound(20), timeout_seconds=60)

        await asyncio.to_thread(control_plane.restore)
        # Before anything is written: where the versions have come as far again, they tell nothing.
        for replica in replicas.each:
            noticed = partial(_has_logged, replica, "gone back in time")
            await asyncio.to_thread(replica.berth.process.wait_ready, noticed, 60.0)
        await api.create_many(make_pod(f"new-{i}", cpu="100m") for i in range(20 + MORE))

        pods = await api.wait_until(PODS, are_bound(20), timeout_seconds=120)
        assert {name.rpartition("-")[0] for name in names(pods.values())} == {"new"}
        assert await overfull_nodes(api) == []
        await asyncio.to_thread(replicas.wait_leader)


def _has_logged(replica: Replica, text: str) -> bool:
    return text in replica.berth.process.log_text()


def write_kubeconfig(path: Path, url: str, token: str) -> Path:
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "c", "user": {"token": token}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            }
        )
    )
    return path
