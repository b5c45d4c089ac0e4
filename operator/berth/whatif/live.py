"""The objects of a cluster, listed once with the user's own rights; nothing is written."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.kube_config import list_kube_config_contexts

from berth.cluster.api import Api
from berth.cluster.credentials import DEFAULT_KUBECONFIG, Source
from berth.cluster.errors import ApiError
from berth.cluster.listing import WatchedResource, list_each
from berth.cluster.resources import RESOURCES
from berth.snapshots.reading import FOR_NEW_PODS
from berth.whatif.cluster_objects import ClusterObjects
from berth.whatif.errors import CannotSimulate
from berth.whatif.workloads import GROUPS, Workload

# Workloads are not listed: of thousands of templates only those are read that are scaled.
WORKLOADS: Final = {
    each.kind: each for each in (*RESOURCES, *FOR_NEW_PODS) if each.kind in GROUPS and each.kind != "Pod"
}
# A user who may not list these can still place pods that need none of them.
CLASSES: Final = tuple(each for each in FOR_NEW_PODS if each.kind not in WORKLOADS)


async def read_cluster(api: Api, scaled: Iterable[Workload], tell: Callable[[str], None]) -> ClusterObjects:
    """Returns what the cluster has, and the `scaled` workloads. Raises CannotSimulate, ApiError or Unreachable.

    `tell` is called with what is read next.
    """
    objects = ClusterObjects()
    for resource in RESOURCES:
        tell(f"reading {resource.plural}")
        try:
            await list_each(api, resource, _taker(objects, resource))
        except ApiError as error:
            raise _refused(error, resource.plural) from error
    for resource in CLASSES:
        try:
            await list_each(api, resource, _taker(objects, resource))
        except ApiError as error:
            if error.status != 403:
                raise
            objects.not_allowed.add(resource.kind)
    for workload in scaled:
        await _take_workload(api, workload, objects)
    return objects


def context_namespace(source: Source) -> str:
    """Returns the namespace of the kubeconfig's context, as kubectl uses it; `default` without one."""
    paths = source.kubeconfig or os.environ.get("KUBECONFIG") or str(Path(DEFAULT_KUBECONFIG).expanduser())
    try:
        contexts, current = list_kube_config_contexts(paths)
    except (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        return "default"  # opening the connection says what is wrong
    chosen = [each for each in contexts if each.get("name") == source.context] if source.context else [current]
    details = chosen[0].get("context") if chosen and chosen[0] else None
    return str((details or {}).get("namespace") or "default")


def _taker(objects: ClusterObjects, resource: WatchedResource) -> Callable[[Mapping[str, Any]], None]:
    """Returns what takes an item of a list in. Of owners only what decisions read is kept: a cluster has thousands."""
    identity = {"apiVersion": resource.api_version, "kind": resource.kind}
    if resource.kind not in WORKLOADS:
        return lambda item: objects.take({**item, **identity})

    def take_owner(item: Mapping[str, Any]) -> None:
        objects.cache.observe(resource.kind, item)
        objects.take_controller(resource.kind, item)

    return take_owner


async def _take_workload(api: Api, workload: Workload, objects: ClusterObjects) -> None:
    resource = WORKLOADS[workload.kind]
    try:
        _, body = await api.request("GET", resource.object_path(f"{workload.namespace}/{workload.name}"))
    except ApiError as error:
        if error.status == 404:
            raise CannotSimulate(f"--scale: there is no {workload}: check the name, and the namespace (-n)") from error
        raise _refused(error, str(workload)) from error
    objects.take({**body, "apiVersion": resource.api_version, "kind": resource.kind})


def _refused(error: ApiError, what: str) -> Exception:
    if error.status != 403:
        return error
    way_out = "ask an administrator for the right to read it, or simulate on a snapshot (--snapshot FILE)"
    return CannotSimulate(f"{what}: you may not read this: {error.message}; {way_out}")
