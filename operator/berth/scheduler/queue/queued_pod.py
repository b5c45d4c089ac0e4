"""A pod in the queue, and the parts of the queue that it can be in."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from berth.engine.events import Event
from berth.engine.plugin import Plugin
from berth.model import Pod
from berth.policy.records import BackoffSettings as Pace
from berth.scheduler.cache.changes import NOTHING
from berth.scheduler.measures import Stopwatch
from berth.scheduler.queue.openings import Opening
from berth.scheduler.queue.unschedulable import Profile

PACE = Pace()
UNKNOWN = Profile()


class Part(StrEnum):
    """Where in the queue a pod is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in_flight"
    HELD = "held"


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod on its way through the queue; only the queue changes it."""

    pod: Pod
    sequence: int
    since: float  # when it was added, or when its last attempt ended
    part: Part | None = None  # None: has left
    attempts: int = 0
    queued: float | None = None  # when it was first to be tried: its gates were gone
    tried: float = 0.0  # when its attempt began
    stopwatch: Stopwatch | None = None  # of its attempt, if that is measured
    blamed: tuple[str, ...] = ()  # the plugins that keep it from being placed, by name
    pace: Pace = PACE  # of its last attempt
    ready: float = 0.0  # when its backoff is over
    failed: bool = False  # the last attempt ended in an error, so it must not be tried before its time
    wakes_on: frozenset[Event] = NOTHING
    plugins: tuple[Plugin, ...] = ()  # that turned it away the last time
    profile: Profile = UNKNOWN  # what these say of it
    group: Hashable = None  # equal for unschedulable pods that the same changes help
    decider: object = None  # who decided in its last attempt: the policy, or why there was none
    parked: int = 0  # numbers the pods as they became unschedulable
    opening: Opening | None = None  # what it was brought back for, while it is active
    returning: bool = False  # it is brought back behind new pods
    began: int = 0  # where in the log of changes it is in flight from
    changed: bool = False  # since it is in flight, something happened that it has to be tried again for
    outdated: bool = False  # since it is in flight, it may have become another policy's

    @property
    def uid(self) -> str:
        return self.pod.uid
