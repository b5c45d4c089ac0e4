"""Extenders of a policy, on sockets of their own, beside a Berth and an API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from aiohttp import web

from cluster.record_extender_requests import FILE, Recorder, a_node, a_pod, extenders, recording, steady
from control_plane.client import PODS, POLICIES, Client, Object
from end_to_end.watching import StartBerth, are_bound, refusal

LIMIT_SECONDS = 30.0


def policy(name: str, url: str = "", scheduler: str = "berth") -> Object:
    metadata = {"name": name}
    spec = {"schedulerName": scheduler, "extenders": extenders(url) if url else []}
    return {"apiVersion": "berth.dev/v1alpha1", "kind": "SchedulingPolicy", "metadata": metadata, "spec": spec}


def of(scheduler: str, pod: Object) -> Object:
    return {**pod, "spec": {**pod["spec"], "schedulerName": scheduler}}


def is_degraded(status: str) -> Callable[[Mapping[str, Object]], bool]:
    def check(policies: Mapping[str, Object]) -> bool:
        conditions = policies.get("extended", {}).get("status", {}).get("conditions", [])
        return any(found["type"] == "Degraded" and found["status"] == status for found in conditions)

    return check


class Broken(Recorder):
    """Fails, until it is repaired."""

    repaired = False

    async def handle(self, request: web.Request) -> web.Response:
        return await super().handle(request) if self.repaired else web.Response(status=500)


async def test_extenders_are_asked_what_kube_scheduler_asks_them(api: Client, berth_process: StartBerth) -> None:
    expected = json.loads(FILE.read_text())
    await api.create_many([a_node("n1"), a_node("n2")])
    async with recording(api) as (recorder, url):
        await api.create(policy("extended", url))
        berth_process("--extender-networks=127.0.0.0/8")
        await api.create(of("berth", a_pod("low-1", "800m")))
        await api.wait_until(PODS, are_bound(1), timeout_seconds=LIMIT_SECONDS)
    asked = steady(recorder.requests)
    assert asked.keys() == {f"{kind}/{verb}" for kind in ("names", "objects") for verb in ("filter", "prioritize")} | {
        "names/bind"
    }
    for question, request in asked.items():
        body = request["body"]
        if question == "names/bind":
            body["Node"] = expected[question]["body"]["Node"]
        else:
            body["Pod"]["spec"]["schedulerName"] = expected[question]["body"]["Pod"]["spec"]["schedulerName"]
        for node in (expected[question]["body"].get("Nodes") or {}).get("items", []):
            node["metadata"].pop("managedFields", None)
        assert body == expected[question]["body"], question
        assert request["content_type"] == expected[question]["content_type"]


async def test_an_extender_that_fails_degrades_its_policy_and_holds_up_its_own_pods_alone(
    api: Client, berth_process: StartBerth
) -> None:
    await api.create_many([a_node("n1"), a_node("n2")])
    async with recording(api, Broken) as (broken, url):
        await api.create(policy("extended", url))
        await api.create(policy("plain", scheduler="plain"))
        berth_process("--extender-networks=127.0.0.0/8")
        await api.create(of("berth", a_pod("stuck", "100m")))
        problem = f"failed filter with extender at URL {url}/names/filter, code 500"
        told = ("SchedulerError", problem)
        await api.wait_until(PODS, lambda pods: refusal(pods["default/stuck"]) == told, timeout_seconds=LIMIT_SECONDS)
        await api.create_many(of("plain", a_pod(f"plain-{number}", "100m")) for number in range(5))
        await api.wait_until(PODS, are_bound(5), timeout_seconds=LIMIT_SECONDS)
        policies = await api.wait_until(POLICIES, is_degraded("True"), timeout_seconds=LIMIT_SECONDS)
        (error,) = policies["extended"]["status"]["errors"]
        assert (error["source"], error["message"]) == (f"extender {url}/names", problem)
        assert isinstance(broken, Broken)
        broken.repaired = True
        await api.wait_until(PODS, are_bound(6), timeout_seconds=LIMIT_SECONDS)
