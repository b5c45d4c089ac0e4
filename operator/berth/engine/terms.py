"""The pod affinity terms that placed pods carry: anti-affinity looks both ways, and so do preferences.

Equal terms of many pods are one `CarriedTerm` with a count a row. Terms are found by the labels of the pod that they
may select, never by walking over them all; one that no placed pod carries any more is forgotten.

A term is about places only where the node of a pod that carries it has its topology key. Where none has, the term is
idle: it is near nothing, whatever it selects, and is not in the index. A pod may name thousands of keys that no node
has, and costs a decision nothing by it. A label that such a node gets later makes the term count.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, Final

from berth.engine.counts import Extent, LabelIndex, NamespaceLabels, RowCounts
from berth.model import LabelSelector, Pod, PodTerm, Role

_KEPT_CROWDS: Final = 256
_KEPT_CHANGES: Final = 64


class CarriedTerm:
    """A term with its weight (0 where it is required), and how many pods on each row carry it.

    `near` is how many of these rows have a node with the topology key; with none, the term is idle.
    """

    __slots__ = ("near", "pods", "requirements", "role", "rows", "term", "weight")

    def __init__(self, role: Role, term: PodTerm, weight: int, extent: Extent) -> None:
        self.role = role
        self.term = term
        self.requirements = _selector(term).requirements
        self.weight = weight
        self.rows = RowCounts(extent)
        self.pods = 0
        self.near = 0


class Matched(list[CarriedTerm]):
    """The terms that select a pod. `derived` is for what a plugin works out from them alone: it lasts as they do."""

    __slots__ = ("derived",)

    def __init__(self, carried: Iterable[CarriedTerm] = ()) -> None:
        super().__init__(carried)
        self.derived: dict[str, Any] = {}


class CarriedTerms:
    def __init__(
        self,
        extent: Extent,
        namespace_labels: NamespaceLabels,
        has_label: Callable[[int, str], bool] = lambda row, key: True,
    ) -> None:
        """`has_label`: whether the node of a row is known and has a label of this key; by default no term is idle."""
        self._extent = extent
        self._has_label = has_label
        self.version = 0  # moves when a distinct term that is not idle comes or goes
        self._namespace_labels = namespace_labels
        self._terms: dict[Hashable, CarriedTerm] = {}
        self._index: LabelIndex[CarriedTerm] = LabelIndex()
        # By crowd: what matches its pods, and at which version.
        self._matched: OrderedDict[Hashable, tuple[int, Matched]] = OrderedDict()
        self._nobody = Matched()
        self._log: list[CarriedTerm] = []  # what came or went, the last for the version as it is

    def matching(self, pod: Pod) -> Matched:
        """The distinct terms that select the pod and are not idle; a namespace that is not known has no labels.

        The same object as long as they are the same terms: kept for some pods with equal labels, of which only the
        terms that came or went are looked at again. A tenant can make terms by the thousand that are about everybody.
        """
        if not self._index:
            return self._nobody
        kept = self._matched.get(pod.crowd)
        if kept is not None and kept[0] == self.version:
            return kept[1]
        found = self._search(pod) if kept is None else self._follow(pod, *kept)
        self._matched[pod.crowd] = self.version, found
        self._matched.move_to_end(pod.crowd)
        if len(self._matched) > _KEPT_CROWDS:
            self._matched.popitem(last=False)
        return found

    def _follow(self, pod: Pod, version: int, before: Matched) -> Matched:
        """What matches now, where that matched at the version."""
        since = version - self.version
        if -since > len(self._log):
            return self._search(pod)
        changed = dict.fromkeys(self._log[since:])
        came = [carried for carried in self._selecting(pod, changed) if carried.near]
        if not came and not any(carried in changed for carried in before):
            return before
        return Matched([*(carried for carried in before if carried not in changed), *came])

    def _search(self, pod: Pod) -> Matched:
        return Matched(self._selecting(pod, self._index.candidates(pod.labels)))

    def _selecting(self, pod: Pod, candidates: Iterable[CarriedTerm]) -> Iterator[CarriedTerm]:
        """Those that select the pod; what a namespace selector says of its namespace is worked out once."""
        labels, namespace = pod.labels, pod.namespace
        of_namespace: dict[int, bool] = {}
        for carried in candidates:
            term = carried.term
            if namespace not in term.namespaces:
                selector = term.namespace_selector
                if selector is None:
                    continue
                covered = of_namespace.get(id(selector))
                if covered is None:
                    covered = selector.matches(self._namespace_labels(namespace) or {})
                    of_namespace[id(selector)] = covered
                if not covered:
                    continue
            for requirement in carried.requirements:
                if not requirement.matches(labels):
                    break
            else:
                yield carried

    def namespace_changed(self) -> None:
        """Namespaces have come, gone or other labels: whom terms select is worked out anew."""
        self._matched.clear()

    def move(self, pod: Pod, row: int, sign: int) -> None:
        """The pod has come to the row (1) or gone from it (-1)."""
        for key in pod.carried:
            carried = self._terms.get(key)
            if carried is None:
                role, weight, term = key.parts
                carried = self._terms[key] = CarriedTerm(role, term, weight, self._extent)
            before = carried.rows.at(row)
            carried.rows.add(row, sign)
            carried.pods += sign
            if (not before or not before + sign) and self._has_label(row, carried.term.topology_key):
                self._bring_near(carried, sign)
            if not carried.pods:
                del self._terms[key]

    def relabel(self, row: int, pods: Iterable[Pod], gained: Collection[str], lost: Collection[str]) -> None:
        """The node of the row, which has these pods, has labels of these keys now, and none of those any more."""
        for key in {key: None for pod in pods for key in pod.carried}:
            carried = self._terms[key]
            if carried.term.topology_key in gained:
                self._bring_near(carried, 1)
            elif carried.term.topology_key in lost:
                self._bring_near(carried, -1)

    def _bring_near(self, carried: CarriedTerm, rows: int) -> None:
        """So many more rows of the term have its topology key; the first of them makes it count, the last idle."""
        was_idle = not carried.near
        carried.near += rows
        if was_idle:
            self._index.add(carried, (_selector(carried.term),))
        elif not carried.near:
            self._index.discard(carried, (_selector(carried.term),))
        else:
            return
        self.version += 1
        self._log.append(carried)
        if len(self._log) > 2 * _KEPT_CHANGES:
            del self._log[:_KEPT_CHANGES]
        if not self._index:
            self._matched.clear()

    def compact(self) -> None:
        self._matched.clear()
        self._log.clear()
        self._terms = dict(self._terms)
        self._index.compact()

    def statistics(self) -> dict[str, int]:
        return {
            "carried_terms": len(self._terms),
            "idle_terms": sum(not carried.near for carried in self._terms.values()),
        }


def _selector(term: PodTerm) -> LabelSelector:
    assert term.selector is not None, "a term without a selector is not carried"
    return term.selector
