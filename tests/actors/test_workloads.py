"""Deployments, ReplicaSets and Jobs on an API server without a controller-manager."""

from __future__ import annotations

import pytest

from actors.conftest import Act
from actors.test_kubelets import kubelets
from actors.worlds import (
    DEFAULT_PODS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    Objects,
    deployment,
    job,
    template,
    until,
    until_pods,
)
from berth.cluster.clock import RealClock
from berth.sim.actors import HttpApi, Workloads
from berth.sim.actors.kubelets import EXIT_CODE
from control_plane.client import Client
from support.builders import make_node


@pytest.fixture
async def workloads(api: HttpApi, clock: RealClock, act: Act) -> None:
    act(Workloads(api, clock))


@pytest.fixture
async def nodes(api: HttpApi, clock: RealClock, act: Act, client: Client) -> None:
    """A node whose kubelet is at work; pods name it themselves, no scheduler runs."""
    await client.create(make_node("n"))
    act(kubelets(api, clock))


def ready(objects: Objects, name: str) -> int:
    return int(objects[f"default/{name}"].get("status", {}).get("readyReplicas", 0))


async def test_a_deployment_gets_its_pods_and_is_available_when_they_are_ready(
    client: Client, workloads: None, nodes: None
) -> None:
    await client.create(deployment("web", 3, template=template(nodeName="n")))

    found = await until(client, DEPLOYMENTS, lambda found: ready(found, "web") == 3)
    pods = await client.list(DEFAULT_PODS)
    sets = await client.list(REPLICA_SETS)

    assert len(pods) == 3
    assert len(sets) == 1
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == {sets[0]["metadata"]["uid"]}
    conditions = {one["type"]: one["status"] for one in found["default/web"]["status"]["conditions"]}
    assert conditions == {"Available": "True", "Progressing": "True"}


async def test_scaling_down_removes_unbound_pods_first(client: Client, workloads: None) -> None:
    await client.create(deployment("web", 3))
    pods = await until_pods(client, lambda pods: len(pods) == 3)
    bound = sorted(pods)[1]
    body = {"metadata": {"name": bound.split("/")[1]}, "target": {"kind": "Node", "name": "n"}}
    await client.request(
        "POST", f"{DEFAULT_PODS}/{bound.split('/')[1]}/binding", {"apiVersion": "v1", "kind": "Binding", **body}
    )

    await client.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 1}})

    assert list(await until_pods(client, lambda pods: len(pods) == 1)) == [bound]


async def test_a_new_template_replaces_the_pods_as_new_ones_become_ready(
    client: Client, workloads: None, nodes: None
) -> None:
    await client.create(deployment("web", 2, template=template(nodeName="n")))
    before = await until(client, DEPLOYMENTS, lambda found: ready(found, "web") == 2)
    assert before
    first = {pod["metadata"]["uid"] for pod in await client.list(DEFAULT_PODS)}

    await client.patch(f"{DEPLOYMENTS}/web", {"spec": {"template": {"metadata": {"labels": {"release": "2"}}}}})

    pods = await until_pods(
        client, lambda pods: len(pods) == 2 and not first & {pod["metadata"]["uid"] for pod in pods.values()}
    )
    assert {pod["metadata"]["labels"]["release"] for pod in pods.values()} == {"2"}


async def test_a_pod_that_is_deleted_is_made_again_under_another_name(client: Client, workloads: None) -> None:
    await client.create(deployment("web", 1))
    [first] = (await until_pods(client, lambda pods: len(pods) == 1)).values()

    await client.delete(f"{DEFAULT_PODS}/{first['metadata']['name']}")

    pods = await until_pods(client, lambda pods: len(pods) == 1 and f"default/{first['metadata']['name']}" not in pods)
    assert len(pods) == 1


async def test_what_belongs_to_a_deleted_deployment_goes_too(client: Client, workloads: None) -> None:
    await client.create(deployment("web", 3))
    await until_pods(client, lambda pods: len(pods) == 3)

    await client.request("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Background"})

    await until_pods(client, lambda pods: not pods)
    await until(client, REPLICA_SETS, lambda sets: not sets)


async def test_an_owner_that_is_deleted_in_the_foreground_goes_after_its_dependents(
    client: Client, workloads: None
) -> None:
    await client.create(deployment("web", 2))
    await until_pods(client, lambda pods: len(pods) == 2)

    await client.request("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Foreground"})

    await until(client, DEPLOYMENTS, lambda found: not found)
    assert await client.list(REPLICA_SETS) == []


async def test_dependents_of_an_owner_that_is_deleted_with_orphan_stay(client: Client, workloads: None) -> None:
    await client.create(deployment("web", 1))
    await until_pods(client, lambda pods: len(pods) == 1)

    await client.request("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Orphan"})

    await until(client, DEPLOYMENTS, lambda found: not found)
    [left] = await client.list(REPLICA_SETS)
    assert "ownerReferences" not in left["metadata"]


async def test_a_deployment_that_goes_back_to_an_old_template_has_a_new_revision(
    client: Client, workloads: None
) -> None:
    body = deployment("web", 1)
    await client.create(body)
    await until(client, REPLICA_SETS, lambda sets: revisions(sets) == ["1"])
    await client.patch(f"{DEPLOYMENTS}/web", {"spec": {"template": {"metadata": {"labels": {"release": "2"}}}}})
    await until(client, REPLICA_SETS, lambda sets: revisions(sets) == ["1", "2"])

    await client.patch(f"{DEPLOYMENTS}/web", {"spec": {"template": {"metadata": {"labels": {"release": None}}}}})

    await until(client, REPLICA_SETS, lambda sets: revisions(sets) == ["2", "3"])
    await until(client, DEPLOYMENTS, lambda found: revisions(found) == ["3"])


async def test_a_paused_deployment_keeps_its_pods_until_it_is_resumed(client: Client, workloads: None) -> None:
    await client.create(deployment("web", 1))
    await until(client, REPLICA_SETS, lambda sets: revisions(sets) == ["1"])
    changed = {"paused": True, "replicas": 2, "template": {"metadata": {"labels": {"release": "2"}}}}
    await client.patch(f"{DEPLOYMENTS}/web", {"spec": changed})

    pods = await until_pods(client, lambda pods: len(pods) == 2)
    assert all("release" not in pod["metadata"]["labels"] for pod in pods.values())

    await client.patch(f"{DEPLOYMENTS}/web", {"spec": {"paused": False}})
    await until(client, REPLICA_SETS, lambda sets: revisions(sets) == ["1", "2"])


def revisions(objects: Objects) -> list[str]:
    annotations = [body["metadata"].get("annotations") or {} for body in objects.values()]
    return sorted(one.get("deployment.kubernetes.io/revision", "") for one in annotations)


async def test_a_finished_job_goes_after_its_time_to_live(client: Client, workloads: None, nodes: None) -> None:
    body = job("count", ttlSecondsAfterFinished=0)
    body["spec"]["template"]["spec"]["nodeName"] = "n"
    await client.create(body)
    await until_pods(client, lambda pods: len(pods) == 1)
    await until(client, JOBS, lambda found: not found)


async def test_a_job_runs_its_pods_and_is_complete(client: Client, workloads: None, nodes: None) -> None:
    body = job("count", completions=3, parallelism=2)
    body["spec"]["template"]["spec"]["nodeName"] = "n"
    await client.create(body)

    found = await until(client, JOBS, lambda found: is_over(found, "count", "Complete"))

    assert found["default/count"]["status"]["succeeded"] == 3
    assert len(await client.list(DEFAULT_PODS)) == 3


async def test_a_job_whose_pods_fail_too_often_has_failed(client: Client, workloads: None, nodes: None) -> None:
    body = job("count", backoffLimit=1, annotations={EXIT_CODE: "1"})
    body["spec"]["template"]["spec"]["nodeName"] = "n"
    await client.create(body)

    found = await until(client, JOBS, lambda found: is_over(found, "count", "Failed"))

    assert found["default/count"]["status"]["failed"] == 2


def is_over(jobs: Objects, name: str, how: str) -> bool:
    conditions = jobs[f"default/{name}"].get("status", {}).get("conditions", [])
    return any(condition["type"] == how and condition["status"] == "True" for condition in conditions)
