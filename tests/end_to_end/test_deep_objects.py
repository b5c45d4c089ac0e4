"""Objects that nest deeper than Python reads: whoever may make one stops nobody else's pods."""

from __future__ import annotations

import asyncio
import json

from control_plane.client import PODS, POLICIES, Client, Object
from end_to_end.watching import StartBerth, are_bound, only_real
from support.builders import make_node, make_pod

BOTH_INTAKES = True
LEVELS = 5000


def deep_pod(name: str) -> str:
    """A pod as any user may make it."""
    owned = {"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
    body = make_pod(name)
    body["metadata"] = {
        "name": name,
        "namespace": "default",
        "managedFields": [{**owned, "fieldsType": "FieldsV1", "fieldsV1": "HERE"}],
    }
    return json.dumps(body).replace('"HERE"', '{"f:a":' * LEVELS + "{}" + "}" * LEVELS)


def deep_policy() -> str:
    body = {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "deep"},
        "spec": {"schedulerName": "deep", "predicates": [{"name": "NodeResourcesFit", "args": {"x": "HERE"}}]},
    }
    return json.dumps(body).replace('"HERE"', '{"a":' * LEVELS + "1" + "}" * LEVELS)


async def post(api: Client, path: str, body: str) -> None:
    async with api.session.post(path, data=body) as answer:
        assert answer.status == 201, await answer.text()


@only_real
async def test_objects_that_nest_too_deep_stop_nobody(api: Client, berth_process: StartBerth) -> None:
    pods = "/api/v1/namespaces/default/pods"
    await api.create(make_node("n"))
    await post(api, pods, deep_pod("listed"))
    await post(api, POLICIES, deep_policy())
    berth = await asyncio.to_thread(berth_process)
    await post(api, pods, deep_pod("watched"))
    await api.create(make_pod("plain"))
    await api.wait_until(PODS, are_bound(3), timeout_seconds=60)
    _, metrics = await asyncio.to_thread(berth.get, "/metrics")
    assert "berth_watch_restarts_total 0.0" in metrics
    await api.wait_until(POLICIES, lambda policies: _accepted(policies["deep"]) == "False", timeout_seconds=30)


def _accepted(policy: Object) -> str:
    conditions = (policy.get("status") or {}).get("conditions") or []
    return next((str(one["status"]) for one in conditions if one["type"] == "Accepted"), "")
