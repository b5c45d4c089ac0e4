"""QueueSort: the order in which pods are tried; one order for the whole scheduler, across all policies."""

from typing import Protocol

from berth.model import Pod
from berth.scheduler.queue.heap import Order


class QueueSort(Protocol):
    """Gives each waiting pod a sort key: the smallest goes first, and no two pods have the same."""

    name: str

    def key(self, pod: Pod, since: float, sequence: int) -> Order:
        """`since`: when the pod was added, or its last attempt ended; `sequence` numbers the pods by arrival."""
        ...


class PrioritySort:
    """By priority, then by waiting time; a pod that fails repeatedly goes behind others of its priority."""

    name = "PrioritySort"

    def key(self, pod: Pod, since: float, sequence: int) -> Order:
        return -pod.priority, since, sequence
