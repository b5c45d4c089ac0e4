"""What a list proves about objects that are known and that it does not name.

A list that has the form of one (`listing`) can still be wrong: a cache on the way that is empty, an API server that
has just started, a list of another cluster. So the more it would remove, the more it has to prove:

    fewer than half of what is known      the list alone removes them
    half of it or more, up to 8 objects   each of them is read: the API server itself says of each that it is not found
    half of it or more, and more than 8   a second list lacks them as well, and 8 of them are read as above
    all, because the kind is not served   discovery says so again after 15 s: a new server may not know a CRD yet
    namespace kube-system                 never: no cluster is without it

A list of the watch that was read in bulk (`bulk`) removes nothing alone: it is held to the rules for half or more, so
that no removal stands on one answer that nobody asked for twice.

For half or more, the cluster is also asked which one it is (`identity`). If an object is there after all, the list is
wrong in everything: `Malformed`, nothing is removed, and the kind is listed again. What is removed by mistake all the
same comes back: the watch is believed when it shows the object, and the next comparison reads it.

A first list that is empty removes nothing, but would let decisions begin without objects that exist: it is made twice.

This holds a removal up for the time of a list and a few reads. What the watch says is deleted is removed at once.
"""

from collections.abc import Mapping
from typing import Any

from berth.cluster.api import Api, is_path
from berth.cluster.errors import ApiError, Malformed
from berth.cluster.identity import ClusterIdentity
from berth.cluster.listing import Listing, WatchedResource, is_served, list_metadata
from berth.scheduler.ports import Clock

READ = 8
UNSERVED_SECONDS = 15.0

Keys = Mapping[str, str]  # UID to key


class Proof:
    """Believes lists, or does not."""

    def __init__(self, api: Api, clock: Clock, identity: ClusterIdentity) -> None:
        self._api = api
        self._clock = clock
        self._identity = identity

    async def gone(self, resource: WatchedResource, known: Keys, listing: Listing, *, alone: bool = True) -> Keys:
        """Those of the known objects that are gone; raises ApiError, Unreachable or Malformed if nothing is proven.

        `alone`: if they are fewer than half, the list is proof enough.
        """
        gone = {uid: key for uid, key in known.items() if uid not in listing.objects}
        if resource.kind == "Namespace":
            self._identity.check(listing)
        if not gone or (alone and 2 * len(gone) < len(known)):
            return gone
        await self._identity.ask()
        if not listing.is_served:
            await self._check_unserved(resource)
            return gone
        if len(gone) > READ:
            second = await list_metadata(self._api, resource)
            gone = {uid: key for uid, key in gone.items() if uid not in second.objects}
        for uid in sorted(gone)[:READ]:  # UIDs are random
            if await self._is_there(resource, uid, gone[uid]):
                raise Malformed(f"the list of {resource.plural} lacks objects that are there")
        return gone

    async def check_first(self, resource: WatchedResource, listing: Listing) -> None:
        """Raises Malformed if a list that names nobody is contradicted by another one."""
        if listing.is_served and not listing.objects:
            second = await list_metadata(self._api, resource)
            if second.objects or not second.is_served:
                raise Malformed(f"one list of {resource.plural} is empty, and another one is not")

    async def _check_unserved(self, resource: WatchedResource) -> None:
        await self._clock.sleep(UNSERVED_SECONDS)
        if await is_served(self._api, resource):
            raise Malformed(f"{resource.plural} are served after all")

    async def _is_there(self, resource: WatchedResource, uid: str, key: str) -> bool:
        path = resource.object_path(key)
        if not is_path(path) or key.count("/") != int(resource.namespaced):
            return False  # no API server has an object of such a name, so none can be asked for it
        try:
            _, body = await self._api.request("GET", path)
        except ApiError as error:
            if error.names_missing_object:
                return False
            raise
        metadata = body.get("metadata")
        if body.get("kind") != resource.kind or not isinstance(metadata, dict) or not metadata.get("uid"):
            raise Malformed(f"the answer is not one of {resource.plural}")
        return metadata["uid"] == uid and _is_selected(body, resource.field_selector)


def _is_selected(body: Mapping[str, Any], selector: str) -> bool:
    """Whether the watch would show the object; selectors of ours are `path!=value`, with commas between."""
    parts = (part.partition("!=") for part in selector.split(","))
    return not any(_read(body, path) == value for path, _, value in parts)


def _read(body: object, path: str) -> object:
    for name in path.split("."):
        body = body.get(name) if isinstance(body, Mapping) else None
    return body
