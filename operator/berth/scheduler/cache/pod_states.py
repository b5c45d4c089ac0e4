"""The state of every pod, by UID, and the room that it takes in the node table.

                  observe(unbound)              assume                  observe(bound)
      unknown ----------------------> pending ---------> assumed ------------------------> bound
         |                               ^   forget        |  |                              |
         |                               +-----------------+  | finished, removed            | finished, removed
         |              observe(bound)                        v                              v
         +------------------------------------> bound       gone <--------------------------+

An assumed pod takes room that only this process knows of. It is acknowledged once the API server has answered the bind
(`confirm`), and bound once the watch shows it as bound. It never expires: its bind is followed to the end.

Invariants:

1. A UID is in at most one of pending, assumed, bound. Everything else is gone or unknown.
2. The table holds exactly the assumed and the bound pods, each once, on the node named last.
3. A pod that is bound to another node than assumed is moved there, and the assumption ends; the API server is right.
4. `confirm` and `forget` of a pod that is not assumed do nothing: a bind that ends after its pod is gone, or after the
   watch has confirmed it, can neither resurrect the pod nor free its room twice (#106361, #134157).
5. Kubernetes never unbinds: an unbound version does not free the room of a bound pod. Nor does an invalid version.
6. Every change of the table that may help waiting pods is returned.
7. Pending pods with a nominated node are nominated in the State. For other pods they take room there, so a withdrawn
   nomination is returned as freed room. A nomination of ours (`nominate`) counts at once, and no older event reverts
   it (`nominations`). A pod that is being deleted keeps its nomination until it is gone, as in kube-scheduler. A
   nomination of an assumed pod counts when the pod is forgotten: until then it takes its room, and is not nominated.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from berth.engine.state.state import State
from berth.model import Pod
from berth.scheduler.cache.changes import (
    UNCHANGED,
    Changes,
    asks_the_same,
    pod_came,
    pod_changed,
    pod_left,
    takes_the_same_room,
    with_the_room_of_both,
)
from berth.scheduler.cache.nominations import Nominations

FINISHED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Assumption:
    """Room taken by a pod whose bind the watch has not confirmed yet."""

    pod: Pod
    node_name: str
    acknowledged: bool  # the API server has acknowledged the bind; the watch has yet to confirm it
    returns: bool  # the pod becomes pending when forgotten: it exists and is valid


class PodStates:
    """The state machine of the module's docstring; keeps the pods of the node table up to date."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._table = state.table
        self._pending: dict[str, Pod] = {}
        self._assumed: dict[str, Assumption] = {}
        self._bound: dict[str, tuple[Pod, str]] = {}
        self._nominations = Nominations()
        self.pending: Mapping[str, Pod] = MappingProxyType(self._pending)
        self.assumed: Mapping[str, Assumption] = MappingProxyType(self._assumed)

    def observe(self, pod: Pod) -> Changes:
        """Apply this version of the pod."""
        if pod.phase in FINISHED:
            return self.remove(pod.uid)
        if pod.node_name:
            return self._observe_bound(pod, pod.node_name)
        return self._observe_unbound(pod)

    def observe_unreadable(self, pod: Pod) -> Changes:
        """Apply an invalid version of a pod, of which this part can be read.

        No decision is made for it; if it is bound it takes room, and no less than its last version.
        """
        if pod.phase in FINISHED:
            return self.remove(pod.uid)
        if not pod.node_name:
            return self.suspend(pod.uid)
        last = self._last_record(pod.uid)
        return self._observe_bound(pod if last is None else with_the_room_of_both(last, pod), pod.node_name)

    def suspend(self, uid: str) -> Changes:
        """Make no decision for an invalid pod; its room stays taken."""
        waiting = self._take_from_pending(uid)
        if uid in self._assumed:
            held = self._assumed[uid]
            self._assumed[uid] = Assumption(held.pod, held.node_name, held.acknowledged, returns=False)
        return _given_up(waiting)

    def assume(self, pod: Pod, node_name: str) -> Changes:
        """Take room for a pod that is about to be bound."""
        if pod.uid in self._assumed or pod.uid in self._bound:
            raise ValueError(f"Pod {pod.namespace}/{pod.name}: assumed on {node_name}, but it has room already")
        waiting = self._take_from_pending(pod.uid)
        self._table.add_pod(pod, node_name)
        self._assumed[pod.uid] = Assumption(pod, node_name, acknowledged=False, returns=waiting is not None)
        return pod_came(pod, node_name) + _given_up(waiting, node_name)

    def nominate(self, uid: str, node_name: str) -> int | None:
        """Nominate a pending pod to this node, or to none (""); returns the number of the decision.

        An assumed pod takes its room already: there the decision is only written, and counts once the pod is forgotten.
        """
        if (held := self._assumed.get(uid)) is not None:
            return self._nominations.decide(held.pod, node_name)
        pod = self._pending.get(uid)
        if pod is None:
            return None
        number = self._nominations.decide(pod, node_name)
        self._put_to_pending(pod)
        return number

    def take_back_nominations(self) -> None:
        """Another replica leads: nominations are what the API says."""
        for uid, node_name in self._nominations.take_back().items():
            if uid in self._pending:
                self._put_to_pending(replace(self._pending[uid], nominated_node_name=node_name))
            elif (held := self._assumed.get(uid)) is not None:  # counts if the pod is forgotten
                pod = replace(held.pod, nominated_node_name=node_name)
                self._assumed[uid] = Assumption(pod, held.node_name, held.acknowledged, held.returns)

    def nomination_written(self, uid: str, number: int, version: str) -> None:
        """The decision of this number is in that version of the pod."""
        self._nominations.written(uid, number, version)

    def confirm(self, uid: str) -> None:
        """The API server has acknowledged the bind."""
        held = self._assumed.get(uid)
        if held is not None:
            self._assumed[uid] = Assumption(held.pod, held.node_name, acknowledged=True, returns=held.returns)

    def forget(self, uid: str) -> Changes:
        """Free the room of an assumed pod; the pod is pending again."""
        held = self._assumed.pop(uid, None)
        if held is None:
            return UNCHANGED
        self._table.remove_pod(uid)
        if held.returns:
            self._put_to_pending(held.pod)
        return pod_left(held.pod, held.node_name)

    def remove(self, uid: str) -> Changes:
        """The pod is gone or finished."""
        self._nominations.forget(uid)
        waiting = self._take_from_pending(uid)
        placed = self._placed(uid)
        if placed is None:
            return _given_up(waiting)
        self._assumed.pop(uid, None)
        self._bound.pop(uid, None)
        self._table.remove_pod(uid)
        return pod_left(*placed)

    @property
    def bound(self) -> Set[str]:
        """The UIDs of bound pods, a live view."""
        return self._bound.keys()

    @property
    def nominations_decided(self) -> int:
        """The number of our nominations that the watch has not shown yet."""
        return len(self._nominations)

    def statistics(self) -> dict[str, int]:
        acknowledged = sum(held.acknowledged for held in self._assumed.values())
        return {
            "pending": len(self._pending),
            "binding": len(self._assumed) - acknowledged,
            "echo_pending": acknowledged,
            "bound": len(self._bound),
        }

    def _observe_unbound(self, pod: Pod) -> Changes:
        if pod.uid in self._bound:
            return UNCHANGED
        self._nominations.show(pod)
        held = self._assumed.get(pod.uid)
        if held is None:
            return self._put_to_pending(pod)
        self._assumed[pod.uid] = Assumption(pod, held.node_name, held.acknowledged, returns=True)
        return self._account(held.pod, pod, held.node_name)

    def _observe_bound(self, pod: Pod, node_name: str) -> Changes:
        self._nominations.forget(pod.uid)
        waiting = self._take_from_pending(pod.uid)
        old = self._placed(pod.uid)
        self._assumed.pop(pod.uid, None)
        self._bound[pod.uid] = (pod, node_name)
        if old is None:
            self._table.add_pod(pod, node_name)
            as_expected = waiting is not None and takes_the_same_room(waiting, pod)
            return pod_came(pod, node_name) + _given_up(waiting, node_name if as_expected else "")
        old_pod, old_node = old
        if old_node == node_name:
            return self._account(old_pod, pod, node_name)
        self._replace(pod, node_name)
        return pod_left(old_pod, old_node) + pod_came(pod, node_name)

    def _put_to_pending(self, pod: Pod) -> Changes:
        before = self._pending.get(pod.uid)
        node_name = self._nominations.of(pod)
        if node_name != pod.nominated_node_name:
            pod = replace(pod, nominated_node_name=node_name)
        self._pending[pod.uid] = pod
        if pod.nominated_node_name:
            self._state.nominate(pod, pod.nominated_node_name)
        else:
            self._state.withdraw(pod.uid)
        unchanged = before is not None and asks_the_same(before, pod)
        return _given_up(before, pod.nominated_node_name if unchanged else "")

    def _take_from_pending(self, uid: str) -> Pod | None:
        self._state.withdraw(uid)
        return self._pending.pop(uid, None)

    def _account(self, old: Pod, new: Pod, node_name: str) -> Changes:
        if not takes_the_same_room(old, new):
            self._replace(new, node_name)
        return pod_changed(old, new, node_name)

    def _replace(self, pod: Pod, node_name: str) -> None:
        self._table.remove_pod(pod.uid)
        self._table.add_pod(pod, node_name)

    def _placed(self, uid: str) -> tuple[Pod, str] | None:
        held = self._assumed.get(uid)
        return (held.pod, held.node_name) if held else self._bound.get(uid)

    def _last_record(self, uid: str) -> Pod | None:
        placed = self._placed(uid)
        return placed[0] if placed else self._pending.get(uid)


def _given_up(waiting: Pod | None, node_name: str = "") -> Changes:
    """The changes for other pods if a pending pod is now on, or nominated to, this node ("": none): freed room if its
    nomination was to another node.
    """
    if waiting is None or waiting.nominated_node_name in ("", node_name):
        return UNCHANGED
    return pod_left(waiting, waiting.nominated_node_name)
