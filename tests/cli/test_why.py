"""`berth why` and `berth snapshot`: on a snapshot, on a cluster, and with the API of explanations."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.explain import to_object
from berth.snapshots.files import read_file
from cluster.server import Answer, Server, listed, refusal, serving, write_kubeconfig
from explain.clusters import World
from policy.builders import make_policy
from support.builders import make_node, make_object, make_pod
from support.commands import exit_code, forget_settings

Captured = pytest.CaptureFixture[str]

NODES = [make_node("n1", cpu="1", labels={"zone": "a"}), make_node("n2", cpu="4", taints=[("gpu", "", "NoSchedule")])]
PODS = [make_pod("web", namespace="shop", cpu="2"), make_pod("there", namespace="shop", node="n1")]
CLUSTER = [*NODES, *PODS, make_policy("calm", schedulerName="calm")]
EXPLANATION = "/apis/explain.berth.dev/v1alpha1/namespaces/shop/explanations/web"


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)
    monkeypatch.setenv("HOME", "/nonexistent")


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}))
    return str(path)


def why(snapshot: str, *arguments: str) -> int:
    return exit_code("why", "-n", "shop", "--snapshot", snapshot, *arguments)


# --- a snapshot ------------------------------------------------------------------------------------------------------


def test_a_pending_pod_is_explained_with_reasons_and_advice(snapshot: str, capsys: Captured) -> None:
    assert why(snapshot, "web") == 0
    first, *lines = capsys.readouterr().out.splitlines()
    message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    assert first == f"Pod shop/web is Unschedulable: {message}"
    assert lines == [
        "  the built-in policy, priority 0",
        "1 node: node(s) had untolerated taint(s) (UntoleratedTaint, plugin TaintToleration, 1 node by nothing else)",
        "  n2 has the taint gpu:NoSchedule",
        "1 node: Insufficient cpu (InsufficientResource, plugin NodeResourcesFit, 1 node by nothing else)",
        "  n1 lacks 1 cpu: 2 asked for, 1 free",
        "Never: no node could take it, even an empty one, unless the pod, the nodes or its volumes change.",
        "Preemption does not help: no node rejects the pod for a reason that an eviction changes.",
        "What would help, each tried:",
        "  1. Add a toleration for gpu:NoSchedule: it fits on n2.",
        "  2. Request 1 cpu in all instead of 2: it fits on n1.",
        "  3. Remove from node n2 the taint gpu:NoSchedule: it fits on n2.",
        "  4. Give node n1 1 cpu more: it fits on n1.",
        "  5. Add a node like n1 (1 cpu, 16Gi memory) with 2 cpu: it fits there.",
        "It is tried again on these events: "
        "AssignedPodDelete, AssignedPodShrunk, NodeAdd, NodeAllocatable, NodeTaints.",
        "Note: Judged by this command: the queue and recorded decisions are not known.",
    ]


def test_the_object_is_printed_as_json_and_as_yaml(snapshot: str, capsys: Captured) -> None:
    assert why(snapshot, "web", "-o", "json") == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["kind"], body["status"]["state"]) == ("Explanation", "Unschedulable")
    assert why(snapshot, "web", "-o", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out) == body
    assert why(snapshot, "pod/web", "-o", "name") == 0
    assert capsys.readouterr().out == "explanation.explain.berth.dev/web\n"


def test_one_node_and_every_node_are_judged_on_request(snapshot: str, capsys: Captured) -> None:
    assert why(snapshot, "web", "--node", "n2") == 0
    out = capsys.readouterr().out
    assert "Node n2: does not fit\n" in out
    assert "  TaintToleration: node(s) had untolerated taint(s)\n" in out
    assert "Node n1:" not in out
    assert why(snapshot, "web", "-o", "wide") == 0
    assert "Node n1: does not fit\n" in capsys.readouterr().out


def test_a_bound_pod_says_why_it_is_there(snapshot: str, capsys: Captured) -> None:
    assert why(snapshot, "there") == 0
    assert "n1 is the only node that fits." in capsys.readouterr().out


def test_two_nodes_are_compared(snapshot: str, capsys: Captured) -> None:
    assert why(snapshot, "there", "--compare", "n1", "n2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("n1 fits with ")
    assert lines[1] == "  n2: TaintToleration: node(s) had untolerated taint(s)"
    assert why(snapshot, "there", "--compare", "n1", "n2", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "NodeComparison"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nobody",), "there is no pod shop/nobody, or it is finished"),
        (("web", "--node", "n9"), "there is no node n9"),
        (("web", "--compare", "n1", "n9"), "node n9 is not known"),
    ],
)
def test_what_is_not_there_is_said_and_exits_with_1(
    snapshot: str, capsys: Captured, arguments: tuple[str, ...], problem: str
) -> None:
    assert why(snapshot, *arguments) == 1
    assert problem in capsys.readouterr().err


def test_a_file_that_is_no_snapshot_exits_with_1(tmp_path: Path, capsys: Captured) -> None:
    assert why(str(tmp_path / "nothing"), "web") == 1
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("why",),
        ("why", "Not A Name", "--snapshot", "x"),
        ("why", "web", "--snapshot", "x", "--context", "y"),
        ("why", "web", "--node", "a", "--compare", "b", "c", "--snapshot", "x"),
        ("why", "web", "-o", "table", "--snapshot", "x"),
        ("snapshot", "more"),
    ],
)
def test_a_wrong_question_exits_with_2(arguments: tuple[str, ...]) -> None:
    assert exit_code(*arguments) == 2


@pytest.mark.parametrize("command", ["why", "snapshot"])
def test_help_teaches_and_names_the_exit_codes(capsys: Captured, command: str) -> None:
    assert exit_code(command, "--help") == 0
    out = capsys.readouterr().out
    assert "exit codes:" in out
    assert "examples:" in out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_only(snapshot: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert why(snapshot, "web") == 0
    assert "\033" not in capsys.readouterr().out
    for no_colour, expected in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", no_colour)
        terminal = Terminal()
        monkeypatch.setattr("sys.stdout", terminal)
        assert why(snapshot, "web") == 0
        assert ("\033[31m" in terminal.getvalue()) is expected


# --- a cluster -------------------------------------------------------------------------------------------------------


def fill(server: Server, *bodies: dict[str, Any]) -> None:
    """The server lists these objects."""
    paths = {
        "Node": "/api/v1/nodes",
        "Pod": "/api/v1/pods",
        "SchedulingPolicy": "/apis/berth.dev/v1alpha1/schedulingpolicies",
        "Deployment": "/apis/apps/v1/deployments",
    }
    for kind in {body["kind"] for body in bodies}:
        items = [body for body in bodies if body["kind"] == kind]
        answer = listed(kind, *items)
        if kind == "Deployment":
            answer.body["apiVersion"] = "apps/v1"
        server.answer("GET", paths[kind], answer)


async def ask(tmp_path: Path, server: Server, *arguments: str) -> int:
    kubeconfig = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    return await asyncio.to_thread(exit_code, *arguments, "--kubeconfig", str(kubeconfig))


async def test_without_the_api_the_cluster_is_read_and_judged_here_and_that_is_said(
    tmp_path: Path, capsys: Captured
) -> None:
    async with serving() as server:
        fill(server, *CLUSTER)
        assert await ask(tmp_path, server, "why", "web", "-n", "shop") == 0
        assert {request.method for request in server.requests} == {"GET"}
    out, err = capsys.readouterr()
    assert out.startswith("Pod shop/web is Unschedulable: 0/2 nodes are available")
    assert "judged by this command with your own rights, not by the running scheduler" in err


async def test_the_api_of_explanations_answers_where_it_is_installed(tmp_path: Path, capsys: Captured) -> None:
    said = World(*CLUSTER).explain("web", "shop", verdicts_of=["n1"])
    async with serving() as server:
        server.answer("GET", EXPLANATION, Answer(200, to_object(said)))
        assert await ask(tmp_path, server, "why", "web", "-n", "shop", "--node", "n1") == 0
        (request,) = server.requests
        assert (request.path, request.query) == (EXPLANATION, {"node": "n1"})
    out, err = capsys.readouterr()
    assert out.startswith("Pod shop/web is Unschedulable: 0/2 nodes are available")
    assert "Node n1: does not fit" in out
    assert err == ""


async def test_an_object_of_the_api_is_printed_as_it_came(tmp_path: Path, capsys: Captured) -> None:
    body = to_object(World(*CLUSTER).explain("web", "shop"))
    body["status"] |= {"leads": False, "later": "a field that this version does not know"}
    async with serving() as server:
        server.answer("GET", EXPLANATION, Answer(200, body))
        assert await ask(tmp_path, server, "why", "web", "-n", "shop", "-o", "json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == body
    assert "answered by a replica that does not lead" in err


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "you may not read explanations there"),
        (404, "its API of explanations is not installed"),
        (429, "its API of explanations has too many requests"),
        (503, "its API of explanations does not answer"),
    ],
)
async def test_an_api_that_does_not_answer_is_done_without(
    tmp_path: Path, capsys: Captured, status: int, reason: str
) -> None:
    async with serving() as server:
        fill(server, *CLUSTER)
        server.answer("GET", EXPLANATION, refusal(status, "Reason", "no"))
        assert await ask(tmp_path, server, "why", "web", "-n", "shop") == 0
    assert f"with your own rights, not by the running scheduler: {reason}\n" in capsys.readouterr().err


async def test_a_pod_that_the_api_does_not_know_is_not_looked_for_elsewhere(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", EXPLANATION, refusal(404, "NotFound", "not found", name="web", kind="explanations"))
        assert await ask(tmp_path, server, "why", "web", "-n", "shop") == 1
        assert len(server.requests) == 1
    assert "there is no pod shop/web" in capsys.readouterr().err


async def test_a_node_that_the_api_does_not_know_is_an_error(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", EXPLANATION, Answer(200, to_object(World(*CLUSTER).explain("web", "shop"))))
        assert await ask(tmp_path, server, "why", "web", "-n", "shop", "--node", "n9") == 1
    assert "there is no node n9" in capsys.readouterr().err


async def test_an_answer_that_cannot_be_read_is_an_error(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", EXPLANATION, Answer(200, {"kind": "Explanation"}))
        assert await ask(tmp_path, server, "why", "web", "-n", "shop") == 1
    assert "an answer that this version cannot read" in capsys.readouterr().err


async def test_what_the_user_may_not_list_is_named_with_a_way_out(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        server.answer("GET", "/api/v1/nodes", refusal(403, "Forbidden", "nodes is forbidden"))
        assert await ask(tmp_path, server, "why", "web", "-n", "shop") == 1
    err = capsys.readouterr().err
    assert "you may not list nodes (nodes is forbidden)" in err
    assert "--snapshot FILE" in err


async def test_the_namespace_is_that_of_the_context(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        fill(server, *CLUSTER)
        path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
        body = json.loads(path.read_text())
        body["contexts"][1]["context"]["namespace"] = "shop"
        path.write_text(json.dumps(body))
        there = ("--kubeconfig", str(path), "--context", "other")
        assert await asyncio.to_thread(exit_code, "why", "web", *there) == 0
        assert await asyncio.to_thread(exit_code, "why", "web", *there[:2]) == 1
    assert "there is no pod default/web" in capsys.readouterr().err


async def test_a_snapshot_is_written_and_explains_as_the_cluster_does(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "cluster.json.gz"
    async with serving() as server:
        fill(server, *CLUSTER, make_object("Deployment", "web", namespace="shop", spec={"replicas": 2}))
        for kind in ("priorityclasses", "runtimeclasses", "limitranges", "jobs"):
            paths = {"priorityclasses": "scheduling.k8s.io/v1", "runtimeclasses": "node.k8s.io/v1", "jobs": "batch/v1"}
            root = f"/apis/{paths[kind]}" if kind in paths else "/api/v1"
            server.answer("GET", f"{root}/{kind}", refusal(403, "Forbidden", "no"))
        assert await ask(tmp_path, server, "snapshot", "-o", str(path)) == 0
    assert "left out, as you may not list them: PriorityClass, RuntimeClass, LimitRange, Job" in capsys.readouterr().err
    kinds = {item["kind"] for item in read_file(str(path))}
    assert kinds == {"Node", "Pod", "SchedulingPolicy", "Deployment"}
    assert why(str(path), "web") == 0
    assert "Add a toleration for gpu:NoSchedule" in capsys.readouterr().out


async def test_an_anonymous_snapshot_has_no_names(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    async with serving() as server:
        fill(server, *CLUSTER)
        for root in ("/apis/scheduling.k8s.io/v1/priorityclasses", "/apis/node.k8s.io/v1/runtimeclasses"):
            server.answer("GET", root, refusal(403, "Forbidden", "no"))
        for root in ("/api/v1/limitranges", "/apis/apps/v1/deployments", "/apis/batch/v1/jobs"):
            server.answer("GET", root, refusal(403, "Forbidden", "no"))
        assert await ask(tmp_path, server, "snapshot", "--anonymise", "-o", str(path)) == 0
    text = path.read_text()
    assert "kind: List" in text
    assert "shop" not in text
    assert "web" not in text


async def test_a_file_that_cannot_be_written_exits_with_1(tmp_path: Path, capsys: Captured) -> None:
    async with serving() as server:
        for resource in ("/apis/scheduling.k8s.io/v1/priorityclasses", "/apis/node.k8s.io/v1/runtimeclasses"):
            server.answer("GET", resource, refusal(403, "Forbidden", "no"))
        for resource in ("/api/v1/limitranges", "/apis/apps/v1/deployments", "/apis/batch/v1/jobs"):
            server.answer("GET", resource, refusal(403, "Forbidden", "no"))
        assert await ask(tmp_path, server, "snapshot", "-o", "/nonexistent/file") == 1
    assert "/nonexistent/file: cannot be written: No such file or directory" in capsys.readouterr().err
