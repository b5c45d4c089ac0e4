"""What the end-to-end tests look at: bound pods, full nodes, reasons, and who was bound twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import pytest

from berth.model import parse_quantity, to_milli
from control_plane.berth_process import BerthProcess
from control_plane.client import NODES, PODS, Client, Object
from control_plane.embedded import EmbeddedPlane
from control_plane.launcher import ControlPlane

EVENTS = "/apis/events.k8s.io/v1/events"

only_real = pytest.mark.parametrize(
    "control_plane", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True, scope="session"
)

Pods = Mapping[str, Object]
StartBerth = Callable[..., BerthProcess]
Plane = ControlPlane | EmbeddedPlane


def bound(pods: Pods) -> list[Object]:
    return [pod for pod in pods.values() if pod["spec"].get("nodeName")]


def pending(pods: Pods) -> list[Object]:
    return [pod for pod in pods.values() if not pod["spec"].get("nodeName")]


def are_bound(count: int) -> Callable[[Pods], bool]:
    return lambda pods: len(bound(pods)) == count


def refusal(pod: Object) -> tuple[str, str] | None:
    """Reason and message of PodScheduled=False."""
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return condition["reason"], condition.get("message", "")
    return None


async def overfull_nodes(api: Client) -> list[str]:
    """Nodes whose pods ask for more cpu, or are more, than they have."""
    nodes = {node["metadata"]["name"]: node["status"]["allocatable"] for node in await api.list(NODES)}
    cpu: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for pod in await api.list(PODS):
        if node := pod["spec"].get("nodeName"):
            cpu[node] += sum(_cpu(container) for container in pod["spec"]["containers"])
            count[node] += 1
    return [n for n, have in nodes.items() if cpu[n] > _millicores(have["cpu"]) or count[n] > int(have["pods"])]


def _cpu(container: Object) -> int:
    return _millicores(container.get("resources", {}).get("requests", {}).get("cpu", "0"))


def _millicores(text: str) -> int:
    return to_milli(parse_quantity(text))


async def bound_twice(api: Client) -> list[str]:
    """Pods that more than one Scheduled event tells of, or one that was repeated."""
    told: Counter[str] = Counter()
    for event in await api.list(EVENTS):
        if event["reason"] == "Scheduled":
            told[event["regarding"]["uid"]] += 1 + (event.get("series") or {}).get("count", 0)
    return [uid for uid, times in told.items() if times > 1]


def names(pods: Iterable[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}
