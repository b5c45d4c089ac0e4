"""Lists of objects in pages: who is there, at which version of the world; as metadata only, or whole.

The API server sends PartialObjectMetadata when asked to; a server or an aggregated API that cannot answers with whole
objects, of which the metadata is used. A page token that has expired (410) starts the list again from the beginning.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from berth.cluster.api import JSON, Api
from berth.cluster.errors import ApiError
from berth.scheduler.versions import version_number

Json = dict[str, Any]
Kept = TypeVar("Kept")

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
PAGE = 500
METADATA_PAGE = 2000  # a new leader waits for these lists; decoding a page takes some 20 ms
RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the API server serves it. `field_selector` is the watch's, or the two would never agree."""

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool
    field_selector: str = ""

    @property
    def path(self) -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/{self.plural}"

    def object_path(self, key: str) -> str:
        """The path of one object by its key, `namespace/name` or `name`."""
        if not self.namespaced:
            return f"{self.path}/{key}"
        namespace, name = key.split("/", 1)
        return f"{self.path.removesuffix(self.plural)}namespaces/{namespace}/{self.plural}/{name}"


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything that existed at one version of the world, by UID."""

    objects: Mapping[str, str]  # the key, `namespace/name` or `name`
    version: str
    versions: Mapping[str, int]  # the resourceVersion, of those that can be compared
    is_served: bool = True


async def list_metadata(api: Api, resource: Resource) -> Listing:
    """Who exists now; an API that is not there (404) has nobody. Raises ApiError or Unreachable."""
    found = await _list(api, resource, METADATA_ONLY, _identify, METADATA_PAGE)
    if found is None:
        return Listing({}, "", {}, is_served=False)
    each, version = found
    versions = {uid: number for uid, _, number in each if number is not None}
    return Listing({uid: key for uid, key, _ in each}, version, versions)


async def list_objects(api: Api, resource: Resource) -> list[Json]:
    """Every object as it is; an API that is not there (404) has none. Raises ApiError or Unreachable."""
    found = await _list(api, resource, JSON, lambda item: item, PAGE)
    return [] if found is None else found[0]


async def _list(
    api: Api, resource: Resource, accept: str, keep: Callable[[Json], Kept], page: int
) -> tuple[list[Kept], str] | None:
    """What is to be kept of the items, and their version of the world; None where the API is not there."""
    for _ in range(RESTARTS):
        try:
            return await _list_once(api, resource, accept, keep, page)
        except ApiError as error:
            if error.status == 404:
                return None
            if error.status != 410:
                raise
    return await _list_once(api, resource, accept, keep, page)


async def _list_once(
    api: Api, resource: Resource, accept: str, keep: Callable[[Json], Kept], size: int
) -> tuple[list[Kept], str]:
    query = {"limit": str(size)}
    if resource.field_selector:
        query["fieldSelector"] = resource.field_selector
    kept: list[Kept] = []
    while True:
        _, page = await api.request("GET", resource.path, query=query, accept=accept)
        kept += map(keep, page.get("items") or ())
        metadata = page.get("metadata") or {}
        if not metadata.get("continue"):
            return kept, str(metadata.get("resourceVersion") or "")
        query["continue"] = metadata["continue"]


def _identify(item: Json) -> tuple[str, str, int | None]:
    """UID, key and version; the rest of the metadata of a large cluster would take hundreds of megabytes."""
    metadata = item["metadata"]
    namespace, name = metadata.get("namespace"), str(metadata["name"])
    key = f"{namespace}/{name}" if namespace else name
    return str(metadata["uid"]), key, version_number(metadata.get("resourceVersion"))
