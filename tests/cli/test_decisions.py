"""`berth decisions`: the latest placements, and those that follow."""

import json
from pathlib import Path

import pytest
import yaml

from cli.views import ROOT, ask, decision, page
from cluster.server import Answer, Server, refusal, serving
from support.commands import forget_settings

Captured = pytest.CaptureFixture[str]

SHOP = f"{ROOT}/namespaces/shop/decisions"
EVERYWHERE = f"{ROOT}/decisions"


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)
    monkeypatch.setenv("HOME", "/nonexistent")


async def test_placements_are_shown_in_the_order_in_which_they_were_made(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", SHOP, page("Decision", decision(10, "api"), decision(9, "web")))
        assert await ask(tmp_path, server, "decisions", "-n", "shop") == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["POD", "NODE", "POLICY", "FEASIBLE", "WAITED", "AGE"]
    assert [row.split()[:5] for row in rows] == [
        ["web", "n1", "pack@2", "2/3", "0.2s"],
        ["api", "n1", "pack@2", "2/3", "0.2s"],
    ]


async def test_wide_has_scores_and_all_namespaces_their_names(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", EVERYWHERE, page("Decision", decision(1)))
        assert await ask(tmp_path, server, "decisions", "-A", "-o", "wide") == 0
    head, row = capsys.readouterr().out.splitlines()
    assert (head.split()[0], head.split()[-3:]) == ("NAMESPACE", ["TOTAL", "RUNNER-UP", "ATTEMPTS"])
    assert (row.split()[0], row.split()[-3:]) == ("shop", ["423", "420", "1"])


async def test_a_long_list_is_read_page_by_page(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer(
            "GET", EVERYWHERE, page("Decision", decision(1, "a"), token="next"), page("Decision", decision(2, "b"))
        )
        assert await ask(tmp_path, server, "decisions", "-A", "-o", "name") == 0
        assert [request.query.get("continue") for request in server.requests] == [None, "next"]
    assert capsys.readouterr().out.split() == ["decision.explain.berth.dev/a.1", "decision.explain.berth.dev/b.2"]


async def test_one_pod_is_asked_for_by_a_field_selector(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", SHOP, page("Decision"))
        assert await ask(tmp_path, server, "decisions", "web", "-n", "shop") == 0
        assert server.requests[0].query["fieldSelector"] == "status.podName=web"
    out, err = capsys.readouterr()
    assert (out, err) == ("", "no decisions are remembered in namespace shop\n")


async def test_objects_are_a_list(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", SHOP, page("Decision", decision(1)))
        for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
            assert await ask(tmp_path, server, "decisions", "-n", "shop", "-o", output) == 0
            body = read(capsys.readouterr().out)
            assert (body["kind"], body["items"]) == ("List", [decision(1)])


def stop_after(polls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user interrupts the command when it would wait for the time after that."""
    left = iter(range(polls))

    async def wait(_: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("berth.cli.actions.decisions.wait", wait)


def follow(server: Server) -> None:
    """A decision, another one, nobody answers, the first one again from the next leader, which counts anew."""
    away = refusal(503, "ServiceUnavailable", "no endpoints")
    server.answer(
        "GET",
        SHOP,
        page("Decision", decision(1, "web")),
        page("Decision", decision(1, "web"), decision(2, "api")),
        away,
        away,
        page("Decision", decision(1, "late")),
    )


async def test_watching_shows_each_new_decision_once_and_outlasts_a_leader(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(4, monkeypatch)
    async with serving() as server:
        follow(server)
        assert await ask(tmp_path, server, "decisions", "-n", "shop", "-w") == 130
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["POD", "web", "api", "late"]
    assert err.count("no replica of Berth answers") == 1


@pytest.mark.parametrize(("output", "lines"), [("json", 3), ("yaml", None)])
async def test_watched_objects_come_one_by_one(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, output: str, lines: int | None
) -> None:
    stop_after(4, monkeypatch)
    async with serving() as server:
        follow(server)
        assert await ask(tmp_path, server, "decisions", "-n", "shop", "-w", "-o", output) == 130
    out = capsys.readouterr().out
    bodies = [json.loads(line) for line in out.splitlines()] if lines else list(yaml.safe_load_all(out))
    assert [body["status"]["podName"] for body in bodies] == ["web", "api", "late"]


async def test_watching_ends_if_it_is_forbidden(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(4, monkeypatch)
    async with serving() as server:
        server.answer("GET", SHOP, page("Decision"), refusal(403, "Forbidden", "decisions is forbidden"))
        assert await ask(tmp_path, server, "decisions", "-n", "shop", "-w") == 1
    assert "ClusterRole berth-explain-view" in capsys.readouterr().err


async def test_an_api_that_is_not_there_is_named(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", SHOP, Answer(404, "404 page not found"))
        assert await ask(tmp_path, server, "decisions", "-n", "shop") == 1
    assert "explain.berth.dev) is not served here" in capsys.readouterr().err
