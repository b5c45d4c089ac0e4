"""The pods of a cluster that two policies are compared on."""

from collections.abc import Sequence

from berth.comparing.differences import Skipped
from berth.comparing.outcomes import Subject
from berth.model import Pod
from berth.policy import Policy
from berth.policy.selection import selects
from berth.scheduler.cache.cache import Cache
from berth.whatif.cluster_objects import ClusterObjects
from berth.whatif.workloads import is_static


def cluster_subjects(objects: ClusterObjects, policies: Sequence[Policy], *, placed: bool) -> list[Subject | Skipped]:
    """Returns the pods that one of the policies would decide for, in the order of the queue: by priority, then by age.

    `placed`: those that have a node already, too, except for static pods, which no scheduler decides for. What could
    not be read comes first.
    """
    cache = objects.cache
    waiting = [(pod, "") for pod in cache.pending.values() if not pod.gates]
    subjects = [
        Subject(pod.key, pod, cache.state, node)
        for pod, node in (*waiting, *(objects.placed() if placed else ()))
        if not pod.deleting and not is_static(pod) and _concerns(pod, policies, cache)
    ]
    skipped = [
        Skipped(entry.pod.key, str(entry.problem))
        for entry in cache.unreadable.values()
        if _concerns(entry.pod, policies, cache)
    ]
    return [*sorted(skipped, key=lambda each: each.name), *sorted(subjects, key=_turn)]


def _turn(subject: Subject) -> tuple[int, str, str]:
    return -subject.pod.priority, subject.pod.created, subject.name


def _concerns(pod: Pod, policies: Sequence[Policy], cache: Cache) -> bool:
    labels = cache.namespace_labels(pod.namespace)
    return any(policy.scheduler_name == pod.scheduler_name and selects(policy, pod, labels) for policy in policies)
