"""The pod affinity terms that placed pods carry: anti-affinity looks both ways, and so do preferences.

Equal terms of many pods are one `CarriedTerm` with a count a row. Terms are found by the labels of the pod that they
may select, never by walking over them all; one that no placed pod carries any more is forgotten.

Pods that differ in nothing that a term mentions have one alias, and one answer: the next revision of a Deployment is
not compared with every term again.

A term is about places only where the node of a pod that carries it has its topology key. Where none has, the term is
idle: it is near nothing, whatever it selects, and is not in the index. A pod may name thousands of keys that no node
has, and costs a decision nothing by it. A label that such a node gets later makes the term count.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Final, TypeVar

from berth.engine.state.pod_counts import Extent, LabelIndex, NamespaceLabels
from berth.engine.state.term_sets import CarriedTerm, Matched, TermSet, TermSets, selector_of
from berth.model import Pod, PodTerm, Role
from berth.model.signature import Signature

_KEPT_CROWDS: Final = 1024
_KEPT_ALIASES: Final = 512
_KEPT_CHANGES: Final = 64

E = TypeVar("E", bound=Hashable)


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
        self._sets = TermSets(extent)
        self._nobody = Matched(self._sets.empty, self._sets.empty)
        self._keys: Counter[str] = Counter()  # how often the terms that are not idle mention a key, and a label
        self._labels: Counter[tuple[str, str]] = Counter()
        self._of_crowd: dict[Hashable, Matched] = {}  # at the version as it is
        # By alias: what matches its pods, and at which version.
        self._matched: OrderedDict[Hashable, tuple[int, Matched]] = OrderedDict()
        self._log: list[CarriedTerm] = []  # what came or went, the last for the version as it is

    def matching(self, pod: Pod) -> Matched:
        """The distinct terms that select the pod and are not idle; a namespace that is not known has no labels.

        The same object as long as they are the same terms, with totals as they are now. For pods of a known alias only
        the terms that came or went are looked at again.
        """
        if not self._index:
            return self._nobody
        found = self._of_crowd.get(pod.crowd)
        if found is None:
            found = self._of_alias(pod)
            if len(self._of_crowd) >= _KEPT_CROWDS:
                self._of_crowd.clear()
            self._of_crowd[pod.crowd] = found
        found.follow(self._extent)
        return found

    def _of_alias(self, pod: Pod) -> Matched:
        alias = self._alias(pod)
        kept = self._matched.get(alias)
        found = self._search(pod) if kept is None else self._followed(pod, *kept)
        self._matched[alias] = self.version, found
        self._matched.move_to_end(alias)
        if len(self._matched) > _KEPT_ALIASES:
            self._matched.popitem(last=False)
        return found

    def _alias(self, pod: Pod) -> Hashable:
        """Equal for pods that every term treats alike: what no term mentions makes no difference to any.

        It stays right when terms come and go. Terms that have not changed treat two pods of one alias alike, whatever
        others mentioned when the alias was looked up first; those that came are compared with the pod itself.
        """
        keys, labels = self._keys, self._labels
        told = (label if label in labels else (label[0], None) for label in pod.labels.items() if label[0] in keys)
        return pod.namespace, frozenset(told)

    def _search(self, pod: Pod) -> Matched:
        wide = self._sets.of(list(self._selecting(pod, self._index.wide)))
        return Matched(wide, self._sets.of(list(self._selecting(pod, self._index.named(pod.labels)))))

    def _followed(self, pod: Pod, version: int, before: Matched) -> Matched:
        """What matches now, where that matched at the version."""
        since = version - self.version
        if not since:
            return before
        if -since > len(self._log):
            return self._search(pod)
        changed = dict.fromkeys(self._log[since:])
        came = [carried for carried in self._selecting(pod, changed) if carried.near]
        everybody = self._index.wide
        wide = self._replaced(before.wide, changed, [carried for carried in came if carried in everybody])
        named = self._replaced(before.named, changed, [carried for carried in came if carried not in everybody])
        return before if wide is before.wide and named is before.named else Matched(wide, named)

    def _replaced(self, before: TermSet, changed: Collection[CarriedTerm], came: Iterable[CarriedTerm]) -> TermSet:
        """The set without the terms that changed, and with those that came."""
        stays = before.members.isdisjoint(changed)
        if stays and not came:
            return before
        left = before.terms if stays else [carried for carried in before.terms if carried not in changed]
        return self._sets.of([*left, *came], before)

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

    def find(self, role: Role, term: PodTerm) -> CarriedTerm | None:
        """A required term that a placed pod carries and that is not idle."""
        carried = self._terms.get(Signature.of(role, 0, term))
        return carried if carried is not None and carried.near else None

    def namespace_changed(self) -> None:
        """Namespaces have come, gone or other labels: whom terms select is worked out anew."""
        self._forget()

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
            self._sets.note(carried, row, sign)
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
            self._index.add(carried, (selector_of(carried.term),))
            self._mention(carried, 1)
        elif not carried.near:
            self._index.discard(carried, (selector_of(carried.term),))
            self._mention(carried, -1)
        else:
            return
        self.version += 1
        self._of_crowd.clear()
        if not self._index:
            self._forget()
        if self._matched:
            self._log.append(carried)
            if len(self._log) > 2 * _KEPT_CHANGES:
                self._forget_changes()
        else:  # nobody follows, and it would hold terms that nobody carries
            self._log.clear()

    def _mention(self, carried: CarriedTerm, sign: int) -> None:
        for requirement in carried.requirements:
            key = requirement.key
            _move(self._keys, key, sign)
            for value in requirement.values:
                _move(self._labels, (key, value), sign)

    def _forget_changes(self) -> None:
        """The older half, and what could not be followed without them: it may hold terms that are long gone."""
        del self._log[:_KEPT_CHANGES]
        oldest = self.version - len(self._log)
        for alias in [alias for alias, (version, _) in self._matched.items() if version < oldest]:
            del self._matched[alias]

    def _forget(self) -> None:
        self._of_crowd.clear()
        self._matched.clear()

    def compact(self) -> None:
        self._forget()
        self._log.clear()
        self._sets.compact()
        self._terms = dict(self._terms)
        self._index.compact()

    def statistics(self) -> dict[str, int]:
        return {
            "carried_terms": len(self._terms),
            "idle_terms": sum(not carried.near for carried in self._terms.values()),
        }


def _move(counter: Counter[E], entry: E, sign: int) -> None:
    counter[entry] += sign
    if not counter[entry]:
        del counter[entry]
