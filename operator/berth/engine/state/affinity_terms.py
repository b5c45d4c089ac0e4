"""CarriedTerms: the pod affinity terms of placed pods, indexed by the pods that they select.

InterPodAffinity is symmetric: the required anti-affinity and the preferences of placed pods apply to an incoming pod
that they select. `matching` finds these terms for a pod.

Equal terms of many pods are one CarriedTerm with a count per row. Terms are indexed by the labels that they require, so
a pod's labels find them without a walk over all terms. A term that no placed pod carries any more is dropped.

Results are cached in two steps: by `pod.crowd` (namespace and labels), and by alias. The alias of a pod leaves out the
labels that no term mentions. So the pods of a Deployment's next revision, which differ in pod-template-hash, have the
same alias and are not compared with every term again.

A term is idle if no node with a carrier has its topology key. It applies to no node then, and is not in the index. A
pod can name thousands of keys that no node has; this way they cost a decision nothing. If such a node gets the label
later, the term is added to the index.
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
        """`has_label(row, key)`: whether the row's node is known and has the label. By default no term is idle."""
        self._extent = extent
        self._has_label = has_label
        self.version = 0  # moves when a distinct term that is not idle is added or removed
        self._namespace_labels = namespace_labels
        self._terms: dict[Hashable, CarriedTerm] = {}
        self._index: LabelIndex[CarriedTerm] = LabelIndex()
        self._sets = TermSets(extent)
        self._nobody = Matched(self._sets.empty, self._sets.empty)
        self._keys: Counter[str] = Counter()  # requirements of terms that are not idle: how many mention a key
        self._labels: Counter[tuple[str, str]] = Counter()  # and how many a label
        self._of_crowd: dict[Hashable, Matched] = {}  # valid at the current version: cleared when it moves
        # By alias: the terms that match its pods, and the version at which they did.
        self._matched: OrderedDict[Hashable, tuple[int, Matched]] = OrderedDict()
        self._log: list[CarriedTerm] = []  # the term of each version change, the latest last

    def matching(self, pod: Pod) -> Matched:
        """Returns the distinct terms that select the pod and are not idle; an unknown namespace has no labels.

        Returns the same object while the terms are the same; its totals are refreshed. For a known alias, only the
        terms that were added or removed since are compared with the pod.
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
        cached = self._matched.get(alias)
        found = self._search(pod) if cached is None else self._followed(pod, *cached)
        self._matched[alias] = self.version, found
        self._matched.move_to_end(alias)
        if len(self._matched) > _KEPT_ALIASES:
            self._matched.popitem(last=False)
        return found

    def _alias(self, pod: Pod) -> Hashable:
        """Returns a key that is equal for pods that every term treats alike: labels that no term mentions are left out.

        A cached result stays valid for the alias when terms change. The terms that were there before treat two pods
        with equal aliases alike; terms that were added since are compared with the pod itself.
        """
        keys, labels = self._keys, self._labels
        told = (label if label in labels else (label[0], None) for label in pod.labels.items() if label[0] in keys)
        return pod.namespace, frozenset(told)

    def _search(self, pod: Pod) -> Matched:
        wide = self._sets.of(list(self._selecting(pod, self._index.wide)))
        return Matched(wide, self._sets.of(list(self._selecting(pod, self._index.named(pod.labels)))))

    def _followed(self, pod: Pod, version: int, before: Matched) -> Matched:
        """Returns the terms that match now, from those that matched at `version` and the log of changes."""
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
        """Returns the set without the terms that changed, and with those that match now (`came`)."""
        stays = before.members.isdisjoint(changed)
        if stays and not came:
            return before
        left = before.terms if stays else [carried for carried in before.terms if carried not in changed]
        return self._sets.of([*left, *came], before)

    def _selecting(self, pod: Pod, candidates: Iterable[CarriedTerm]) -> Iterator[CarriedTerm]:
        """Yields the terms that select the pod. Each namespace selector is evaluated once for all its terms."""
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
        """Returns the required term if a placed pod carries it and it is not idle."""
        carried = self._terms.get(Signature.of(role, 0, term))
        return carried if carried is not None and carried.near else None

    def namespace_changed(self) -> None:
        """Drops cached results: namespaces were added or removed, or their labels changed."""
        self._forget()

    def move(self, pod: Pod, row: int, sign: int) -> None:
        """Counts the terms of a pod that was added to the row (1) or removed from it (-1)."""
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
        """Updates the terms of the row's pods: its node `gained` labels of these keys, and `lost` others."""
        for key in {key: None for pod in pods for key in pod.carried}:
            carried = self._terms[key]
            if carried.term.topology_key in gained:
                self._bring_near(carried, 1)
            elif carried.term.topology_key in lost:
                self._bring_near(carried, -1)

    def _bring_near(self, carried: CarriedTerm, rows: int) -> None:
        """Adds `rows` (1 or -1) to the term's rows that have its topology key.

        The first such row adds the term to the index; without the last one it is idle and removed from the index.
        """
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
        else:  # no cached result needs the log, and it would keep terms alive that no pod carries
            self._log.clear()

    def _mention(self, carried: CarriedTerm, sign: int) -> None:
        for requirement in carried.requirements:
            key = requirement.key
            _move(self._keys, key, sign)
            for value in requirement.values:
                _move(self._labels, (key, value), sign)

    def _forget_changes(self) -> None:
        """Drops the older half of the log, and cached results that need it: they may keep removed terms alive."""
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

    @property
    def cached_matches(self) -> int:
        """The number of cached results of `matching`."""
        return len(self._of_crowd) + len(self._matched)

    def statistics(self) -> dict[str, int]:
        return {
            "carried_terms": len(self._terms),
            "idle_terms": sum(not carried.near for carried in self._terms.values()),
        }


def _move(counter: Counter[E], entry: E, sign: int) -> None:
    counter[entry] += sign
    if not counter[entry]:
        del counter[entry]
