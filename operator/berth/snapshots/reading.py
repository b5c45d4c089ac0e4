"""A snapshot of a cluster: everything is listed once, with the rights of the user, and nothing is written."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from berth.cluster.api import Api
from berth.cluster.errors import ApiError
from berth.cluster.listing import WatchedResource, list_objects
from berth.cluster.resources import RESOURCES
from berth.snapshots.trimming import trimmed

Body = dict[str, Any]

# No decision reads these, but new pods depend on them: `berth simulate` creates some. Without the right to list them a
# snapshot is still complete for explanations.
FOR_NEW_PODS: Final = (
    WatchedResource("PriorityClass", "scheduling.k8s.io", "v1", "priorityclasses", namespaced=False),
    WatchedResource("RuntimeClass", "node.k8s.io", "v1", "runtimeclasses", namespaced=False),
    WatchedResource("LimitRange", "", "v1", "limitranges", namespaced=True),
    WatchedResource("Deployment", "apps", "v1", "deployments", namespaced=True),
    WatchedResource("Job", "batch", "v1", "jobs", namespaced=True),
)


class MayNotRead(Exception):
    """The user may not list something that decisions read; the message says what to do."""


@dataclass(slots=True)
class Snapshot:
    """The objects, each with apiVersion and kind; `left_out`: kinds that the user may not list, and need not."""

    items: list[Body] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


async def read_snapshot(api: Api, tell: Callable[[str], None], *, for_new_pods: bool = True) -> Snapshot:
    """Returns the objects of the cluster, trimmed; raises MayNotRead, ApiError or Unreachable.

    `tell` is called with what is read next, and with "" at the end.
    """
    snapshot = Snapshot()
    for resource in RESOURCES:
        tell(f"reading {resource.plural}")
        try:
            snapshot.items += await _list(api, resource)
        except ApiError as error:
            raise _refused(error, resource) from error
    for resource in FOR_NEW_PODS if for_new_pods else ():
        try:
            snapshot.items += await _list(api, resource)
        except ApiError as error:
            if error.status != 403:
                raise
            snapshot.left_out.append(resource.kind)
    tell("")
    return snapshot


async def _list(api: Api, resource: WatchedResource) -> list[Body]:
    identity = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [trimmed({**identity, **body, **identity}) for body in await list_objects(api, resource)]


def _refused(error: ApiError, resource: WatchedResource) -> Exception:
    if error.status != 403:
        return error
    return MayNotRead(
        f"you may not list {resource.plural} ({error.message}): ask an administrator to install Berth's API of "
        "explanations, or for a snapshot (berth snapshot), and use --snapshot FILE"
    )
