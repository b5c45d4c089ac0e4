"""The pods of a cluster, and its policies: everything is listed once, and nothing is written."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from berth.cluster.api import Api
from berth.cluster.listing import list_objects
from berth.cluster.resources import POLICY, RESOURCES
from berth.comparing.differences import Skipped
from berth.comparing.outcomes import Subject
from berth.model import Pod
from berth.policy import Policy
from berth.policy.selection import selects
from berth.scheduler.cache.cache import Cache

Manifest = Mapping[str, Any]


async def read_cluster(api: Api) -> tuple[Cache, list[Manifest]]:
    """What decisions read, and the policies. Raises ApiError or Unreachable."""
    cache = Cache()
    policies: list[Manifest] = []
    found = await asyncio.gather(*(list_objects(api, resource) for resource in RESOURCES))
    for resource, bodies in zip(RESOURCES, found, strict=True):
        if resource.kind == POLICY:
            policies = list(bodies)
            continue
        for body in bodies:
            cache.observe(resource.kind, body)
    return cache, policies


def cluster_subjects(cache: Cache, policies: Sequence[Policy], *, placed: bool) -> list[Subject | Skipped]:
    """The pods that one of the policies would decide for, by name; `placed`: those that have a node already, too."""
    waiting = [(pod, "") for pod in cache.pending.values() if not pod.gates]
    subjects: list[Subject | Skipped] = [
        Subject(pod.key, pod, cache.state, node)
        for pod, node in (*waiting, *(_placed(cache) if placed else ()))
        if not pod.deleting and _concerns(pod, policies, cache)
    ]
    subjects += [
        Skipped(entry.pod.key, str(entry.problem))
        for entry in cache.unreadable.values()
        if _concerns(entry.pod, policies, cache)
    ]
    return sorted(subjects, key=lambda subject: subject.name)


def _placed(cache: Cache) -> Iterator[tuple[Pod, str]]:
    table = cache.state.table
    for row in table.rows_by_name:
        name = table.name(int(row))
        for pod in table.pods_on(name).values():
            yield pod, name


def _concerns(pod: Pod, policies: Sequence[Policy], cache: Cache) -> bool:
    labels = cache.namespace_labels(pod.namespace)
    return any(policy.scheduler_name == pod.scheduler_name and selects(policy, pod, labels) for policy in policies)
