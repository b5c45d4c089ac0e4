"""The pod that a question is about, as the cache has it."""

from dataclasses import dataclass

from berth.model import Pod
from berth.scheduler.cache.cache import Cache


@dataclass(frozen=True, slots=True)
class Subject:
    """A pod, and the node that it is on or assumed on; `problem`: what is invalid about it, so that nothing decides."""

    pod: Pod
    node: str = ""
    problem: str = ""


def find_subject(cache: Cache, namespace: str, name: str) -> Subject | None:
    """Returns the pod of this name; None if there is none, or if it is finished."""
    uid = cache.holder("Pod", f"{namespace}/{name}")
    return None if uid is None else subject_of(cache, uid)


def subject_of(cache: Cache, uid: str) -> Subject | None:
    """Returns the pod of this UID; None if it is not known, or finished."""
    placed = cache.state.table.placed(uid)
    if placed is not None:
        return Subject(*placed)
    left_out = cache.unreadable.get(uid)
    if left_out is not None:
        return Subject(left_out.pod, problem=str(left_out.problem))
    pod = cache.pending.get(uid)
    return None if pod is None else Subject(pod)
