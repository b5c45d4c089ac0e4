"""Pods whose scheduler name is a slip of one that a policy serves: "berth-binpak: did you mean berth-binpack?".

Such a pod stays pending without a message, because every scheduler takes it for another one's. So it gets an event,
once, and only while this replica leads. Events are limited: thousands of such pods cost no more than a few.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from berth.model import Pod
from berth.policy.near_names import nearest_name
from berth.policy.policy_store import PolicyStore
from berth.scheduler.cache.cache import Cache
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.ports import Clock
from berth.scheduler.queue.queue import Queue
from berth.scheduler.reporting import Reporter

MOST_EVENTS: Final = 10
EVERY_SECONDS: Final = 60.0
MOST_NAMES: Final = 256  # whose nearest names are remembered


class UnservedNames:
    """Looks at every pending pod whose scheduler name is not served."""

    def __init__(self, cache: Cache, queue: Queue, policies: PolicyStore, reporter: Reporter, clock: Clock) -> None:
        self._cache = cache
        self._queue = queue
        self._policies = policies
        self._reporter = reporter
        self._clock = clock
        self._meant: dict[str, str] = {}  # by scheduler name
        self._reported: dict[str, str] = {}  # by UID: the name that was meant
        self._sent: deque[float] = deque(maxlen=MOST_EVENTS)
        policies.on_deciders(self._follow_policies)

    def __len__(self) -> int:
        """The number of pending pods that have got an event."""
        return len(self._reported)

    def on_event(self, event: ObjectEvent) -> None:
        if event.kind == "Pod":
            self._check(event.identity.uid)

    def check(self) -> None:
        """Look at every pending pod, between attempts: this replica begins to decide, or policies have changed."""
        self._queue.do_later(self._check_each())

    def _follow_policies(self, names: frozenset[str]) -> None:
        self._meant.clear()
        self.check()

    def _check_each(self) -> Iterator[None]:
        for uid in list(self._cache.pending):
            self._check(uid)
            yield

    def _check(self, uid: str) -> None:
        pod = self._cache.pending.get(uid)
        meant = self._name_for(pod) if pod is not None else ""
        if pod is None or not meant:
            self._reported.pop(uid, None)
        elif self._queue.is_open and self._reported.get(uid) != meant and self._may_send():
            self._reported[uid] = meant
            self._reporter.unserved(pod, meant)

    def _name_for(self, pod: Pod) -> str:
        """Returns the name that the pod means; "" if its own is served, or like no other."""
        name = pod.scheduler_name
        if pod.deleting or self._policies.serves(name):
            return ""
        meant = self._meant.get(name)
        if meant is None:
            if len(self._meant) >= MOST_NAMES:
                self._meant.clear()
            meant = self._meant[name] = nearest_name(name, self._policies.scheduler_names())
        return meant

    def _may_send(self) -> bool:
        now = self._clock.now()
        if len(self._sent) == MOST_EVENTS and now - self._sent[0] < EVERY_SECONDS:
            return False
        self._sent.append(now)
        return True
