"""Lists of objects in pages: who is there, at which version of the world; as metadata only, or whole.

The API server sends PartialObjectMetadata when asked to; a server or an aggregated API that cannot answers with whole
objects, of which the metadata is used. A page token that has expired (410) starts the list again from the beginning.

A list is an answer that has the form of one, on every page: the kind and apiVersion that were asked for, a
resourceVersion that is the same on all pages, and items of which each has a name and a UID. Everything else raises
`Malformed`, because it proves nothing: a page of a proxy, `{}`, half a list, a list of another kind.

A 404 is no proof either that a kind is not served: a load balancer that reloads answers with one. Discovery is asked,
whose answers are checked in the same way; only a server that lists the group's resources without this one, or its
groups without this version, does not serve the kind. What it does serve and does not list is an error.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from berth.cluster.api import JSON, Api
from berth.cluster.errors import ApiError, Malformed
from berth.scheduler.object_events import Identity, identify, version_number

Json = dict[str, Any]
Kept = TypeVar("Kept")

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
METADATA_KIND = ("PartialObjectMetadataList", "meta.k8s.io/v1")
PAGE = 500
SAMPLE = 500
METADATA_PAGE = 500  # decoding a page takes some 5 ms, and everything else waits for it
PART = 8192  # objects that are looked at in one step of the event loop
RESTARTS = 3
LIST_SECONDS = 30.0  # for each page


@dataclass(frozen=True, slots=True)
class WatchedResource:
    """One kind as the API server serves it. `field_selector` is the watch's, or the two would never agree."""

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool
    field_selector: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of the group and version, where discovery tells what they have."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def path(self) -> str:
        return f"{self.root}/{self.plural}"

    def object_path(self, key: str) -> str:
        """The path of one object by its key, `namespace/name` or `name`."""
        if not self.namespaced:
            return f"{self.path}/{key}"
        namespace, _, name = key.partition("/")
        return f"{self.root}/namespaces/{namespace}/{self.plural}/{name}"


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything that existed at one version of the world, by UID."""

    objects: Mapping[str, str]  # the key, `namespace/name` or `name`
    version: str
    versions: Mapping[str, int]  # the resourceVersion, of those that can be compared
    is_served: bool = True
    is_sample: bool = False  # there are more, which were not asked for

    @property
    def number(self) -> int:
        """The version to compare; 0 where it cannot be."""
        return version_number(self.version) or 0


@dataclass(slots=True)
class ListInProgress:
    """A list of the watch that is being handed over (`bulk`), and what was known when it began."""

    kind: str
    before: Mapping[str, str]  # UID to key
    newest: int  # the greatest version that was reported of the kind, or that a list was of
    each: list[Identity] = field(default_factory=list)
    version: str = ""
    token: str = ""  # of the next page
    is_sound: bool = True  # it has everything that a list has to have, so far

    def begin_page(self, metadata: Mapping[str, Any], *, is_first: bool) -> None:
        """The next page has this metadata. Pages of different versions, or without the first one, are no list."""
        if is_first is bool(self.version) or (self.version and metadata["resourceVersion"] != self.version):
            self.is_sound = False
        self.version, self.token = metadata["resourceVersion"], str(metadata.get("continue") or "")

    def note(self, identity: Identity) -> None:
        """The list has this object."""
        self.each.append(identity)

    def discard(self) -> None:
        """Not everything on it is an object, or was handed over: it proves nothing."""
        self.is_sound = False

    async def listing(self) -> Listing:
        return await _as_listing(self.each, self.version)


async def list_metadata(
    api: Api, resource: WatchedResource, *, timeout_seconds: float = LIST_SECONDS, sample: bool = False
) -> Listing:
    """Who exists now; an API that is not served has nobody. Raises ApiError, Unreachable or Malformed.

    `sample`: no more than the first page.
    """
    size = SAMPLE if sample else METADATA_PAGE
    found = await _list(api, resource, METADATA_ONLY, _identify, size, timeout_seconds, sample=sample)
    if found is None:
        return Listing({}, "", {}, is_served=False)
    each, version, is_complete = found
    return await _as_listing(each, version, is_sample=not is_complete)


async def _as_listing(each: Sequence[Identity], version: str, *, is_sample: bool = False) -> Listing:
    """Built in parts: of 50,000 objects it takes longer than a step of the event loop may."""
    objects: dict[str, str] = {}
    versions: dict[str, int] = {}
    for begin in range(0, len(each), PART):
        await asyncio.sleep(0)
        part = each[begin : begin + PART]
        objects.update((uid, key) for uid, key, _ in part)
        versions.update((uid, number) for uid, _, number in part if number is not None)
    await asyncio.sleep(0)
    return Listing(objects, version, versions, is_sample=is_sample)


async def list_objects(api: Api, resource: WatchedResource) -> list[Json]:
    """Every object as it is; an API that is not served has none. Raises ApiError, Unreachable or Malformed."""
    found = await _list(api, resource, JSON, lambda item: item, PAGE, LIST_SECONDS)
    return [] if found is None else found[0]


async def list_each(api: Api, resource: WatchedResource, take: Callable[[Json], None]) -> None:
    """Calls `take` with every object, page by page, so that no more than a page is held. Raises as `list_objects`.

    If a list starts again because its pages have expired, objects are taken twice.
    """
    await _list(api, resource, JSON, take, PAGE, LIST_SECONDS)


async def version_now(api: Api, resource: WatchedResource) -> int:
    """The version that the store of the kind has come to; 0 where it cannot be compared. Raises as the lists do."""
    _, page = await api.request("GET", resource.path, query={"limit": "1"}, accept=METADATA_ONLY)
    _, metadata = _check_page(page, resource, METADATA_ONLY)
    return version_number(metadata["resourceVersion"]) or 0


async def is_served(api: Api, resource: WatchedResource) -> bool:
    """Whether discovery has the kind. Raises ApiError, Unreachable or Malformed where it does not tell."""
    try:
        _, body = await api.request("GET", resource.root)
    except ApiError as error:
        if error.status != 404 or not resource.group:  # the core group is always there
            raise
        return await _has_version(api, resource)
    names = _names(body, "APIResourceList", "resources")
    if body.get("groupVersion") != resource.api_version:
        raise Malformed(f"the answer about {resource.api_version} is about something else")
    return resource.plural in names


async def _has_version(api: Api, resource: WatchedResource) -> bool:
    """Whether the server has the group in this version; then its resources should have been listed, and were not."""
    _, body = await api.request("GET", "/apis")
    names = _names(body, "APIGroupList", "groups")
    if resource.group not in names:
        return False
    for group in body["groups"]:
        versions = group.get("versions")
        if group["name"] == resource.group and isinstance(versions, list):
            if not any(isinstance(each, dict) and each.get("version") == resource.version for each in versions):
                return False
            raise Malformed(f"{resource.api_version} is served, and its resources are not listed")
    raise Malformed(f"the versions of {resource.group} are not listed")


def _names(body: Json, kind: str, field: str) -> set[str]:
    """The names in an answer of discovery."""
    entries = body.get(field)
    if body.get("kind") != kind or not isinstance(entries, list):
        raise Malformed(f"the answer is not of kind {kind}")
    if not all(isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries):
        raise Malformed(f"the {kind} has entries without a name")
    return {entry["name"] for entry in entries}


async def _list(
    api: Api,
    resource: WatchedResource,
    accept: str,
    keep: Callable[[Json], Kept],
    size: int,
    seconds: float,
    *,
    sample: bool = False,
) -> tuple[list[Kept], str, bool] | None:
    """What is to be kept of the items, their version of the world and whether these are all; None where the API is not
    served.
    """
    for _ in range(RESTARTS):
        try:
            return await _list_once(api, resource, accept, keep, size, seconds, sample)
        except ApiError as error:
            if error.status == 404 and not await is_served(api, resource):
                return None
            if error.status != 410:
                raise
    return await _list_once(api, resource, accept, keep, size, seconds, sample)


async def _list_once(
    api: Api,
    resource: WatchedResource,
    accept: str,
    keep: Callable[[Json], Kept],
    size: int,
    seconds: float,
    sample: bool,
) -> tuple[list[Kept], str, bool]:
    query = {"limit": str(size)}
    if resource.field_selector:
        query["fieldSelector"] = resource.field_selector
    kept: list[Kept] = []
    version = ""
    while True:
        _, page = await api.request("GET", resource.path, query=query, accept=accept, timeout_seconds=seconds)
        items, metadata = _check_page(page, resource, accept)
        if version and metadata["resourceVersion"] != version:
            raise Malformed(f"the pages of the list of {resource.plural} are of different versions")
        version = metadata["resourceVersion"]
        kept += map(keep, items)
        is_complete = not metadata.get("continue")
        if is_complete or sample:
            return kept, version, is_complete
        query["continue"] = metadata["continue"]


def _check_page(page: Json, resource: WatchedResource, accept: str) -> tuple[list[Json], Json]:
    """The items and the metadata of a page that has the form of one."""
    kinds = [(f"{resource.kind}List", resource.api_version), *([METADATA_KIND] if accept == METADATA_ONLY else [])]
    items, metadata = page.get("items"), page.get("metadata")
    if (page.get("kind"), page.get("apiVersion")) not in kinds:
        raise Malformed(f"the answer is not a list of {resource.plural}")
    if not isinstance(metadata, dict) or not _is_text(metadata.get("resourceVersion")):
        raise Malformed(f"the list of {resource.plural} has no resourceVersion")
    if items is None and "items" in page:  # how Go writes an empty list in some servers
        items = []
    if not isinstance(items, list) or not all(_is_object(item, resource) for item in items):
        raise Malformed(f"the list of {resource.plural} has items without a name and a UID")
    return items, metadata


def _is_object(item: object, resource: WatchedResource) -> bool:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(metadata, dict) or not _is_text(metadata.get("uid")) or not _is_text(metadata.get("name")):
        return False
    return not resource.namespaced or _is_text(metadata.get("namespace"))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _identify(item: Json) -> Identity:
    """All that is kept: the rest of the metadata of a large cluster would take hundreds of megabytes."""
    identity = identify(item)
    if identity is None:  # `_check_page` has seen that each item has a name and a UID
        raise Malformed("an item has no name or no UID")
    return identity
