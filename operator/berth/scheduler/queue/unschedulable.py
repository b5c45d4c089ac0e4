"""The unschedulable pods, by the time of their flush, and indexed by the events that may help them before.

Pods of one priority that the same plugins rejected, and that are equal to these plugins, form a group: a change is
evaluated once per group. Groups are rows of columns, so that the groups that a change may help are found without
visiting the others:

    listens   int64[slots]   a bit for each event that may help the group
    local     int64[slots]   a bit for each event that helps only on its node, for every plugin that listens to it
    marked    int64[slots]   a bit for each event that helps only if the change has one of the group's marks
    pinned    bool[slots]    the pods can only go to nodes that have one of the group's marks
    room      (Demand)       the requests of the group's pods; if NodeResourcesFit rejected them, a change on a node
                             without room for these requests helps none of them

Marked and pinned groups are found by the marks of the change (engine/queueing/marks.py). The cost of a change depends
on the number of groups that it may help, not on the number of all groups.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.plugin import FilterPlugin, Query
from berth.engine.queueing.demand import PREEMPTS_NOBODY, Demand
from berth.engine.queueing.marks import MOST_MARKS, Kind, Mark, Shown, shown_by
from berth.engine.state.columns import grown
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import Pod
from berth.scheduler.queue.heap import Heap, Order

if TYPE_CHECKING:
    from berth.scheduler.queue.queued_pod import QueuedPod

Members = dict[str, "QueuedPod"]
"""By UID, in the order in which they were added."""

_FIRST_SLOTS: Final = 64
_BIT: Final = {event: 1 << number for number, event in enumerate(Event)}


class Profile(NamedTuple):
    """What the plugins that rejected a pod say about it: `local`, the events that help only on their node; `pins`, of
    which a node that fits has one (empty: any node may fit); `marked`, the events that help only if the change has one
    of `marks`.
    """

    local: frozenset[Event] = frozenset()
    pins: frozenset[Mark] = frozenset()
    marked: frozenset[Event] = frozenset()
    marks: frozenset[Mark] = frozenset()


@dataclass(slots=True, eq=False)
class Group:
    """Pods that the same changes help."""

    key: Hashable
    slot: int
    profile: Profile
    members: Members = field(default_factory=dict)
    turn: Order = ()  # sort key of the first pod

    @property
    def first(self) -> QueuedPod:
        """The pod that was added first."""
        return next(iter(self.members.values()))


class UnschedulablePods:
    def __init__(self) -> None:
        self._by_time: Heap[QueuedPod] = Heap()
        self._groups: dict[Hashable, Group] = {}
        self._slots: list[Group | None] = []
        self._free: list[int] = []
        self._listens: Int64Column = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._local: Int64Column = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._flags: Int64Column = np.zeros((2, _FIRST_SLOTS), dtype=np.int64)  # pinned; rejected by NodeResourcesFit
        self._demand = Demand()
        self._marked: Int64Column = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._index = _MarkIndex()
        self._by_namespace: dict[Hashable, Members] = {}

    def __len__(self) -> int:
        return len(self._by_time)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._by_time)

    def __contains__(self, uid: object) -> bool:
        return uid in self._by_time

    def sizes(self) -> dict[str, int]:
        """The number of entries in each table. All are 0 once every pod is gone."""
        return {
            "unschedulable": len(self._by_time),
            "namespaces": len(self._by_namespace),
            "groups": len(self._groups),
            "groups that listen": int(np.count_nonzero(self._listens)),
            "groups that request": self._demand.statistics()["kinds"],
            "kinds of marks": len(self._index),
        }

    def add(self, item: QueuedPod, order: Order) -> None:
        """`order` is the time of the flush, followed by the sort key of the pod."""
        self._by_time.push(item.uid, order, item)
        self._by_namespace.setdefault(item.pod.namespace, {})[item.uid] = item
        group = self._groups.get(item.group)
        if group is None:
            group = self._open_group(item)
            group.turn = order[1:]
        item.group, item.profile = group.key, group.profile  # equal objects, stored once
        group.members[item.uid] = item

    def discard(self, item: QueuedPod) -> None:
        """Remove the pod, if it is there."""
        if not self._by_time.discard(item.uid):
            return
        namesakes = self._by_namespace[item.pod.namespace]
        del namesakes[item.uid]
        if not namesakes:
            del self._by_namespace[item.pod.namespace]
        group = self._groups[item.group]
        del group.members[item.uid]
        if group.members:
            group.turn = self._by_time.order_of(group.first.uid)[1:]
        else:
            self._close_group(group)

    def first(self) -> tuple[Order, QueuedPod] | None:
        """The pod with the earliest flush."""
        return self._by_time.first()

    def group(self, key: Hashable) -> Group | None:
        return self._groups.get(key)

    def listening(self, events: Iterable[Event]) -> list[Group]:
        """The groups that one of the events may help, on any node."""
        return self._at(np.flatnonzero(self._listens & _bits(events)).tolist())

    def concerned(self, change: Change, state: State) -> tuple[list[Group], list[Group]]:
        """The groups that the change may help, as far as the columns tell: anywhere, and on its node only."""
        if not self._groups:
            return [], []
        bits = _bits(change.events)
        listens, local = self._listens & bits, self._local & bits
        shown = np.zeros(len(listens), dtype=np.bool_)
        if self._index:
            shown[list(self._index.showing(shown_by(change, state)))] = True
        anywhere = (listens & ~local != 0) & (shown | (listens & ~self._marked != 0))
        found = self._at(np.flatnonzero(anywhere).tolist())
        if not local.any():
            return found, []
        here = (listens == local) & (local != 0) & self._has_room(state, change.node)
        return found, self._at(np.flatnonzero(here & (shown | (self._flags[0] == 0))).tolist())

    def places(self, group: Group, state: State, node: str) -> int:
        """How many pods of the group fit on the node by their requests; at least 1."""
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
                self._flags, self._marked = grown(self._flags, 2 * slot), grown(self._marked, 2 * slot)
        pod, profile, needs = item.pod, item.profile, _needs(item)
        group = Group(item.group, slot, profile)
        self._slots[slot] = self._groups[item.group] = group
        self._listens[slot], self._local[slot] = _bits(item.retry_events), _bits(profile.local)
        self._marked[slot] = _bits(profile.marked)
        self._flags[:, slot] = bool(profile.pins), needs is not None
        self._demand.put(slot, {"pods": 1, **pod.requests} if needs is None else needs, _level(pod))
        self._index.add(slot, profile.pins | profile.marks)
        return group

    def _close_group(self, group: Group) -> None:
        slot = group.slot
        del self._groups[group.key]
        self._slots[slot] = None
        self._listens[slot] = self._local[slot] = self._marked[slot] = 0
        self._flags[:, slot] = 0
        self._demand.clear(slot)
        self._index.discard(slot, group.profile.pins | group.profile.marks)
        self._free.append(slot)


def _bits(events: Iterable[Event]) -> int:
    return sum(_BIT[event] for event in events)


class _MarkIndex:
    """Slots by kind, name and value of their marks."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, dict[str, dict[str, dict[int, None]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, slot: int, marks: Iterable[Mark]) -> None:
        for kind, name, value in marks:
            self._kinds.setdefault(kind, {}).setdefault(name, {}).setdefault(value, {})[slot] = None

    def discard(self, slot: int, marks: Iterable[Mark]) -> None:
        for kind, name, value in marks:
            names = self._kinds[kind]
            del names[name][value][slot]
            if not names[name][value]:
                del names[name][value]
            if not names[name]:
                del names[name]
            if not names:
                del self._kinds[kind]

    def showing(self, shown: Iterable[Shown]) -> dict[int, None]:
        """The slots that have one of these marks."""
        found: dict[int, None] = {}
        for kind, values in shown:
            names = self._kinds.get(kind)
            if names is None:
                continue
            for name in values if len(values) <= len(names) else names:  # the smaller one: either may have thousands
                if name in names and name in values:
                    slots, value = names[name], values[name]
                    found |= slots.get(value, {})
                    if value:
                        found |= slots.get("", {})
        return found


def profile_of(pod: Pod, retry_events: frozenset[Event], plugins: Sequence[FilterPlugin], state: State) -> Profile:
    """The profile of the pod; an empty one if a plugin fails."""
    none, query = frozenset[Event](), Query(pod, state.table)
    try:
        local = none.union(*(plugin.local_events for plugin in plugins))
        elsewhere = none.union(*(plugin.retry_events - plugin.local_events for plugin in plugins))
        admitting = (plugin.node_marks(query, state) for plugin in plugins)
        pins = next((marks for marks in admitting if marks and len(marks) <= MOST_MARKS), frozenset[Mark]())
        given = [(plugin.retry_events, plugin.hint_marks(query, state)) for plugin in plugins]
        open_to = none.union(*(on - (marks.events if len(marks.marks) <= MOST_MARKS else none) for on, marks in given))
        marked = (retry_events & none.union(*(on for on, _ in given))) - open_to
        marks = frozenset[Mark]().union(*(one.marks for _, one in given if not marked.isdisjoint(one.events)))
        return Profile((retry_events & local) - elsewhere, pins, marked, marks)
    except Exception:
        return Profile()


def _needs(item: QueuedPod) -> Mapping[str, int] | None:
    """The resources that a rejecting plugin needs for the pod; None if no plugin names any."""
    try:
        return next(filter(None, (plugin.needed_resources(item.pod) for plugin in item.plugins)), None)
    except Exception:
        return None


def _level(pod: Pod) -> int:
    return PREEMPTS_NOBODY if pod.preemption_policy == "Never" else pod.priority
