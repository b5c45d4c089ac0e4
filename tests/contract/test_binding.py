"""Binding and eviction: who is let in, and what is said to who is not."""

from __future__ import annotations

from typing import Any

import pytest

from contract.asking import plain
from control_plane.client import ApiError, Client, Object
from support.builders import make_node, make_pod

POD = "/api/v1/namespaces/default/pods/web"


async def bind(api: Client, node: str, *, uid: str = "", **more: Any) -> Object:
    metadata = {"name": "web", "namespace": "default", **({"uid": uid} if uid else {}), **more}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    return await api.request("POST", f"{POD}/binding", body)


async def evict(api: Client) -> Object:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web", "namespace": "default"}}
    return await api.request("POST", f"{POD}/eviction", body)


async def make(api: Client, **more: Any) -> Object:
    await api.create(plain(make_node("n1")))
    return await api.create(plain(make_pod("web", **more)))


async def test_a_bind_sets_the_node_and_the_condition(api: Client) -> None:
    made = await make(api)
    answer = await bind(api, "n1", uid=made["metadata"]["uid"])
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    pod = await api.get(POD)
    assert pod["spec"]["nodeName"] == "n1"
    conditions = {one["type"]: one["status"] for one in pod["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


async def test_a_bind_takes_the_nomination_away_and_none_is_made_after_it(api: Client) -> None:
    await make(api)
    nomination = {"status": {"nominatedNodeName": "n1"}}
    assert (await api.patch(f"{POD}/status", nomination))["status"]["nominatedNodeName"] == "n1"
    await bind(api, "n1")
    assert "nominatedNodeName" not in (await api.get(POD))["status"]
    with pytest.raises(ApiError, match="may not be set on pods that are already bound to a node") as caught:
        await api.patch(f"{POD}/status", nomination)
    assert caught.value.status == 422


async def test_the_annotations_of_a_binding_are_on_the_pod_beside_its_own(api: Client) -> None:
    body = make_pod("web")
    body["metadata"]["annotations"] = {"berth.dev/policy": "old", "own": "kept"}
    await api.create(plain(make_node("n1")))
    await api.create(plain(body))
    await bind(api, "n1", annotations={"berth.dev/policy": "batch", "berth.dev/policy-generation": "3"})
    pod = await api.get(POD)
    assert pod["metadata"]["annotations"] == {
        "berth.dev/policy": "batch",
        "berth.dev/policy-generation": "3",
        "own": "kept",
    }


async def test_a_second_bind_is_refused_even_to_the_same_node(api: Client) -> None:
    await make(api)
    await bind(api, "n1")
    for node in ("n1", "n2"):
        with pytest.raises(ApiError, match=r'pod web is already assigned to node "n1"') as caught:
            await bind(api, node)
        assert caught.value.status == 409


async def test_a_bind_for_another_uid_is_refused(api: Client) -> None:
    await make(api)
    with pytest.raises(ApiError, match="Precondition failed: UID in precondition: another") as caught:
        await bind(api, "n1", uid="another")
    assert caught.value.status == 409


async def test_a_bind_of_an_unknown_pod_is_not_found(api: Client) -> None:
    with pytest.raises(ApiError, match='pods "web" not found') as caught:
        await bind(api, "n1")
    assert caught.value.status == 404


async def test_a_gated_pod_is_not_bound(api: Client) -> None:
    await make(api, gates=("example.test/wait",))
    with pytest.raises(ApiError, match=r"pod web has non-empty \.spec\.schedulingGates") as caught:
        await bind(api, "n1")
    assert caught.value.status == 409


async def test_a_pod_that_is_being_deleted_is_not_bound(api: Client) -> None:
    body = plain(make_pod("web"))
    body["metadata"]["finalizers"] = ["example.test/hold"]
    await api.create(body)
    await api.request("DELETE", POD)
    with pytest.raises(ApiError, match="pod web is being deleted, cannot be assigned to a host") as caught:
        await bind(api, "n1")
    assert caught.value.status == 409
    await api.patch(POD, {"metadata": {"finalizers": None}})


async def test_capacity_is_not_the_api_servers_business(api: Client) -> None:
    await make(api, cpu="1000")
    await bind(api, "n1")
    assert (await api.get(POD))["spec"]["nodeName"] == "n1"


async def test_an_eviction_without_a_budget_deletes(api: Client) -> None:
    await make(api, node="n1")
    await evict(api)
    assert "deletionTimestamp" in (await api.get(POD))["metadata"]


async def test_an_eviction_against_a_budget_is_put_off(api: Client) -> None:
    await make(api, node="n1", labels={"app": "web"})
    await api.patch(
        f"{POD}/status", {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    )
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    made = await api.create(budget)
    await api.patch(
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web/status",
        {
            "status": {
                "observedGeneration": made["metadata"]["generation"],
                "disruptionsAllowed": 0,
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
            }
        },
    )
    with pytest.raises(ApiError, match="Cannot evict pod as it would violate the pod's disruption budget") as caught:
        await evict(api)
    assert caught.value.status == 429
    assert "deletionTimestamp" not in (await api.get(POD))["metadata"]
