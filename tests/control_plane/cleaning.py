"""Empties a cluster between tests: everything that a test or Berth may have made goes, and we wait until it is gone.

No controller-manager runs, so nobody removes the finalizers of claims and namespaces: that is done here. What the API
server makes for itself stays: the namespaces default and kube-*, the service kubernetes, system priority classes.
"""

from __future__ import annotations

import asyncio

from control_plane.client import NAMESPACES, NODES, PODS, POLICIES, ApiError, Client, Object, path_of

GONE_SECONDS = 120.0
OWN_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})

EVENTS = "/apis/events.k8s.io/v1/events"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PEERINGS = "/apis/kopf.dev/v1/clusterkopfpeerings"
COLLECTIONS = (
    PODS,  # first: others may be held by them
    "/api/v1/persistentvolumeclaims",
    "/api/v1/replicationcontrollers",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/policy/v1/poddisruptionbudgets",
    NODES,
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/csistoragecapacities",
    EVENTS,
)


async def remove_everything(api: Client) -> None:
    for path in COLLECTIONS:
        await _empty(api, path)
    await _remove_policies(api)
    await _remove_peerings(api)
    await _remove_priority_classes(api)
    await _remove_services(api)
    await _remove_namespaces(api)


async def remove_pods(api: Client) -> None:
    """The pods of every namespace, and the events about them."""
    await _empty(api, PODS)
    await _empty(api, EVENTS)


async def _empty(api: Client, everywhere: str) -> None:
    """Delete what a list over all namespaces shows, until it shows nothing."""
    async with asyncio.timeout(GONE_SECONDS):
        while items := await api.list(everywhere):
            for path in {_collection_with(everywhere, item) for item in items}:
                await api.delete_collection(path)
            await _strip_finalizers(api, everywhere, [item for item in items if item["metadata"].get("finalizers")])


def _collection_with(everywhere: str, item: Object) -> str:
    """The collection that an item of a list over all namespaces can be deleted with."""
    prefix, _, plural = everywhere.rpartition("/")
    namespace = item["metadata"].get("namespace", "")
    return f"{prefix}/namespaces/{namespace}/{plural}" if namespace else everywhere


async def _strip_finalizers(api: Client, everywhere: str, items: list[Object]) -> None:
    for item in items:
        path = f"{_collection_with(everywhere, item)}/{item['metadata']['name']}"
        try:
            await api.patch(path, {"metadata": {"finalizers": None}})
        except ApiError as error:
            if error.status != 404:
                raise


async def _remove_policies(api: Client) -> None:
    try:
        await _empty(api, POLICIES)
    except ApiError as error:
        if error.status != 404:  # 404: the custom resource is not defined here
            raise


async def _remove_services(api: Client) -> None:
    """One by one: deleting the collection would take the API server's own."""
    for body in await api.list("/api/v1/services"):
        if body["metadata"]["name"] != "kubernetes":
            await api.delete(path_of({"apiVersion": "v1", "kind": "Service", **body}))


async def _remove_peerings(api: Client) -> None:
    """The kind may not be defined."""
    try:
        await _empty(api, PEERINGS)
    except ApiError as error:
        if error.status != 404:
            raise


async def _remove_priority_classes(api: Client) -> None:
    """One by one, as the API server makes those of the system only when it starts."""
    for body in await api.list(PRIORITY_CLASSES):
        if not body["metadata"]["name"].startswith("system-"):
            await api.delete(f"{PRIORITY_CLASSES}/{body['metadata']['name']}")


async def _remove_namespaces(api: Client) -> None:
    """Delete, and finalize as the namespace controller would."""
    for name in {str(body["metadata"]["name"]) for body in await api.list(NAMESPACES)} - OWN_NAMESPACES:
        await api.delete(f"{NAMESPACES}/{name}")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}}
        try:
            await api.request("PUT", f"{NAMESPACES}/{name}/finalize", body)
        except ApiError as error:
            if error.status != 404:
                raise
