"""Counters of the queue: which pods entered which part of it and why, and how many pods each plugin rejects.

The parts are those of kube-scheduler: gated pods count as unschedulable, under the plugin SchedulingGates.
"""

from collections import Counter
from collections.abc import Iterable

GATES = "SchedulingGates"


class QueueCounters:
    """`active`, `backoff`, `unschedulable`: how often a pod entered that part, by cause; `blamed`: the pods that are in
    the queue now, by rejecting plugin and scheduler name.
    """

    def __init__(self) -> None:
        self.active: Counter[str] = Counter()
        self.backoff: Counter[str] = Counter()
        self.unschedulable: Counter[str] = Counter()
        self.blamed: Counter[tuple[str, str]] = Counter()

    def incoming(self) -> dict[tuple[str, str], int]:
        """By part and cause."""
        parts = {"active": self.active, "backoff": self.backoff, "unschedulable": self.unschedulable}
        return {(part, cause): count for part, counts in parts.items() for cause, count in counts.items()}

    def blame(self, scheduler_name: str, before: Iterable[str], now: Iterable[str]) -> tuple[str, ...]:
        """A pod that the plugins `before` rejected is now rejected by the plugins `now`, which are returned."""
        for plugin in before:
            key = plugin, scheduler_name
            self.blamed[key] -= 1
            if not self.blamed[key]:
                del self.blamed[key]
        kept = tuple(now)
        for plugin in kept:
            self.blamed[plugin, scheduler_name] += 1
        return kept
