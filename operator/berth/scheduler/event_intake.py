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
from functools import partial
from typing import Any

from berth.engine.events import Event
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.policy_store import PolicyStore
from berth.policy.records import BackoffSettings as Pace
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.changes import Changes
from berth.scheduler.queue.queue import Queue, QueuedPod
from berth.scheduler.reporting import Reporter

POLICY_KIND = "SchedulingPolicy"

CacheUpdate = Callable[[str, Mapping[str, Any]], Changes]


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

    def observe(self, kind: str, body: Mapping[str, Any]) -> None:
        """Handle an added or modified object."""
        if kind == POLICY_KIND:
            self._policies.observe(body)
        elif kind == "Pod":
            self.observe_pod(body)
        else:
            self._queue.wake(self._change(kind, body, self._cache.observe))

    def remove(self, kind: str, body: Mapping[str, Any], *, told: bool = True) -> None:
        """Handle a removed object; `told`: the watch reported it, False: a list does not contain the object."""
        if kind == POLICY_KIND:
            self._policies.remove(body["metadata"]["name"], str(body["metadata"].get("uid") or ""))
            return
        uid = self._cache.uid_of(kind, body)
        changes = self._change(kind, body, partial(self._cache.remove, told=told))
        if kind == "Pod":
            self._follow(uid)
        self._queue.wake(changes)

    def observe_pod(self, body: Mapping[str, Any]) -> None:
        """Handle an added or modified pod, which may replace another pod of the same name (#138435)."""
        namesake = self._cache.holder("Pod", body)
        before = self._cache.pending.get(namesake or "")
        changes = self._cache.observe("Pod", body)
        if namesake is not None:
            self._follow(namesake)
        uid = self._cache.uid_of("Pod", body)
        self._follow(uid)
        if before is not None and self._is_given_away(before, self.wanted(uid)):
            self._queue.start_over(uid)
        self._queue.wake(changes)

    def _is_given_away(self, before: Pod, now: Pod | None) -> bool:
        """Whether the new labels of the pod give it to another policy."""
        if now is None or now.labels == before.labels:
            return False
        return self.policy_for(now) is not self.policy_for(before)

    def _change(self, kind: str, body: Mapping[str, Any], change: CacheUpdate) -> Changes:
        """Change the cache; a namespace whose labels change may give its pods to other policies."""
        if kind != "Namespace":
            return change(kind, body)
        name = self._cache.key_of(kind, body)
        before = self._cache.namespace_labels(name)
        changes = change(kind, body)
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

    def turn_away(self, item: QueuedPod, wakes_on: frozenset[Event], pace: Pace, blamed: Iterable[str] = ()) -> None:
        """The plugins `blamed` reject an assumed pod: forget it; it is unschedulable until one of these events."""
        changes = self._cache.forget(item.uid)
        self._queue.wake(changes)
        pod = self.wanted(item.uid)
        if pod is not None:
            self._queue.park_again(item, pod, wakes_on, pace, blamed)
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
            self._queue.retry(pod, attempts, active.policy.pace if active else Pace(), queued, active)
        self._complain(uid)
        self._queue.wake(changes)  # the freed resources may help other pods (#122534)

    def correct(self, uid: str, body: Mapping[str, Any]) -> None:
        """The assumption is wrong: forget the pod, then apply `body`, which was read from the API server."""
        changes = self._cache.forget(uid)
        self.observe_pod(body)
        self._queue.wake(changes)

    def _follow(self, uid: str) -> None:
        pod = self.wanted(uid)
        if pod is None:
            self._queue.remove(uid)
        else:
            self._queue.add(pod)
        self._complain(uid)

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
