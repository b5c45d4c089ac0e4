"""`berth top`: what is drawn of a cluster, how often what is read, and how it begins and ends."""

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from berth.cli.actions.top_screen import TopView, draw_top, drawn_node
from berth.demo.drawing import SIDE_BY_SIDE_CELLS, STEPS
from cli.views import CLUSTER, ROOT, ask, cluster_view, decision, page, room
from cluster.server import Answer, refusal, serving
from support.commands import exit_code, forget_settings

Captured = pytest.CaptureFixture[str]

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
PENDING: dict[str, Any] = {
    "kind": "Explanation",
    "metadata": {"name": "big", "namespace": "shop"},
    "status": {"state": "Unschedulable", "reason": "InsufficientResource", "since": "2026-01-01T00:00:00Z"},
}


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)
    monkeypatch.setenv("HOME", "/nonexistent")


def node_view(name: str, zone: str = "a", requested: str = "2") -> dict[str, Any]:
    status = {"zone": zone, "podCount": 3, "resources": [room("cpu", "4", requested, 50)]}
    return {"kind": "NodeView", "metadata": {"name": name}, "status": status}


def render(view: TopView, width: int = 100, height: int = 34) -> str:
    console = Console(file=io.StringIO(), record=True, width=width, height=height)
    console.print(draw_top(view, NOW, width, height))
    return console.export_text()


def test_nodes_queue_reasons_and_decisions_are_drawn() -> None:
    nodes = [drawn_node(node_view("n1")), drawn_node(node_view("n2", "b", "4"))]
    view = TopView(cluster_view(), nodes, [decision(1, "web")], [PENDING])
    text = render(view, width=140)
    assert "berth-0 leads" in text
    assert "a  1 node, 1 in use, 0 empty, cpu 50 %" in text
    assert f"│ {STEPS[-1]}  " in text
    for words in ("12 on 3 nodes", "2.5 pods/s", "4 InsufficientResource", "3, 1 with problems"):
        assert words in text
    assert "shop/big waits: InsufficientResource" in text
    assert "shop/web on     n1                   of 2 that fitted" in text


@pytest.mark.parametrize(("width", "height"), [(60, 24), (80, 24), (200, 60)])
def test_five_thousand_nodes_fit_on_a_screen(width: int, height: int) -> None:
    nodes = [drawn_node(node_view(f"n{number}", f"zone-{number % 3}")) for number in range(5000)]
    view = TopView(cluster_view(), nodes, [decision(number) for number in range(20)], [PENDING] * 10)
    lines = render(view, width, height).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= height or width < SIDE_BY_SIDE_CELLS  # with one panel below the other it is cropped


def test_a_problem_is_in_the_headline() -> None:
    view = TopView(cluster_view(leads=False), problem="no replica of Berth answers")
    text = render(view)
    assert "berth-0 does not lead" in text
    assert "no replica of Berth answers" in text


def test_without_a_terminal_it_says_what_to_use(capsys: Captured) -> None:
    assert exit_code("top") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no terminal that can show it: use `berth status` and `berth decisions -w`" in err


def make_terminal(monkeypatch: pytest.MonkeyPatch, polls: int) -> Console:
    """A terminal; the user interrupts after so many polls."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40)
    monkeypatch.setattr("berth.cli.actions.top.can_draw", lambda _: True)
    monkeypatch.setattr("berth.cli.actions.top.Console", lambda: console)
    left = iter(range(polls))

    async def wait(_: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("berth.cli.actions.top.wait", wait)
    return console


async def test_it_draws_what_the_api_says_until_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = make_terminal(monkeypatch, polls=2)
    async with serving() as server:
        away = refusal(503, "ServiceUnavailable", "no endpoints")
        server.answer("GET", CLUSTER, Answer(200, cluster_view()), away, Answer(200, cluster_view(pods=13)))
        server.answer("GET", f"{ROOT}/nodeviews", page("NodeView", node_view("n1")))
        server.answer("GET", f"{ROOT}/decisions", page("Decision", decision(1)))
        server.answer("GET", f"{ROOT}/explanations", page("Explanation", PENDING))
        assert await ask(tmp_path, server, "top") == 130
        assert len(server.seen("GET", "nodeviews")) == 1  # they are read less often than the rest
    text = console.file.getvalue() if isinstance(console.file, io.StringIO) else ""
    assert text.index("12 on 3 nodes") < text.index("no replica of Berth answers") < text.index("13 on 3 nodes")


async def test_rights_that_are_missing_are_named(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_terminal(monkeypatch, polls=0)
    async with serving() as server:
        server.answer("GET", CLUSTER, refusal(403, "Forbidden", "clusterviews is forbidden"))
        assert await ask(tmp_path, server, "top") == 1
    assert "ClusterRoles berth-explain-view and berth-explain-cluster-view of Berth's chart allow it" in (
        capsys.readouterr().err
    )
