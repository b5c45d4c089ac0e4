"""The shape that all actors share: mirrors say what changed, workers look at one key after the other.

A subclass makes its mirrors with `_mirror`, puts keys on the list with `_look_at` when something changes, and says in
`_reconcile(key)` what is to be done about one, judging from the mirrors alone. Whatever the API server answers, the
key is looked at again: a refusal or a cut is no more than a reason to come back a little later, so every step must be
safe to take twice. `_reconcile` returns after how many seconds it wants to see the key again, or None.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from berth.sim.actors.api import MERGE_PATCH, ActorApi, Object, Refused, ServerUnreachable
from berth.sim.actors.clock import Clock
from berth.sim.actors.mirror import Mirror, MirrorCollection, OnChange
from berth.sim.actors.worklist import Worklist

WORKERS = 16
RETRY_SECONDS = 0.2
LONGEST_RETRY_SECONDS = 2.0
# Others were faster, or it is gone: the mirror will show it.
EXPECTED = frozenset({404, 409})
# A retry does not help unless the object changes.
HOPELESS = frozenset({400, 401, 403, 405, 413, 415, 422, 501})

_log = logging.getLogger(__name__)


class Controller:
    """See the module's text."""

    def __init__(self, api: ActorApi, clock: Clock, *, workers: int = WORKERS) -> None:
        self._api = api
        self._clock = clock
        self._workers = workers
        self._work: Worklist[str] = Worklist(clock)
        self._mirrors: list[Mirror] = []
        self._failures: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Act until `stop`."""
        tasks = [asyncio.create_task(mirror.run()) for mirror in self._mirrors]
        tasks += [asyncio.create_task(self._labour()) for _ in range(self._workers)]
        stop = asyncio.create_task(self._stopping.wait())
        try:
            done, _ = await asyncio.wait([*tasks, stop], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # none of them ends by itself unless something is wrong with it
        finally:
            for task in (*tasks, stop):
                task.cancel()
            await asyncio.gather(*tasks, stop, return_exceptions=True)

    async def stop(self) -> None:
        """Have `run` return; what is under way is cut off."""
        self._stopping.set()

    def statistics(self) -> dict[str, Any]:
        return {
            "waiting": len(self._work),
            "lists": sum(mirror.lists for mirror in self._mirrors),
            "watches": sum(mirror.watches for mirror in self._mirrors),
            **self._counts,
        }

    # --- for subclasses --------------------------------------------------------------------------------------------

    async def _reconcile(self, key: str) -> float | None:
        raise NotImplementedError

    def _mirror(self, collection: MirrorCollection, on_change: OnChange, *, label_selector: str = "") -> Mirror:
        mirror = Mirror(self._api, self._clock, collection, on_change, label_selector=label_selector)
        self._mirrors.append(mirror)
        return mirror

    def _look_at(self, key: str, seconds: float = 0.0) -> None:
        self._work.add(key, seconds)

    async def _create(self, collection: MirrorCollection, body: Object) -> bool:
        """Whether it was made now; an object of that name that is there already is not touched."""
        try:
            await self._api.request("POST", collection.of(body["metadata"].get("namespace", "")), body=body)
        except Refused as refusal:
            if refusal.reason == "AlreadyExists":
                return False
            raise
        self._counts["created"] += 1
        return True

    async def _patch(
        self,
        collection: MirrorCollection,
        key: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> None:
        path = collection.object_path(key, subresource)
        await self._api.request("PATCH", path, body=patch, content_type=content_type)
        self._counts["patched"] += 1

    async def _delete(self, collection: MirrorCollection, body: Object, *, grace_seconds: int | None = None) -> None:
        """Delete the object of this UID; one that is gone already is no error."""
        metadata = body["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": metadata["uid"]}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            await self._api.request("DELETE", collection.object_path(key), body=options)
        except Refused as refusal:
            if refusal.status not in EXPECTED:
                raise
        else:
            self._counts["deleted"] += 1

    # --- labour ----------------------------------------------------------------------------------------------------

    async def _labour(self) -> None:
        for mirror in self._mirrors:  # nothing is judged from half a world
            await mirror.synced.wait()
        while True:
            key = await self._work.take()
            try:
                seconds = await self._attempt(key)
            finally:
                self._work.done(key)
            if seconds is not None:
                self._look_at(key, seconds)

    async def _attempt(self, key: str) -> float | None:
        try:
            seconds = await self._reconcile(key)
        except (Refused, ServerUnreachable) as error:
            self._counts["retried"] += 1
            self._failures[key] += 1
            if self._failures[key] == 1 and isinstance(error, Refused) and error.status in HOPELESS:
                _log.warning("%s: %s: %s", type(self).__name__, key, error)
            return min(RETRY_SECONDS * 2.0 ** (self._failures[key] - 1), LONGEST_RETRY_SECONDS)
        self._failures.pop(key, None)
        return seconds


def controller_of(body: Object) -> Object | None:
    """The owner reference that controls the object."""
    return next((owner for owner in body["metadata"].get("ownerReferences") or () if owner.get("controller")), None)


def is_deleting(body: Object) -> bool:
    return bool(body["metadata"].get("deletionTimestamp"))


def phase_of(body: Object) -> str:
    return str((body.get("status") or {}).get("phase") or "Pending")


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def owner_reference(api_version: str, kind: str, body: Object) -> Object:
    """A reference that makes `body` the controller of what carries it."""
    metadata = body["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
