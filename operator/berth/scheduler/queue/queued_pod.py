"""A pod in the queue, and the parts of the queue that it can be in."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from berth.engine.events import Event
from berth.engine.plugin import FilterPlugin
from berth.model import Pod
from berth.policy.records import BackoffSettings
from berth.scheduler.cache.changes import NOTHING
from berth.scheduler.measures import Stopwatch
from berth.scheduler.queue.openings import Opening
from berth.scheduler.queue.unschedulable import Profile

DEFAULT_BACKOFF = BackoffSettings()
UNKNOWN = Profile()


class Part(StrEnum):
    """The part of the queue that a pod is in."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in_flight"
    HELD = "held"


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod in the queue; only the queue modifies it."""

    pod: Pod
    sequence: int
    since: float  # when it was added, or when its last attempt ended
    part: Part | None = None  # None: it has left the queue
    attempts: int = 0
    queued: float | None = None  # when it first entered the active queue
    tried: float = 0.0  # when its last attempt began
    stopwatch: Stopwatch | None = None  # of its attempt, if it is measured
    blamed: tuple[str, ...] = ()  # the names of the plugins that rejected it
    backoff: BackoffSettings = DEFAULT_BACKOFF  # of its last attempt
    ready: float = 0.0  # when its backoff is over
    failed: bool = False  # the last attempt ended with an error, so its backoff is never cut short
    retry_events: frozenset[Event] = NOTHING
    plugins: tuple[FilterPlugin, ...] = ()  # that rejected it in the last attempt
    profile: Profile = UNKNOWN  # what these plugins say about it
    group: Hashable = None  # equal for unschedulable pods that the same events help
    decider: object = None  # of its last attempt: the policy, or the reason why there was none
    unschedulable_number: int = 0  # sequence number, set when it became unschedulable
    opening: Opening | None = None  # that moved it back, while it is active
    returning: bool = False  # it goes behind new pods
    began: int = 0  # position in the change log at which its attempt began
    changed: bool = False  # during the attempt something happened for which it has to be tried again
    outdated: bool = False  # during the attempt another policy may have become responsible for it

    @property
    def uid(self) -> str:
        return self.pod.uid
