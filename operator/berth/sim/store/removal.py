"""What a delete does to an object: mark it, keep it, or let it go.

nothing holds it                   it goes at once
finalizers                         it is marked with a deletionTimestamp and goes with the last finalizer
a pod on a node                    it is marked with its grace period, and goes when deleted with a period of 0
a namespace                        it is marked as Terminating, and goes when it has been finalized
propagation Foreground or Orphan   it gets a finalizer that the garbage collector would remove; there is none here
"""

from __future__ import annotations

from typing import Final

from berth.sim.builtin_kinds.pods import grace_seconds
from berth.sim.errors import conflict, forbidden
from berth.sim.objects import Object, items, later, mapping
from berth.sim.resources import Resource

IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
ORPHANING: Final = frozenset({"jobs.batch", "replicationcontrollers"})  # by default, for the sake of their history
UNTRACKED: Final = frozenset({"events"})


def check_preconditions(resource: Resource, body: Object, uid: str, version: str) -> None:
    metadata = body["metadata"]
    if uid and uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(resource.kind, metadata["name"], why)
    if version and version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({metadata['resourceVersion']}). The object might have been modified"
        )
        raise conflict(resource.kind, metadata["name"], why)


def marked(
    resource: Resource, body: Object, grace: int | None, propagation: str | None, now: str
) -> tuple[Object, bool]:
    """The body to write first (the same one: nothing to write), and whether it goes then."""
    if resource.storage == "namespaces":
        return _marked_namespace(body, now)
    metadata = body["metadata"]
    finalizers = _finalizers(resource, items(metadata.get("finalizers")), propagation)
    if resource.storage == "pods":
        return _marked_pod(body, finalizers, grace, now)
    if not finalizers:
        return body, True
    if metadata.get("deletionTimestamp"):
        return (
            (_with(body, finalizers=finalizers), False) if finalizers != metadata.get("finalizers") else (body, False)
        )
    return _with(body, finalizers=finalizers, deletionTimestamp=now, deletionGracePeriodSeconds=0), False


def is_over(resource: Resource, body: Object) -> bool:
    """Whether nothing holds any more what has been marked."""
    metadata = body["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if resource.storage == "namespaces":
        return not mapping(body.get("spec")).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def _marked_namespace(body: Object, now: str) -> tuple[Object, bool]:
    name = body["metadata"]["name"]
    if name in IMMORTAL:
        raise forbidden("namespaces", name, "this namespace may not be deleted")
    if body["metadata"].get("deletionTimestamp"):
        return body, not mapping(body.get("spec")).get("finalizers")
    terminating = {**body, "status": {**mapping(body.get("status")), "phase": "Terminating"}}
    return _with(terminating, deletionTimestamp=now), not mapping(body.get("spec")).get("finalizers")


def _marked_pod(body: Object, finalizers: list[str], grace: int | None, now: str) -> tuple[Object, bool]:
    metadata = body["metadata"]
    if not metadata.get("deletionTimestamp"):
        seconds = grace_seconds(body, grace)
        times = {"deletionTimestamp": later(now, seconds), "deletionGracePeriodSeconds": seconds}
        return _with(body, finalizers=finalizers, **times), seconds == 0 and not finalizers
    before = int(metadata.get("deletionGracePeriodSeconds") or 0)
    if grace is None or grace >= before:
        return body, False
    seconds = max(grace, 0) if grace >= 0 else 1
    stamp = later(metadata["deletionTimestamp"], seconds - before)
    marked_again = _with(body, deletionTimestamp=stamp, deletionGracePeriodSeconds=seconds)
    return marked_again, seconds == 0 and not metadata.get("finalizers")


def _finalizers(resource: Resource, present: list[str], propagation: str | None) -> list[str]:
    """With the one that the way of dealing with dependents asks for."""
    if resource.storage in UNTRACKED:
        return present
    if propagation is None:
        if ORPHAN in present or FOREGROUND in present:
            return present
        propagation = "Orphan" if resource.storage in ORPHANING else "Background"
    wanted = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(propagation, [])
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    return [*kept, *wanted]


def _with(body: Object, **metadata: object) -> Object:
    merged = {**body["metadata"], **metadata}
    if not merged.get("finalizers"):
        merged.pop("finalizers", None)
    return {**body, "metadata": merged}
