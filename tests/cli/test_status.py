"""`berth status`: the view of the cluster in words, as an object, and as an exit code."""

import io
import json
from pathlib import Path

import pytest
import yaml

from cli.views import CLUSTER, ask, cluster_view
from cluster.server import Answer, refusal, serving
from support.commands import exit_code, forget_settings

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)
    monkeypatch.setenv("HOME", "/nonexistent")


async def test_health_rates_queue_and_policies_are_told(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", CLUSTER, Answer(200, cluster_view()))
        assert await ask(tmp_path, server, "status") == 0
    assert capsys.readouterr().out.splitlines() == [
        "Berth is healthy: berth-0 leads.",
        "3 nodes (1 cordoned), 12 pods placed, 5 pending",
        "requested: cpu 50 %, memory 25 %",
        "2.5 placements a second in the last 60 s; half of the pods waited at most 0.012 s",
        "",
        "PENDING         PODS",
        "Gated           1",
        "Unschedulable   4",
        "",
        "REASON                 PODS",
        "InsufficientResource   4",
        "",
        "POLICY       SCHEDULER NAME   MODE     STATE             GENERATION        PLACED   PENDING",
        "(built-in)   berth            Active   InForce           -                 4        0",
        "pack         berth            Active   LastGoodInForce   3 (in force: 2)   4        0",
        "  spec.mode: no",
        "try          berth            Shadow   Shadow            1                 4        0",
        "  would have decided: 7 same, 2 different",
    ]


async def test_wide_has_zones_and_attempts(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", CLUSTER, Answer(200, cluster_view()))
        assert await ask(tmp_path, server, "status", "-o", "wide") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "a      3       6/12 (50%)   -        -" in lines
    assert "scheduled   12" in lines


async def test_the_object_is_printed_as_it_came(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", CLUSTER, Answer(200, cluster_view()))
        for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
            assert await ask(tmp_path, server, "status", "-o", output) == 0
            assert read(capsys.readouterr().out) == cluster_view()
        assert await ask(tmp_path, server, "status", "-o", "name") == 0
    assert capsys.readouterr().out == "clusterview.explain.berth.dev/current\n"


async def test_an_empty_queue_is_said(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", CLUSTER, Answer(200, cluster_view(queue=[], reasons=[], pending=0)))
        assert await ask(tmp_path, server, "status") == 0
    assert "No pod is pending." in capsys.readouterr().out


async def test_what_is_not_well_is_said_and_exits_with_3(tmp_path: Path, capsys: Captured) -> None:
    problem = "scheduler: makes no decisions yet"
    async with serving() as server:
        server.answer("GET", CLUSTER, Answer(200, cluster_view(healthy=False, problems=[problem])))
        assert await ask(tmp_path, server, "status") == 3
        out = capsys.readouterr().out
        assert out.startswith(f"Berth is not healthy: berth-0 leads.\n  {problem}\n")
        server.answer("GET", CLUSTER, Answer(200, cluster_view(leads=False)))
        assert await ask(tmp_path, server, "status", "-o", "json") == 3


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (refusal(503, "ServiceUnavailable", "no endpoints"), 3, "no replica of Berth answers: see `berth leader`"),
        (refusal(404, "NotFound", "no such path"), 1, "explain.berth.dev) is not served here"),
        (refusal(403, "Forbidden", "clusterviews is forbidden"), 1, "ClusterRole berth-explain-cluster-view"),
        (refusal(401, "Unauthorized", "who are you"), 1, "401 Unauthorized"),
    ],
)
async def test_without_an_answer_it_is_said_what_to_do(
    tmp_path: Path, capsys: Captured, answer: Answer, code: int, words: str
) -> None:
    async with serving() as server:
        server.answer("GET", CLUSTER, answer)
        assert await ask(tmp_path, server, "status") == code
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_colours_are_for_terminals_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as server:
        server.answer("GET", CLUSTER, Answer(200, cluster_view()))
        for no_colour, expected in (("", True), ("1", False)):
            monkeypatch.setenv("NO_COLOR", no_colour)
            terminal = Terminal()
            monkeypatch.setattr("sys.stdout", terminal)
            assert await ask(tmp_path, server, "status") == 0
            assert ("\033[32m" in terminal.getvalue()) is expected


@pytest.mark.parametrize("command", ["status", "decisions", "top", "completion"])
def test_help_teaches_and_names_the_exit_codes(capsys: Captured, command: str) -> None:
    assert exit_code(command, "--help") == 0
    out = capsys.readouterr().out
    assert "exit codes:" in out
    assert "examples:" in out


@pytest.mark.parametrize(
    "arguments",
    [("status", "more"), ("status", "-o", "table"), ("decisions", "-A", "-n", "shop"), ("completion", "sh")],
)
def test_a_wrong_question_exits_with_2(arguments: tuple[str, ...]) -> None:
    assert exit_code(*arguments) == 2
