"""The unschedulable pods, by when they are tried again whatever happens, and by what may help them before.

Pods that the same plugins rejected, that are alike to these plugins, and that have one priority are a group: a change
is judged once a group. Groups are rows of columns, so that a change finds those that it may help without a look at the
others:

    listens   int64[slots]   a bit for each event that may help the group
    local     int64[slots]   a bit for each event that, through every plugin that listens to it, helps on one node only
    pinned    bool[slots]    may go to a few nodes only, and is found by their names
    room      (Demand)       what the group's pods ask for; where NodeResourcesFit is among those that rejected them, a
                             change on a node without the room for them helps none of them

What a change costs depends on how many groups it may help, not on how many there are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from berth.engine.columns import grown
from berth.engine.demand import PREEMPTS_NOBODY, Demand
from berth.engine.events import Change, Event
from berth.engine.state import State
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import Pod
from berth.scheduler.heap import Heap, Order

if TYPE_CHECKING:
    from berth.scheduler.queued import QueuedPod

Members = dict[str, "QueuedPod"]
"""By UID, in the order in which they came."""

MOST_PINS: Final = 16  # names of nodes; a pod that names more is found as if it could go anywhere
_FIRST_SLOTS: Final = 64
_BIT: Final = {event: 1 << number for number, event in enumerate(Event)}


@dataclass(slots=True, eq=False)
class Group:
    """Pods that the same changes help; `pins` are the only nodes that they may go to, none: they may go anywhere."""

    key: Hashable
    slot: int
    pins: frozenset[str]
    members: Members = field(default_factory=dict)

    @property
    def first(self) -> QueuedPod:
        """The one that came first."""
        return next(iter(self.members.values()))


class Parked:
    def __init__(self) -> None:
        self._by_time: Heap[QueuedPod] = Heap()
        self._groups: dict[Hashable, Group] = {}
        self._slots: list[Group | None] = []
        self._free: list[int] = []
        self._listens: Int64Column = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._local: Int64Column = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._flags: Int64Column = np.zeros((2, _FIRST_SLOTS), dtype=np.int64)  # pinned, and fitted
        self._demand = Demand()
        self._by_node: dict[str, dict[Hashable, Group]] = {}  # the pinned ones
        self._by_namespace: dict[Hashable, Members] = {}

    def __len__(self) -> int:
        return len(self._by_time)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._by_time)

    def add(self, item: QueuedPod, order: Order) -> None:
        """`order` begins with the moment at which the pod is tried again whatever happens."""
        self._by_time.push(item.uid, order, item)
        self._by_namespace.setdefault(item.pod.namespace, {})[item.uid] = item
        group = self._groups.get(item.group)
        if group is None:
            group = self._open_group(item)
        group.members[item.uid] = item

    def discard(self, item: QueuedPod) -> None:
        """One that is not there is no error."""
        if not self._by_time.discard(item.uid):
            return
        namesakes = self._by_namespace[item.pod.namespace]
        del namesakes[item.uid]
        if not namesakes:
            del self._by_namespace[item.pod.namespace]
        group = self._groups[item.group]
        del group.members[item.uid]
        if not group.members:
            self._close_group(group)

    def first(self) -> tuple[Order, QueuedPod] | None:
        """The one whose time comes first."""
        return self._by_time.first()

    def group(self, key: Hashable) -> Group | None:
        return self._groups.get(key)

    def listening(self, events: Iterable[Event]) -> list[Group]:
        """The groups that one of the events may help, wherever it happened."""
        return self._at(np.flatnonzero(self._listens & _bits(events)).tolist())

    def concerned(self, change: Change, state: State) -> tuple[list[Group], list[Group]]:
        """The groups that the change may help, as far as columns tell: anywhere, and on its node only."""
        bits = _bits(change.events)
        listens, local = self._listens & bits, self._local & bits
        anywhere = self._at(np.flatnonzero(listens & ~local).tolist())
        if not local.any():
            return anywhere, []
        here = (listens == local) & (local != 0) & self._has_room(state, change.node)
        found = np.flatnonzero(here & (self._flags[0] == 0)).tolist()
        found += [group.slot for group in self._by_node.get(change.node, {}).values() if here[group.slot]]
        return anywhere, self._at(found)

    def places(self, group: Group, state: State, node: str) -> int:
        """How many of the group's pods the node has room for, which NodeResourcesFit need not have looked at; never
        none.
        """
        return max(1, self._demand.count(state, node, group.slot))

    def in_namespace(self, namespace: str) -> list[QueuedPod]:
        return list(self._by_namespace.get(namespace, {}).values())

    def _has_room(self, state: State, node: str) -> BoolColumn:
        room: BoolColumn = self._flags[1] == 0
        fits = self._demand.fitting(state, node)
        room[: len(fits)] |= fits[: len(room)]
        return room

    def _at(self, slots: Iterable[int]) -> list[Group]:
        return [group for group in map(self._slots.__getitem__, slots) if group is not None]

    def _open_group(self, item: QueuedPod) -> Group:
        if self._free:
            slot = self._free.pop()
        else:
            slot = len(self._slots)
            self._slots.append(None)
            if slot >= len(self._listens):
                self._listens, self._local = grown(self._listens, 2 * slot), grown(self._local, 2 * slot)
                self._flags = grown(self._flags, 2 * slot)
        pod, profile = item.pod, _profile(item)
        group = Group(item.group, slot, profile.pins)
        self._slots[slot] = self._groups[item.group] = group
        self._listens[slot], self._local[slot] = _bits(item.wakes_on), _bits(profile.local)
        self._flags[:, slot] = bool(profile.pins), profile.needs is not None
        self._demand.put(slot, {"pods": 1, **pod.requests} if profile.needs is None else profile.needs, _level(pod))
        for name in group.pins:
            self._by_node.setdefault(name, {})[group.key] = group
        return group

    def _close_group(self, group: Group) -> None:
        slot = group.slot
        del self._groups[group.key]
        self._slots[slot] = None
        self._listens[slot] = self._local[slot] = 0
        self._flags[:, slot] = 0
        self._demand.clear(slot)
        for name in group.pins:
            del self._by_node[name][group.key]
            if not self._by_node[name]:
                del self._by_node[name]
        self._free.append(slot)


def _bits(events: Iterable[Event]) -> int:
    return sum(_BIT[event] for event in events)


class _Profile(NamedTuple):
    """What the plugins that rejected a pod say of it: the events that help it only on the node where they happen, the
    only nodes that it may go to, and the resources that it needs.
    """

    local: frozenset[Event] = frozenset()
    pins: frozenset[str] = frozenset()
    needs: Mapping[str, int] | None = None


def _profile(item: QueuedPod) -> _Profile:
    """A plugin that fails to tell says nothing, and so do the others."""
    none, plugins = frozenset[Event](), item.plugins
    try:
        local = none.union(*(plugin.local_events for plugin in plugins))
        elsewhere = none.union(*(plugin.wakes_on - plugin.local_events for plugin in plugins))
        named = (plugin.named_nodes(item.pod) for plugin in plugins)
        pins = next((names for names in named if names and len(names) <= MOST_PINS), frozenset[str]())
        needs = next(filter(None, (plugin.needed_resources(item.pod) for plugin in plugins)), None)
        return _Profile((item.wakes_on & local) - elsewhere, pins, needs)
    except Exception:
        return _Profile()


def _level(pod: Pod) -> int:
    return PREEMPTS_NOBODY if pod.preemption_policy == "Never" else pod.priority
