"""Event intake: the one place where cache and queue are updated together.

The cache is the source of truth about pods. The queue holds those of its pending pods whose scheduler name has a
policy. Every change goes through here: an event of the cluster, a policy, an assumed pod, a forgotten pod. Each is
handled in the same order: change the cache, update the queue for the pods concerned, then move the pods that the change
may help back to the active queue.

Pods with a scheduler name that has no policy stay in the cache's `pending`, where each costs a dictionary entry. A
policy that is created for that name later finds them there. Which policy decides for a pod also depends on the pod's
labels and on those of its namespace. If a change of labels or policies gives a waiting pod to another policy, the pod
is tried again.

An invalid pod is in neither. If its scheduler name has a policy, the pod gets an event and a condition that say what is
invalid, once per generation of its spec and only while decisions are made. A later version that is valid is queued as
usual.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from berth.engine.events import Event
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.policy_store import PolicyStore
from berth.policy.records import BackoffSettings
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.changes import Changes
from berth.scheduler.object_events import ObjectEvent, observed
from berth.scheduler.queue.queue import Queue, QueuedPod
from berth.scheduler.reporting import Reporter

POLICY_KIND = "SchedulingPolicy"


class EventIntake:
    """Applies events and decisions to cache and queue."""

    def __init__(self, cache: Cache, queue: Queue, policies: PolicyStore, reporter: Reporter) -> None:
        self._cache = cache
        self._queue = queue
        self._policies = policies
        self._reporter = reporter
        self._complaints: dict[str, tuple[int, str]] = {}  # by UID: generation and reported problem of an invalid pod
        self._unfollowed: set[str] = set()  # scheduler names whose policies changed
        self._is_following = False

    def on_event(self, event: ObjectEvent) -> None:
        """Apply an event of the cluster."""
        if event.kind == POLICY_KIND:
            self._apply_policy(event)
        elif event.is_removal:
            self._remove(event)
        elif event.kind == "Pod":
            self.observe_pod(event)
        else:
            self._queue.wake(self._change(event))

    def _apply_policy(self, event: ObjectEvent) -> None:
        if event.is_removal:
            self._policies.remove(event.identity.key, event.identity.uid)
        else:
            self._policies.observe(event.body)

    def _remove(self, event: ObjectEvent) -> None:
        changes = self._change(event)
        if event.kind == "Pod":
            self._follow(event.identity.uid)
        self._queue.wake(changes)

    def observe_pod(self, event: ObjectEvent) -> None:
        """Apply an added or modified pod, which may replace another pod of the same name (#138435)."""
        uid = event.identity.uid
        namesake = self._cache.holder("Pod", event.identity.key)
        before = self._cache.pending.get(namesake or "")
        changes = self._cache.apply(event)
        if namesake is not None and namesake != uid:
            self._follow(namesake)
        self._follow(uid)
        if before is not None and self._is_given_away(before, self.wanted(uid)):
            self._queue.start_over(uid)
        self._queue.wake(changes)

    def _is_given_away(self, before: Pod, now: Pod | None) -> bool:
        """Whether the new labels of the pod give it to another policy."""
        if now is None or now.labels == before.labels:
            return False
        return self.policy_for(now) is not self.policy_for(before)

    def _change(self, event: ObjectEvent) -> Changes:
        """Change the cache; a namespace whose labels change may give its pods to other policies."""
        if event.kind != "Namespace":
            return self._cache.apply(event)
        name = event.identity.key
        before = self._cache.namespace_labels(name)
        changes = self._cache.apply(event)
        after = self._cache.namespace_labels(name)
        if before != after:
            chosen = self._policies.for_pod
            self._queue.wake_in(name, lambda pod: chosen(pod, before) is not chosen(pod, after))
        return changes

    def follow_policies(self, names: frozenset[str]) -> None:
        """The policies of these scheduler names changed: try the pods again for which another policy decides now, and
        queue or remove pods whose scheduler name gained or lost its policy.

        Running attempts are marked at once; waiting pods are handled one by one between attempts.
        """
        self._queue.outdate(lambda item: item.pod.scheduler_name in names and self.decider(item.pod) != item.decider)
        self._unfollowed |= names
        if not self._is_following:
            self._queue.do_later(self._follow_each())
        self.complain()

    def _follow_each(self) -> Iterator[None]:
        """Handle all pods of the changed scheduler names, and again those that changed meanwhile."""
        self._is_following = True
        try:
            while self._unfollowed:
                names, self._unfollowed = frozenset(self._unfollowed), set()
                for uid in list(self._cache.pending):
                    pod = self._cache.pending.get(uid)
                    if pod is not None and pod.scheduler_name in names:
                        self._follow_policy(uid, pod)
                    yield
        finally:
            self._is_following = False

    def _follow_policy(self, uid: str, pod: Pod) -> None:
        if self._policies.serves(pod.scheduler_name) is (self._queue.part_of(uid) is None):
            self._follow(uid)
        if self._queue.part_of(uid) is not None:
            self._queue.follow_decider(uid, self.decider(pod))

    def complain(self) -> None:
        """Report every invalid pod of ours that has not been reported yet."""
        for uid in list(self._cache.unreadable):
            self._complain(uid)

    def wanted(self, uid: str) -> Pod | None:
        """The newest version of the pod if it is pending and its scheduler name has a policy, else None."""
        pod = self._cache.pending.get(uid)
        if pod is None or pod.deleting or not self._policies.serves(pod.scheduler_name):
            return None
        return pod

    def policy_for(self, pod: Pod) -> ActivePolicy | None:
        """The policy that decides for the pod now."""
        return self._policies.for_pod(pod, self._cache.namespace_labels(pod.namespace))

    def decider(self, pod: Pod) -> ActivePolicy | str:
        """The policy that decides for the pod now, or the reason why none does."""
        return self.policy_for(pod) or self._policies.unserved(pod, self._cache.namespace_labels(pod.namespace))

    def assume(self, pod: Pod, node_name: str, agree: Callable[[], None] = lambda: None) -> None:
        """Assume the pod on the node and remove it from the queue. `agree` is called once the pod is assumed.

        If `agree` raises, the pod is forgotten before any other pod is affected, and stays where it was.
        """
        changes = self._cache.assume(pod, node_name)
        try:
            agree()
        except BaseException:
            self._cache.forget(pod.uid)
            raise
        self._queue.done(pod.uid)
        self._queue.wake(changes)

    def make_unschedulable(
        self, item: QueuedPod, retry_events: frozenset[Event], backoff: BackoffSettings, blamed: Iterable[str] = ()
    ) -> None:
        """The plugins `blamed` reject an assumed pod: forget it; it is unschedulable until one of these events."""
        changes = self._cache.forget(item.uid)
        self._queue.wake(changes)
        pod = self.wanted(item.uid)
        if pod is not None:
            self._queue.put_back_unschedulable(item, pod, retry_events, backoff, blamed)
        self._complain(item.uid)

    def give_back(self, uid: str, attempts: int = 1, queued: float | None = None) -> None:
        """The bind did not happen: forget the pod, and queue it again if it still wants a node.

        `queued`: when the pod first entered the active queue. A pod that the API server reports as not found is treated
        the same way: only the watch ends a pod.
        """
        changes = self._cache.forget(uid)
        pod = self.wanted(uid)
        if pod is not None:
            active = self.policy_for(pod)
            self._queue.retry(pod, attempts, active.policy.backoff if active else BackoffSettings(), queued, active)
        self._complain(uid)
        self._queue.wake(changes)  # the freed resources may help other pods (#122534)

    def correct(self, uid: str, body: Mapping[str, Any]) -> None:
        """The assumption is wrong: forget the pod, then apply `body`, which was read from the API server."""
        changes = self._cache.forget(uid)
        self.observe_pod(observed("Pod", body))
        self._queue.wake(changes)

    def _follow(self, uid: str) -> None:
        pod = self.wanted(uid)
        if pod is None:
            self._queue.remove(uid)
        else:
            self._queue.add(pod)
        self._complain(uid)

    @property
    def complaints(self) -> int:
        """The number of invalid pods whose problem was reported."""
        return len(self._complaints)

    def _complain(self, uid: str) -> None:
        left_out = self._cache.unreadable.get(uid)
        if left_out is None:
            self._complaints.pop(uid, None)
            return
        pod, problem = left_out.pod, str(left_out.problem)
        complaint = pod.generation, problem
        if self._complaints.get(uid) != complaint and self._queue.is_open and self._waits_for_us(pod):
            self._complaints[uid] = complaint
            self._reporter.rejected(pod, problem, error=True)

    def _waits_for_us(self, pod: Pod) -> bool:
        if pod.deleting or pod.gates or pod.uid in self._cache.assumed():
            return False
        return self._policies.serves(pod.scheduler_name)
