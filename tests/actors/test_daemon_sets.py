"""DaemonSets: a pod for each node that the template admits."""

from __future__ import annotations

from typing import Any

import pytest

from actors.conftest import Act
from actors.test_kubelets import kubelets
from actors.worlds import DAEMON_SETS, REVISIONS, Objects, bind, by_key, template, until, until_pods
from berth.cluster.clock import RealClock
from berth.sim.actors import HttpApi, Workloads
from control_plane.client import Client, Object
from support.builders import make_node

EVERY_TAINT = [{"operator": "Exists"}]
# A real API server gives every new node this taint, and a controller would remove it.
NEW_NODE = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]


@pytest.fixture
async def workloads(api: HttpApi, clock: RealClock, act: Act) -> None:
    act(Workloads(api, clock))


def daemon_set(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template(**spec)},
    }


def wanted_nodes(pods: Objects) -> list[str]:
    affinities = [pod["spec"]["affinity"]["nodeAffinity"] for pod in pods.values()]
    terms = [one["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] for one in affinities]
    return sorted(term[0]["matchFields"][0]["values"][0] for term in terms)


async def test_each_node_has_a_pod_and_a_new_node_gets_one(client: Client, workloads: None) -> None:
    await client.create(make_node("a"))
    await client.create(daemon_set("agent", tolerations=EVERY_TAINT))
    assert wanted_nodes(await until_pods(client, lambda pods: len(pods) == 1)) == ["a"]

    await client.create(make_node("b"))

    assert wanted_nodes(await until_pods(client, lambda pods: len(pods) == 2)) == ["a", "b"]


async def test_nodes_that_the_template_does_not_admit_have_none(client: Client, workloads: None) -> None:
    await client.create(make_node("plain"))
    await client.create(make_node("ssd", labels={"disk": "ssd"}))
    await client.create(make_node("taken", labels={"disk": "ssd"}, taints=[("dedicated", "x", "NoSchedule")]))
    await client.create(daemon_set("agent", nodeSelector={"disk": "ssd"}, tolerations=NEW_NODE))

    found = await until(client, DAEMON_SETS, lambda sets: _number(sets, "currentNumberScheduled") == 1)

    assert found["default/agent"]["status"]["desiredNumberScheduled"] == 1
    assert wanted_nodes(await by_key(client, "/api/v1/pods")) == ["ssd"]


async def test_a_new_template_replaces_the_pods_and_is_a_revision(
    client: Client, api: HttpApi, clock: RealClock, act: Act, workloads: None
) -> None:
    act(kubelets(api, clock))
    await client.create(make_node("a"))
    await client.create(daemon_set("agent", tolerations=EVERY_TAINT))
    [first] = (await until_pods(client, lambda pods: len(pods) == 1)).values()
    await bind(client, first["metadata"]["name"], "a")
    await until(client, DAEMON_SETS, lambda sets: _number(sets, "numberReady") == 1)

    await client.patch(f"{DAEMON_SETS}/agent", {"spec": {"template": {"metadata": {"labels": {"release": "2"}}}}})

    uid = first["metadata"]["uid"]
    pods = await until_pods(
        client, lambda pods: bool(pods) and uid not in {p["metadata"]["uid"] for p in pods.values()}
    )
    assert [pod["metadata"]["labels"]["release"] for pod in pods.values()] == ["2"]
    revisions = await until(client, REVISIONS, lambda found: len(found) == 2)
    assert sorted(one["revision"] for one in revisions.values()) == [1, 2]


def _number(sets: Objects, field: str) -> int:
    return int((sets["default/agent"].get("status") or {}).get(field) or 0)
