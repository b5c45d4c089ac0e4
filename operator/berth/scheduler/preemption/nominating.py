"""Which nodes pods are nominated to: decided in memory at once, written into the API soon.

A pod is nominated to the node that is being made free for it. One that has its node and is not bound at once, because
it waits for a permit or for its volumes, is nominated to that node too (`expect`): cluster autoscalers go by it, and
the next leader tries this node first. It is kube-scheduler's NominatedNodeNameForExpectation.

Pods of other schedulers are theirs: what they wait for counts, and is never taken from them.

Only the leader decides. A standby shows what the API says: a decision that it made in memory could not be written, and
would hide what the leader decides afterwards. A nomination to a node that does not exist is therefore left alone there,
and withdrawn by the leader: when the node goes, and when it begins to lead.
"""

from functools import partial

from berth.model import Pod
from berth.policy.policy_store import PolicyStore
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.changes import pod_left
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import Cluster
from berth.scheduler.queue.queue import Queue


class Nominator:
    """What becomes of nominations, and who has to know of it."""

    def __init__(self, cache: Cache, queue: Queue, policies: PolicyStore, cluster: Cluster, faults: ErrorLog) -> None:
        self._cache = cache
        self._state = cache.state
        self._queue = queue
        self._policies = policies
        self._cluster = cluster
        self._faults = faults
        self._decides = False

    def lead(self) -> None:
        """This replica decides from now on: nominations to nodes that have gone meanwhile are withdrawn."""
        self._decides = True
        for name in list(self._state.nominated):
            self.look_at_node(name)

    def stand_by(self) -> None:
        """Another replica decides from now on: pods wait for the nodes that the API says, and nothing is decided."""
        self._decides = False
        self._cache.take_back_nominations()

    def nominate(self, pod: Pod, node_name: str, *, tell: bool = True) -> None:
        """In memory at once, and in the API soon; does nothing on a standby. `tell`: others hear what comes free."""
        if not self._decides or pod.nominated_node_name == node_name:
            return
        number = self._cache.nominate(pod.uid, node_name)
        if number is None:
            return
        if tell and pod.nominated_node_name:  # what was kept for it there is free for others, wherever it waits now
            self._queue.wake(pod_left(pod, pod.nominated_node_name))
        self._write(pod, node_name, number)

    def expect(self, pod: Pod, node_name: str) -> None:
        """The pod is assumed on the node and will be bound later; written, unless the API says so already."""
        if not self._decides or pod.nominated_node_name == node_name:
            return
        number = self._cache.nominate(pod.uid, node_name)
        if number is not None:
            self._write(pod, node_name, number)

    def _write(self, pod: Pod, node_name: str, number: int) -> None:
        try:
            self._cluster.nominate(pod, node_name, partial(self._cache.nomination_written, pod.uid, number))
        except Exception as error:
            self._faults.note("nominating", pod, error)

    def withdraw(self, pod: Pod) -> None:
        """The node that the pod waited for is free for others."""
        if pod.nominated_node_name:
            self.nominate(pod, "")

    def drop(self, pod: Pod) -> None:
        """A pod that was assumed is forgotten: it is nominated to nothing, and others have been told of its room."""
        if pod.nominated_node_name:
            self.nominate(pod, "", tell=False)

    def take_over(self, pod: Pod, node_name: str) -> None:
        """The pods of lower priority that wait for the node look for another one; but for other schedulers' pods."""
        for other in list(self._state.nominated.get(node_name, {}).values()):
            if other.priority < pod.priority and self._policies.serves(other.scheduler_name):
                self.nominate(other, "")
                self._queue.wake_pod(other.uid)

    def look_at_node(self, name: str) -> None:
        """The cluster spoke of the node: if it is gone, nobody of ours waits for it any more (#95752)."""
        if not self._decides or name not in self._state.nominated or self._state.table.node(name) is not None:
            return
        for pod in list(self._state.nominated[name].values()):
            if self._policies.serves(pod.scheduler_name):
                self.nominate(pod, "")
                self._queue.wake_pod(pod.uid)
