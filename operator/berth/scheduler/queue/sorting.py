"""Who is tried first: one order for the whole scheduler, whatever policy a pod is decided by."""

from typing import Protocol

from berth.model import Pod
from berth.scheduler.queue.heap import Order


class QueueSort(Protocol):
    """Gives each waiting pod its place: the smallest key goes first, and no two pods have the same."""

    name: str

    def key(self, pod: Pod, since: float, sequence: int) -> Order:
        """`since` is when the pod was added, or its last attempt ended; `sequence` numbers the pods as they came."""
        ...


class PrioritySort:
    """The higher priority, then the longer wait; so one that fails again and again does not stand before its equals."""

    name = "PrioritySort"

    def key(self, pod: Pod, since: float, sequence: int) -> Order:
        return -pod.priority, since, sequence
