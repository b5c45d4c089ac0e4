"""Namespaces: each has its ServiceAccount `default`, and one that is deleted is emptied first.

What a namespace holds is found by discovery, so that custom resources go, too. Pods go when their kubelets say so.
"""

from berth.sim.actors.api import ActorApi, Object, Refused
from berth.sim.actors.clock import Clock
from berth.sim.actors.controller import Controller, is_deleting
from berth.sim.actors.mirror import NAMESPACES, SERVICE_ACCOUNTS, MirrorCollection, key_of

DEFAULT_ACCOUNT = "default"
FINALIZER = "kubernetes"
LOOK_AGAIN_SECONDS = 0.5


class Namespaces(Controller):
    """See the module's text. Keys are names of namespaces."""

    def __init__(self, api: ActorApi, clock: Clock) -> None:
        super().__init__(api, clock, workers=2)
        self._namespaces = self._mirror(NAMESPACES, lambda _, body: self._look_at(body["metadata"]["name"]))
        self._accounts = self._mirror(SERVICE_ACCOUNTS, self._on_account)

    def _on_account(self, change: str, account: Object) -> None:
        if change == "DELETED" and account["metadata"]["name"] == DEFAULT_ACCOUNT:
            self._look_at(account["metadata"]["namespace"])

    async def _reconcile(self, key: str) -> float | None:
        namespace = self._namespaces.objects.get(key)
        if namespace is None:
            return None
        if is_deleting(namespace):
            return await self._empty(namespace)
        if f"{key}/{DEFAULT_ACCOUNT}" not in self._accounts.objects:
            metadata = {"name": DEFAULT_ACCOUNT, "namespace": key}
            await self._create(SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        return None

    async def _empty(self, namespace: Object) -> float | None:
        """Delete everything in it; once nothing is left, take the finalizer away."""
        finalizers = (namespace.get("spec") or {}).get("finalizers") or []
        if FINALIZER not in finalizers:
            return None
        name = namespace["metadata"]["name"]
        left = [collection for collection in await self._collections() if await self._holds(collection, name)]
        for collection in left:
            await self._api.request("DELETE", collection.of(name), body={"propagationPolicy": "Background"})
        if left:
            return LOOK_AGAIN_SECONDS
        kept = [one for one in finalizers if one != FINALIZER]
        body = {**namespace, "spec": {**namespace["spec"], "finalizers": kept}}
        await self._api.request("PUT", NAMESPACES.object_path(key_of(namespace), "finalize"), body=body)
        return None

    async def _holds(self, collection: MirrorCollection, namespace: str) -> bool:
        _, page = await self._api.request("GET", collection.of(namespace), query={"limit": "1"})
        return bool(page.get("items"))

    async def _collections(self) -> list[MirrorCollection]:
        """The kinds in namespaces that can be deleted all at once."""
        _, groups = await self._api.request("GET", "/apis")
        versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups["groups"])]
        return [collection for version in versions for collection in await self._kinds_of(version)]

    async def _kinds_of(self, group_version: str) -> list[MirrorCollection]:
        path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        try:
            _, answer = await self._api.request("GET", path)
        except Refused as refusal:
            if refusal.status in (404, 503):  # its definition, or the server behind it, is gone
                return []
            raise
        return [
            MirrorCollection(group_version, kind["name"])
            for kind in answer["resources"]
            if kind["namespaced"] and "/" not in kind["name"] and "deletecollection" in kind["verbs"]
        ]
