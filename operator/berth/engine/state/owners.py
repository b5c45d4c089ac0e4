"""OwnerIndex: the ReplicationControllers, ReplicaSets and StatefulSets whose selector matches a pod, by label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.engine.state.pod_counts import LabelIndex
from berth.model import LabelSelector, Pod, WorkloadOwner

OWNER_KINDS: Final = ("ReplicationController", "ReplicaSet", "StatefulSet")


class OwnerIndex:
    """The selectors of owners by namespace; an empty or missing selector matches no pod."""

    def __init__(self) -> None:
        self._selectors: dict[tuple[str, str], LabelSelector] = {}  # by kind and "namespace/name"
        self._by_namespace: dict[str, LabelIndex[tuple[str, str]]] = {}

    def changed(self, kind: str, key: str, owner: WorkloadOwner | None) -> None:
        """Updates an owner that was added, changed, or removed (None)."""
        namespace = key.partition("/")[0]
        index = self._by_namespace.setdefault(namespace, LabelIndex())
        before = self._selectors.pop((kind, key), None)
        if before is not None:
            index.discard((kind, key), (before,))
        if owner is not None and owner.selector is not None and owner.selector.requirements:
            self._selectors[kind, key] = owner.selector
            index.add((kind, key), (owner.selector,))
        if not index:
            del self._by_namespace[namespace]

    def selectors_of(self, pod: Pod) -> Iterator[LabelSelector]:
        """Yields the selectors that match a pod; none for a pod without labels."""
        index = self._by_namespace.get(pod.namespace)
        for owner in index.candidates(pod.labels) if index is not None and pod.labels else ():
            selector = self._selectors[owner]
            if selector.matches(pod.labels):
                yield selector

    def __len__(self) -> int:
        return len(self._selectors)
