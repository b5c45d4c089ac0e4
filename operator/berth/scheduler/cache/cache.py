"""Cache: the cluster as the watches report it, plus decisions that the watches have not confirmed yet.

Every event takes the same path: drop it if it is outdated (`versions`), parse the object, put the record into the
`State` that decisions read, and return the changes for waiting pods. Pods have a state machine of their own, by UID
(`pod_states`, drawn there): unknown -> pending -> assumed -> bound -> gone.

Invariants:

1. The State is a function of the newest event of every known UID and of the assumed pods. The order of events of
   different objects does not matter: nodes may come after their pods and go before them (#95124, #93938).
2. An invalid object is left out of decisions and kept in `invalid` until a valid version, or its removal. A node is
   removed from the table. A bound pod takes room all the same, because the kubelet runs it: as much as can be read of
   it, and no less than before. A pending pod is kept in `unreadable`.
3. A change is returned if it may help a waiting pod, and for nothing else; a repeated event returns none.
4. A reported removal is final for its UID, and only for its UID: a late event cannot resurrect it, and another object
   of the same name is not affected. A removal that was concluded from a list is not final: a later event restores the
   object.
5. After `start_over` the first event of an object replaces what was known of it: a bound pod may be unbound again.

It has no clock and does no I/O, and only one event loop may write it.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from berth.engine.state.resources import MOST_RESOURCES
from berth.engine.state.state import State
from berth.model import KINDS, InvalidObject, Node, Pod, Record, parse, salvage_pod
from berth.scheduler.cache.changes import UNCHANGED, Changes, node_change, object_change, same_but_for_version
from berth.scheduler.cache.pod_states import FINISHED, Assumption, PodStates
from berth.scheduler.cache.templates import NodeReader, PodReader
from berth.scheduler.cache.versions import KnownKeys, Register
from berth.scheduler.object_events import ObjectEvent, observed, removed

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An invalid pending pod: the part of it that can be read, and what is invalid."""

    pod: Pod
    problem: InvalidObject


class Cache:
    """Everything known about the cluster; `state` is what decisions read."""

    def __init__(self) -> None:
        self.state = State()
        self._registers = {kind.name: Register() for kind in KINDS}
        self._pods = PodStates(self.state)
        self._pod_reader = PodReader()
        self._node_reader = NodeReader()
        self._invalid: dict[tuple[str, str], InvalidObject] = {}
        self._unreadable: dict[str, Unreadable] = {}
        self._outdated_events = 0
        self._left_out = 0  # resources of nodes that are not counted
        self.unreadable: Mapping[str, Unreadable] = MappingProxyType(self._unreadable)
        self.invalid: Mapping[tuple[str, str], InvalidObject] = MappingProxyType(self._invalid)

    @property
    def pending(self) -> Mapping[str, Pod]:
        """UID to pod, of every pod that is neither assumed, bound nor finished, of any scheduler name; a live view."""
        return self._pods.pending

    def assumed(self) -> Mapping[str, Assumption]:
        """UID to assumption, of pods whose bind the watch has not confirmed yet; a live view."""
        return self._pods.assumed

    @property
    def bound(self) -> Set[str]:
        """The UIDs of the pods that have a node by what the watch has shown; a live view."""
        return self._pods.bound

    def removed(self, kind: str) -> int:
        """The number of removed objects of the kind whose UIDs are remembered."""
        return self._registers[kind].removed

    def known(self, kind: str) -> KnownKeys:
        """UID to key of every object that was seen and not removed, including invalid ones; a live view."""
        return self._registers[kind].known

    def behind(self, kind: str, versions: Mapping[str, int]) -> list[str]:
        """Those of these UIDs that are known in an older version than this."""
        return self._registers[kind].behind(versions)

    def newest(self, kind: str) -> int:
        """The greatest resourceVersion that was ever reported of the kind."""
        return self._registers[kind].newest

    def contradicted(self, kind: str, versions: Mapping[str, int], version: int) -> list[str]:
        """Those of these UIDs whose version in a list of this version is older than one reported before it."""
        return self._registers[kind].contradicted(versions, version)

    def unsure(self, kind: str) -> Set[str]:
        """Known UIDs that have not been reported since `start_over`."""
        return self._registers[kind].unsure

    def start_over(self) -> None:
        """The store was restored from a backup: what is known stays until each object is reported again, or removed."""
        for register in self._registers.values():
            register.start_over()

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of the namespace; empty if it is not known."""
        return self.state.namespace_labels(name) or {}

    def holder(self, kind: str, key: str) -> str | None:
        """The UID that currently has this name."""
        return self._registers[kind].holder(key)

    def observe(self, kind: str, body: Mapping[str, Any]) -> Changes:
        """As `apply`, for an added or modified object of which no event was made."""
        return self.apply(observed(kind, body))

    def remove(self, kind: str, body: Mapping[str, Any], *, reported_by_watch: bool = True) -> Changes:
        """As `apply`, for a removed object of which no event was made."""
        return self.apply(removed(kind, body, reported_by_watch=reported_by_watch))

    def apply(self, event: ObjectEvent) -> Changes:
        """Apply an event and return the changes that may help waiting pods. An outdated version changes nothing.

        After a removal with a resourceVersion, every event of the UID up to that version is outdated.
        """
        return self._apply_removal(event) if event.is_removal else self._apply_version(event)

    def _apply_version(self, event: ObjectEvent) -> Changes:
        kind, identity, body = event.kind, event.identity, event.body
        register = self._registers[kind]
        if not register.is_news(identity):
            self._outdated_events += 1
            return UNCHANGED
        unsure = identity.uid in register.unsure
        replaced = register.record(identity)
        changes = self._drop(kind, replaced, identity.key) if replaced is not None else UNCHANGED
        if unsure and kind == "Pod":
            changes += self._drop(kind, identity.uid, identity.key)
        try:
            record = self._read(kind, body)
        except InvalidObject as problem:
            self._note_invalid(kind, identity.key, problem)
            if kind == "Pod":
                return changes + self._leave_out_pod(identity.uid, body, problem)
            return changes + self._take_out(kind, identity.uid, identity.key)
        self._invalid.pop((kind, identity.key), None)
        self._unreadable.pop(identity.uid, None)
        return changes + self._take_in(kind, identity.key, record)

    def _read(self, kind: str, body: Mapping[str, Any]) -> Record:
        if kind == "Pod":
            return self._pod_reader.read(body)
        return self._node_reader.read(body) if kind == "Node" else parse(kind, body)

    def _apply_removal(self, event: ObjectEvent) -> Changes:
        kind, identity = event.kind, event.identity
        register = self._registers[kind]
        key = register.known.get(identity.uid, identity.key)
        was_known = register.remove(identity, reported_by_watch=event.reported_by_watch)
        return self._drop(kind, identity.uid, key) if was_known else UNCHANGED

    def assume(self, pod: Pod, node_name: str) -> Changes:
        """Assume a pod on a node, before it is bound; ValueError if it is assumed or bound already."""
        return self._pods.assume(pod, node_name)

    def nominate(self, uid: str, node_name: str) -> int | None:
        """Nominate a pending or assumed pod to this node, or to none (""); None for any other pod.

        The returned number is passed to `nomination_written` together with the written version of the pod.
        """
        return self._pods.nominate(uid, node_name)

    def nomination_written(self, uid: str, number: int, version: str) -> None:
        """From this version on events of the pod include our nomination, and count again."""
        self._pods.nomination_written(uid, number, version)

    def take_back_nominations(self) -> None:
        """Another replica leads: nominations are what the API says."""
        self._pods.take_back_nominations()

    def confirm(self, uid: str) -> None:
        """The API server has acknowledged the bind; the watch has yet to confirm it."""
        self._registers["Pod"].outdate(uid)
        self._pods.confirm(uid)

    def forget(self, uid: str) -> Changes:
        """The bind did not happen: the room is free, the pod pending again. Does nothing if the pod is not assumed."""
        return self._pods.forget(uid)

    def statistics(self) -> dict[str, Any]:
        return {
            "objects": {kind: len(register.known) for kind, register in self._registers.items()},
            "invalid": dict(Counter(kind for kind, _ in self._invalid)),
            "pods": self._pods.statistics(),
            "nodes": len(self.state.table),
            "old_news": self._outdated_events,
            "templates": len(self._pod_reader),
            "node_templates": len(self._node_reader),
        }

    def sizes(self) -> dict[str, int]:
        """The number of entries in each table of pods. All are 0 once every pod is gone."""
        pods = self._pods.statistics()
        return {
            "pending": pods["pending"],
            "assumed": pods["binding"] + pods["echo_pending"],
            "bound": pods["bound"],
            "nominations decided": self._pods.nominations_decided,
            "known": len(self.known("Pod")),
            "unreadable": len(self.unreadable),
        }

    def _take_in(self, kind: str, key: str, record: Record) -> Changes:
        if isinstance(record, Pod):
            return self._pods.observe(record)
        if isinstance(record, Node):
            return self._take_in_node(record)
        old = self.state.objects[kind].get(key)
        unchanged = old is not None and same_but_for_version(old, record)
        self.state.put(kind, key, record, changed=not unchanged)
        return UNCHANGED if unchanged else object_change(kind, old, record)

    def _take_in_node(self, node: Node) -> Changes:
        old = self.state.table.node(node.name)
        if old is node:
            return UNCHANGED
        changes = node_change(old, node)
        if changes or old is None or old.allocatable != node.allocatable:
            self.state.table.set_node(node)
            self._note_left_out(node.name)
        return changes

    def _note_left_out(self, name: str) -> None:
        """Log resources that are not counted: once, until all are counted again, since every node may have some."""
        left_out = self.state.table.resources_left_out
        if left_out and not self._left_out:
            logger.warning(
                "Node %s: the nodes have more than %d different resources; %d are not counted, as if no node had them",
                name,
                MOST_RESOURCES,
                left_out,
            )
        self._left_out = left_out

    def _note_invalid(self, kind: str, key: str, problem: InvalidObject) -> None:
        if str(self._invalid.get((kind, key))) != str(problem):  # a relist would log it again
            # The value of a pod's field must not be logged: not everyone who reads the log may read the pod.
            where = problem.field or "its body"
            words = f"Pod {key}: {where} is invalid" if kind == "Pod" else str(problem)
            fields = {"kind": kind, **({"pod": key} if kind == "Pod" else {})}
            logger.warning("%s; left out of decisions until it is fixed", words, extra=fields)
        self._invalid[kind, key] = problem

    def _leave_out_pod(self, uid: str, body: Mapping[str, Any], problem: InvalidObject) -> Changes:
        """Without a UID or a name a pod can be neither changed nor reported: what is known of it stays."""
        self._unreadable.pop(uid, None)
        pod = salvage_pod(body)
        if pod is None:
            return self._pods.suspend(uid)
        if not pod.node_name and pod.phase not in FINISHED:
            self._unreadable[uid] = Unreadable(pod, problem)
        return self._pods.observe_unreadable(pod)

    def _drop(self, kind: str, uid: str, key: str) -> Changes:
        self._invalid.pop((kind, key), None)
        self._unreadable.pop(uid, None)
        return self._take_out(kind, uid, key)

    def _take_out(self, kind: str, uid: str, key: str) -> Changes:
        if kind == "Pod":
            return self._pods.remove(uid)
        if kind == "Node":
            self._node_reader.forget(uid)
            return self._take_out_node(key)
        gone = self.state.drop(kind, key)
        return UNCHANGED if gone is None else object_change(kind, gone, None)

    def _take_out_node(self, name: str) -> Changes:
        node = self.state.table.node(name)
        self.state.table.remove_node(name)
        return node_change(node, None)
