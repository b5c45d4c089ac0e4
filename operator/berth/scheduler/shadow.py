"""Policies in Shadow mode: what they would have decided for the pods that others decide on.

    Cycle --saw(pod, decision)--+
                                +--> backlog --one at a time, between attempts--> the shadow's decision --> Usage
    another scheduler's bind ---+

Others are the active policies, and other schedulers: if no policy serves the pod's scheduler name, the bind that the
watch reports is the decision. Only binds of pods that were seen pending count, so that a restart does not evaluate
every pod of the cluster, and only while this replica leads.

A shadow policy binds nothing and calls no extender, and nothing waits for it. A pod is evaluated soon after its
decision, on the cluster at that moment, with the pod itself removed from the node that it was given. After each
evaluation the loop pauses, so that shadows take at most a fifth of the time. A pod is counted as skipped if the backlog
is full, or if the pod has changed its place meanwhile. If a policy samples its pods, the sample depends on their UIDs:
a pod that is tried again is either evaluated again or never. It is counted again only if the outcome differs.

The chosen node counts as the same choice if it is among the nodes with the best score of the shadow: a random tie-break
is no difference.
"""

import asyncio
import zlib
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Placement
from berth.engine.plugin import PluginFailed, Query
from berth.engine.trial import moved
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.policy_store import PolicyStore
from berth.policy.usage import ShadowExample, ShadowOutcome
from berth.scheduler.cache.cache import Cache
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.ports import Clock
from berth.scheduler.queue.queue import Queue

BACKLOG = 1000
REMEMBERED = 10_000
REST = 4.0  # pause after an evaluation, as a multiple of its duration


@dataclass(frozen=True, slots=True)
class _Seen:
    """A pod, the shadow policy that evaluates it, and the node that the pod was given; "" if none fits."""

    pod: Pod
    shadow: ActivePolicy
    node: str


class Shadows:
    """The pods that shadow policies have yet to evaluate."""

    def __init__(self, *, policies: PolicyStore, cache: Cache, queue: Queue, clock: Clock, errors: ErrorLog) -> None:
        self._policies = policies
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._errors = errors
        self._backlog: deque[_Seen] = deque()
        self._signal = asyncio.Event()
        self._others: dict[str, Pod] = {}  # by UID: pending pods of other schedulers that a shadow is to evaluate
        self._counted: OrderedDict[tuple[str, str], tuple[int, ShadowOutcome]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._backlog)

    def saw(self, pod: Pod, verdict: Placement | Diagnosis) -> None:
        """Queue the pod with the decision of its active policy; returns at once."""
        self._add(pod, verdict.node if isinstance(verdict, Placement) else "")

    def on_event(self, event: ObjectEvent) -> None:
        """Queue a pod that another scheduler has bound."""
        if event.kind != "Pod":
            return
        if not self._policies.has_shadows:
            self._others.clear()
            return
        uid = event.identity.uid
        pending = self._cache.pending.get(uid)
        if pending is not None:
            self._note_pending(pending)
        elif uid in self._others:
            self._add_bound(self._others.pop(uid), event)

    def _note_pending(self, pod: Pod) -> None:
        if self._policies.serves(pod.scheduler_name) or not self._shadows_of(pod):
            self._others.pop(pod.uid, None)
        else:
            self._others[pod.uid] = pod

    def _add_bound(self, pod: Pod, event: ObjectEvent) -> None:
        """`pod` is as it was before the bind: with a node in its spec it would fit on that node alone."""
        node = str((event.body.get("spec") or {}).get("nodeName") or "")
        if self._queue.is_open and pod.uid in self._cache.state.table.pods_on(node):
            self._add(pod, node)

    def _shadows_of(self, pod: Pod) -> Sequence[ActivePolicy]:
        return self._policies.shadows(pod, self._cache.namespace_labels(pod.namespace))

    def _add(self, pod: Pod, node: str) -> None:
        for shadow in self._shadows_of(pod):
            if zlib.crc32(pod.uid.encode()) % 100 >= shadow.policy.shadow_percentage:
                continue
            if len(self._backlog) >= BACKLOG:
                self._policies.usage.shadowed(shadow, ShadowOutcome.SKIPPED, None)
                continue
            self._backlog.append(_Seen(pod, shadow, node))
            self._signal.set()

    async def run(self) -> None:
        """Evaluate pods forever."""
        while True:
            while self._backlog:
                began = self._clock.now()
                self._judge(self._backlog.popleft())
                await self._clock.sleep(REST * (self._clock.now() - began))
            self._signal.clear()
            await self._signal.wait()

    def _judge(self, seen: _Seen) -> None:
        usage, pod = self._policies.usage, seen.pod
        try:
            found = self._look(seen)
        except PluginFailed as failure:
            usage.failed(seen.shadow, f"plugin {failure.plugin}", failure.problem)
            found = None
        except Exception as error:
            self._errors.note("shadowing", pod, error, policy=seen.shadow.policy.name)
            found = None
        if found is None:
            usage.shadowed(seen.shadow, ShadowOutcome.SKIPPED, None)
            return
        outcome = _outcome(seen, found)
        if self._is_new_outcome(seen, outcome):
            usage.shadowed(seen.shadow, outcome, self._example(seen, found, outcome))

    def _look(self, seen: _Seen) -> list[str] | Diagnosis | None:
        """The nodes with the best score of the shadow, or its diagnosis if no node fits.

        Returns None if the pod has changed its place, or the shadow policy is no longer in force.
        """
        state, pod = self._cache.state, seen.pod
        if seen.shadow not in self._policies.in_force():
            return None
        is_there = pod.uid in state.table.pods_on(seen.node) if seen.node else pod.uid in self._cache.pending
        if not is_there:
            return None
        query = Query(pod, state.table)
        taken = [(state.table.pods_on(seen.node)[pod.uid], seen.node)] if seen.node else []
        with moved(query, state.table, remove=taken):
            return seen.shadow.pipeline.choices(query, state)

    def _is_new_outcome(self, seen: _Seen, outcome: ShadowOutcome) -> bool:
        """Whether this generation of the policy has not had this outcome for the pod before."""
        policy = seen.shadow.policy
        key, now = (policy.uid, seen.pod.uid), (policy.generation, outcome)
        before = self._counted.pop(key, None)
        self._counted[key] = now
        if len(self._counted) > REMEMBERED:
            self._counted.popitem(last=False)
        return before != now

    def _example(self, seen: _Seen, found: list[str] | Diagnosis, outcome: ShadowOutcome) -> ShadowExample | None:
        if outcome is ShadowOutcome.SAME:
            return None
        return ShadowExample(
            pod=f"{seen.pod.namespace}/{seen.pod.name}",
            active=seen.node,
            shadow="" if isinstance(found, Diagnosis) else found[0],
            message=found.message if isinstance(found, Diagnosis) else "",
            time=self._clock.wall(),
        )


def _outcome(seen: _Seen, found: list[str] | Diagnosis) -> ShadowOutcome:
    if isinstance(found, Diagnosis):
        return ShadowOutcome.UNPLACED if seen.node else ShadowOutcome.SAME
    if not seen.node:
        return ShadowOutcome.GAINED
    return ShadowOutcome.SAME if seen.node in found else ShadowOutcome.DIFFERENT
