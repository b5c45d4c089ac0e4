"""A list and a watch that never end: the objects of one kind, as the API server has them.

    list (pages) --> listed objects are added or changed, all others are deleted
      ^    |
      |    v
      |  watch from the list's version --- cut, ended, 5xx ---> again, from the last version seen
      +---- 410, or the mirror is older than `relist_seconds`

Events may come twice, late or not at all. A version that is not newer than the one known is dropped; what was missed
is found at the next list, once in `relist_seconds`. Every change is reported by `on_change(type, object)`, with ADDED,
MODIFIED or DELETED, in a valid order for each object. No response of the server ends it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from berth.sim.actors.api import ActorApi, Object, Refused, ServerUnreachable
from berth.sim.actors.clock import Clock

PAGE = 500
WATCH_SECONDS = 300
RELIST_SECONDS = 120.0
FIRST_PAUSE_SECONDS = 0.2
ORDERLY_PAUSE_SECONDS = 0.02  # a server that ends every watch at once is not to be asked in a tight loop
LONGEST_PAUSE_SECONDS = 5.0
GONE_REMEMBERED = 4096

_log = logging.getLogger(__name__)

OnChange = Callable[[str, Object], None]


@dataclass(frozen=True, slots=True)
class MirrorCollection:
    """Where a kind is served; `group_version` is "v1" or "apps/v1"."""

    group_version: str
    plural: str

    @property
    def path(self) -> str:
        return f"{self._root}/{self.plural}"

    def of(self, namespace: str) -> str:
        """The collection in one namespace; cluster-wide kinds have namespace ""."""
        return f"{self._root}/namespaces/{namespace}/{self.plural}" if namespace else self.path

    def object_path(self, key: str, subresource: str = "") -> str:
        """The path of an object by its key, `namespace/name` or `name`."""
        namespace, _, name = key.rpartition("/")
        path = f"{self.of(namespace)}/{name}"
        return f"{path}/{subresource}" if subresource else path

    @property
    def _root(self) -> str:
        return f"/apis/{self.group_version}" if "/" in self.group_version else f"/api/{self.group_version}"


PODS = MirrorCollection("v1", "pods")
NODES = MirrorCollection("v1", "nodes")
CLAIMS = MirrorCollection("v1", "persistentvolumeclaims")
VOLUMES = MirrorCollection("v1", "persistentvolumes")
REPLICATION_CONTROLLERS = MirrorCollection("v1", "replicationcontrollers")
STORAGE_CLASSES = MirrorCollection("storage.k8s.io/v1", "storageclasses")
DEPLOYMENTS = MirrorCollection("apps/v1", "deployments")
REPLICA_SETS = MirrorCollection("apps/v1", "replicasets")
STATEFUL_SETS = MirrorCollection("apps/v1", "statefulsets")
DAEMON_SETS = MirrorCollection("apps/v1", "daemonsets")
CONTROLLER_REVISIONS = MirrorCollection("apps/v1", "controllerrevisions")
CRON_JOBS = MirrorCollection("batch/v1", "cronjobs")
NAMESPACES = MirrorCollection("v1", "namespaces")
SERVICE_ACCOUNTS = MirrorCollection("v1", "serviceaccounts")
JOBS = MirrorCollection("batch/v1", "jobs")
BUDGETS = MirrorCollection("policy/v1", "poddisruptionbudgets")


def key_of(body: Object) -> str:
    """`namespace/name`, or `name` for what belongs to no namespace."""
    metadata = body["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


class Mirror:
    """One collection; `objects` by key. `synced` is set when the first list has been taken in."""

    def __init__(
        self,
        api: ActorApi,
        clock: Clock,
        collection: MirrorCollection,
        on_change: OnChange,
        *,
        label_selector: str = "",
        field_selector: str = "",
        relist_seconds: float = RELIST_SECONDS,
    ) -> None:
        self._api = api
        self._clock = clock
        self._collection = collection
        self._on_change = on_change
        self._selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._relist_seconds = relist_seconds
        self._listed_seconds = 0.0
        self._version = ""
        self._objects: dict[str, Object] = {}
        self._gone: dict[str, int] = {}  # UID to the version of its end: a late event must not bring it back
        self.objects: Mapping[str, Object] = self._objects
        self.synced = asyncio.Event()
        self.lists = 0
        self.watches = 0

    async def run(self) -> None:
        """List and watch until cancelled."""
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            try:
                if not self._version or self._clock.now() - self._listed_seconds >= self._relist_seconds:
                    await self._list()
                await self._watch()
                pause_seconds = FIRST_PAUSE_SECONDS
                await self._clock.sleep(ORDERLY_PAUSE_SECONDS)
                continue
            except Refused as refusal:
                if refusal.status == 410:
                    self._version = ""
                else:
                    _log.debug("%s: %s", self._collection.plural, refusal)
            except ServerUnreachable as error:
                _log.debug("%s: %s", self._collection.plural, error)
            await self._clock.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    async def _list(self) -> None:
        listed: dict[str, Object] = {}
        query = {"limit": str(PAGE), **self._query()}
        while True:
            _, page = await self._api.request("GET", self._collection.path, query=query)
            listed |= {key_of(item): item for item in page.get("items") or ()}
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                break
            query["continue"] = metadata["continue"]
        self._version = str(metadata.get("resourceVersion") or "")
        self._listed_seconds = self._clock.now()
        self.lists += 1
        self._take_in(listed)
        self.synced.set()

    def _take_in(self, listed: Mapping[str, Object]) -> None:
        """The list is the truth at its version; an object that is known in a newer one is younger than the list."""
        version = _number(self._version)
        for key in [key for key in self._objects if key not in listed]:
            if _version_of(self._objects[key]) <= version:
                self._drop(key, version)
        for body in listed.values():
            self._learn(body)

    async def _watch(self) -> None:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, int(min(WATCH_SECONDS, self._relist_seconds)))),
            **self._query(),
        }
        async with self._api.stream(self._collection.path, query) as events:
            self.watches += 1
            async for event in events:
                self._hear(event)

    def _hear(self, event: Object) -> None:
        kind, body = str(event.get("type")), event.get("object") or {}
        if kind == "ERROR":
            raise Refused(int(body.get("code") or 500), str(body.get("reason") or ""), str(body.get("message") or ""))
        version = str((body.get("metadata") or {}).get("resourceVersion") or "")
        if _number(version) > _number(self._version):
            self._version = version
        if kind == "DELETED":
            self._forget(body)
        elif kind != "BOOKMARK":
            self._learn(body)

    def _learn(self, body: Object) -> None:
        key, uid = key_of(body), str(body["metadata"]["uid"])
        if self._gone.get(uid, -1) >= _version_of(body):
            return
        known = self._objects.get(key)
        if known is not None:
            if known["metadata"]["uid"] == uid and _version_of(known) == _version_of(body):
                return
            if _version_of(known) > _version_of(body):
                return
            if known["metadata"]["uid"] != uid:
                self._drop(key, _version_of(body))
                known = None
        self._objects[key] = body
        self._on_change("ADDED" if known is None else "MODIFIED", body)

    def _forget(self, body: Object) -> None:
        key, uid = key_of(body), str(body["metadata"]["uid"])
        self._bury(uid, _version_of(body))
        known = self._objects.get(key)
        if known is not None and known["metadata"]["uid"] == uid:
            self._drop(key, _version_of(body))

    def _drop(self, key: str, version: int) -> None:
        body = self._objects.pop(key)
        self._bury(str(body["metadata"]["uid"]), version)
        self._on_change("DELETED", body)

    def _bury(self, uid: str, version: int) -> None:
        self._gone[uid] = max(version, self._gone.pop(uid, -1))
        if len(self._gone) > GONE_REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _query(self) -> dict[str, str]:
        return {name: selector for name, selector in self._selectors.items() if selector}


def _version_of(body: Object) -> int:
    return _number(str(body["metadata"].get("resourceVersion") or ""))


def _number(version: str) -> int:
    return int(version) if version.isascii() and version.isdigit() else 0
