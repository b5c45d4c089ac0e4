"""The steps of a workload, on an API server that is a list of requests and a scheduler that binds at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.lean import Request
from bench.perf.operations import (
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    DeletePods,
    Operation,
    StartMeasuring,
    StopMeasuring,
    UpdateAny,
)
from bench.perf.running import Runner, State, paced, split
from bench.perf.tracking import Pods, Stalled

GATED = """
{apiVersion: v1, kind: Pod, metadata: {generateName: gated-, labels: {type: gated}},
 spec: {schedulingGates: [{name: hold}], containers: [{name: main}]}}
"""


class Api:
    """Keeps what is sent, and shows pods to a watch: bound, unless they are gated."""

    def __init__(self) -> None:
        self.sent: list[Request] = []
        self.limit: int | None = None  # how many requests there are before the workload ends
        self.pods = Pods(self)  # type: ignore[arg-type]

    async def send(self, request: Request) -> bytes:
        if len(self.sent) == self.limit:
            raise asyncio.CancelledError
        self.sent.append(request)
        await asyncio.sleep(0)
        if request.method == "POST" and request.path.endswith("/pods"):
            self._show(orjson.loads(request.body))
        return b"{}"

    async def send_all(self, sequences: Iterable[Sequence[Request]]) -> int:
        count = 0
        for sequence in sequences:
            count += 1
            for request in sequence:
                await self.send(request)
        return count

    def _show(self, pod: dict[str, Any]) -> None:
        self.pods.see("ADDED", pod)
        if pod["spec"].get("schedulingGates"):
            conditions = [{"type": "PodScheduled", "status": "False"}]
            self.pods.see("MODIFIED", {**pod, "status": {"conditions": conditions}})
        else:
            self.pods.see("MODIFIED", {**pod, "spec": {**pod["spec"], "nodeName": "node"}})

    def paths(self, method: str = "POST") -> list[str]:
        return [request.path for request in self.sent if request.method == method]


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def gated(tmp_path: Path) -> Path:
    path = tmp_path / "gated.yaml"
    path.write_text(GATED)
    return path


def runner(api: Api, state: State | None = None, **more: Any) -> Runner:
    return Runner(api, state or State(), lambda text: None, scheduler_name="berth", pods=api.pods, **more)  # type: ignore[arg-type]


def test_nodes_and_pods_that_may_be_anywhere_are_prepared_up_to_what_needs_a_scheduler() -> None:
    nodes, first, second = CreateNodes(0, 2), CreatePods(1, 2, "a"), CreatePods(2, 2, "b", measured=True)
    last = CreateNodes(3, 1)
    assert split([nodes, first, second, last]) == ([nodes, first], [second, last])


async def test_initial_pods_are_placed_on_the_nodes_in_turn(api: Api) -> None:
    state = State()
    pods = [CreatePods(1, 3, "a"), CreatePods(2, 2, "b")]
    await Runner(api, state, lambda text: None).prepare([CreateNodes(0, 2), *pods])  # type: ignore[arg-type]
    placed = [orjson.loads(one.body)["spec"]["nodeName"] for one in api.sent if one.path.endswith("/pods")]
    first, second = state.nodes
    assert placed == [first, second, first, second, first]
    assert {"a", "b"} <= state.namespaces


async def test_tainted_nodes_get_no_initial_pods(api: Api, tmp_path: Path) -> None:
    template = tmp_path / "node.yaml"
    template.write_text("{apiVersion: v1, kind: Node, metadata: {name: tainted}, spec: {taints: [{key: a}]}}")
    state = State()
    await Runner(api, state, lambda text: None).prepare([CreateNodes(0, 1, template), CreateNodes(1, 1)])  # type: ignore[arg-type]
    assert [name for name in state.nodes if name == "tainted"] == []
    assert len(state.nodes) == 1


async def test_measured_pods_are_those_of_the_operation(api: Api) -> None:
    calls: list[str] = []
    run = runner(api, began=lambda: calls.append("began"), ended=lambda: calls.append("ended"))
    measured = await run.run([CreatePods(0, 2, "a"), CreatePods(1, 3, "a", measured=True)])
    assert measured is not None
    assert len(measured.pods) == 3
    assert calls == ["began", "ended"]


async def test_collected_pods_are_those_of_the_namespaces_and_labels(api: Api, gated: Path) -> None:
    operations: list[Operation] = [
        CreatePods(0, 1, "a"),
        StartMeasuring(["a", "b"], {}),
        CreatePods(1, 2, "a"),
        CreatePods(2, 2, "b"),
        CreatePods(3, 2, "c"),
        CreatePods(4, 2, "b", gated, waits=False),
        StopMeasuring(),
    ]
    measured = await runner(api).run(operations)
    assert measured is not None
    assert len(measured.pods) == 4


async def test_a_namespace_is_made_once(api: Api) -> None:
    await runner(api).run([CreateNamespaces("ns", 2), CreatePods(1, 1, "ns-0"), CreatePods(2, 1, "own")])
    made = [orjson.loads(one.body)["metadata"]["name"] for one in api.sent if one.path == "/api/v1/namespaces"]
    assert made == ["ns-0", "ns-1", "own"]


async def test_a_barrier_for_attempted_pods_waits_for_their_condition(api: Api, gated: Path) -> None:
    await runner(api).run([CreatePods(0, 2, "a", gated, waits=False), Barrier((), {}, attempted=True)])


async def test_a_barrier_fails_when_the_scheduler_is_gone(api: Api, gated: Path) -> None:
    run = runner(api, alive=lambda: False)
    with pytest.raises(Stalled, match="scheduler ended while waiting for 2 pods of a"):
        await run.run([CreatePods(0, 2, "a", gated, waits=False), Barrier((), {}, attempted=False)])


async def test_pods_are_deleted_by_their_labels(api: Api, gated: Path) -> None:
    operations = [CreatePods(0, 2, "a"), CreatePods(1, 1, "a", gated, waits=False)]
    await runner(api).run([*operations, DeletePods("a", {"type": "gated"}, 0, waits=True)])
    assert api.paths("DELETE") == ["/api/v1/namespaces/a/pods/gated-1-0"]


async def test_objects_are_made_and_updated_with_their_status(api: Api, tmp_path: Path) -> None:
    template = tmp_path / "service.yaml"
    template.write_text("{apiVersion: v1, kind: Service, metadata: {name: 's-{{ .Index }}'}, spec: {}}")
    await runner(api).run([CreateAny(template, 2, "a"), UpdateAny(template, 1, "a")])
    services = "/api/v1/namespaces/a/services"
    assert api.paths()[1:] == [services, services]
    assert api.paths("PUT") == [f"{services}/s-0", f"{services}/s-0/status"]


async def test_churn_makes_and_removes_in_turn_until_the_workload_ends(api: Api, tmp_path: Path) -> None:
    template = tmp_path / "node.yaml"
    template.write_text("{apiVersion: v1, kind: Node, metadata: {generateName: churn-}, spec: {}}")
    api.limit = 4
    with pytest.raises(asyncio.CancelledError):
        await runner(api)._churning(Churn(True, 1, 1e-9, "a", [template]))
    assert [(one.method, one.path.rpartition("/")[2]) for one in api.sent] == [
        ("POST", "nodes"),
        ("DELETE", "churn-0"),
        ("POST", "nodes"),
        ("DELETE", "churn-2"),
    ]


async def test_churn_that_creates_stops_at_its_number(api: Api, gated: Path) -> None:
    await runner(api)._churning(Churn(False, 3, 1e-9, "a", [gated]))
    assert len(api.paths()) == 3
    assert {orjson.loads(one.body)["spec"]["schedulerName"] for one in api.sent} == {"berth"}


async def test_a_failure_in_the_background_is_one_of_the_workload(api: Api) -> None:
    missing = Churn(False, 1, 1e-9, "a", [Path("/nowhere.yaml")])
    with pytest.raises(FileNotFoundError):
        await runner(api).run([missing, CreatePods(1, 3, "a")])


async def test_items_without_a_pace_come_at_once() -> None:
    assert [item async for item in paced("abc", 0)] == ["a", "b", "c"]
