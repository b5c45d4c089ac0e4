"""Plain nodes and pods, for benchmarks that are not about what pods ask for."""

from __future__ import annotations

from control_plane.client import Object


def make_node(number: int) -> Object:
    name = f"node-{number}"
    room = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def make_pod(number: int, scheduler_name: str) -> Object:
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "main", "image": "example.com/plain", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"plain-{number}", "namespace": "default", "labels": {"app": "plain"}},
        "spec": {"schedulerName": scheduler_name, "containers": [container]},
    }


def placed_pod(number: int, nodes: int) -> Object:
    """One of another scheduler, on the nodes in turn."""
    body = make_pod(number, "somebody-else")
    body["metadata"]["name"] = f"placed-{number}"
    body["spec"]["nodeName"] = f"node-{number % nodes}"
    return body
