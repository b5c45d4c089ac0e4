"""`berth why`, `status`, `decisions` and `top` on a cluster whose Berth explains."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator

import pytest
from rich.console import Console

from control_plane.client import Client
from end_to_end.explained import SHOP, World, explained_world, pod, wait_explained
from end_to_end.watching import Plane, StartBerth
from support.commands import exit_code

Captured = pytest.CaptureFixture[str]


@pytest.fixture
async def world(control_plane: Plane, api: Client, berth_process: StartBerth) -> AsyncIterator[World]:
    async with explained_world(control_plane, api, berth_process) as world:
        yield world


async def ask(world: World, *arguments: str) -> int:
    return await asyncio.to_thread(exit_code, *arguments, "--kubeconfig", str(world.plane.kubeconfig))


async def test_why_is_answered_by_the_running_scheduler_which_knows_the_queue(world: World, capsys: Captured) -> None:
    assert await ask(world, "why", "big", "-n", SHOP, "--node", "small") == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Pod {SHOP}/big is Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.")
    assert "Node small: does not fit" in out
    assert "attempt" in out
    assert err == ""
    assert await ask(world, "why", "none", "-n", SHOP) == 1
    assert "there is no pod shop/none" in capsys.readouterr().err


async def test_why_is_judged_by_the_command_where_the_api_is_not_installed(world: World, capsys: Captured) -> None:
    await world.api.delete("/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.explain.berth.dev")
    assert await ask(world, "why", "big", "-n", SHOP) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Pod {SHOP}/big is Unschedulable")
    assert "not by the running scheduler: its API of explanations is not installed" in err
    assert await ask(world, "status") == 1
    assert "is not served here" in capsys.readouterr().err


async def test_status_says_who_leads_what_waits_and_why(world: World, capsys: Captured) -> None:
    assert await ask(world, "status") == 0
    out = capsys.readouterr().out
    assert out.startswith("Berth is healthy: ")
    assert " leads.\n1 node, 0 pods placed, 2 pending\n" in out
    assert "InsufficientResource   2\n" in out
    assert "(built-in)" in out
    assert await ask(world, "status", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "ClusterView"


async def test_decisions_tell_where_pods_were_placed(world: World, capsys: Captured) -> None:
    await world.api.create(pod("web", SHOP, cpu="500m"))
    await wait_explained(world.api, SHOP, "web", "Bound")
    assert await ask(world, "decisions", "-n", SHOP, "-o", "wide") == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["POD", "NODE", "POLICY"]
    assert row.split()[:4] == ["web", "small", "(built-in)@0", "1/1"]
    assert await ask(world, "decisions", "big", "-n", SHOP) == 0
    assert "no decisions are remembered" in capsys.readouterr().err


async def test_top_draws_the_cluster_on_a_terminal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=140, height=40)
    monkeypatch.setattr("berth.cli.actions.top.Console", lambda: console)
    monkeypatch.setattr("berth.cli.actions.top.can_draw", lambda _: True)

    async def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("berth.cli.actions.top.wait", interrupted)
    assert await ask(world, "top") == 130
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for words in ("1 node, 0 in use, ", "2 InsufficientResource", "shop/big"):
        assert words in text
