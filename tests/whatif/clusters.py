"""Small clusters for the tests of simulations, and the questions that are put to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from berth.whatif.cluster_objects import ClusterObjects
from berth.whatif.result import Result, WorkloadResult
from berth.whatif.scaling import Scale
from berth.whatif.simulation import NodesLike, Question, simulate
from berth.whatif.workloads import Workload
from support.builders import Body, make_node, make_pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def zoned_node(name: str, zone: str, **more: Any) -> Body:
    labels = {ZONE: zone, HOSTNAME: name, **more.pop("labels", {})}
    return make_node(name, labels=labels, **more)


def zoned_nodes(each: int = 1, zones: str = "abc", **more: Any) -> list[Body]:
    """Nodes a-0, a-1, b-0 and so on."""
    return [zoned_node(f"{zone}-{number}", zone, **more) for zone in zones for number in range(each)]


def make_deployment(name: str, replicas: int = 1, *, labels: Body | None = None, **pod: Any) -> Body:
    return _workload("apps/v1", "Deployment", name, labels, pod, replicas=replicas)


def make_stateful_set(name: str, replicas: int = 1, *, claims: Iterable[Body] = (), **pod: Any) -> Body:
    more = {"volumeClaimTemplates": list(claims)} if claims else {}
    return _workload("apps/v1", "StatefulSet", name, None, pod, replicas=replicas, serviceName=name, **more)


def make_daemon_set(name: str, **pod: Any) -> Body:
    return _workload("apps/v1", "DaemonSet", name, None, pod)


def make_job(name: str, **more: Any) -> Body:
    """`pod`: what its pods ask for; all else goes into the spec."""
    body = _workload("batch/v1", "Job", name, None, more.pop("pod", {}), **more)
    del body["spec"]["selector"]
    body["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return body


def make_cron_job(name: str, **more: Any) -> Body:
    job = make_job(name, **more)
    spec = {"schedule": "0 * * * *", "jobTemplate": {"spec": job["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": job["metadata"], "spec": spec}


def _workload(version: str, kind: str, name: str, labels: Body | None, pod: Body, **spec: Any) -> Body:
    labels = labels or {"app": name}
    template = {"metadata": {"labels": labels}, "spec": make_pod("x", **pod)["spec"]}
    priority = template["spec"].pop("priority", None)
    assert priority is None, "the API server sets it: name a priorityClassName"
    spec = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def priority_class(name: str, value: int, **more: Any) -> Body:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def replica_set(deployment: str, labels: Body | None = None) -> Body:
    """The ReplicaSet of a Deployment that the cluster has."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": deployment, "controller": True}
    metadata = {"name": f"{deployment}-1", "namespace": "default", "uid": f"{deployment}-1", "ownerReferences": [owner]}
    spec = {"selector": {"matchLabels": labels or {"app": deployment}}}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def owned_pod(owner: str, number: int | str, node: str = "", *, kind: str = "ReplicaSet", **more: Any) -> Body:
    """A pod of a controller: of `replica_set(owner)`, or of one of another kind."""
    name = f"{owner}-1" if kind == "ReplicaSet" else owner
    version = "v1" if kind == "Node" else "apps/v1"
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}
    more.setdefault("labels", {"app": owner})
    return make_pod(f"{name}-{number}", node=node, owner=reference, **more)


def budget(name: str, app: str, allowed: int) -> Body:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def cluster(*bodies: Body | Iterable[Body]) -> ClusterObjects:
    objects = ClusterObjects()
    for each in bodies:
        for body in [each] if isinstance(each, dict) else each:
            objects.take(body)
    assert not objects.cache.invalid
    return objects


def ask(objects: ClusterObjects, *manifests: Body, **question: Any) -> Result:
    """The answer; `scale` is name to number of a Deployment, `add` is node to count."""
    scales = [Scale(_deployment(name), number) for name, number in question.pop("scale", {}).items()]
    added = [NodesLike(node, count) for node, count in question.pop("add", {}).items()]
    return simulate(objects, Question(manifests=manifests, scales=scales, added=added, **question))


def _deployment(name: str) -> Workload:
    kind, _, rest = name.rpartition("/")
    return Workload(kind or "Deployment", "default", rest)


def workload(result: Result, name: str) -> WorkloadResult:
    [found] = [each for each in result.workloads if each.workload.name == name]
    return found


def places(result: Result) -> dict[str, str]:
    """Node by pod name, "" for those that stay pending."""
    return {entry.pod.name: entry.node for entry in result.entries if entry.departure is None}


def nodes_of(result: Result, name: str) -> dict[str, int]:
    """How many pods of a workload are on each node in the end."""
    return dict(sorted(workload(result, name).after.nodes.items()))
