"""Clusters for the engine's benchmarks, as records that were parsed from API objects.

Nodes are of four sizes, in zones (blocks of neighbours) and racks of 40, each with a hostname, a disk and an instance
label; one in twenty is tainted. There is a Deployment for every ten nodes, each with labels, an image and requests of
its own, and its hundred pods lie on as many nodes, evenly over the zones: ten pods on each node, so that small nodes
are three quarters full and big ones nearly empty. Of ten Deployments one carries preferred anti-affinity to itself
and, of twenty, one required. A node has the images of its pods, and every Deployment has its ReplicaSet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from berth.engine.state.state import State
from berth.model import Node, Pod, WorkloadOwner, parse_node, parse_pod, parse_replica_set

Body = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
RACK = "example.com/rack"
PODS_PER_NODE = 10
NOMINATED = 1000
NOMINATED_PRIORITY = 1000
NODES_PER_DEPLOYMENT = 10
NODES_PER_RACK = 40
CORES = (4, 8, 16, 32)
GIBIBYTES_PER_CORE = 4


@dataclass(frozen=True, slots=True)
class World:
    """Nodes, pods with the node that each is on, the ReplicaSet of each Deployment, nominated pods and their nodes."""

    nodes: Sequence[Node]
    pods: Sequence[tuple[Pod, str]]
    replica_sets: Sequence[WorkloadOwner]
    nominated: Sequence[tuple[Pod, str]] = ()

    def state(self) -> State:
        """A new state that holds this and nothing else, so that one case does not warm up another."""
        state = State()
        for node in self.nodes:
            state.table.set_node(node)
        for owner in self.replica_sets:
            state.put("ReplicaSet", f"{owner.namespace}/{owner.name}", owner)
        for pod, node_name in self.pods:
            state.table.add_pod(pod, node_name)
        for pod, node_name in self.nominated:
            state.nominate(pod, node_name)
        return state


def zones_of(nodes: int) -> int:
    """3 in a small cluster, 10 in a big one."""
    return min(max(3, nodes // 1000), 10)


def roomy(nodes: int) -> World:
    """The cluster of this module's docstring."""
    return World([_node(number, nodes) for number in range(nodes)], list(_pods(nodes)), _replica_sets(nodes))


def preempting(nodes: int) -> World:
    """The same with 1,000 pods of the Deployments nominated to as many nodes, evenly over the cluster, as after a mass
    preemption. One in three carries required anti-affinity to its own, one in three holds a host port.
    """
    return replace(roomy(nodes), nominated=list(_nominated(nodes)))


def empty(nodes: int) -> World:
    """The nodes alone."""
    return World([_node(number, nodes) for number in range(nodes)], (), ())


def full(nodes: int) -> World:
    """The same with every node's processors taken by its pods, all of priorities below 100: only preemption helps."""
    made = [_node(number, nodes) for number in range(nodes)]
    pods = [(_filling(number, place, nodes), made[number].name) for number, place in _places(nodes)]
    return World(made, pods, _replica_sets(nodes))


def labels_of(deployment: int) -> dict[str, str]:
    return {"app": f"app-{deployment}", "pod-template-hash": f"{deployment * 2654435761 % 2**32:08x}"}


def pod_body(name: str, *, cpu_millicores: int, labels: Mapping[str, str], image: str, **spec: Any) -> Body:
    requests = {"cpu": f"{cpu_millicores}m", "memory": "256Mi"}
    container = {"name": "main", "image": image, "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": dict(labels)},
        "spec": {"schedulerName": "berth", "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


def owner_of(deployment: int) -> Body:
    """The reference of a pod to its ReplicaSet."""
    name = f"app-{deployment}"
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{name}", "controller": True}


def _replica_sets(nodes: int) -> list[WorkloadOwner]:
    return [_replica_set(deployment) for deployment in range(nodes // NODES_PER_DEPLOYMENT)]


def _replica_set(deployment: int) -> WorkloadOwner:
    metadata = {"name": f"app-{deployment}", "namespace": "default", "uid": f"uid-app-{deployment}"}
    spec = {"selector": {"matchLabels": labels_of(deployment)}}
    return parse_replica_set({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})


def image_of(deployment: int) -> str:
    return f"example.com/app-{deployment}:v1"


def term(labels: Mapping[str, str], topology_key: str) -> Body:
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": topology_key}


def anti_affinity(labels: Mapping[str, str], *, required: bool, topology_key: str = HOSTNAME) -> Body:
    if required:
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(labels, topology_key)]}}
    weighted = {"weight": 100, "podAffinityTerm": term(labels, topology_key)}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def spread(labels: Mapping[str, str], topology_key: str, max_skew: int, *, hard: bool) -> Body:
    return {
        "maxSkew": max_skew,
        "topologyKey": topology_key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(labels)},
    }


def _node(number: int, nodes: int) -> Node:
    name, cores = f"node-{number}", CORES[number % len(CORES)]
    room = {"cpu": str(cores), "memory": f"{cores * GIBIBYTES_PER_CORE}Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    labels = {
        HOSTNAME: name,
        ZONE: f"zone-{number * zones_of(nodes) // nodes}",
        RACK: f"rack-{number // NODES_PER_RACK}",
        "example.com/disk": ("ssd", "hdd")[number // 7 % 2],
        "node.kubernetes.io/instance-type": f"type-{cores}",
    }
    tainted = number % 20 == 19
    images = [
        {"names": [image_of(_deployment(number, place, nodes))], "sizeBytes": 200_000_000}
        for place in range(PODS_PER_NODE)
    ]
    return parse_node(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
            "spec": {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]} if tainted else {},
            "status": {"allocatable": room, "capacity": room, "images": images},
        }
    )


def _places(nodes: int) -> Iterator[tuple[int, int]]:
    return ((number, place) for number in range(nodes) for place in range(PODS_PER_NODE))


def _deployment(number: int, place: int, nodes: int) -> int:
    return (number * PODS_PER_NODE + place) % (nodes // NODES_PER_DEPLOYMENT)


def _pods(nodes: int) -> Iterator[tuple[Pod, str]]:
    for number, place in _places(nodes):
        deployment = _deployment(number, place, nodes)
        labels, spec = labels_of(deployment), {}
        if deployment % 10 == 3:
            spec["affinity"] = anti_affinity({"app": labels["app"]}, required=False)
        elif deployment % 20 == 7:
            spec["affinity"] = anti_affinity({"app": labels["app"]}, required=True)
        body = pod_body(
            f"placed-{number}-{place}",
            cpu_millicores=100 + 100 * (deployment % 5),
            labels=labels,
            image=image_of(deployment),
            nodeName=f"node-{number}",
            **spec,
        )
        yield parse_pod(body), f"node-{number}"


def _nominated(nodes: int) -> Iterator[tuple[Pod, str]]:
    for count in range(NOMINATED):
        deployment = count % (nodes // NODES_PER_DEPLOYMENT)
        labels = labels_of(deployment)
        body = pod_body(
            f"nominated-{count}",
            cpu_millicores=100,
            labels=labels,
            image=image_of(deployment),
            priority=NOMINATED_PRIORITY,
        )
        if count % 3 == 0:
            body["spec"]["affinity"] = anti_affinity({"app": labels["app"]}, required=True)
        elif count % 3 == 1:
            body["spec"]["containers"][0]["ports"] = host_ports(deployment)
        yield parse_pod(body), f"node-{count * nodes // NOMINATED}"


def host_ports(deployment: int) -> list[Body]:
    """One of ten ports, so that pods of other Deployments hold the same."""
    return [{"containerPort": 80, "hostPort": 8000 + deployment % 10}]


def _filling(number: int, place: int, nodes: int) -> Pod:
    deployment = _deployment(number, place, nodes)
    body = pod_body(
        f"placed-{number}-{place}",
        cpu_millicores=1000 * CORES[number % len(CORES)] // PODS_PER_NODE,
        labels=labels_of(deployment),
        image=image_of(deployment),
        nodeName=f"node-{number}",
        priority=10 * (deployment % 10),
    )
    body["status"] = {"phase": "Running", "startTime": f"2026-01-01T{place:02d}:{number % 60:02d}:00Z"}
    return parse_pod(body)
