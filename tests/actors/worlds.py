"""What the actors' tests make, and what they look for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from control_plane.client import PODS, Client, Object, key_of

DEFAULT = "/api/v1/namespaces/default"
DEFAULT_PODS = f"{DEFAULT}/pods"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLAIMS = f"{DEFAULT}/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
LIMIT_SECONDS = 60.0

Objects = Mapping[str, Object]


async def until(client: Client, path: str, holds: Callable[[Objects], bool]) -> dict[str, Object]:
    """The objects of a collection, once they are as expected."""
    return await client.wait_until(path, holds, timeout_seconds=LIMIT_SECONDS)


async def until_pods(client: Client, holds: Callable[[Objects], bool]) -> dict[str, Object]:
    return await until(client, PODS, holds)


async def by_key(client: Client, path: str) -> dict[str, Object]:
    """The objects of a collection as they are now."""
    return {key_of(body): body for body in await client.list(path)}


def phases(pods: Objects) -> list[str]:
    return sorted(str(pod["status"]["phase"]) for pod in pods.values())


def all_in_phase(phase: str, count: int) -> Callable[[Objects], bool]:
    return lambda pods: phases(pods) == [phase] * count


async def bind(client: Client, name: str, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": "default"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await client.request("POST", f"{DEFAULT_PODS}/{name}/binding", body)


def template(**spec: Any) -> Object:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:v1"}], **spec},
    }


def deployment(name: str, replicas: int, **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            **spec,
        },
    }


def job(name: str, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
    pod = template(restartPolicy="Never")
    pod["metadata"]["annotations"] = dict(annotations or {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": pod, **spec},
    }


def budget(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def storage_class(name: str, mode: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/disk",
        "volumeBindingMode": mode,
        "reclaimPolicy": "Delete",
    }


def claim(name: str, storage_class_name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class_name,
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }
