"""A cluster at one moment, as plain records.

A world is a value: nothing changes in it. Pods that are imagined to be on a node, or to be gone from it, make another
world that shares the rest and knows the real one as its `base`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

from berth.model import Node, Pod, Record, object_key, parse

T = TypeVar("T")

Placed = tuple[Pod, str]

FINISHED = ("Succeeded", "Failed")


class World:
    """`pods` are those on a node; `nominated` wait for room on one; `objects` are all the rest, by kind and key.

    A key is "namespace/name", or "name" for kinds without a namespace.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        pods: Iterable[Placed] = (),
        nominated: Iterable[Placed] = (),
        objects: Mapping[str, Mapping[str, Record]] | None = None,
        base: World | None = None,
    ) -> None:
        self.nodes = nodes
        self.pods = tuple(pods)
        self.nominated = tuple(nominated)
        self.objects = objects or {}
        self.base = base or self
        self._known: dict[Hashable, Any] = {}
        self._pods_on: dict[str, list[Pod]] = {name: [] for name in nodes}
        for pod, node_name in self.pods:
            self._pods_on.setdefault(node_name, []).append(pod)

    @classmethod
    def of(cls, bodies: Iterable[Mapping[str, Any]]) -> World:
        """The world that these API objects make: pods with a node are on it, others may be nominated to one.

        Pods that have run to their end take nothing and are left out.
        """
        nodes: dict[str, Node] = {}
        pods: list[Placed] = []
        nominated: list[Placed] = []
        objects: dict[str, dict[str, Record]] = {}
        for body in bodies:
            record = parse(body["kind"], body)
            if isinstance(record, Node):
                nodes[record.name] = record
            elif not isinstance(record, Pod):
                objects.setdefault(body["kind"], {})[object_key(body)] = record
            elif record.phase in FINISHED:
                continue
            elif record.node_name:
                pods.append((record, record.node_name))
            elif record.nominated_node_name:
                nominated.append((record, record.nominated_node_name))
        return cls(nodes, pods, nominated, objects)

    # --- what is there

    def pods_on(self, node_name: str) -> list[Pod]:
        return self._pods_on.get(node_name, [])

    def placements(self) -> Iterator[tuple[Pod, Node]]:
        """Every pod that is on a known node, with its node."""
        return ((pod, self.nodes[name]) for pod, name in self.pods if name in self.nodes)

    def all(self, kind: str) -> Collection[Any]:
        """The objects of a kind that is neither Pod nor Node."""
        return self.objects.get(kind, {}).values()

    def get(self, kind: str, name: str, namespace: str = "") -> Any | None:
        """The object of that name, or None."""
        return self.objects.get(kind, {}).get(f"{namespace}/{name}" if namespace else name)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` says of this world, asked for only once under this key."""
        if key not in self._known:
            self._known[key] = make()
        known: T = self._known[key]
        return known

    # --- what is imagined

    def with_pods(self, pods: Iterable[Pod], node_name: str) -> World:
        """The same world with these pods on that node too."""
        return self._imagine([*self.pods, *((pod, node_name) for pod in pods)])

    def without_pods(self, pods: Iterable[Pod]) -> World:
        """The same world without these placed pods."""
        gone = {pod.uid for pod in pods}
        return self._imagine([(pod, node_name) for pod, node_name in self.pods if pod.uid not in gone])

    def _imagine(self, pods: list[Placed]) -> World:
        return World(self.nodes, pods, self.nominated, self.objects, self.base)

    @cached_property
    def imagined(self) -> list[tuple[Pod, Node, int]]:
        """How this world differs from the real one: (pod, known node, 1 for there and -1 for gone)."""
        real, here = ({(pod.uid, node_name) for pod, node_name in world.pods} for world in (self.base, self))
        come = [(pod, name, 1) for pod, name in self.pods if (pod.uid, name) not in real]
        gone = [(pod, name, -1) for pod, name in self.base.pods if (pod.uid, name) not in here]
        return [(pod, self.nodes[name], sign) for pod, name, sign in come + gone if name in self.nodes]
