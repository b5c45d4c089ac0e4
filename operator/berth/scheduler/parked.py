"""The pods that found no node, by when they are tried again whatever happens, and by what may help them before.

Pods that the same plugins turned away and that are alike to these plugins are one group: a change is judged once a
group, and costs nothing for pods that do not listen to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from berth.engine.events import Event
from berth.scheduler.heap import Heap, Order

if TYPE_CHECKING:
    from berth.scheduler.queue import QueuedPod

Members = dict[str, "QueuedPod"]
"""By UID."""


class Parked:
    def __init__(self) -> None:
        self._by_time: Heap[QueuedPod] = Heap()
        self._groups: dict[Hashable, Members] = {}
        self._by_event: dict[Event, dict[Hashable, Members]] = {event: {} for event in Event}
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
            group = self._groups[item.group] = {}
            for event in item.wakes_on:
                self._by_event[event][item.group] = group
        group[item.uid] = item

    def discard(self, item: QueuedPod) -> None:
        """One that is not there is no error."""
        if not self._by_time.discard(item.uid):
            return
        _take_out(self._by_namespace, item.pod.namespace, item.uid)
        if _take_out(self._groups, item.group, item.uid):
            for event in item.wakes_on:
                del self._by_event[event][item.group]

    def first(self) -> tuple[Order, QueuedPod] | None:
        """The one whose time comes first."""
        return self._by_time.first()

    def listening(self, events: Iterable[Event]) -> list[Members]:
        """The groups that one of the events may help."""
        found: dict[Hashable, Members] = {}
        for event in events:
            found.update(self._by_event[event])
        return list(found.values())

    def in_namespace(self, namespace: str) -> list[QueuedPod]:
        return list(self._by_namespace.get(namespace, {}).values())


def _take_out(index: dict[Hashable, Members], key: Hashable, uid: str) -> bool:
    """Whether nothing is left there."""
    members = index[key]
    del members[uid]
    if not members:
        del index[key]
    return not members
