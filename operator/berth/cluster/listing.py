"""Lists of objects, metadata only, in pages: who is there, at which version of the world.

The API server sends PartialObjectMetadata when asked to; a server or an aggregated API that cannot answers with whole
objects, of which the metadata is used. A page token that has expired (410) starts the list again from the beginning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from berth.cluster.api import Api
from berth.cluster.errors import ApiError

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
PAGE = 500
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
    """UID to key (`namespace/name` or `name`) of everything that existed at one version of the world."""

    objects: Mapping[str, str]
    version: str
    is_served: bool = True


async def list_metadata(api: Api, resource: Resource) -> Listing:
    """Who exists now; an API that is not there (404) has nobody. Raises ApiError or Unreachable."""
    for _ in range(RESTARTS):
        try:
            return await _list_once(api, resource)
        except ApiError as error:
            if error.status == 404:
                return Listing({}, "", is_served=False)
            if error.status != 410:
                raise
    return await _list_once(api, resource)


async def _list_once(api: Api, resource: Resource) -> Listing:
    query = {"limit": str(PAGE)}
    if resource.field_selector:
        query["fieldSelector"] = resource.field_selector
    objects: dict[str, str] = {}
    while True:
        _, page = await api.request("GET", resource.path, query=query, accept=METADATA_ONLY)
        for item in page.get("items") or ():
            uid, key = _identify(item["metadata"])
            objects[uid] = key
        metadata = page.get("metadata") or {}
        if not metadata.get("continue"):
            return Listing(objects, str(metadata.get("resourceVersion") or ""))
        query["continue"] = metadata["continue"]


def _identify(metadata: Mapping[str, Any]) -> tuple[str, str]:
    namespace, name = metadata.get("namespace"), str(metadata["name"])
    return str(metadata["uid"]), f"{namespace}/{name}" if namespace else name
