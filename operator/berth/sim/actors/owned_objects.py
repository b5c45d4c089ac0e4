"""What the controllers of all workloads share: who owns what, pods from templates, statuses, and the end of owners.

What belongs to an owner that is gone is deleted. An owner that is deleted with propagation Foreground or Orphan waits
with a finalizer: it goes when its dependents are deleted, or have been given up.
"""

import hashlib
from typing import Any

import orjson

from berth.sim.actors.api import ActorApi, Object, Refused
from berth.sim.actors.clock import Clock, timestamp
from berth.sim.actors.controller import Controller, controller_of, is_deleting, owner_reference
from berth.sim.actors.mirror import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    MirrorCollection,
    OnChange,
    key_of,
)
from berth.sim.actors.pod_names import PodNames

FINISHED = frozenset({"Succeeded", "Failed"})
COLLECTIONS = {
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
    "DaemonSet": DAEMON_SETS,
    "CronJob": CRON_JOBS,
    "Job": JOBS,
    "ControllerRevision": CONTROLLER_REVISIONS,
    "Pod": PODS,
}
API_VERSIONS = {kind: collection.group_version for kind, collection in COLLECTIONS.items()}
REVISION_LABEL = "controller-revision-hash"
CHANGE_CAUSE = "kubernetes.io/change-cause"
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
WORKERS = 8
AT_ONCE = 50  # pods made in one go; the rest at once afterwards, so that no owner keeps a worker from the others


class OwnedObjects(Controller):
    """See the module's text. Keys are "Kind namespace/name"."""

    def __init__(self, api: ActorApi, clock: Clock) -> None:
        super().__init__(api, clock, workers=WORKERS)
        self._names = PodNames(clock)
        self._of_kind = {kind: self._mirror(collection, self._on(kind)) for kind, collection in COLLECTIONS.items()}
        self._pods = self._of_kind["Pod"]
        self._owner_of: dict[str, tuple[str, str]] = {}  # "Kind key" to the owner's UID and key
        self._owned: dict[str, dict[str, tuple[str, Object]]] = {}  # UID of the owner to "Kind key" to kind and object

    # --- what changed ----------------------------------------------------------------------------------------------

    def _on(self, kind: str) -> OnChange:
        def changed(change: str, body: Object) -> None:
            key = f"{kind} {key_of(body)}"
            owner = controller_of(body)
            self._forget_former_owner(key, owner)
            if owner is not None and owner["kind"] in COLLECTIONS:
                self._note_owned(change, key, body, owner)
            if kind not in ("Pod", "ControllerRevision"):
                self._look_at(key)
            if change == "DELETED":
                self._look_at_orphans(body)

        return changed

    def _forget_former_owner(self, key: str, owner: Object | None) -> None:
        former = self._owner_of.get(key)
        if former is not None and (owner is None or owner["uid"] != former[0]):
            del self._owner_of[key]
            self._owned.get(former[0], {}).pop(key, None)
            self._look_at(former[1])

    def _note_owned(self, change: str, key: str, body: Object, owner: Object) -> None:
        owned = self._owned.setdefault(owner["uid"], {})
        owner_key = f"{owner['kind']} {body['metadata']['namespace']}/{owner['name']}"
        if change == "DELETED":
            owned.pop(key, None)
            self._owner_of.pop(key, None)
        else:
            owned[key] = (key.partition(" ")[0], body)
            self._owner_of[key] = (owner["uid"], owner_key)
        self._names.seen(owner["uid"], body["metadata"]["name"])
        self._look_at(owner_key)

    def _look_at_orphans(self, owner: Object) -> None:
        self._names.dismiss(owner["metadata"]["uid"])
        for key in self._owned.get(owner["metadata"]["uid"], ()):
            self._look_at(key)

    def _owned_by(self, owner: Object, kind: str) -> list[Object]:
        owned = self._owned.get(owner["metadata"]["uid"], {})
        return [body for owned_kind, body in owned.values() if owned_kind == kind]

    async def _reconcile(self, key: str) -> float | None:
        kind, _, name = key.partition(" ")
        body = self._of_kind[kind].objects.get(name)
        if body is None:
            self._look_for_orphans_of(kind, name)
            return None
        if is_deleting(body):
            return await self._end(kind, body)
        if await self._is_orphan(body):
            await self._delete(COLLECTIONS[kind], body)
            return None
        return await self._keep(kind, body)

    async def _keep(self, kind: str, body: Object) -> float | None:
        """Do what an object of this kind asks for."""
        raise NotImplementedError

    # --- owners that are gone, or about to go ----------------------------------------------------------------------

    def _look_for_orphans_of(self, kind: str, name: str) -> None:
        """Something names this owner and the mirror does not show it: it is gone, or it was never seen."""
        namespace, _, short = name.partition("/")
        for uid, owned in list(self._owned.items()):
            for key, (_, body) in list(owned.items()):
                owner = controller_of(body) or {}
                if (owner.get("kind"), owner.get("name"), body["metadata"]["namespace"]) == (kind, short, namespace):
                    self._look_at(key)
            if not owned:
                del self._owned[uid]

    async def _is_orphan(self, body: Object) -> bool:
        """Whether the controller is gone; the API server has the last word, since a mirror may be late."""
        owner = controller_of(body)
        if owner is None or owner["kind"] not in COLLECTIONS:
            return False
        key = f"{body['metadata']['namespace']}/{owner['name']}"
        known = self._of_kind[owner["kind"]].objects.get(key)
        if known is not None and known["metadata"]["uid"] == owner["uid"]:
            return False
        try:
            _, found = await self._api.request("GET", COLLECTIONS[owner["kind"]].object_path(key))
        except Refused as refusal:
            if refusal.status == 404:
                return True
            raise
        return bool(found["metadata"]["uid"] != owner["uid"])

    async def _end(self, kind: str, owner: Object) -> float | None:
        """An owner that is being deleted: deal with its dependents, then take the finalizer away."""
        finalizers = owner["metadata"].get("finalizers") or []
        finalizer = next((name for name in (FOREGROUND, ORPHAN) if name in finalizers), None)
        if finalizer is None:
            return None
        owned = list(self._owned.get(owner["metadata"]["uid"], {}).values())
        for owned_kind, body in owned:
            if finalizer == ORPHAN:
                await self._give_up(COLLECTIONS[owned_kind], body, owner)
            elif not is_deleting(body):
                await self._delete(COLLECTIONS[owned_kind], body)
        if not owned:
            left = [name for name in finalizers if name != finalizer]
            await self._patch(COLLECTIONS[kind], key_of(owner), {"metadata": {"finalizers": left or None}})
        return None

    async def _give_up(self, collection: MirrorCollection, body: Object, owner: Object) -> None:
        references = body["metadata"].get("ownerReferences") or []
        left = [reference for reference in references if reference["uid"] != owner["metadata"]["uid"]]
        await self._patch(collection, key_of(body), {"metadata": {"ownerReferences": left or None}})

    # --- pods ------------------------------------------------------------------------------------------------------

    async def _make_pod(self, owner: Object, kind: str) -> None:
        """A pod from the owner's template, with the next name."""
        uid = owner["metadata"]["uid"]
        name = self._names.next_name(uid, owner["metadata"]["name"])
        made = await self._create(PODS, pod_of(owner, kind, name))
        key = f"{owner['metadata']['namespace']}/{name}"
        self._names.made(uid, name, now=made and key not in self._pods.objects)

    # --- revisions -------------------------------------------------------------------------------------------------

    async def _keep_revision(self, owner: Object, kind: str) -> tuple[str, bool]:
        """The hash of the owner's template and whether a revision with it is the newest one, as it will be."""
        template_hash = hash_of(owner["spec"]["template"])
        revisions = self._owned_by(owner, "ControllerRevision")
        newest = max((int(body["revision"]) for body in revisions), default=0)
        name = f"{owner['metadata']['name']}-{template_hash}"
        known = next((body for body in revisions if body["metadata"]["name"] == name), None)
        if known is None:
            await self._create(CONTROLLER_REVISIONS, _revision(owner, kind, name, newest + 1))
        elif int(known["revision"]) < newest:  # rolled back to it
            await self._patch(CONTROLLER_REVISIONS, key_of(known), {"revision": newest + 1})
        return template_hash, known is not None

    # --- statuses --------------------------------------------------------------------------------------------------

    async def _keep_status(self, collection: MirrorCollection, body: Object, status: Object) -> None:
        old = body.get("status") or {}
        changed = {name: value for name, value in status.items() if old.get(name, _nothing(value)) != value}
        if changed:
            await self._patch(collection, key_of(body), {"status": changed}, subresource="status")

    def _condition(self, body: Object, kind: str, status: str, reason: str) -> Object:
        for old in conditions_of(body):
            if (old["type"], old["status"], old.get("reason")) == (kind, status, reason):
                return old
        now = timestamp(self._clock.wall())
        return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": now}


def pod_of(owner: Object, kind: str, name: str) -> Object:
    """A pod from the owner's template."""
    template = owner["spec"]["template"]
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{part: dict(metadata[part]) for part in ("labels", "annotations") if metadata.get(part)},
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": [owner_reference(API_VERSIONS[kind], kind, owner)],
        },
        "spec": dict(template["spec"]),
    }


def _revision(owner: Object, kind: str, name: str, number: int) -> Object:
    template = {**owner["spec"]["template"], "$patch": "replace"}
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    cause = (owner["metadata"].get("annotations") or {}).get(CHANGE_CAUSE)
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**labels, REVISION_LABEL: hash_of(owner["spec"]["template"])},
            "annotations": {CHANGE_CAUSE: cause} if cause else {},
            "ownerReferences": [owner_reference(API_VERSIONS[kind], kind, owner)],
        },
        "data": {"spec": {"template": template}},
        "revision": number,
    }


def hash_of(template: Object) -> str:
    """The same for equal templates."""
    return hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]


def count_of(body: Object, field: str) -> int:
    """A number of the status, 0 if it is missing."""
    return int((body.get("status") or {}).get(field) or 0)


def conditions_of(body: Object) -> list[Object]:
    return (body.get("status") or {}).get("conditions") or []


def _nothing(value: Any) -> Any:
    """What the API server leaves out when it stores it."""
    return 0 if isinstance(value, int) else None
