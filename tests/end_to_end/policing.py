"""What the end-to-end tests of policies do over and over: make one, apply it as a user would, look at its status."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping

from control_plane.berth_process import BerthProcess
from control_plane.client import NAMESPACES, PODS, POLICIES, Client, Object
from control_plane.launcher import ControlPlane
from end_to_end.watching import Plane, refusal

LIMIT_SECONDS = 30.0
NAME, GENERATION = "berth.dev/policy", "berth.dev/policy-generation"

SPREAD: Object = {"name": "NodeResourcesFit", "weight": 50}
PACK: Object = {"name": "NodeResourcesFit", "weight": 50, "args": {"scoringStrategy": {"type": "MostAllocated"}}}


def policy(name: str, scheduler: str = "berth", *priorities: Object, **spec: object) -> Object:
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, "priorities": list(priorities), **spec},
    }


def pool(name: str, scheduler: str, number: int, **spec: object) -> Object:
    """A policy whose pods go to the nodes with label pool of this value, and say who placed them."""
    rule = {"name": "pool", "expression": "node.labels[?'pool'].orValue('') == policy.parameters.pool"}
    return policy(name, scheduler, predicates=[rule], parameters={"pool": f"p{number}"}, annotatePods=True, **spec)


def in_namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


async def apply(plane: Plane, api: Client, *manifests: Object) -> None:
    """By kubectl, where there is a real API server; elsewhere as kubectl apply --server-side would."""
    if isinstance(plane, ControlPlane):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        await asyncio.to_thread(plane.kubectl, "apply", "-f", "-", input=text)
        return
    for manifest in manifests:
        await api.apply(manifest)


def condition(found: Object, kind: str) -> tuple[str, str]:
    """Status and reason of a condition of a policy, empty where it has none."""
    told = told_by(found, kind)
    return (told["status"], told["reason"]) if told else ("", "")


def told_by(found: Object, kind: str) -> Object:
    conditions = found.get("status", {}).get("conditions", [])
    return next((entry for entry in conditions if entry["type"] == kind), {})


async def wait_for_policies(api: Client, holds: Callable[[Mapping[str, Object]], bool]) -> Mapping[str, Object]:
    return await api.wait_until(POLICIES, holds, timeout_seconds=LIMIT_SECONDS)


async def wait_for_condition(api: Client, name: str, kind: str, status: str, reason: str) -> Object:
    """The policy once its latest generation is judged and the condition reads so."""

    def holds(policies: Mapping[str, Object]) -> bool:
        found = policies.get(name, {})
        seen = found.get("status", {}).get("observedGeneration")
        return seen == found.get("metadata", {}).get("generation") and condition(found, kind) == (status, reason)

    return (await wait_for_policies(api, holds))[name]


async def wait_in_force(api: Client, name: str) -> Object:
    return await wait_for_condition(api, name, "Active", "True", "InForce")


async def decided(api: Client, pod: Object) -> Object:
    """The pod is made; what became of it: bound, or refused with a message."""
    made = await api.create(pod)
    key = f"{made['metadata']['namespace']}/{made['metadata']['name']}"
    pods = await api.wait_until(PODS, lambda pods: is_decided(pods.get(key, made)), timeout_seconds=LIMIT_SECONDS)
    return pods[key]


def is_decided(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) or refusal(pod) is not None


def node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


async def relabel(api: Client, body: Object, **labels: str | None) -> None:
    """A pod or a namespace gets other labels."""
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
    path = f"{NAMESPACES}/{namespace}/pods/{name}" if namespace else f"{NAMESPACES}/{name}"
    await api.patch(path, {"metadata": {"labels": labels}})


async def wait_bound(api: Client, pod: Object) -> Object:
    key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    pods = await api.wait_until(PODS, lambda pods: bool(node_of(pods[key])), timeout_seconds=LIMIT_SECONDS)
    return pods[key]


async def wait_refused(api: Client, pod: Object, words: str) -> Object:
    key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"

    def holds(pods: Mapping[str, Object]) -> bool:
        said = refusal(pods[key])
        return said is not None and words in said[1]

    return (await api.wait_until(PODS, holds, timeout_seconds=LIMIT_SECONDS))[key]


async def wait_judged(berth: BerthProcess, count: int, *policies: str) -> None:
    """Until each of these shadows has judged so many pods, or let them go, by Berth's metrics."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            _, text = await asyncio.to_thread(berth.get, "/metrics")
            if all(_judged(text, name) == count for name in policies):
                return


async def wait_forgotten(berth: BerthProcess, name: str) -> None:
    """Until a policy that was deleted is in force no more, by Berth's metrics: there is no status left to say so."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            status, text = await asyncio.to_thread(berth.get, "/metrics")
            if status == 200 and f'berth_policy_generation{{policy="{name}"}}' not in text:
                return


def _judged(metrics: str, name: str) -> int:
    line = re.compile(r"^berth_policy_shadow_total\{([^}]*)\} (\S+)$", re.MULTILINE)
    return int(sum(float(value) for labels, value in line.findall(metrics) if f'policy="{name}"' in labels))
