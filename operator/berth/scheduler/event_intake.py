"""The one place where cache and queue are kept in step.

The cache is the truth about pods; the queue holds those pending pods of it that somebody serves. Whatever changes one
of the two sides, a report of the cluster, a policy, an assumption made or given back, goes through here: change the
cache, let the queue follow for the pods concerned, then wake whom the change may help.

Pods whose scheduler name is nobody's stay in the cache's `pending`, where they cost a dictionary entry; the policy that
takes their name one day finds them there. Which policy decides for a pod of ours depends on its labels and those of its
namespace too: a change of either, and of policies, brings a pod back that waits, if another policy decides for it then.

A pod that makes no sense is in neither. If it waits for one of ours, it is told what is wrong with it, once for every
generation of its spec and while decisions are made at all; a version that makes sense is queued as any other.
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

Teller = Callable[[str, Mapping[str, Any]], Changes]


class EventIntake:
    """Applies reports and decisions to cache and queue."""

    def __init__(self, cache: Cache, queue: Queue, policies: PolicyStore, reporter: Reporter) -> None:
        self._cache = cache
        self._queue = queue
        self._policies = policies
        self._reporter = reporter
        self._complaints: dict[str, tuple[int, str]] = {}  # by UID: the generation and what was said of it
        self._unfollowed: set[str] = set()  # scheduler names whose policies changed
        self._is_following = False

    def observe(self, kind: str, body: Mapping[str, Any]) -> None:
        """The cluster shows an object."""
        if kind == POLICY_KIND:
            self._policies.observe(body)
        elif kind == "Pod":
            self.observe_pod(body)
        else:
            self._queue.wake(self._change(kind, body, self._cache.observe))

    def remove(self, kind: str, body: Mapping[str, Any], *, told: bool = True) -> None:
        """An object is gone; `told`: the cluster said so, rather than that a list lacks it."""
        if kind == POLICY_KIND:
            self._policies.remove(body["metadata"]["name"], str(body["metadata"].get("uid") or ""))
            return
        uid = self._cache.uid_of(kind, body)
        changes = self._change(kind, body, partial(self._cache.remove, told=told))
        if kind == "Pod":
            self._follow(uid)
        self._queue.wake(changes)

    def observe_pod(self, body: Mapping[str, Any]) -> None:
        """The cluster shows a pod, which may be the successor of another one of its name (#138435)."""
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
        """Its labels give the pod to another policy."""
        if now is None or now.labels == before.labels:
            return False
        return self.policy_for(now) is not self.policy_for(before)

    def _change(self, kind: str, body: Mapping[str, Any], change: Teller) -> Changes:
        """Change the cache; a namespace whose labels change by it may give its pods to other policies."""
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
        """Other policies may decide for pods of these scheduler names: those for whom another one does are tried again,
        and pods may have found or lost who serves them.

        Attempts that are under way learn of it at once, the pods that wait one after the other, between attempts.
        """
        self._queue.outdate(lambda item: item.pod.scheduler_name in names and self.decider(item.pod) != item.decider)
        self._unfollowed |= names
        if not self._is_following:
            self._queue.do_later(self._follow_each())
        self.complain()

    def _follow_each(self) -> Iterator[None]:
        """All pods of the scheduler names whose policies changed, and again of those that changed meanwhile."""
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
        """Tell every pod of ours that makes no sense, as far as it has not been told."""
        for uid in list(self._cache.unreadable):
            self._complain(uid)

    def wanted(self, uid: str) -> Pod | None:
        """The pod in its newest version, if it waits for a node and its scheduler name is ours."""
        pod = self._cache.pending.get(uid)
        if pod is None or pod.deleting or not self._policies.serves(pod.scheduler_name):
            return None
        return pod

    def policy_for(self, pod: Pod) -> ActivePolicy | None:
        """Who decides for the pod now."""
        return self._policies.for_pod(pod, self._cache.namespace_labels(pod.namespace))

    def decider(self, pod: Pod) -> ActivePolicy | str:
        """The same, or why nobody does."""
        return self.policy_for(pod) or self._policies.unserved(pod, self._cache.namespace_labels(pod.namespace))

    def assume(self, pod: Pod, node_name: str, agree: Callable[[], None] = lambda: None) -> None:
        """The pod leaves the queue with a node, if `agree` does not raise, which is called when the room is taken.

        If it does, the room is given back before anybody has heard of it, and the pod is where it was.
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
        """The pod is refused the node that it was given, by these plugins: the room is free, and it waits for one of
        these events.
        """
        changes = self._cache.forget(item.uid)
        self._queue.wake(changes)
        pod = self.wanted(item.uid)
        if pod is not None:
            self._queue.park_again(item, pod, wakes_on, pace, blamed)
        self._complain(item.uid)

    def give_back(self, uid: str, attempts: int = 1, queued: float | None = None) -> None:
        """The bind has not happened: the room is free, and the pod waits again if it still wants a node; `queued`:
        when it was first to be tried.

        This goes for a pod as well that the API server says it does not have: only the watch ends a pod.
        """
        changes = self._cache.forget(uid)
        pod = self.wanted(uid)
        if pod is not None:
            active = self.policy_for(pod)
            self._queue.retry(pod, attempts, active.policy.pace if active else Pace(), queued, active)
        self._complain(uid)
        self._queue.wake(changes)  # the room that came free is news for others (#122534)

    def correct(self, uid: str, body: Mapping[str, Any]) -> None:
        """What we assumed is not so: the pod is where the API server, asked directly, says it is, or waits again."""
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
