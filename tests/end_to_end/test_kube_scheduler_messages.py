"""What an explanation counts is what kube-scheduler says of the same pod on the same nodes: random infeasible pods.

Each case of the generator is a cluster of its own, with its pod twice: one for kube-scheduler, one for `berth why`.
What the API server refuses of a case is left out; a pod that fits without it is not counted.

    make cluster-test ARGS='tests/end_to_end/test_kube_scheduler_messages.py --pods 100'
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from control_plane.berth_process import berth_command, berth_environment
from control_plane.cleaning import remove_everything
from control_plane.client import PODS, ApiError, Client, Object
from control_plane.launcher import ControlPlane
from end_to_end.watching import EVENTS, Plane, only_real
from explain.worlds import infeasible

pytestmark = only_real

FEW = 8
SECONDS = 60
OURS, THEIRS, NOBODY = "berth", "default-scheduler", "nobody"
# Without preemption: victims that leave would change what the other scheduler finds.
PATIENT = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "patient"},
    "value": 0,
    "preemptionPolicy": "Never",
}


@pytest.fixture
async def kube_scheduler(control_plane: Plane) -> AsyncIterator[None]:
    assert isinstance(control_plane, ControlPlane)
    await asyncio.to_thread(control_plane.start_scheduler)
    yield
    await asyncio.to_thread(control_plane.stop_scheduler)


async def test_the_counts_of_explanations_are_those_of_kube_scheduler(
    api: Client, crds: None, kube_scheduler: None, kubeconfig: Path, pods_seed: str, request: pytest.FixtureRequest
) -> None:
    wanted = int(request.config.getoption("--pods") or FEW)
    print(f"\n--pods {wanted} --pods-seed {pods_seed}")
    compared = 0
    for case in infeasible(pods_seed, 3 * wanted):
        said = await _rejected(api, case.body)
        if said is not None:
            explained = _why(kubeconfig, case.pod.namespace)
            assert _of_filters(explained["schedulerMessage"]) == said, case.id
            if "reasons" in explained:
                assert said in _sentences(explained), case.id
            compared += 1
        await remove_everything(api)
        if compared == wanted:
            break
    print(f"{compared} pods compared")
    assert compared >= wanted // 2


async def _rejected(api: Client, case: Object) -> str | None:
    """What kube-scheduler says of the pod on the nodes of the case, without preemption; None if it fits."""
    await api.create(PATIENT)
    for body in case["objects"]:
        await _create(api, _elsewhere(body) if body["kind"] == "Pod" else body)
    pod = case["pod"]
    twins = [_twin(pod, name) for name in (OURS, THEIRS)]
    if not all([await _create(api, twin) for twin in twins]):
        return None
    namespace = pod["metadata"]["namespace"]
    pods = await api.wait_until(PODS, lambda pods: _is_decided(pods[f"{namespace}/{THEIRS}"]), timeout_seconds=SECONDS)
    if pods[f"{namespace}/{THEIRS}"]["spec"].get("nodeName"):
        return None
    events = await api.wait_until(EVENTS, lambda events: any(_notes(events)), timeout_seconds=SECONDS)
    return _of_filters(next(_notes(events)))


async def _create(api: Client, body: Object) -> bool:
    try:
        await api.create(body)
    except ApiError as error:
        if error.status not in (400, 403, 409, 422):
            raise
        return False
    return True


def _elsewhere(pod: Object) -> Object:
    """As the API server takes it: neither scheduler decides on it, and its priority is that of its class."""
    return {**pod, "spec": {**_without_priority(pod["spec"]), "schedulerName": NOBODY}}


def _twin(pod: Object, scheduler_name: str) -> Object:
    metadata = {key: value for key, value in pod["metadata"].items() if key in ("namespace", "labels", "annotations")}
    spec = {**_without_priority(pod["spec"]), "schedulerName": scheduler_name, "priorityClassName": "patient"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": scheduler_name}, "spec": spec}


def _without_priority(spec: Object) -> Object:
    return {
        key: value for key, value in spec.items() if key not in ("priority", "priorityClassName", "preemptionPolicy")
    }


def _is_decided(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName") or pod["status"].get("conditions"))


def _notes(events: Mapping[str, Object]) -> Iterator[str]:
    for event in events.values():
        if event["reason"] == "FailedScheduling" and event["regarding"]["name"] == THEIRS:
            yield event["note"]


def _of_filters(message: str) -> str:
    """The first sentence: the others are about preemption, and in kube-scheduler about claims for devices."""
    return message.partition(". ")[0].removesuffix(".") + "."


def _why(kubeconfig: Path, namespace: str) -> dict[str, Any]:
    """The explanation, as a user asks for it."""
    command = [*berth_command(), "why", OURS, "-n", namespace, f"--kubeconfig={kubeconfig}", "-o", "json"]
    run = subprocess.run(command, env=berth_environment(), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    status: dict[str, Any] = json.loads(run.stdout)["status"]
    return status


def _sentences(explained: dict[str, Any]) -> list[str]:
    """The counts of the explanation in kube-scheduler's form, which has no count if PreFilter rejects the pod."""
    counts: dict[str, int] = {}
    for reason in explained["reasons"]:
        counts[reason["message"]] = counts.get(reason["message"], 0) + reason["nodes"]
    forms = [", ".join(sorted(f"{count} {message}" for message, count in counts.items()))]
    if list(counts.values()) == [explained["nodes"]]:
        forms.extend(counts)
    return [f"0/{explained['nodes']} nodes are available: {form}." for form in forms]
