"""The one place where cache and queue are kept in step.

The cache is the truth about pods; the queue holds those pending pods of it that somebody serves. Whatever changes one
of the two sides, a report of the cluster, a policy, an assumption made or given back, goes through here: change the
cache, let the queue follow for the pods concerned, then wake whom the change may help.

Pods that nobody serves stay in the cache's `pending`, where they cost a dictionary entry; the policy that serves them
one day finds them there.

A pod that makes no sense is in neither. If it waits for one of ours, it is told what is wrong with it, once for every
generation of its spec and while decisions are made at all; a version that makes sense is queued as any other.
"""

from collections.abc import Mapping
from typing import Any

from berth.engine.events import Event
from berth.model import Pod
from berth.policy.book import PolicyBook
from berth.scheduler.cache import Cache
from berth.scheduler.queue import Queue
from berth.scheduler.reporting import Reporter

POLICY_KIND = "SchedulingPolicy"


class Intake:
    """Applies reports and decisions to cache and queue."""

    def __init__(self, cache: Cache, queue: Queue, policies: PolicyBook, reporter: Reporter) -> None:
        self._cache = cache
        self._queue = queue
        self._policies = policies
        self._reporter = reporter
        self._complaints: dict[str, tuple[int, str]] = {}  # by UID: the generation and what was said of it

    def observe(self, kind: str, body: Mapping[str, Any]) -> None:
        """The cluster shows an object."""
        if kind == POLICY_KIND:
            self._policies.observe(body)
        elif kind == "Pod":
            self.observe_pod(body)
        else:
            self._queue.wake(self._cache.observe(kind, body))

    def remove(self, kind: str, body: Mapping[str, Any]) -> None:
        """An object is gone."""
        if kind == POLICY_KIND:
            self._policies.remove(body["metadata"]["name"], str(body["metadata"].get("uid") or ""))
            return
        uid = self._cache.uid_of(kind, body)
        events = self._cache.remove(kind, body)
        if kind == "Pod":
            self._follow(uid)
        self._queue.wake(events)

    def observe_pod(self, body: Mapping[str, Any]) -> None:
        """The cluster shows a pod, which may be the successor of another one of its name (#138435)."""
        namesake = self._cache.holder("Pod", body)
        events = self._cache.observe("Pod", body)
        if namesake is not None:
            self._follow(namesake)
        self._follow(self._cache.uid_of("Pod", body))
        self._queue.wake(events)

    def follow_policies(self) -> None:
        """Other policies are in force: pods may have found or lost who serves them, and any verdict may change."""
        for uid in list(self._cache.pending):
            self._follow(uid)
        self.complain()
        self._queue.wake({Event.POLICY})

    def complain(self) -> None:
        """Tell every pod of ours that makes no sense, as far as it has not been told."""
        for uid in list(self._cache.unreadable):
            self._complain(uid)

    def wanted(self, uid: str) -> Pod | None:
        """The pod in its newest version, if it waits for a node and somebody serves it."""
        pod = self._cache.pending.get(uid)
        if pod is None or pod.deleting or not self._policies.serves(pod.scheduler_name):
            return None
        return pod

    def assume(self, pod: Pod, node_name: str) -> None:
        """The pod leaves the queue with a node."""
        events = self._cache.assume(pod, node_name)
        self._queue.done(pod.uid)
        self._queue.wake(events)

    def give_back(self, uid: str, attempts: int = 1) -> None:
        """The bind has not happened: the room is free, and the pod waits again if it still wants a node.

        This goes for a pod as well that the API server says it does not have: only the watch ends a pod.
        """
        events = self._cache.forget(uid)
        pod = self.wanted(uid)
        if pod is not None:
            self._queue.retry(pod, attempts)
        self._complain(uid)
        self._queue.wake(events)  # the room that came free is news for others (#122534)

    def correct(self, uid: str, body: Mapping[str, Any]) -> None:
        """What we assumed is not so: the pod is where the API server, asked directly, says it is, or waits again."""
        events = self._cache.forget(uid)
        self.observe_pod(body)
        self._queue.wake(events)

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
