"""The pod affinity terms that placed pods carry: anti-affinity looks both ways, and so do preferences.

Equal terms of many pods are one `CarriedTerm` with a count a row. Terms are found by the labels of the pod that they
may select, never by walking over them all; one that no placed pod carries any more is forgotten.
"""

from __future__ import annotations

from collections.abc import Hashable

from berth.engine.counts import Extent, LabelIndex, NamespaceLabels, RowCounts
from berth.model import LabelSelector, Pod, PodTerm, Role


class CarriedTerm:
    """A term with its weight (0 where it is required), and how many pods on each row carry it."""

    __slots__ = ("pods", "role", "rows", "term", "weight")

    def __init__(self, role: Role, term: PodTerm, weight: int, extent: Extent) -> None:
        self.role = role
        self.term = term
        self.weight = weight
        self.rows = RowCounts(extent)
        self.pods = 0


class CarriedTerms:
    def __init__(self, extent: Extent, namespace_labels: NamespaceLabels) -> None:
        self._extent = extent
        self.version = 0  # moves when a distinct term comes or goes
        self._namespace_labels = namespace_labels
        self._terms: dict[Hashable, CarriedTerm] = {}
        self._index: LabelIndex[CarriedTerm] = LabelIndex()

    def matching(self, pod: Pod) -> list[CarriedTerm]:
        """The distinct terms that select the pod; a namespace that is not known has no labels."""
        if not self._terms:
            return []
        candidates = self._index.candidates(pod.labels)
        found = [carried for carried in candidates if _selector(carried.term).matches(pod.labels)]
        if not found:
            return found
        labels = self._namespace_labels(pod.namespace) or {}
        return [
            carried
            for carried in found
            if pod.namespace in carried.term.namespaces
            or (carried.term.namespace_selector is not None and carried.term.namespace_selector.matches(labels))
        ]

    def move(self, pod: Pod, row: int, sign: int) -> None:
        """The pod has come to the row (1) or gone from it (-1)."""
        for key in pod.carried:
            carried = self._terms.get(key)
            if carried is None:
                role, weight, term = key.parts
                carried = self._terms[key] = CarriedTerm(role, term, weight, self._extent)
                self._index.add(carried, (_selector(term),))
                self.version += 1
            carried.rows.add(row, sign)
            carried.pods += sign
            if not carried.pods:
                del self._terms[key]
                self._index.discard(carried, (_selector(carried.term),))
                self.version += 1

    def compact(self) -> None:
        self._terms = dict(self._terms)
        self._index.compact()

    def statistics(self) -> dict[str, int]:
        return {"carried_terms": len(self._terms)}


def _selector(term: PodTerm) -> LabelSelector:
    assert term.selector is not None, "a term without a selector is not carried"
    return term.selector
