"""Nominations: `status.nominatedNodeName` of pods, decided in memory at once and written to the API soon.

A preemptor is nominated to the node that is being freed for it. An assumed pod that waits for Permit or for its volumes
is nominated to its node too (`expect`): cluster autoscalers use it, and the next leader tries this node first. This is
kube-scheduler's NominatedNodeNameForExpectation.

Nominations of other schedulers' pods count, and are never changed.

Only the leader decides. A standby shows what the API says: a decision in its memory could not be written, and would
hide the later decisions of the leader. So a standby leaves a nomination to a node that does not exist alone. The leader
withdraws it: when the node is removed, and when it begins to lead.
"""

from functools import partial

from berth.model import Pod
from berth.policy.policy_store import PolicyStore
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.changes import pod_left
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.ports import Cluster
from berth.scheduler.queue.queue import Queue


class Nominator:
    """Nominates pods, withdraws nominations, and notifies the queue."""

    def __init__(
        self,
        cache: Cache,
        queue: Queue,
        policies: PolicyStore,
        cluster: Cluster,
        errors: ErrorLog,
        *,
        expectation: bool = True,
    ) -> None:
        """`expectation`: pods that wait for Permit or for their volumes are nominated to their node (`expect`)."""
        self._cache = cache
        self._state = cache.state
        self._queue = queue
        self._policies = policies
        self._cluster = cluster
        self._errors = errors
        self._expectation = expectation
        self._decides = False

    def start_leading(self) -> None:
        """This replica leads from now on: withdraw nominations to nodes that do not exist."""
        self._decides = True
        for name in list(self._state.nominated):
            self._withdraw_from(name)

    def stand_by(self) -> None:
        """Another replica leads from now on: nominations are what the API says."""
        self._decides = False
        self._cache.take_back_nominations()

    def nominate(self, pod: Pod, node_name: str, *, wakes: bool = True) -> None:
        """Nominate the pod in memory and in the API; does nothing on a standby. `wakes`: other pods may use what it
        frees.
        """
        if not self._decides or pod.nominated_node_name == node_name:
            return
        number = self._cache.nominate(pod.uid, node_name)
        if number is None:
            return
        if wakes and pod.nominated_node_name:  # what was reserved for it there is free for others now
            self._queue.wake(pod_left(pod, pod.nominated_node_name))
        self._write(pod, node_name, number)

    def expect(self, pod: Pod, node_name: str) -> None:
        """The pod is assumed on the node and will be bound later: write it, unless the API says so already."""
        if not self._expectation or not self._decides or pod.nominated_node_name == node_name:
            return
        number = self._cache.nominate(pod.uid, node_name)
        if number is not None:
            self._write(pod, node_name, number)

    def _write(self, pod: Pod, node_name: str, number: int) -> None:
        try:
            self._cluster.nominate(pod, node_name, partial(self._cache.nomination_written, pod.uid, number))
        except Exception as error:
            self._errors.note("nominating", pod, error)

    def withdraw(self, pod: Pod) -> None:
        """Withdraw the nomination of the pod: the node is free for others."""
        if pod.nominated_node_name:
            self.nominate(pod, "")

    def drop(self, pod: Pod) -> None:
        """Withdraw the nomination of a forgotten pod; its freed resources have been reported to the queue already."""
        if pod.nominated_node_name:
            self.nominate(pod, "", wakes=False)

    def take_over(self, pod: Pod, node_name: str) -> None:
        """Withdraw the nominations of pods of ours to this node that have a lower priority; they are tried again."""
        for other in list(self._state.nominated.get(node_name, {}).values()):
            if other.priority < pod.priority and self._policies.serves(other.scheduler_name):
                self.nominate(other, "")
                self._queue.wake_pod(other.uid)

    def on_event(self, event: ObjectEvent) -> None:
        """If a node is gone, withdraw the nominations of our pods to it (#95752)."""
        if event.kind == "Node":
            self._withdraw_from(event.identity.key)

    def _withdraw_from(self, name: str) -> None:
        """Withdraw the nominations of our pods to this node if it does not exist."""
        if not self._decides or name not in self._state.nominated or self._state.table.node(name) is not None:
            return
        for pod in list(self._state.nominated[name].values()):
            if self._policies.serves(pod.scheduler_name):
                self.nominate(pod, "")
                self._queue.wake_pod(pod.uid)
