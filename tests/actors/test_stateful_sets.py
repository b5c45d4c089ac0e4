"""StatefulSets: numbered pods in order, their claims, updates from the last to the first."""

from __future__ import annotations

from typing import Any

import pytest

from actors.conftest import Act
from actors.test_kubelets import kubelets
from actors.worlds import CLAIMS, DEFAULT_PODS, STATEFUL_SETS, Objects, by_key, template, until, until_pods
from berth.cluster.clock import RealClock
from berth.sim.actors import HttpApi, Workloads
from control_plane.client import Client, Object
from support.builders import make_node

DATA = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.fixture
async def workloads(api: HttpApi, clock: RealClock, act: Act) -> None:
    act(Workloads(api, clock))


@pytest.fixture
async def nodes(api: HttpApi, clock: RealClock, act: Act, client: Client) -> None:
    await client.create(make_node("n"))
    act(kubelets(api, clock))


def stateful_set(name: str, replicas: int, **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            **spec,
        },
    }


def names(objects: Objects) -> list[str]:
    return sorted(key.partition("/")[2] for key in objects)


def status(sets: Objects) -> dict[str, Any]:
    return dict(sets["default/db"].get("status") or {})


async def test_a_pod_is_created_only_when_those_before_it_are_ready(client: Client, workloads: None) -> None:
    await client.create(stateful_set("db", 3))
    found = await until(client, STATEFUL_SETS, lambda sets: status(sets).get("replicas") == 1)
    assert names(await by_key(client, DEFAULT_PODS)) == ["db-0"], "nobody makes it ready"
    assert status(found)["updateRevision"].startswith("db-")


async def test_pods_have_numbers_names_and_claims_that_stay(client: Client, workloads: None, nodes: None) -> None:
    await client.create(stateful_set("db", 2, template=template(nodeName="n"), volumeClaimTemplates=[DATA]))
    found = await until(client, STATEFUL_SETS, lambda sets: status(sets).get("readyReplicas") == 2)
    assert status(found)["currentRevision"] == status(found)["updateRevision"]
    pods = await by_key(client, DEFAULT_PODS)
    assert names(pods) == ["db-0", "db-1"]
    pod = pods["default/db-1"]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}} in pod["spec"]["volumes"]

    await client.patch(f"{STATEFUL_SETS}/db", {"spec": {"replicas": 1}})

    assert names(await until_pods(client, lambda pods: len(pods) == 1)) == ["db-0"]
    assert names(await by_key(client, CLAIMS)) == ["data-db-0", "data-db-1"]


async def test_all_pods_are_created_at_once_where_the_policy_is_parallel(client: Client, workloads: None) -> None:
    await client.create(stateful_set("db", 3, podManagementPolicy="Parallel"))
    assert names(await until_pods(client, lambda pods: len(pods) == 3)) == ["db-0", "db-1", "db-2"]


async def test_a_new_template_replaces_pods_down_to_the_partition(client: Client, workloads: None, nodes: None) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await client.create(stateful_set("db", 2, template=template(nodeName="n"), updateStrategy=strategy))
    await until(client, STATEFUL_SETS, lambda sets: status(sets).get("readyReplicas") == 2)

    await client.patch(f"{STATEFUL_SETS}/db", {"spec": {"template": {"metadata": {"labels": {"release": "2"}}}}})

    def has_updated(sets: Objects) -> bool:
        return status(sets).get("updatedReplicas") == 1 and status(sets).get("readyReplicas") == 2

    await until(client, STATEFUL_SETS, has_updated)
    pods = await by_key(client, DEFAULT_PODS)
    releases = {name: pods[f"default/{name}"]["metadata"]["labels"].get("release") for name in names(pods)}
    assert releases == {"db-0": None, "db-1": "2"}
