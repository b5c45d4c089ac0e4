"""`berth simulate` says beforehand what Berth then does: pod by pod, and when a node is drained."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from berth.cluster.clock import RealClock
from berth.sim.actors import Controller, HttpApi
from berth.sim.actors.disruption import Disruption
from berth.sim.actors.kubelets import Kubelets
from berth.sim.actors.workloads import Workloads
from control_plane.berth_process import berth_command, berth_environment
from control_plane.client import NODES, PODS, ApiError, Client, Object
from control_plane.embedded import EmbeddedPlane
from control_plane.process import unverified_tls
from end_to_end.watching import Plane, Pods, StartBerth, bound, pending, refusal
from policy.builders import make_policy
from support.builders import make_node, make_pod

SECONDS = 60
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


def simulate(kubeconfig: Path, *arguments: str) -> dict[str, Any]:
    """What the command says, as a user would run it."""
    command = [*berth_command(), "simulate", f"--kubeconfig={kubeconfig}", "-o", "json", *arguments]
    run = subprocess.run(command, env=berth_environment(), capture_output=True, text=True, check=False)
    assert run.returncode in (0, 3), run.stderr
    said: dict[str, Any] = json.loads(run.stdout)
    return said


def node(number: int, cpu: int = 4) -> Object:
    name = f"node-{number:02}"
    return make_node(name, cpu=cpu, labels={ZONE: "abc"[number % 3], HOSTNAME: name, "pool": f"p{number % 2}"})


def fresh(body: Object) -> Object:
    """As a user would create it."""
    body["metadata"].pop("uid", None)
    body.pop("status", None)
    return body


# --- pod by pod


def assorted_pods() -> Iterator[Object]:
    """Pods of all kinds, named in the order in which they are created; the last of each ten fits nowhere."""
    for number in range(80):
        labels = {"app": f"app-{number % 4}"}
        selector = {"labelSelector": {"matchLabels": labels}}
        more: Object = {}
        match number % 10:
            case 1:
                rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **selector}
                more = {"topologySpreadConstraints": [rule]}
            case 2:
                term = {"weight": 10, "podAffinityTerm": {"topologyKey": HOSTNAME, **selector}}
                more = {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}
            case 3:
                more = {"node_selector": {"pool": "p1"}}
            case 4 | 5:
                more = {"priorityClassName": "high"}
            case 9:
                more = {"cpu": 40}
        yield fresh(make_pod(f"pod-{number:03}", labels=labels, **{"cpu": f"{100 + number % 3 * 100}m", **more}))


async def test_pods_go_where_the_simulation_says(
    control_plane: Plane, api: Client, crds: None, berth_process: StartBerth
) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 50}
    await api.create(high)
    await api.create_many(node(number, 4 + number % 3) for number in range(15))
    await api.create_many(assorted_pods(), concurrency=1)
    said = simulate(control_plane.kubeconfig, "--seed=7")
    expected = {pod["name"]: pod for each in said["workloads"] for pod in each["pods"]}
    berth_process("--seed=7")
    pods = await api.wait_until(PODS, _all_are_decided, timeout_seconds=SECONDS)
    found = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods.values()}
    assert found == {name: pod["node"] for name, pod in expected.items()}
    assert len(bound(pods)) == 72
    messages = {pod["metadata"]["name"]: refusal(pod) for pod in pending(pods)}
    assert messages == {name: ("Unschedulable", expected[name]["message"]) for name in messages}


def _all_are_decided(pods: Pods) -> bool:
    return len(pods) == 80 and all(pod["spec"].get("nodeName") or refusal(pod) for pod in pods.values())


async def test_pods_of_high_priority_evict_those_whom_the_simulation_names(
    control_plane: Plane, api: Client, crds: None, berth_process: StartBerth
) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 50}
    await api.create(high)
    await api.create_many(node(number) for number in range(6))
    there = [fresh(make_pod(f"there-{number:02}", cpu=2, node=f"node-{number // 2:02}")) for number in range(12)]
    async with actors(control_plane):
        await api.create_many(there)
        await api.wait_until(PODS, _all_run, timeout_seconds=SECONDS)
        wanted = [fresh(make_pod(f"new-{number}", cpu=2, priorityClassName="high")) for number in range(3)]
        await api.create_many(wanted, concurrency=1)
        said = simulate(control_plane.kubeconfig, "--seed=3")
        berth_process("--seed=3")
        pods = await api.wait_until(PODS, lambda pods: len(pods) == len(bound(pods)) == 12, timeout_seconds=SECONDS)
    placed = {pod["name"]: pod["node"] for each in said["workloads"] for pod in each["pods"]}
    found = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods.values()}
    assert {name: found[name] for name in placed} == placed
    gone = {body["metadata"]["name"] for body in there} - set(found)
    assert gone == {left["name"] for each in said["workloads"] for left in each["departed"]}


# --- drained nodes


@asynccontextmanager
async def actors(plane: Plane, *kinds: type[Controller]) -> AsyncIterator[None]:
    tls = None if isinstance(plane, EmbeddedPlane) else unverified_tls()
    async with HttpApi(plane.url, token=plane.token, tls=tls) as api:
        clock = RealClock()
        delays = 0.0, 0.05
        kubelets = Kubelets(api, clock, random.Random(7), start_seconds=delays, stop_seconds=delays)
        made = [kubelets, *(kind(api, clock) for kind in kinds)]
        running = [(actor, asyncio.create_task(actor.run())) for actor in made]
        try:
            yield
        finally:
            for actor, task in running:
                await actor.stop()
                await task


def deployment(name: str, replicas: int, cpu: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": fresh(make_pod("x", cpu=cpu))["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


async def run_deployments(api: Client, *wanted: Object) -> Pods:
    for body in wanted:
        await api.create(body)
    total = sum(body["spec"]["replicas"] for body in wanted)
    return await api.wait_until(PODS, lambda pods: len(pods) == total and _all_run(pods), timeout_seconds=SECONDS)


async def cordon(api: Client, name: str) -> None:
    await api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": True}})


async def evict(api: Client, pod: Object) -> bool:
    """Whether the API server allowed it."""
    metadata = {"name": pod["metadata"]["name"], "namespace": "default"}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    try:
        await api.request("POST", f"/api/v1/namespaces/default/pods/{metadata['name']}/eviction", body)
    except ApiError as error:
        if error.status != 429:
            raise
        return False
    return True


def by_deployment(pods: Iterable[Object]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for pod in pods:
        if not pod["metadata"].get("deletionTimestamp"):
            found.setdefault(pod["metadata"]["labels"]["app"], Counter())[pod["spec"].get("nodeName", "")] += 1
    return found


def predicted(said: dict[str, Any]) -> dict[str, Counter[str]]:
    return {each["name"]: Counter(each["after"]["nodes"]) for each in said["workloads"]}


def on(pods: Pods, name: str) -> list[Object]:
    there = (pod for pod in pods.values() if pod["spec"].get("nodeName") == name)
    return sorted(there, key=lambda pod: str(pod["metadata"]["name"]))


async def test_a_drained_node_is_left_as_the_simulation_says(
    control_plane: Plane, api: Client, crds: None, berth_process: StartBerth
) -> None:
    """With the default profile: all pods are evicted, their successors created, and then placed in their order."""
    await api.create_many(node(number) for number in range(9))
    async with actors(control_plane, Workloads):
        first = berth_process("--seed=5")
        pods = await run_deployments(api, deployment("api", 12, "300m"), deployment("web", 18, "500m"))
        name = max(Counter(pod["spec"]["nodeName"] for pod in pods.values()).items(), key=lambda each: each[1])[0]
        assert first.stop() == 0
        said = simulate(control_plane.kubeconfig, "--drain", name, "--seed=11")
        await cordon(api, name)
        for pod in on(pods, name):
            assert await evict(api, pod)
        await api.wait_until(PODS, lambda pods: len(pods) == 30 and not on(pods, name), timeout_seconds=SECONDS)
        berth_process("--seed=11")
        pods = await api.wait_until(PODS, lambda pods: len(bound(pods)) == 30, timeout_seconds=SECONDS)
    concerned = predicted(said)
    assert concerned
    assert {app: nodes for app, nodes in by_deployment(pods.values()).items() if app in concerned} == concerned


async def test_a_budget_holds_a_drain_up_as_the_simulation_says(
    control_plane: Plane, api: Client, crds: None, berth_process: StartBerth
) -> None:
    """While Berth runs: the budget allows one eviction at a time, and only the first of three pods finds room."""
    fit = [{"name": "NodeResourcesFit"}]
    filters = [*fit, {"name": "NodeUnschedulable"}]
    policy = make_policy("berth", tieBreak="First", base="Empty", predicates=filters, priorities=fit)
    await api.create(fresh(policy))
    await api.create_many([node(0), node(1), node(2, cpu=2)])
    guarded = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    async with actors(control_plane, Workloads, Disruption):
        berth_process()
        await run_deployments(api, deployment("web", 8, "1"))
        await api.create(guarded)
        await api.wait_until(BUDGETS, lambda found: _allowed(found) == 1, timeout_seconds=SECONDS)
        said = simulate(control_plane.kubeconfig, "--drain", "node-00")
        await cordon(api, "node-00")
        while True:
            pods = {pod["metadata"]["name"]: pod for pod in await api.list(PODS)}
            if not await evict(api, on(pods, "node-00")[0]):
                break
            await api.wait_until(PODS, _are_settled, timeout_seconds=SECONDS)
            await api.wait_until(BUDGETS, lambda found: _is_current(found), timeout_seconds=SECONDS)
        pods = await api.wait_until(PODS, _are_settled, timeout_seconds=SECONDS)
    assert _in_counts(by_deployment(pods.values())["web"]) == _in_counts(predicted(said)["web"])
    assert said["summary"]["pending"] == len(pending(pods)) == 1
    assert {each["message"] for each in said["blocked"]} == {"the disruption budget web does not allow it"}
    assert sorted(each["pod"] for each in said["blocked"]) == sorted(
        f"default/{pod['metadata']['name']}" for pod in on(pods, "node-00")
    )


def _in_counts(nodes: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in nodes.items() if name and count}


def _all_run(pods: Pods) -> bool:
    return bool(pods) and all(pod["status"].get("phase") == "Running" for pod in pods.values())


def _are_settled(pods: Pods) -> bool:
    """Nobody is terminating, all that are bound run, and who is not bound has been refused."""
    alive = not any(pod["metadata"].get("deletionTimestamp") for pod in pods.values())
    return len(pods) == 8 and alive and _all_run({n: p for n, p in pods.items() if not refusal(p)})


def _allowed(budgets: Pods) -> int:
    return sum(body.get("status", {}).get("disruptionsAllowed", -1000) for body in budgets.values())


def _is_current(budgets: Pods) -> bool:
    """The disruption controller has seen who is there."""
    [status] = [body["status"] for body in budgets.values()]
    return not status.get("disruptedPods") and status["currentHealthy"] - status["desiredHealthy"] in (0, 1)
